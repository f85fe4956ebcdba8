"""Worktrees come and go: the row first, then the folder; the folder goes first, then the row.

Invariants:
    * A folder below ``worktrees.root`` that Corral made has a row that is not ``removed``.
    * A folder goes only when what is in it is committed on a ref, or was just salvaged.
    * After a kill at any point :func:`put_right` finishes or undoes what was begun.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.paths import Project, bundle_dir
from corral.coordination.teams import Teams
from corral.errors import Conflict, CorralError, GitFailed, InvalidInput, NotFound, WorkAtRisk
from corral.git import refs, salvage, worktrees
from corral.git.command import Git, open_checkout
from corral.models.crash import crash_point
from corral.models.identifiers import check_name, new_id
from corral.models.instants import iso
from corral.models.states import WorktreePurpose, WorktreeState
from corral.runners.environment import verification_environment
from corral.runners.process import TASK_MARK
from corral.store import events
from corral.store import worktrees as rows
from corral.store.engine import Database
from corral.work.heads import come_home
from corral.work.ports import bindable, choose_block
from corral.work.provision import WORKTREE_MARK, Provisioned, provision, run_setup
from corral.work.recipes import Recipe, load_recipes

Row = dict[str, Any]

SETUP_TIMEOUT_S = 900.0


def _wanted() -> bool:
    return False


@dataclass(frozen=True)
class Grounds:
    """What everyone who allocates or reclaims needs; shared by threads.

    Attributes:
        repo: The repository, for work on refs and worktrees.
        settings: Gives the settings in force.
        clock: Stamps what slow work has done at its end.
        team: Gives the team in force.
        stopping: Set once the daemon ends all work: what waits for something gives up.
    """

    db: Database
    project: Project
    repo: Git
    settings: Callable[[], Settings]
    clock: Callable[[], datetime]
    team: Callable[[], Teams] = Teams
    stopping: Event = field(default_factory=Event)

    @property
    def root(self) -> Path:
        """The folder that allocated worktrees lie in."""
        return self.project.root / self.settings().worktrees.root

    @cached_property
    def recipes(self) -> list[Recipe]:
        """The recipes of the bundle; they change with the installation only."""
        return load_recipes(bundle_dir())


@dataclass(frozen=True)
class Plan:
    """A worktree to be made. ``branch`` is a short name; ``base_sha`` what it starts at."""

    name: str
    branch: str
    base_sha: str
    purpose: WorktreePurpose
    task_id: str | None = None
    session_id: str | None = None


def landing_target(grounds: Grounds, named: str | None) -> tuple[str, str]:
    """The branch that work lands on, and its present tip.

    Args:
        named: What a task or a person asked for; None is ``landing.target``, else what the main checkout has.

    Returns:
        Short branch name, SHA.

    Raises:
        NotFound: There is no such branch, or it has no commit yet.
    """
    default = refs.default_branch(grounds.repo) if named is None else None
    target = named or grounds.settings().landing.target or (default or "").removeprefix("refs/heads/")
    tip = refs.read(grounds.repo, refs.branch_ref(target)) if target else None
    if tip is None:
        raise NotFound(
            f"There is no branch {target!r} to work from." if target else "The main checkout is on no branch.",
            cause="The branch does not exist, or has no commit yet.",
            remedy="Make a first commit, or set `landing.target` to an existing branch.",
        )
    return target, tip


def allocate(
    grounds: Grounds,
    plan: Plan,
    restore: Callable[[Path], None] | None = None,
    is_unwanted: Callable[[], bool] = _wanted,
) -> tuple[Row, Provisioned]:
    """Make a worktree and make it usable; it stays ``allocating`` until :func:`mark_ready`.

    Args:
        restore: Makes the checkout in another way than from ``plan.base_sha`` (for salvaged work).
        is_unwanted: Whether it is not needed after all; asked while setup commands run.

    Raises:
        Conflict: A worktree of that name exists.
        CorralError: Git or the file system refused; nothing half-made stays.
    """
    row = grounds.db.write(lambda conn: _intend(conn, grounds, plan))
    path = Path(row["path"])
    crash_point("worktree.intended")
    try:
        if restore is not None:
            restore(path)
        else:
            worktrees.add(grounds.repo, path, plan.branch, plan.base_sha)
    except (Conflict, NotFound, InvalidInput):  # nothing was begun: what stands in the way is somebody else's
        gone = {"state": WorktreeState.REMOVED, "removed_at": iso(grounds.clock())}
        grounds.db.write(lambda conn: rows.move(conn, row["worktree_id"], (WorktreeState.ALLOCATING,), gone))
        raise
    except (CorralError, OSError):
        put_right(grounds, row)
        raise
    crash_point("worktree.added")
    try:
        mark = {TASK_MARK: plan.task_id} if plan.task_id else {}
        return row, make_usable(grounds, path, row["port_base"], mark, is_unwanted)
    except (CorralError, OSError):
        put_right(grounds, row)
        raise


def mark_ready(conn: Connection, worktree_id: str, provided: Provisioned) -> Row:
    """The worktree is usable.

    Raises:
        Conflict: It is being removed.
    """
    row = rows.move(
        conn,
        worktree_id,
        (WorktreeState.ALLOCATING,),
        {"state": WorktreeState.READY, "provision": asdict(provided), "note": None},
    )
    if row is None:
        raise Conflict("The worktree is being removed.")
    return row


def begin_reclaim(grounds: Grounds, row: Row) -> Row | None:
    """Store that a worktree shall go; None if it is going or gone already."""
    come_from = (WorktreeState.ALLOCATING, WorktreeState.READY)
    values = {"state": WorktreeState.RECLAIMING}
    return grounds.db.write(lambda conn: rows.move(conn, row["worktree_id"], come_from, values))


def reclaim(grounds: Grounds, worktree_id: str, *, reason: str) -> bool:
    """Remove a worktree that is ``reclaiming``; safe to repeat.

    What cannot be removed stays, with a note on its row that says why; it is tried again later.

    Args:
        reason: What the salvage is labelled with, one line.

    Returns:
        Whether it is gone.
    """
    row = grounds.db.read(lambda conn: rows.get(conn, worktree_id))
    if row is None or row["state"] != WorktreeState.RECLAIMING:
        return True
    crash_point("worktree.reclaiming")
    try:
        _take_down(grounds, row, reason)
    except (CorralError, OSError) as error:
        note = f"{error.message} {error.cause}" if isinstance(error, CorralError) else str(error)
        grounds.db.write(lambda conn: rows.move(conn, worktree_id, (WorktreeState.RECLAIMING,), {"note": note}))
        return False
    crash_point("worktree.removed")
    gone = {"state": WorktreeState.REMOVED, "removed_at": iso(grounds.clock()), "note": None}
    grounds.db.write(lambda conn: rows.move(conn, worktree_id, (WorktreeState.RECLAIMING,), gone))
    return True


def put_right(grounds: Grounds, row: Row) -> bool:
    """Give back a worktree that nobody works in: a half-made one, one that was going, one whose worker is gone.

    Returns:
        Whether it is gone.
    """
    begin_reclaim(grounds, row)
    return reclaim(grounds, row["worktree_id"], reason="its worker is gone")


def tidy_branches(grounds: Grounds) -> None:
    """Delete branches of tasks that nothing needs any more: a git that outlived its daemon may have made one after all.

    Raises:
        GitFailed: Git refused; it is tried again with the next call.
    """
    for ref in refs.listing(grounds.repo, "refs/heads/corral/"):
        branch = ref.name.removeprefix("refs/heads/")
        if grounds.db.read(lambda conn, branch=branch: rows.is_done_with(conn, branch)):  # type: ignore[misc]
            worktrees.drop_branch(grounds.repo, ref.name)


def _take_down(grounds: Grounds, row: Row, reason: str) -> None:
    repo, path = grounds.repo, Path(row["path"])
    submitted = grounds.db.read(lambda conn: rows.is_submitted(conn, row))
    # git lets go of a branch that something else holds; one that waits to be merged has to keep its name
    if not worktrees.repair(repo, path, None if submitted and not path.exists() else row["branch"]):
        return
    if not (submitted and _removed_clean(repo, path)):
        _remove_preserved(grounds, row, reason, submitted=submitted)
    if not submitted:
        worktrees.repair(repo, path, row["branch"])  # the branch goes too, unless it alone holds something


def _remove_preserved(grounds: Grounds, row: Row, reason: str, *, submitted: bool) -> None:
    repo, path, ref = grounds.repo, Path(row["path"]), refs.branch_ref(row["branch"])
    come_home(open_checkout(path), ref)  # the branch that HEAD is on goes with the worktree; another one is somebody's
    found = _preserve(grounds, row, reason, always=row["purpose"] == WorktreePurpose.TASK and not submitted)
    crash_point("worktree.salvaged")
    if found is None:
        worktrees.remove(repo, path)
        return
    worktrees.remove_salvaged(repo, path, found, keep_branch=submitted)  # the queue lets go of it once it has landed


def _removed_clean(repo: Git, path: Path) -> bool:
    """The usual end: all that was made is on a branch that waits to be merged."""
    try:
        worktrees.remove(repo, path)
    except WorkAtRisk:  # something was written after all: then it is salvaged like everything else
        return False
    return True


def _preserve(grounds: Grounds, row: Row, reason: str, *, always: bool) -> salvage.Snapshot | None:
    """Put a worktree's whole state on a salvage ref; None where refs hold all of it already.

    Args:
        always: The worktree's branch does not count: a failed attempt's commits are kept by a salvage ref alone.
    """
    checkout = open_checkout(Path(row["path"]))
    exclude = row["provision"].get("exclude", ())
    forced = always and checkout.head() != row["base_sha"]
    found = salvage.snapshot(checkout, row["name"], grounds.clock(), reason=reason, exclude=exclude, always=forced)
    if found is not None:
        grounds.db.write(lambda conn: _salvaged(conn, grounds, row, found, reason))
    return found


def _salvaged(conn: Connection, grounds: Grounds, row: Row, found: salvage.Snapshot, reason: str) -> None:
    live = (WorktreeState.ALLOCATING, WorktreeState.READY, WorktreeState.RECLAIMING)
    rows.move(conn, row["worktree_id"], live, {"salvage_ref": found.ref})
    data = {"ref": found.ref, "files": found.files[:50], "reason": reason, "worktree": row["name"]}
    events.record(
        conn, grounds.clock(), "worktree.salvaged", task_id=row["task_id"], session_id=row["session_id"], data=data
    )


def _intend(conn: Connection, grounds: Grounds, plan: Plan) -> Row:
    check_name(plan.name, "worktree")
    if rows.live_by_name(conn, plan.name) is not None:
        raise Conflict(
            f"There is a worktree {plan.name} already.", remedy="Choose another name, or remove that one first."
        )
    settings = grounds.settings().worktrees
    port = None
    if settings.ports_each:
        port = choose_block(rows.port_bases(conn), settings.port_first, settings.ports_each, bindable)
    return rows.create(
        conn,
        {
            "worktree_id": new_id(),
            "name": plan.name,
            "path": str(grounds.root / plan.name),
            "branch": plan.branch,
            "base_sha": plan.base_sha,
            "purpose": plan.purpose,
            "state": WorktreeState.ALLOCATING,
            "task_id": plan.task_id,
            "session_id": plan.session_id,
            "port_base": port,
            "provision": {},
            "created_at": iso(grounds.clock()),
        },
    )


def make_usable(
    grounds: Grounds,
    path: Path,
    port_base: int | None,
    mark: Mapping[str, str],
    is_unwanted: Callable[[], bool] = _wanted,
) -> Provisioned:
    """Give a checkout what git does not: dependencies, environment files, ports; run the setup commands where needed.

    Args:
        mark: In the environment of the setup commands, so that those of a dead daemon are found and ended.
        is_unwanted: Whether it is not needed after all; a setup command is ended then, or when all work ends.

    Raises:
        CorralError: The file system or git refused, or a setup command failed or was ended; its log is named.
    """
    settings = grounds.settings()
    checkout = open_checkout(path)
    made = provision(
        grounds.project.root,
        path,
        recipes=grounds.recipes,
        settings=settings,
        port_base=port_base,
        is_ignored=lambda paths: _ignored(checkout, paths),
    )
    if made.setup:
        env = verification_environment(os.environ, {**environment(grounds, path, made), **mark})
        log = grounds.project.logs_dir / "worktrees" / f"{path.name}.log"
        done = run_setup(
            path, made.setup, env, log, SETUP_TIMEOUT_S, lambda: grounds.stopping.is_set() or is_unwanted()
        )
        if not done.ok:
            raise GitFailed(
                f"The setup of the worktree failed: {done.command}",
                cause="It was ended before it was done."
                if done.exit_code is None
                else f"It ended with {done.exit_code}.",
                remedy=f"Read {log}.",
            )
    return made


def _ignored(checkout: Git, paths: list[str]) -> set[str]:
    text = "\0".join(paths).encode("utf-8", "surrogateescape")
    found = checkout.run("check-ignore", "-z", "--stdin", input=text)
    if found.rc > 1:
        raise GitFailed("git check-ignore failed.", cause=found.stderr, details={"argv": list(found.argv)})
    return {path for path in found.text.split("\0") if path}


def environment(grounds: Grounds, worktree: Path, made: Provisioned) -> dict[str, str]:
    """What a process that works in an allocated worktree is told, on top of its own environment."""
    own = str(grounds.project.run_dir / "bin")
    path = os.pathsep.join([*made.path_prefixes, own, os.environ.get("PATH", os.defpath)])
    return {**made.env, "PATH": path, WORKTREE_MARK: str(worktree), "CORRAL_PROJECT": str(grounds.project.root)}
