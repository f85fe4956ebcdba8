"""Undo a fast-forward that failed half-way in a checkout.

Git writes the files, then the index (a copy: ``forward``), then the ref, and undoes nothing when a folder is read-only,
the disk is full or it is killed. A note beside the index records which of the paths were changed by the user before; it
survives a crash. Only content that is byte for byte the commit's (or a beginning of it) counts as git's: nothing that
exists nowhere else is deleted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from corral.core import files
from corral.git import refs
from corral.git.checkouts import status
from corral.git.process.command import Git
from corral.git.refs import RawChange

_NOTE = "corral.landing"
_GITLINK = "160000"
ABSENT = "000000"


@dataclass(frozen=True)
class Note:
    """A fast-forward from ``old_sha`` (``""``: no commit yet); ``users`` are the paths with the user's own changes."""

    old_sha: str
    new_sha: str
    users: list[str]

    def steps(self, checkout: Git) -> list[RawChange]:
        """The changes, except those on the user's paths."""
        users = set(self.users)
        return [step for step in _steps(checkout, self.old_sha, self.new_sha) if step.path not in users]

    def has_arrived(self, checkout: Git) -> bool:
        """Whether the checkout's HEAD has the commit."""
        head = checkout.head()
        return bool(head and refs.is_ancestor(checkout, self.new_sha, head))

    def __str__(self) -> str:
        return "\0".join((self.old_sha, self.new_sha, *self.users))


def parse(text: str) -> Note:
    """Parse a note."""
    old_sha, new_sha, *users = text.split("\0")
    return Note(old_sha, new_sha, users)


def write_note(checkout: Git, old_sha: str, new_sha: str) -> Note:
    """Record, before a fast-forward, which of its paths have the user's own changes.

    Raises:
        OSError: The note cannot be written.
    """
    dirty = {change.path for change in status.changes(checkout, untracked=False)}
    users = [
        step.path
        for step in _steps(checkout, old_sha, new_sha)
        if step.path in dirty or (step.old_mode == ABSENT and is_file(checkout.top / step.path))
    ]
    note = Note(old_sha, new_sha, users)
    files.replace(checkout.git_dir / _NOTE, os.fsencode(str(note)), durable=True)
    return note


def read_note(checkout: Git) -> Note | None:
    """The recorded fast-forward of a checkout that neither arrived nor was undone."""
    try:
        return parse(os.fsdecode((checkout.git_dir / _NOTE).read_bytes()))
    except FileNotFoundError:
        return None


def note_time(checkout: Git) -> float:
    """When the note was written, in seconds of the file system's clock: its git was started later."""
    return (checkout.git_dir / _NOTE).stat().st_mtime


def delete_note(checkout: Git) -> None:
    """Delete the note: the fast-forward has arrived, or was undone."""
    (checkout.git_dir / _NOTE).unlink(missing_ok=True)


def restore_files(checkout: Git, note: Note) -> list[str]:
    """Restore the files that a recorded fast-forward changed, if it did not arrive.

    Returns:
        Paths that could not be restored yet. Empty: the checkout is as it was before.

    Raises:
        GitFailed: The state is unknown.
    """
    collected = checkout.run("cat-file", "-e", note.new_sha).rc == 1
    return [] if collected or note.has_arrived(checkout) else _write_back(checkout, note.new_sha, note.steps(checkout))


def _write_back(checkout: Git, new_sha: str, steps: Sequence[RawChange]) -> list[str]:
    tracked = set(checkout.check("ls-files", "-z").names)
    differs = _unstaged(checkout)
    # All are compared before any changes: the comparison may depend on a .gitattributes file among them.
    added = [
        step.path
        for step in steps
        if step.path not in tracked and step.new_mode != ABSENT and is_commits(checkout, new_sha, step)
    ]
    changed = [
        step.path
        for step in steps
        if step.path in tracked & differs
        and (not is_file(checkout.top / step.path) or is_commits(checkout, new_sha, step))
    ]
    stuck = [path for path in added if not _remove(checkout.top, path)]
    changed = [path for path in changed if _is_free(checkout.top, path)]
    if changed and not checkout.run(
        "checkout-index", "--force", "-z", "--stdin", input=os.fsencode("".join(f"{path}\0" for path in changed)),
        timeout_s=600,
    ).ok:  # fmt: skip
        stuck += _unstaged(checkout).intersection(changed)
    return sorted(stuck)


def _unstaged(checkout: Git) -> set[str]:
    """Paths whose index entry is HEAD's, but whose file is not."""
    return {change.path for change in status.changes(checkout, untracked=False) if change.code[0] == "."}


def is_commits(checkout: Git, new_sha: str, step: RawChange) -> bool:
    """Whether git wrote the content of a path from the commit, as a whole or up to where git was stopped."""
    place = checkout.top / step.path
    if not is_file(place) or step.new_mode == ABSENT:
        return False
    if step.new_mode == "120000":
        blob = checkout.check("cat-file", "blob", step.new_blob).stdout
        return place.is_symlink() and os.fsencode(os.readlink(place)) == blob  # noqa: PTH115 (a Path drops `./`)
    if place.is_symlink() or not place.is_file():  # reading a pipe would block
        return False
    whole = checkout.run("cat-file", "--filters", f"{new_sha}:{step.path}", timeout_s=600)
    if whole.ok:
        return whole.stdout.startswith(place.read_bytes())
    # The smudge filter may be what failed; the clean filter needs no network.
    cleaned = checkout.run("hash-object", f"--path={step.path}", "--", step.path, timeout_s=600)
    return cleaned.text.strip() == step.new_blob


def _remove(top: Path, path: str) -> bool:
    place = top / path
    try:
        place.unlink(missing_ok=True)
    except OSError:
        return False
    with suppress(OSError):  # the first folder that is not empty
        for folder in place.parents:
            if folder == top:
                break
            folder.rmdir()
    return True


def _is_free(top: Path, path: str) -> bool:
    """Whether ``checkout-index --force`` would replace nothing at or above a path except the file itself."""
    place = top / path
    above = [folder for folder in place.parents if top in folder.parents]
    return (is_file(place) or not os.path.lexists(place)) and not any(is_file(folder) for folder in above)


def is_file(place: Path) -> bool:
    """Whether something other than a folder is there."""
    return os.path.lexists(place) and (place.is_symlink() or not place.is_dir())


def _steps(checkout: Git, old_sha: str, new_sha: str) -> list[RawChange]:
    changes = refs.raw_changes(checkout, old_sha or refs.empty_tree(new_sha), new_sha)
    # Git does not move submodules with the other files.
    return [step for step in changes if _GITLINK not in (step.old_mode, step.new_mode)]
