"""The verification worktree: Corral's alone, detached, and warm: what was brought for it stays from one run to the next.

It has a row of its own kind, a name that cannot be asked for, and a place of this project alone that no worktree's name leads
to. It is proven to be Corral's right before anything in it is reset or cleaned; what else stands there is left alone.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from corral.config.links import VERIFY
from corral.config.paths import Project
from corral.errors import CorralError, NotFound, PathReplaced
from corral.git.checkouts import identity as worktree_identity
from corral.git.checkouts import repointing, salvage, worktrees
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

FORMER_NAME = "verify-1"
"""The folder that earlier versions used, below ``worktrees.root`` among everybody's, and without a row."""

_KEPT = "corral-kept.json"
"""A file that only a verification worktree has in its git directory (:mod:`corral.work.worktrees.residue`)."""


def folder_of(project: Project, slot: str = "1") -> Path:
    """The folder of a verification worktree."""
    return project.home / VERIFY / slot


@dataclass(frozen=True)
class VerificationWorktree:
    """The verification worktree of one project.

    Args:
        db: Holds its row.
        project: Says where it lies.
        slot: Its folder's name, and the end of its own.
    """

    db: Store
    project: Project
    repo: Git
    slot: str = "1"

    @property
    def name(self) -> str:
        """The name on its row: no name that a person or a session may give holds a colon."""
        return f"verify:{self.slot}"

    @property
    def path(self) -> Path:
        """Its folder."""
        return folder_of(self.project, self.slot)

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
        if self._row() is None:
            self.db.write(lambda conn: worktree_rows.create(conn, self._new_row(sha, now)))
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
        self._prove_folder()
        make_writable(self.path)

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

    def _new_row(self, sha: str, now: datetime) -> Columns:
        return {
            "worktree_id": new_id(),
            "name": self.name,
            "path": str(self.path),
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
        return OwnWorktree(self.path, self.project.root, row["folder_id"], None)

    def _prove_remains(self) -> None:
        worktree_identity.prove_remains(self.repo, self._recorded())

    def _prove_folder(self) -> None:
        worktree_identity.prove_folder(self._recorded())

    # -- its folder

    def _pointed(self, sha: str) -> Git | None:
        """The worktree that stands there, at ``sha``; None if there is none any more: one that is damaged is removed."""
        try:
            if worktrees.repair(self.repo, self.path, None, self._prove_remains, keeps=False):
                return self._point(sha)
        except CorralError as error:  # a run may have made its .git name somebody's checkout, which is not followed
            try:
                self._discard()
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
        made = worktree_identity.make_folder(path, self.project.root)
        crash_point("verification.folder_made")
        self._set(folder_id=made)

    def _discard(self) -> None:
        """Remove what is there. Its folder goes last: half removed, it is still the recorded one."""
        self.make_writable()
        for entry in sorted(self.path.iterdir(), key=lambda entry: entry.name == ".git"):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        worktrees.repair(self.repo, self.path, None, self._prove_folder, keeps=False)


def retire_former(repo: Git, root: Path, live: set[str], now: datetime) -> str | None:
    """Remove the verification worktree of an earlier version, if it provably is one: what it holds is salvaged first.

    Args:
        root: The folder of allocated worktrees, where it lay.
        live: Names of the worktrees that have a row: one called so is somebody's.

    Returns:
        Why it stays; None if it is gone, or there is none of this repository.
    """
    path = root / FORMER_NAME
    if FORMER_NAME in live or not path.is_dir() or path.is_symlink():
        return None
    own = OwnWorktree(path, root, None, None)
    try:
        checkout = worktree_identity.prove(repo, own)
        if not (checkout.git_dir / _KEPT).is_file():
            return None
        saved = salvage.snapshot(
            checkout, FORMER_NAME, now, reason="verification worktree of an earlier version", always=True
        )
        if saved is not None:
            worktrees.remove_salvaged(repo, path, saved, check=lambda: worktree_identity.prove(repo, own))
    except PathReplaced:  # a person's, or another project's
        return None
    except (CorralError, OSError) as error:
        return str(error)
    return None


def make_writable(path: Path) -> None:
    """Give ourselves every folder below ``path``, and itself.

    Raises:
        OSError: One is not ours to give.
    """
    path.chmod(path.stat().st_mode | stat.S_IRWXU)
    for parent, folders, _files in os.walk(path):
        for folder in folders:
            found = os.lstat(os.path.join(parent, folder)).st_mode  # noqa: PTH118 - there are many
            if stat.S_ISDIR(found) and found & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(os.path.join(parent, folder), stat.S_IMODE(found) | stat.S_IRWXU)  # noqa: PTH101, PTH118
