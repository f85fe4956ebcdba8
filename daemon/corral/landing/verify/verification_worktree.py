"""The verification worktree: Corral's alone, detached, and warm: what was brought for it stays from one run to the next.

It has a row of its own kind, a name that cannot be asked for, and a folder that no other worktree may be called by. It is proven
to be Corral's right before anything in it is reset or cleaned; what else stands there is left alone.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from corral.config.worktree_root import WorktreeRoot
from corral.errors import CorralError, NotFound, PathReplaced
from corral.git.checkouts import discarding, repointing, worktrees
from corral.git.checkouts import identity as worktree_identity
from corral.git.checkouts.identity import OwnWorktree
from corral.git.process.command import Git
from corral.models.crash import crash_point
from corral.models.identifiers import new_id
from corral.models.instants import iso
from corral.models.states import LIVE_WORKTREES, WorktreePurpose, WorktreeState
from corral.store.protocol import Store
from corral.store.rows import Columns
from corral.store.rows.tasks import WorktreeRow
from corral.store.tasks import worktrees as worktree_rows


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
        return Path(row["path"]) if row is not None else self._wanted()

    @property
    def is_there(self) -> bool:
        """Whether it was made, and not removed since."""
        return self._row() is not None

    def lay_out(self, sha: str, now: datetime) -> Git:
        """Make the worktree hold exactly the files of a commit, beside those git ignores.

        One that is damaged is made again: nothing in it is anybody's work. After a crash anywhere, the next call continues.

        Returns:
            The checkout, detached at ``sha``.

        Raises:
            PathReplaced: Something else stands there; it is not touched, and the row says what.
            GitFailed: It could not even be made again.
            OSError: The damaged folder could not be removed.
        """
        wanted = self._wanted()
        if self._row() is not None and self.path != wanted:
            self._leave(now)
        if self._row() is None:
            self.db.write(lambda conn: worktree_rows.create(conn, self._new_row(wanted, sha, now)))
        crash_point("verification.intended")
        try:
            return self._pointed(sha) or self._made(sha)
        except PathReplaced as error:
            self._set(note=f"{error.message}\n{error.remedy}")
            raise

    def prove(self) -> Git:
        """The checkout, if it is provably Corral's; call it right before each effect.

        Raises:
            PathReplaced: It is not.
        """
        return worktree_identity.prove(self.repo, self._recorded())

    def make_writable(self) -> None:
        """Give ourselves every folder in it: a module cache, say, is left read-only, and could never be removed.

        Raises:
            PathReplaced: Something else stands there.
            OSError: One is not ours to give.
        """
        worktree_identity.prove_folder(self._recorded())
        discarding.make_writable(self.path)

    def retire(self, sha: str, now: datetime) -> None:
        """Remove it: Corral is leaving the repository.

        Args:
            sha: A commit that a ref holds; the worktree is put there first, so that git can see that nothing is lost.

        Raises:
            CorralError: It could not be removed.
        """
        if self._row() is None:
            return
        self._set(state=WorktreeState.RECLAIMING)
        if os.path.lexists(self.path):
            self.lay_out(sha, now)
            worktrees.remove(self.repo, self.path, self.prove)
        else:
            worktrees.repair(self.repo, self.path, None, self._prove_remains, keeps=False)
        self._set(state=WorktreeState.REMOVED, removed_at=iso(now), note=None)

    # -- its row

    def _row(self) -> WorktreeRow | None:
        return self.db.read(lambda conn: worktree_rows.live_by_name(conn, self.name))

    def _set(self, **values: Any) -> None:
        row = self._row()
        if row is not None:
            self.db.write(lambda conn: worktree_rows.transition(conn, row["worktree_id"], LIVE_WORKTREES, values))

    def _wanted(self) -> Path:
        return self.places.choose().path / self.places.verification / self.slot

    def _leave(self, now: datetime) -> None:
        """Remove the one at a former place: nothing in it is anybody's work. What took its place there stays as it is."""
        former = self.path
        try:
            discarding.discard(self.repo, self._recorded())
            note = None
        except PathReplaced as error:
            note = error.message
        self._set(state=WorktreeState.REMOVED, removed_at=iso(now), note=note)
        with contextlib.suppress(OSError):  # empty now, unless another verification worktree is in it
            former.parent.rmdir()
        self.places.leave(former.parent.parent)

    def _new_row(self, path: Path, sha: str, now: datetime) -> Columns:
        return {
            "worktree_id": new_id(),
            "name": self.name,
            "path": str(path),
            "branch": None,
            "base_sha": sha,
            "purpose": WorktreePurpose.VERIFY,
            "state": WorktreeState.ALLOCATING,
            "provision": {},
            "created_at": iso(now),
        }

    def _recorded(self) -> OwnWorktree:
        row = self._row()
        if row is None:
            raise NotFound("There is no verification worktree.")
        path = Path(row["path"])
        return OwnWorktree(path, self._top(path), row["folder_id"], None)

    def _top(self, path: Path) -> Path:
        top = self.places.top_of(path)
        return top if path.is_relative_to(top) else path.parent.parent

    def _prove_remains(self) -> None:
        worktree_identity.prove_remains(self.repo, self._recorded())

    # -- its folder

    def _pointed(self, sha: str) -> Git | None:
        """The worktree that stands there, at ``sha``; None if there is none any more: one that is damaged is removed."""
        try:
            if worktrees.repair(self.repo, self.path, None, self._prove_remains, keeps=False):
                return self._point(sha)
        except CorralError as error:  # a run may have made its .git name somebody's checkout, which is not followed
            try:
                discarding.discard(self.repo, self._recorded())
            except PathReplaced:
                raise error from None
        return None

    def _point(self, sha: str) -> Git:
        # A verification that was killed may have left git's lock here; nobody else works in this worktree.
        (self.prove().git_dir / "index.lock").unlink(missing_ok=True)
        repointing.lay_out(self.prove, sha)
        row = self._row()
        if row is not None and (row["state"] != WorktreeState.READY or row["note"]):
            self._set(state=WorktreeState.READY, note=None)
        return self.prove()

    def _made(self, sha: str) -> Git:
        self._make_folder(self.path)
        worktrees.add_detached(self.repo, self.path, sha, self._make_folder)
        crash_point("verification.added")
        return self._point(sha)

    def _make_folder(self, path: Path) -> None:
        self._set(state=WorktreeState.ALLOCATING, path=str(path), folder_id=None)
        self.places.establish(path)
        made = worktree_identity.make_folder(path, self._top(path))
        crash_point("verification.folder_made")
        self._set(folder_id=made)
