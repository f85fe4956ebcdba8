"""The verification worktree: Corral's alone, detached, and warm: what was brought for it stays from one run to the next.

It has a row of its own kind, a name that cannot be asked for, and a folder that no other worktree may be called by. It is proven
to be Corral's right before anything in it is reset or cleaned, and after each command that ran in it. What else stands in its
place is left alone, and a fresh one made at the next free place, so that no command can stop a target. The row of the former one
stays as long as anything of it does, and says what that is.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.worktree_root import WorktreeRoot
from corral.core.crash import crash_point
from corral.core.errors import CorralError, FolderLinked, NotFound, PathReplaced
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.states import LIVE_WORKTREES, WorktreePurpose, WorktreeState
from corral.git.checkouts import identity as worktree_identity
from corral.git.checkouts import whole, worktrees
from corral.git.checkouts.identity import OwnWorktree
from corral.git.checkouts.whole import Whole
from corral.git.process.command import Git
from corral.landing.verify import blame
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows import Columns, required
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import store as worktree_rows


@dataclass(frozen=True)
class VerificationWorktree:
    """The verification worktree of one project.

    Args:
        db: Holds its row.
        places: Says where a new one is made.
        slot: Its folder's name, and the end of its own.
    """

    db: Store
    places: WorktreeRoot
    repo: Git
    slot: str = "1"

    @property
    def name(self) -> str:
        """The name on its row: no name that a person or a session may give holds a colon."""
        return f"verify:{self.slot}"

    @property
    def path(self) -> Path:
        """Its folder: where it is, else where it will be made.

        Raises:
            Unsupported: There is none, and no place for one.
        """
        row = self._row()
        return Path(row["path"]) if row is not None else self._usual_path()

    @property
    def is_there(self) -> bool:
        """Whether it was made, and not removed since."""
        return self._row() is not None

    def lay_out(self, sha: str, now: datetime) -> LaidOut:
        """Make the worktree hold exactly the files of a commit, beside those git ignores, and prove that it does.

        One that is damaged is made again: nothing in it is anybody's work. Where something else stands in its place, that is
        left, and a fresh one made elsewhere. After a crash anywhere, the next call continues.

        Raises:
            PathReplaced: A link that stood there before any worktree leads elsewhere; it is not followed, and the row says so.
            GitFailed: It could not even be made again, or not whole.
            OSError: The damaged folder could not be removed.
        """
        usual, row = self._usual_path(), self._row()
        if row is not None and self.path != _at(usual, row):
            self.set_aside(None, now) if self._is_replaced() else self._leave(now)
        if self._row() is None:
            self.db.write(worktree_rows.create, self._new_row(sha, now))
        crash_point("verification.intended")
        self._forget_cleared(now)
        try:
            if self._is_replaced():
                self.set_aside(None, now)
            return self._reuse(sha) or self._create(sha)
        except PathReplaced as error:
            if isinstance(error, FolderLinked) and required(self._row())["folder_id"] is None:
                self._set(note=f"{error.message}\n{error.remedy}")
                raise
            self.set_aside(error, now)
            return self._reuse(sha) or self._create(sha)

    def set_aside(self, error: PathReplaced | None, now: datetime) -> str:
        """Leave what stands in its place, and the worktree wherever it was moved to; the next :meth:`lay_out` makes a fresh one.

        Args:
            error: Why it failed the proof; None: it is not the folder that was made.

        Returns:
            What became of it, for a person.
        """
        row, path = required(self._row()), self.path
        if error is not None and self._is_own_folder():  # only its .git was changed, and is made again
            self.db.write(self._record, path, None, error.message, now)
            return error.message
        stands, moved = self._standing(), self._moved_to(row["folder_id"])
        if stands is None and moved is None:
            what = f"{path} is gone"

            def forget_folder(conn: Connection) -> None:
                worktree_rows.transition(conn, row["worktree_id"], LIVE_WORKTREES, {"folder_id": None})
                self._record(conn, path, None, what, now)

            self.db.write(forget_folder)
            return what
        what = f"{stands} is now {worktree_identity.describe(stands)}" if stands else f"{path} is gone"
        what += f"; the worktree itself is kept as {moved}" if moved else ""
        places = [str(place) for place in (stands, moved) if place is not None]
        fresh = self._new_row(row["base_sha"], now)
        note = f"{what}. Verification goes on in {fresh['path']}.\nLook at it, and remove what you do not need: rm -r "
        values = {
            "name": f"{self.name}:{row['worktree_id'][:8]}",
            "path": str(moved if stands is None else path),
            "provision": {"left": places},
            "state": WorktreeState.READY,
            "note": note + " ".join(map(shlex.quote, places)),
        }

        def store(conn: Connection) -> None:
            worktree_rows.transition(conn, row["worktree_id"], LIVE_WORKTREES, values)
            worktree_rows.create(conn, fresh)
            self._record(conn, path, moved, what, now)

        self.db.write(store)
        crash_point("verification.set_aside")
        return what

    def folders(self) -> list[Path]:
        """Every folder in which one of its runs may have left processes: the present one, and those that were set aside."""
        return [Path(row["path"]) for row in self._rows()]

    def prove(self) -> Git:
        """The checkout, if it is provably Corral's; call it right before each effect.

        Raises:
            PathReplaced: It is not.
        """
        return worktree_identity.prove(self.repo, self._recorded())

    def make_writable(self) -> None:
        """Make every folder in it writable: a module cache, say, is read-only, and could never be removed.

        Raises:
            PathReplaced: Something else stands there.
            OSError: One is not ours to give.
        """
        worktree_identity.prove_folder(self._recorded())
        worktrees.make_writable(self.path)

    def retire(self, now: datetime) -> None:
        """Remove it with all that is in it, which is nobody's work: Corral is leaving the repository, or wants a fresh one.

        Raises:
            CorralError: It could not be removed.
            OSError: A folder in it is not ours to remove.
        """
        if self._row() is None:
            return
        self._set(state=WorktreeState.RECLAIMING)
        if required(self._row())["folder_id"] is not None and os.path.lexists(self.path):
            worktrees.discard(self.repo, self._recorded())
        else:
            worktrees.repair(self.repo, self.path, None, self._prove_remains, keeps=False)
        self._set(state=WorktreeState.REMOVED, removed_at=iso(now), note=None)

    # -- its row

    def _row(self) -> WorktreeRow | None:
        with self.db.reading() as conn:
            return worktree_rows.live_by_name(conn, self.name)

    def _rows(self) -> list[WorktreeRow]:
        """Its row, and those of worktrees of its that were set aside."""
        with self.db.reading() as conn:
            rows = worktree_rows.listing(conn, purposes=(WorktreePurpose.VERIFY,))
        return [row for row in rows if row["name"] == self.name or row["name"].startswith(f"{self.name}:")]

    def _set(self, **values: Any) -> None:
        row = self._row()
        if row is not None:
            self.db.write(worktree_rows.transition, row["worktree_id"], LIVE_WORKTREES, values)

    def _usual_path(self) -> Path:
        return self.places.choose().path / self.places.verification / self.slot

    def _leave(self, now: datetime) -> None:
        """Remove the one at a former place: nothing in it is anybody's work. What took its place there stays as it is."""
        former = self.path
        try:
            worktrees.discard(self.repo, self._recorded())
            note = None
        except PathReplaced as error:
            note = error.message
        self._set(state=WorktreeState.REMOVED, removed_at=iso(now), note=note)
        with contextlib.suppress(OSError):  # empty now, unless another verification worktree is in it
            former.parent.rmdir()
        self.places.leave(former.parent.parent)

    def _new_row(self, sha: str, now: datetime) -> Columns:
        place, path = self._free_place()
        return {
            "worktree_id": new_id(),
            "name": self.name,
            "path": str(path),
            "branch": None,
            "base_sha": sha,
            "purpose": WorktreePurpose.VERIFY,
            "state": WorktreeState.ALLOCATING,
            "provision": {"place": place},
            "created_at": iso(now),
        }

    def _record(self, conn: Connection, path: Path, moved: Path | None, reason: str, now: datetime) -> None:
        moved_to = str(moved) if moved is not None else None
        replaced = EventKind.WORKTREE_REPLACED(
            {"worktree": self.name, "path": str(path), "kept": moved_to, "reason": reason}
        )
        events.record(conn, now, replaced)

    def _recorded(self) -> OwnWorktree:
        row = self._row()
        if row is None:
            raise NotFound("There is no verification worktree.", cause="It is made for the first verification.")
        path = Path(row["path"])
        return OwnWorktree(path, self._top(path), row["folder_id"], None)

    def _top(self, path: Path) -> Path:
        top = self.places.top_of(path)
        return top if path.is_relative_to(top) else path.parent.parent

    def _prove_remains(self) -> None:
        worktree_identity.prove_remains(self.repo, self._recorded())

    # -- its place

    def _is_own_folder(self) -> bool:
        try:
            worktree_identity.prove_folder(self._recorded())
        except PathReplaced:
            return False
        return True

    def _is_replaced(self) -> bool:
        """Whether the folder that was made is not where it was, and either it or something else can be shown."""
        folder_id = required(self._row())["folder_id"]
        if folder_id is None or self._is_own_folder():
            return False
        return self._standing() is not None or self._moved_to(folder_id) is not None

    def _standing(self) -> Path | None:
        """What stands in its place: a link on the way there, or whatever is at its path; None: nothing."""
        path = self.path
        standing = next((place for place in (path.parent.parent, path.parent, path) if place.is_symlink()), path)
        return standing if os.path.lexists(standing) else None

    def _moved_to(self, folder_id: str | None) -> Path | None:
        """Where the folder is now, if that is near: beside its place, or the same below a folder that was renamed."""
        path, inode = self.path, (folder_id or "").rpartition(":")[2]
        near = itertools.chain(
            _children(path.parent),
            (beside / path.name for beside in _children(path.parent.parent)),
            (beside / path.parent.name / path.name for beside in _children(path.parent.parent.parent)),
        )
        for place in near:
            with contextlib.suppress(OSError):
                if inode and place != path and not place.is_symlink() and str(place.lstat().st_ino) == inode:
                    return place
        return None

    def _free_place(self) -> tuple[str, Path]:
        """The first free place, and how it is named from the usual one: that, one beside it, or one beside a link on the way."""
        usual, folders = self._usual_path(), set(self.folders())
        if (
            usual.parent.is_symlink() and not folders
        ):  # it was there before Corral: it is a person's, so do not go around it
            return usual.name, usual
        for number in itertools.count(1):
            more = f"-{number}" if number > 1 else ""
            place = f"../{usual.parent.name}{more}/{usual.name}" if usual.parent.is_symlink() else f"{usual.name}{more}"
            path = Path(os.path.normpath(usual.parent / place))
            above = path.parent
            is_open = not above.is_symlink() and (above.is_dir() or not above.exists())
            if is_open and path not in folders and not os.path.lexists(path):
                return place, path
        raise AssertionError("unreachable")

    def _forget_cleared(self, now: datetime) -> None:
        """End the rows of former worktrees of which a person has removed all that was left."""
        for row in self._rows():
            places = row["provision"].get("left")
            if places and not any(map(os.path.lexists, places)):
                self._forget(row["worktree_id"], Path(row["path"]), now)

    def _forget(self, worktree_id: str, path: Path, now: datetime) -> None:
        if not os.path.lexists(path):  # its entry is left, which names the place where it was
            worktrees.repair(self.repo, path, None, keeps=False)
        values = {"state": WorktreeState.REMOVED, "removed_at": iso(now), "note": None}
        self.db.write(worktree_rows.transition, worktree_id, LIVE_WORKTREES, values)

    # -- its folder

    def _reuse(self, sha: str) -> LaidOut | None:
        """The worktree that stands there, at ``sha``; None if there is none any more: one that is damaged is removed."""
        try:
            if worktrees.repair(self.repo, self.path, None, self._prove_remains, keeps=False):
                return self._check_out(sha)
        except CorralError as error:  # a run may have made its .git name somebody's checkout, which is not followed
            try:
                worktrees.discard(self.repo, self._recorded())
            except PathReplaced:
                raise error from None
        return None

    def _check_out(self, sha: str) -> LaidOut:
        files = whole.lay_out(self.prove, sha)
        row = self._row()
        if row is not None and (row["state"] != WorktreeState.READY or row["note"]):
            self._set(state=WorktreeState.READY, note=None)
        self.prove()
        return LaidOut(self, self.path, sha, files)

    def _create(self, sha: str) -> LaidOut:
        self._make_folder(self.path)
        worktrees.add_detached(self.repo, self.path, sha, self._make_folder)
        crash_point("verification.added")
        return self._check_out(sha)

    def _make_folder(self, path: Path) -> None:
        self._set(state=WorktreeState.ALLOCATING, path=str(path), folder_id=None)
        self.places.establish(path)
        folder_id = worktree_identity.make_folder(path, self._top(path))
        crash_point("verification.folder_made")
        self._set(folder_id=folder_id)


