"""A database belongs to one repository: bound at its creation, and compared at each start before any of its tasks runs.

The repository is identified by the device and inode of its git common directory, which a move keeps and a copy changes. The
database of a moved repository follows it. A database that came with a copy, a backup or an archive names tasks, processes and
folders of another repository: it is set aside, whole, until a person adopts it.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.config import account, worktree_root
from corral.config.initial import EXCLUDED, LOCAL
from corral.config.inodes import folder_id, repository_has_left
from corral.config.paths import SET_ASIDE, Project
from corral.config.trust import TrustStore, trust_file
from corral.core.errors import Conflict, DatabaseUnavailable, NotTrusted, Unsupported
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.logs import logger
from corral.core.states import LIVE_WORKTREES, WorktreeState
from corral.daemon import store as identity
from corral.daemon.store import moved
from corral.git.checkouts.listing import reanchor
from corral.git.process.command import Git
from corral.store import events
from corral.store.engine.database import Database
from corral.store.migrate import move_aside, open_schema, take_over
from corral.store.rows import Columns
from corral.store.rows.records import Identity
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import store as worktree_rows

if TYPE_CHECKING:
    from corral.core.event_payloads import DatabaseSetAside
from fnmatch import fnmatchcase

log = logger("daemon")


@dataclass(frozen=True)
class Bound:
    """The database of this repository.

    Attributes:
        project_id: Marks every process that this database's daemon starts.
        common_dir: The repository's, and
        folder_id: what it was at the start.
    """

    db: Database
    project_id: str
    common_dir: Path
    folder_id: str

    def has_left(self) -> bool:
        """Whether the repository is gone from the path that it had at the start."""
        return repository_has_left(self.common_dir, self.folder_id)


@dataclass(frozen=True)
class _Move:
    """The former and the present paths of the repository."""

    repo: Git
    old_root: Path
    old_common_dir: Path
    new_root: Path
    bare: bool
    lost: list[str] = field(default_factory=list)


def open_bound(project: Project, repo: Git, now: datetime) -> Bound:
    """Open the project's database if it belongs to this very repository; else set it aside and begin with an empty one.

    Raises:
        DatabaseUnavailable: It cannot be opened, or not be set aside.
        Unsupported: The git directory is gone.
    """
    try:
        current_id = folder_id(project.common_dir)
    except OSError as error:
        raise Unsupported(f"{project.common_dir} does not exist any more.") from error
    try:
        return _open_bound(project, repo, current_id, now)
    except DatabaseUnavailable as error:
        if "locked" in error.cause and project.database.stat().st_nlink > 1:
            raise _hard_link_error(project.database) from error
        raise


def _open_bound(project: Project, repo: Git, current_id: str, now: datetime) -> Bound:
    db = _open(project, current_id)
    try:
        stored: Identity | None = db.read(identity.get)
        if stored is None and db.read(identity.is_idle):
            fresh = stored = _identity(project, current_id, now)
            db.write(identity.bind, fresh)
        if stored is not None and _is_same(stored, project, current_id):
            if stored["common_dir"] != str(project.common_dir):
                _take_approvals_along(Path(stored["common_dir"]), project.common_dir)
            return Bound(
                db, _take_over_place(db, stored, project, repo, current_id, now), project.common_dir, current_id
            )
    except BaseException:
        db.close()
        raise
    db.close()
    return _begin_anew(project, stored, current_id, now)


def adopt(project: Project, repo: Git, source: Path, now: datetime) -> Path | None:
    """Make a copy of another database this repository's own, under a new project id. No daemon may be running.

    Worktrees of this repository are kept; for folders of another repository only the rows are closed. Approvals stay with the
    repository that they were given for. A kill leaves the previous database, or none.

    Returns:
        The new path of the previous database; None: there was none.

    Raises:
        Conflict: It is this repository's database already.
        DatabaseUnavailable: It is no database of Corral's, or the files cannot be written.
    """
    current_id = folder_id(project.common_dir)
    present = project.database
    if present.exists() and present.samefile(source):
        raise Conflict(
            f"{source} is this repository's database already.",
            cause="That is the file in use.",
            remedy="Name the database to take over: `ls .corral/corral.db.of-*`.",
        )
    before = _free_path(present.parent, f"{present.name}.replaced") if present.exists() else None
    incoming = _free_path(present.parent, f"{present.name}.adopting")
    take_over(source, incoming)
    db = Database(incoming)
    try:
        former = db.read(identity.get)
        root = former["root"] if former else str(project.root)
        common_dir = former["common_dir"] if former else f"{root}/.git"
        adopted: Identity = {**_identity(project, current_id, now), "root": root, "common_dir": common_dir}
        db.write(identity.bind, adopted)
        if former:
            worktree_root.hand_over(project, former["project_id"], adopted["project_id"])
        _take_over_place(db, adopted, project, repo, current_id, now)
    finally:
        db.close()
    if before is not None:
        move_aside(present, before)
    move_aside(incoming, present)
    if source.parent.samefile(present.parent) and source.name.startswith(SET_ASIDE):
        move_aside(source, _free_path(source.parent, source.name.replace(SET_ASIDE, "corral.db.adopted-")))
    log.info("database_adopted", source=str(source), former_root=root, replaced=str(before))
    return before


def _open(project: Project, current_id: str) -> Database:
    project.database.parent.mkdir(parents=True, exist_ok=True)
    open_schema(project.database)
    return Database(project.database, has_left=lambda: repository_has_left(project.common_dir, current_id))


def _hard_link_error(database: Path) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"{database} is in use by another repository's daemon.",
        cause="It is a hard link: one of the two repositories is a copy that was made of links (as by `cp -al`).",
        remedy=f"In the copy: `rm {shlex.quote(str(database))}*`, to begin with an empty queue; the original keeps its own.",
    )


def _identity(project: Project, current_id: str, now: datetime) -> Identity:
    return {
        "project_id": new_id(),
        "root": str(project.root),
        "common_dir": str(project.common_dir),
        "folder_id": current_id,
        "created_at": iso(now),
    }


def _is_same(stored: Identity, project: Project, current_id: str) -> bool:
    # Devices get other numbers at a boot: the same inode at the same path is the same folder.
    is_here = stored["common_dir"] == str(project.common_dir)
    return stored["folder_id"] == current_id or (is_here and _inode(stored["folder_id"]) == _inode(current_id))


def _inode(text: str) -> str:
    return text.rpartition(":")[2]


# -- moved ----------------------------------------------------------------------------------------------------------


def _take_over_place(
    db: Database, stored: Identity, project: Project, repo: Git, current_id: str, now: datetime
) -> str:
    """Take over a new path or device number; returns the project id. The stored path is replaced last, after all else is done."""
    place = _identity(project, current_id, now)
    place["project_id"], place["created_at"] = stored["project_id"], stored["created_at"]
    if place.items() <= stored.items():
        return str(stored["project_id"])
    move = _Move(repo, Path(stored["root"]), Path(stored["common_dir"]), project.root, project.bare)
    rows = db.read(worktree_rows.listing) if stored["common_dir"] != place["common_dir"] else []
    changes = {row["worktree_id"]: _move_worktree(move, row, now) for row in rows}

    def settle(conn: Connection) -> None:
        for worktree_id, values in changes.items():
            worktree_rows.transition(conn, worktree_id, LIVE_WORKTREES, values)
        identity.follow_move(conn, move.old_root, move.new_root)
        identity.bind(conn, place)
        if rows or stored["root"] != place["root"]:
            event = EventKind.PROJECT_MOVED({"from": stored["root"], "to": place["root"], "left": move.lost})
            events.record(conn, now, event)

    db.write(settle)
    log.warning("repository_moved", old=stored["root"], new=place["root"], worktrees=len(rows), left=move.lost)
    return str(stored["project_id"])


def _take_approvals_along(old_common_dir: Path, new_common_dir: Path) -> None:
    """Move the user's approvals to the repository's new path. Safe to run twice.

    If a repository still exists at the old path, this one is a copy, and its user is asked again.
    """
    if old_common_dir.exists():
        return
    try:
        TrustStore(trust_file(os.environ, account.home())).rebind(old_common_dir, new_common_dir)
    except NotTrusted as error:
        log.warning("approvals_not_moved", reason=f"{error.message} {error.cause}")


def _move_worktree(move: _Move, row: WorktreeRow, now: datetime) -> Columns:
    """The columns of a worktree after the move, its pointers corrected; a worktree of another repository is closed."""
    path = Path(moved(row["path"], move.old_root, move.new_root))
    if not os.path.lexists(path):  # the folder beside the repository may have come along
        was, now_is = (worktree_root.beside_root(root, bare=move.bare) for root in (move.old_root, move.new_root))
        path = Path(moved(row["path"], was, now_is))
    if not reanchor(move.repo, path, was_at=Path(row["path"]), old_common_dir=move.old_common_dir):
        move.lost.append(row["name"])
        note = f"{path} is not a worktree of this repository; it was left alone."
        return {"state": WorktreeState.REMOVED, "removed_at": iso(now), "note": note}
    provision = _move_paths(row["provision"], move.old_root, move.new_root)
    values = {"path": str(path), "provision": provision}
    return {**values, "folder_id": folder_id(path) if path.exists() else None} if row["folder_id"] else values


def _move_paths(value: Any, old: Path, new: Path) -> Any:
    if isinstance(value, dict):
        return {name: _move_paths(inner, old, new) for name, inner in value.items()}
    if isinstance(value, list):
        return [_move_paths(inner, old, new) for inner in value]
    return moved(value, old, new) if isinstance(value, str) else value


# -- another repository's -------------------------------------------------------------------------------------------


def _begin_anew(project: Project, stored: Identity | None, current_id: str, now: datetime) -> Bound:
    """Set the database aside, and begin with an empty one. It is renamed last, so that after a kill the next start repeats this.

    The address files belong to the other daemon, and are removed.
    """
    for file in (project.token_file, project.daemon_json):
        file.unlink(missing_ok=True)
    owner = stored["project_id"][:8] if stored else "unknown"
    aside = _free_path(project.database.parent, f"{SET_ASIDE}{owner}")
    move_aside(project.database, aside)
    db, fresh = _open(project, current_id), _identity(project, current_id, now)
    data: DatabaseSetAside = {"file": str(aside), "owner": stored["root"] if stored else None}

    def begin(conn: Connection) -> None:
        identity.bind(conn, fresh)
        events.record(conn, now, EventKind.PROJECT_DATABASE_SET_ASIDE(data))

    try:
        db.write(begin)
    except BaseException:
        db.close()
        raise
    log.warning("database_set_aside", **data)
    return Bound(db, fresh["project_id"], project.common_dir, current_id)


def _free_path(folder: Path, name: str) -> Path:
    path, number = folder / name, 1
    while path.exists() or path.is_symlink():
        number += 1
        path = folder / f"{name}-{number}"
    return path


# -- Files that come with a clone are not trusted: a database, a socket or a log that git tracks is somebody else's


def refuse_what_a_clone_brought(git: Git) -> None:
    """Refuse a repository in which git tracks files that belong to one clone.

    A database that came by a clone names tasks whose commands would be run, ``run/`` a program, ``local.yaml`` settings.

    Raises:
        Unsupported: Git tracks such a path, or ``.corral`` itself as a link or a file.
        GitFailed: Neither the index nor the commit that is checked out can be read.
    """
    result = git.run("ls-files", "-z", "--", ":(icase).corral")
    if not result.ok:  # a damaged index blocks landings there, and not the daemon
        committed = git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD")
        if not committed.ok:
            raise result.failure()
        result = committed
    tracked = result.text.strip("\0").split("\0")
    local_paths = [path for path in tracked if path and _is_local(path)]
    if not local_paths:
        return
    shown = " ".join(local_paths[:5]) + (" …" if len(local_paths) > 5 else "")
    raise Unsupported(
        f"Git tracks what must belong to this clone alone: {shown}",
        cause="It came with the clone, or was added with `git add --force`; its author could run commands here.",
        remedy="Take it out, unread: `git rm -r -- PATH`, and commit. If this very clone made it, with `--cached`.",
    )


def _is_local(path: str) -> bool:
    """Whether that path, on a file system that ignores case too, is one of ``LOCAL`` or ``.corral`` itself."""
    top, _, below = path.casefold().partition("/")
    return top == ".corral" and (not below or any(fnmatchcase(below.partition("/")[0], pattern) for pattern in LOCAL))


def hide_own_files(common_dir: Path) -> None:
    """Have git ignore, whatever branch is checked out, what belongs to this clone: ``git add --all`` would take it along."""
    file = common_dir / "info" / "exclude"
    try:
        before = file.read_bytes() if file.exists() else b""
        if EXCLUDED in before or file.is_symlink():
            return
        file.parent.mkdir(exist_ok=True)
        with file.open("ab") as stream:
            stream.write((b"" if before.endswith(b"\n") or not before else b"\n") + EXCLUDED)
    except OSError as error:
        log.warning("own_files_not_hidden", file=str(file), error=str(error))
