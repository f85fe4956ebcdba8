"""Worktrees come and go: the row first, then the folder; the folder goes first, then the row.

Invariants:
    * A folder below ``worktrees.root`` that Corral made has a row that is not ``removed``.
    * A folder goes only when what is in it is committed on a ref, or was just salvaged.
    * After a kill at any point :func:`roll_back` finishes or undoes what was begun.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from threading import Event

from sqlalchemy import Connection

from corral.config import account
from corral.config.links import make_own_folder
from corral.config.model import Settings
from corral.config.paths import Project, bundle_dir
from corral.config.trust import SETUP, Claim, refuse
from corral.config.worktree_root import WorktreeRoot
from corral.coordination.teams.holder import Teams
from corral.core.crash import crash_point
from corral.core.errors import RACED, Conflict, CorralError, InvalidInput, NotFound, PathReplaced
from corral.core.identifiers import check_name, new_id
from corral.core.instants import iso
from corral.core.states import WorktreePurpose, WorktreeState
from corral.git.checkouts import whole, worktrees
from corral.git.checkouts.ignored import ignored
from corral.git.process.command import Git
from corral.runners.environment import verification_environment
from corral.runners.tags import PROJECT_MARK, TASK_MARK, WORKTREE_MARK
from corral.store.protocol import Store
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.pool import keeping, state
from corral.work.worktrees.provision import Provisioned, provision, run_setup
from corral.work.worktrees.recipes import Recipe, load_recipes
from corral.work.worktrees.removal import take_down

SETUP_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class WorktreeContext:
    """Services and settings for allocating and reclaiming; shared by threads.

    Attributes:
        repo: The repository, for work on refs and worktrees.
        settings: Gives the settings in force.
        clock: Stamps what slow work has done at its end.
        project_id: The project's, by which its processes are known.
        home: The user's home folder.
        team: Gives the team in force.
        untrusted: Commands from the project's files that the user has not approved.
        missing: Those of some commands that the user has not approved.
        fold: Whether the repository's file system ignores case.
        stopping: Set once the daemon ends all work: what waits for something gives up.
        pool: The record of the warm pool since the daemon's start.
        kept: By task, the worktree that this daemon keeps for the next iteration of its loop.
    """

    db: Store
    project: Project
    repo: Git
    settings: Callable[[], Settings]
    clock: Callable[[], datetime]
    project_id: str
    home: Path = field(default_factory=account.home)
    team: Callable[[], Teams] = Teams
    untrusted: Callable[[], Sequence[Claim]] = tuple
    missing: Callable[[Iterable[Claim]], list[Claim]] = list
    fold: bool = False
    stopping: Event = field(default_factory=Event)
    pool: state.PoolUse = field(default_factory=state.PoolUse)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        """The folder that allocated worktrees lie in."""
        return self.places.choose().path

    @property
    def places(self) -> WorktreeRoot:
        """Where worktrees stand."""
        return WorktreeRoot(self.project, self.project_id, lambda: self.settings().worktrees.root, self.home)

    @cached_property
    def recipes(self) -> list[Recipe]:
        """The recipes of the bundle; they change with the installation only."""
        return load_recipes(bundle_dir())


@dataclass(frozen=True)
class Plan:
    """A worktree to be made.

    Attributes:
        branch: Short name; None: on no branch, for commands alone: nothing in it is anybody's work.
        base_sha: The commit that it starts at.
        stacked_on: The tasks whose work is in that and has not landed, each with its head.
    """

    name: str
    branch: str | None
    base_sha: str
    purpose: WorktreePurpose
    task_id: str | None = None
    session_id: str | None = None
    stacked_on: Mapping[str, str] = field(default_factory=dict)


def allocate(
    context: WorktreeContext,
    plan: Plan,
    restore: Callable[[Path, worktrees.Remake], None] | None = None,
    is_unwanted: Callable[[], bool] = lambda: False,
) -> tuple[WorktreeRow, Provisioned]:
    """Make a worktree and make it usable; it stays ``allocating`` until :func:`mark_ready`.

    Args:
        restore: Makes the checkout in another way than from ``plan.base_sha`` (for salvaged work).
        is_unwanted: Whether it is not needed after all; asked while setup commands run.

    Raises:
        Conflict: A worktree of that name exists.
        PathReplaced: Something else was put in its place meanwhile.
        NotTrusted: The user has not approved the setup commands.
        CorralError: Git or the file system refused; nothing half-made stays.
    """
    refuse(context.untrusted(), SETUP)
    warm = _from_pool(context, plan) if restore is None else None
    row = warm or context.db.write(_intend, context, plan, context.root / plan.name)
    if warm is None:
        crash_point("worktree.intended")
        row = ownership.make_folder(context, row)
    path = Path(row["path"])

    def remake(_path: Path) -> None:
        nonlocal row
        row = ownership.make_folder_again(context, row)

    is_added = warm is not None
    try:
        if restore is not None:
            restore(path, remake)
        elif plan.branch is None:
            worktrees.add_detached(context.repo, path, plan.base_sha, remake)
            whole.lay_out(lambda: ownership.prove(context, row), plan.base_sha)
        elif warm is None:
            sparse = context.settings().worktrees.sparse
            worktrees.add(context.repo, path, plan.branch, plan.base_sha, remake, sparse=sparse)
        is_added = True
        crash_point("worktree.added")
        mark = {TASK_MARK: plan.task_id} if plan.task_id else {}
        usable = make_usable(context, path, row["port_base"], mark, is_unwanted, lambda: ownership.prove(context, row))
    except (CorralError, OSError) as error:
        if is_added or isinstance(error, PathReplaced) or not isinstance(error, (Conflict, NotFound, InvalidInput)):
            roll_back(context, row)
        else:  # nothing was begun: what stands in the way is somebody else's
            ownership.forget_folder(context, row)
        raise
    return row, usable


def _from_pool(context: WorktreeContext, plan: Plan) -> WorktreeRow | None:
    """The worktree of a plan, made of one of the warm pool; None: a fresh one is to be made."""

    def intend(pooled: WorktreeRow) -> WorktreeRow | None:
        return context.db.write(_intend_again, context, plan, pooled)

    return keeping.take(context, plan, intend, partial(give_up, context))


def trim_pool(context: WorktreeContext) -> None:
    """Remove the oldest worktrees of the warm pool that are beyond its bounds."""
    state.trim(context, partial(give_up, context))


def mark_ready(conn: Connection, worktree_id: str, provided: Provisioned) -> WorktreeRow:
    """The worktree is usable.

    Raises:
        Conflict: It is being removed.
    """
    row = worktree_rows.transition(
        conn,
        worktree_id,
        (WorktreeState.ALLOCATING,),
        {"state": WorktreeState.READY, "provision": asdict(provided), "note": None},
    )
    if row is None:
        raise Conflict("The worktree is being removed.", cause=RACED)
    return row


def begin_reclaim(context: WorktreeContext, row: WorktreeRow) -> None:
    """Store that a worktree shall go; nothing if it is going or gone already."""
    from_states = (WorktreeState.ALLOCATING, WorktreeState.READY, WorktreeState.POOLED)
    values: dict[str, str] = {"state": WorktreeState.RECLAIMING}
    if row["state"] == WorktreeState.POOLED:  # it names no branch, and a row that goes does
        values["branch"] = f"corral/{row['name']}"
    ownership.move(context, row, values, from_states)


def reclaim(context: WorktreeContext, worktree_id: str, *, reason: str, keeps: bool = False) -> bool:
    """Remove a worktree that is ``reclaiming``, or keep it in the warm pool; safe to repeat.

    A worktree that cannot be removed stays, with a note on its row that says why; it is tried again later.

    Args:
        reason: The label of the salvage, one line.
        keeps: Whether its attempt ended well, so that it may be kept.

    Returns:
        Whether it is gone, or kept.
    """
    with context.db.reading() as conn:
        row = worktree_rows.get(conn, worktree_id)
    if row is None or row["state"] != WorktreeState.RECLAIMING:
        return True
    crash_point("worktree.reclaiming")
    if keeps and keeping.keep(context, row):
        trim_pool(context)
        return True
    row = context.db.read(worktree_rows.get, worktree_id) or row
    try:
        row = ownership.settle(context, row)
        lost = take_down(context, row, reason)
    except (CorralError, OSError) as error:
        ownership.note(context, row, error)
        return False
    crash_point("worktree.removed")
    context.places.leave(Path(row["path"]).parent)
    gone = {"state": WorktreeState.REMOVED, "removed_at": iso(context.clock()), "note": lost}
    ownership.move(context, row, gone, (WorktreeState.RECLAIMING,))
    return True


def roll_back(context: WorktreeContext, row: WorktreeRow) -> bool:
    """Give back a worktree that nobody works in: a half-made one, one that was going, one whose worker is gone.

    Returns:
        Whether it is gone.
    """
    return give_up(context, row, reason="its worker is gone")


def give_up(context: WorktreeContext, row: WorktreeRow, reason: str) -> bool:
    """Remove a worktree that nobody needs any more; one that something else has taken the place of stays as it is, with a note.

    Returns:
        Whether it is gone.
    """
    try:
        row = ownership.settle(context, row)
        ownership.prove_remains(context, row)
    except PathReplaced as error:
        ownership.note(context, row, error)
        return False
    begin_reclaim(context, row)
    return reclaim(context, row["worktree_id"], reason=reason)


def _intend(conn: Connection, context: WorktreeContext, plan: Plan, path: Path) -> WorktreeRow:
    if plan.branch is not None:  # else nobody is to ask for it
        check_name(plan.name, "worktree")
    if worktree_rows.live_by_name(conn, plan.name) is not None:
        raise Conflict(
            f"There is a worktree {plan.name} already.",
            cause="A worktree is called by its name.",
            remedy="Choose another name, or remove that one first.",
        )
    if plan.name.casefold() == context.places.verification:
        raise InvalidInput(
            f"{plan.name!r} cannot be the name of a worktree.",
            cause="Merges are verified in the folder of that name.",
            remedy="Choose another name.",
        )
    settings = context.settings().worktrees
    port = None
    if settings.ports_each:
        port = choose_block(worktree_rows.port_bases(conn), settings.port_first, settings.ports_each, bindable)
    return worktree_rows.create(
        conn,
        {
            "worktree_id": new_id(),
            "name": plan.name,
            "path": str(path),
            "branch": plan.branch,
            "base_sha": plan.base_sha,
            "purpose": plan.purpose,
            "state": WorktreeState.ALLOCATING,
            "task_id": plan.task_id,
            "session_id": plan.session_id,
            "port_base": port,
            "provision": {},
            "created_at": iso(context.clock()),
            **({"stacked_on": dict(plan.stacked_on)} if plan.stacked_on else {}),
        },
    )


def _intend_again(conn: Connection, context: WorktreeContext, plan: Plan, pooled: WorktreeRow) -> WorktreeRow | None:
    """The row of a worktree that gets the folder of a kept one, whose row ends."""
    gone = {"state": WorktreeState.REMOVED, "removed_at": iso(context.clock()), "note": None}
    if worktree_rows.transition(conn, pooled["worktree_id"], (WorktreeState.POOLED,), gone) is None:
        return None
    row = _intend(conn, context, plan, Path(pooled["path"]))
    known = {"folder_id": pooled["folder_id"]}
    return worktree_rows.transition(conn, row["worktree_id"], (WorktreeState.ALLOCATING,), known)


def make_usable(
    context: WorktreeContext,
    path: Path,
    port_base: int | None,
    mark: Mapping[str, str],
    is_unwanted: Callable[[], bool],
    prove: Callable[[], Git],
) -> Provisioned:
    """Give a checkout what git does not: dependencies, environment files, ports; run the setup commands where needed.

    Args:
        mark: In the environment of the setup commands, so that those of a dead daemon are found and ended.
        is_unwanted: Whether it is not needed after all; a setup command is ended then, or when all work ends.
        prove: Gives the checkout if the folder is Corral's own; asked before anything is written there.

    Raises:
        PathReplaced: ``prove`` raised it.
        CorralError: The file system or git refused, or a setup command failed or was ended; its log is named.
    """
    settings = context.settings()
    refuse(context.untrusted(), SETUP)
    checkout = prove()
    provided = provision(
        context.project.root,
        path,
        recipes=context.recipes,
        settings=settings,
        port_base=port_base,
        is_ignored=lambda paths: ignored(checkout, paths),
    )
    if provided.setup:
        env = verification_environment(os.environ, {**environment(context, path, provided), **mark})
        log = make_own_folder(context.project.logs_dir / "worktrees", context.project.root) / f"{path.name}.log"
        prove()
        run_setup(path, provided.setup, env, log, SETUP_TIMEOUT_S, lambda: context.stopping.is_set() or is_unwanted())
    return provided


def environment(context: WorktreeContext, worktree: Path, provided: Provisioned) -> dict[str, str]:
    """Variables for a process in an allocated worktree, on top of its own environment."""
    own = str(context.project.run_dir / "bin")
    path = os.pathsep.join([*provided.path_prefixes, own, os.environ.get("PATH", os.defpath)])
    marks = {
        WORKTREE_MARK: str(worktree),
        "CORRAL_PROJECT": str(context.project.root),
        PROJECT_MARK: context.project_id,
    }
    return {**provided.env, "PATH": path, **marks}


# -- Ports: every worktree owns a block of them, so that two worktrees can serve at once without a clash.
#
# Blocks are allocated and recorded, never derived from a hash of the name: two names can share a hash.

LAST_PORT = 65535

_ADDRESSES = (
    (socket.AF_INET, "0.0.0.0"),
    (socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET6, "::"),
    (socket.AF_INET6, "::1"),
)
"""A server may sit on every address or on one; some systems let the two share a port, so each is asked."""


def choose_block(taken: set[int], first: int, each: int, is_free: Callable[[int], bool]) -> int:
    """The first port of the lowest block that nobody owns and nobody uses.

    Args:
        taken: First ports of the blocks that live worktrees own.
        first: Where the blocks begin.
        each: Ports in a block.
        is_free: Whether a server could be started on a port now.

    Raises:
        Conflict: No block is left below 65536.
    """
    for base in range(first, LAST_PORT - each + 2, each):
        # Not mere equality: blocks recorded under another `first` or `each` can lie across this one.
        if any(abs(base - other) < each for other in taken):
            continue
        if all(is_free(port) for port in range(base, base + each)):
            return base
    raise Conflict(
        f"No block of {each} free ports is left from {first} upwards.",
        cause=f"{len(taken)} worktrees own a block each, or other programs use the rest.",
        remedy="Remove worktrees that are done with, or lower worktrees.port_first or worktrees.ports_each.",
    )


def bindable(port: int) -> bool:
    """Whether a server could listen on ``port`` of this machine now, on every address family there is."""
    return all(_binds(family, address, port) for family, address in _ADDRESSES)


def _binds(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return True  # The machine has no such family: nobody can be in the way on it.
    with probe:
        # As servers do: connections that are closing do not keep a port from its next server.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return family == socket.AF_INET6 and error.errno == errno.EADDRNOTAVAIL
    return True