def folders(db: Store) -> list[Path]:
    """Every folder of whichever slot in which a run may have left processes."""
    with db.reading() as conn:
        return [Path(row["path"]) for row in worktree_rows.listing(conn, purposes=(WorktreePurpose.VERIFY,))]


def retire_all(db: Store, places: WorktreeRoot, repo: Git, now: datetime) -> None:
    """Remove the verification worktrees of all slots, as :meth:`VerificationWorktree.retire` does."""
    with db.reading() as conn:
        rows = worktree_rows.listing(conn, purposes=(WorktreePurpose.VERIFY,))
    for slot in sorted({row["name"].split(":")[1] for row in rows}):
        VerificationWorktree(db, places, repo, slot).retire(now)


@dataclass(frozen=True)
class LaidOut:
    """The verification worktree as it was laid out for a run.

    Attributes:
        path: Its folder then.
        sha: The commit.
        files: What git wrote.
    """

    worktree: VerificationWorktree
    path: Path
    sha: str
    files: Whole

    def what_changed(self, now: datetime) -> tuple[str, bool] | None:
        """How the worktree has changed, as a predicate of the command that ran, and whether the command may be why; or None.

        What took its place is left aside (:meth:`VerificationWorktree.set_aside`).
        """
        try:
            checkout = self.worktree.prove()
            if self.worktree.path != self.path:
                return "lost its worktree", True
        except PathReplaced as error:
            return f"lost its worktree: {self.worktree.set_aside(error, now)}", True
        try:
            if checkout.head() != self.sha or checkout.branch() is not None:
                return "moved the HEAD of the verification worktree", True
            paths = self.files.changed()
            words = whole.attributes(checkout, paths[:5]) if paths else {}
        except CorralError as error:
            if not blame.may_be_the_changes(error):
                return f"left a worktree that could not be looked at ({error.message})", False
            return f"damaged the verification worktree ({error.message})", True
        listing = [f"{path} [{words[path]}]" if path in words else path for path in paths[:5]]
        return (f"changed tracked files ({', '.join(listing)})", True) if paths else None

    def remark(self) -> str:
        """A line for the log about files that git calls changed although they are as it wrote them; empty: there are none."""
        paths = sorted(self.files.converted)
        if not paths:
            return ""
        listing = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
        return (
            f"corral: git calls {listing} changed as soon as it has written them, since their attributes or filters do not "
            "round-trip. They are compared with what it wrote. To end that: git add --renormalize . && git commit\n"
        )


def _at(usual: Path, row: WorktreeRow) -> Path:
    """The path of a row's place, named from the usual one, whatever stands there."""
    return Path(os.path.normpath(usual.parent / row["provision"].get("place", usual.name)))


def _children(folder: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted(folder.iterdir())
