"""Before everything of Corral's is taken away: what would be lost, and giving back every worktree."""

from __future__ import annotations

from pathlib import Path

from corral.errors import CorralError
from corral.git import refs, worktrees
from corral.git.command import open_checkout
from corral.git.status import changes
from corral.landing import bench
from corral.models.states import OPEN_MERGES
from corral.server.services import Services
from corral.store import merges, sessions, tasks


def at_risk(services: Services) -> list[dict[str, str]]:
    """Open tasks and merges, and worktrees with changes that no commit holds: ``[{what, why}]``."""
    risks = [
        {"what": f"task {row['task_id']}", "why": f"it is {row['status']}"}
        for row in services.db.read(lambda conn: tasks.standing(conn, only_open=True))
    ]
    risks += [
        {"what": f"merge {row['merge_id']}", "why": f"it is {row['state']}"}
        for row in services.db.read(lambda conn: merges.listing(conn, OPEN_MERGES))
    ]
    at_work = {row["worktree"]: row["agent_name"] for row in services.db.read(sessions.live) if row["worktree"]}
    for row in services.worktrees.listing():
        path = Path(row["path"])
        if not path.is_dir():
            continue
        if row["path"] in at_work:
            risks.append({"what": f"worktree {row['name']}", "why": f"{at_work[row['path']]} is at work in it"})
        elif changed := changes(open_checkout(path)):
            risks.append({"what": f"worktree {row['name']}", "why": f"{len(changed)} uncommitted change(s)"})
    return risks


def retire(services: Services) -> list[dict[str, str]]:
    """Give every worktree back, salvaging what only it holds; returns what had to stay."""
    stayed = []
    for row in services.worktrees.listing():
        try:
            after = services.worktrees.remove(row["name"], services.now())
        except CorralError as error:
            stayed.append({"what": f"worktree {row['name']}", "why": error.message})
            continue
        if not after["removed"]:
            stayed.append({"what": f"worktree {row['name']}", "why": after["note"] or "it could not be removed"})
    if not stayed:
        _take_down_bench(services)
    return stayed


def _take_down_bench(services: Services) -> None:
    """The verification worktree goes too: nothing in it is anybody's work, and git forgets it."""
    path = services.project.root / services.settings().worktrees.root / bench.NAME
    tip = refs.read(services.git, services.settings.target())
    if path.is_dir() and tip is not None:
        bench.lay_out(services.git, path, tip)
        worktrees.remove(services.git, path)
