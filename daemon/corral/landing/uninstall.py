"""Uninstall: list the work that would be lost, and give back every worktree."""

from __future__ import annotations

import os
from pathlib import Path

from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.errors import CorralError, PathReplaced
from corral.core.routing import EVERYONE, MACHINE, NO_WORK, Routes
from corral.core.states import OPEN_MERGES, WorktreeState
from corral.git.checkouts.identity import describe
from corral.git.checkouts.status import changes
from corral.git.process.command import open_checkout
from corral.landing.api import Risk, WorktreesRetired
from corral.landing.verify import verification_worktree
from corral.work.merges.store import merges
from corral.work.tasks.store import tasks
from corral.work.worktrees import store as worktrees
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.worktrees import Worktrees

router = Routes("worktrees", scope=MACHINE, callers=EVERYONE)


@router.get("/worktrees/at-risk")
async def at_risk(services: Services) -> list[Risk]:
    """Work that is neither landed nor salvaged."""
    return await services.work(lambda: find_at_risk(services))


@router.post("/worktrees/retire", callers=NO_WORK, errors=(PathReplaced,))
async def retire(services: Services) -> WorktreesRetired:
    """Give every worktree back, salvaged."""
    risks, folders = await services.work(lambda: give_back(services))
    return {"at_risk": risks, "left": folders}


def find_at_risk(services: Services) -> list[Risk]:
    """Open tasks and merges, and worktrees with changes that no commit holds."""
    risks: list[Risk] = [
        {"what": f"task {row['task_id']}", "why": f"it is {row['status']}"}
        for row in services.db.read(tasks.standing, only_open=True)
    ]
    risks += [
        {"what": f"merge {row['merge_id']}", "why": f"it is {row['state']}"}
        for row in services.db.read(merges.listing, OPEN_MERGES)
    ]
    users = {row["worktree"]: row["agent_name"] for row in services.db.read(sessions.live) if row["worktree"]}
    for row in services.of(Worktrees).listing():
        path = Path(row["path"])
        if not os.path.lexists(path):
            continue
        if not services.of(Worktrees).is_own(row["name"]):
            why = f"it is {describe(path)}, which Corral did not make"
        elif row["path"] in users:
            why = f"{users[row['path']]} works in it"
        elif row["state"] == WorktreeState.ALLOCATING:
            why = "it is being made"
        else:
            why = _uncommitted(path)
        if why:
            risks.append({"what": f"worktree {row['name']}", "why": why})
    return risks + _unknown_folders(services)


def _uncommitted(path: Path) -> str:
    """What would be lost with a worktree; empty: nothing."""
    try:
        changed = changes(open_checkout(path))
    except CorralError as error:
        return error.message
    return f"{len(changed)} uncommitted change(s)" if changed else ""


def _unknown_folders(services: Services) -> list[Risk]:
    """Content of ``.corral`` that Corral did not create: folders among worktrees there that no row names."""
    home, configured = services.project.home, services.settings().worktrees.root
    root = services.project.root / configured if configured is not None else home / "worktrees"
    if not root.is_relative_to(home) or root.is_symlink() or not root.is_dir():
        return []
    names = {Path(row["path"]).name for row in services.db.read(worktrees.listing)}
    unknown = (path for path in sorted(root.iterdir()) if path.name not in names and not path.is_symlink())
    return [
        {"what": f"folder {path}", "why": f"it is {describe(path)}, which Corral did not make"}
        for path in unknown
        if not path.is_dir() or any(path.iterdir())
    ]


def give_back(services: Services) -> tuple[list[Risk], list[str]]:
    """Give every worktree back, salvaging what only it holds, and remove the folder that they were in.

    Returns:
        The worktrees that had to stay, and the folders that stay because something else is in them.
    """
    folders: list[str] = []
    risks: list[Risk] = []
    for row in services.of(Worktrees).listing():
        try:
            after = services.of(Worktrees).remove(row["name"])
        except CorralError as error:
            risks.append({"what": f"worktree {row['name']}", "why": error.message})
            continue
        if not after["removed"]:
            risks.append({"what": f"worktree {row['name']}", "why": after["note"] or "it could not be removed"})
    if not risks:  # the verification worktree goes too: nothing in it is anybody's work, and git forgets it
        places = services.of(WorktreeContext).places
        verification_worktree.retire_all(services.db, places, services.git, services.now())
        folders = [str(folder) for folder in places.remove()]
    return risks, folders
