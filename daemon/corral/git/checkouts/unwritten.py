"""What a power cut leaves of git's objects and refs: files without content.

Git takes such an object for written: whoever makes it again does not write it. What names one cannot be read, and fails every
command about all refs.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from corral.git import refs
from corral.git.checkouts import head_log, status
from corral.git.process.command import Git

_ASIDE = ".corral-empty"
_OBJECT = re.compile(rf"(?:[0-9a-f]{{38}}|[0-9a-f]{{62}})(?:{re.escape(_ASIDE)})?")
"""The name of an object's file in its folder. What a git is writing there has another one, and may be empty yet."""


def set_aside(repo: Git) -> list[Path]:
    """Rename the objects without content, so that git knows that it lacks them.

    No git creates one: it writes an object under another name, and then renames it.

    Returns:
        What was renamed, now or by a process that was killed before it removed it. Empty: there was no power cut.

    Raises:
        OSError: A folder of the objects cannot be read or written.
    """
    files = []
    for folder in (repo.common_dir / "objects").glob("[0-9a-f][0-9a-f]"):
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):  # collected meanwhile
                if _OBJECT.fullmatch(entry.name) and entry.stat(follow_symlinks=False).st_size == 0:
                    files.append(Path(entry.path))
    return [file if file.name.endswith(_ASIDE) else file.rename(f"{file}{_ASIDE}") for file in files]


def is_empty(git: Git, ref: str) -> bool:
    """Whether a ref has a file without content, which git can neither read nor write; it never creates one."""
    try:
        return (git.common_dir / ref).stat().st_size == 0
    except OSError:
        return False


def step_back(git: Git, ref: str, base: str) -> str | None:
    """Put a branch, or a checkout's own HEAD, whose commit lacks objects on its last one that is whole; no file changes.

    Args:
        ref: A full ref, or ``HEAD``.
        base: The commit that it began at, the last resort.

    Returns:
        The commit that it is on then; None: it is whole.

    Raises:
        GitFailed: Git refused.
    """
    if ref != "HEAD" and is_empty(git, ref):
        (git.common_dir / ref).unlink(missing_ok=True)
    else:
        sha = git.head() if ref == "HEAD" else refs.read(git, ref)
        if sha is None or _is_whole(git, sha, base):
            return None
    before = (step.sha for step in reversed(head_log.steps(git, ref)))
    whole = next((sha for sha in before if _is_whole(git, sha, base)), base)
    git.must("update-ref", "--no-deref", "-m", "corral: after a power cut", ref, whole)
    return whole


def renew_index(checkout: Git) -> None:
    """Make the index of a checkout anew from HEAD, if it is not whole or names objects that are not there; no file changes.

    Raises:
        GitFailed: Git refused.
    """
    with status.copied_index(checkout) as index:
        staged = checkout.run("write-tree", index_file=index)
    if not staged.ok and "unmerged" not in staged.stderr:
        (checkout.git_dir / "index").unlink(missing_ok=True)
        checkout.must("read-tree", "HEAD")


def _is_whole(git: Git, sha: str, base: str) -> bool:
    return git.run("rev-list", "--objects", "--quiet", refs.oid(sha), "--not", refs.oid(base), timeout_s=600).ok
