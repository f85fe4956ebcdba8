"""The list of a repository's worktrees: read, and locked while one of ours changes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from corral.git.process.command import Git, Result

_LOCK_WAIT_S = 120.0
_ATTEMPTS = 10


@dataclass(frozen=True)
class Entry:
    """A worktree as git lists it; ``branch`` is a full ref, ``locked`` the reason (maybe ``""``), None: not locked."""

    path: Path
    head: str | None
    branch: str | None
    locked: str | None
    prunable: bool
    bare: bool


def entries(repo: Git) -> list[Entry]:
    """All worktrees, the main one (or the bare repository) first."""
    text = _list(repo).text
    found = []
    for block in text.split("\0\0"):
        fields = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        if fields:
            head = fields.get("HEAD", "")
            found.append(
                Entry(
                    path=Path(fields["worktree"]),
                    head=head if head.strip("0") else None,
                    branch=fields.get("branch"),
                    locked=fields.get("locked"),
                    prunable="prunable" in fields,
                    bare="bare" in fields,
                )
            )
    if found and found[0].path == repo.common_dir and not found[0].bare:
        # A submodule, or --separate-git-dir: git names the git directory where the main checkout lies elsewhere.
        found[0] = replace(found[0], path=work_tree_of(repo, repo.common_dir) or found[0].path)
    return found


def _list(repo: Git) -> Result:
    result = repo.run("worktree", "list", "--porcelain", "-z")
    for _ in range(_ATTEMPTS):
        if result.ok:
            break
        with list_lock(repo):  # git gives up on an entry that is just being written
            result = repo.run("worktree", "list", "--porcelain", "-z")
    if not result.ok:
        raise result.failure()
    return result


def holding(repo: Git, ref: str) -> list[Entry]:
    """The worktrees that have a branch checked out, but for those that are another repository's.

    A folder that is gone is among them: whether it was deleted or moved away, and comes back, nobody can tell.
    """
    found = [entry for entry in entries(repo) if entry.branch == ref and not _is_foreign(repo, entry)]
    main = Git(repo.common_dir, repo.common_dir.parent)
    # A `core.bare` that was flipped by accident hides the user's checkout from git, but not from us.
    if repo.common_dir.name == ".git" and (repo.common_dir / "index").exists() and main.branch() == ref:
        here = Entry(repo.common_dir.parent, main.head(), ref, None, False, False)
        found = [here, *(entry for entry in found if entry.path.resolve() != here.path.resolve())]
    return found


def _is_foreign(repo: Git, entry: Entry) -> bool:
    """Whether the folder is a worktree of another repository, as with entries that came here with a copied git directory."""
    whole = entry.path / ".git"
    named = whole if whole.is_dir() else named_entry(entry.path)
    if named is None or not (named / "HEAD").is_file():
        return False
    return repo.common_dir.resolve() not in (named.resolve(), named.parent.parent.resolve())


def named_entry(folder: Path) -> Path | None:
    """The git directory that the ``.git`` file of a linked worktree's folder names; None where there is no such file."""
    try:
        kind, _, named = (folder / ".git").read_text(errors="surrogateescape").rstrip("\n").partition("gitdir: ")
    except OSError:
        return None
    return Path(os.path.normpath(folder / named)) if named and not kind else None


def checkout_of(repo: Git, full_ref: str) -> Path | None:
    """The top of the worktree that has this branch checked out."""
    found = holding(repo, full_ref)
    return found[0].path if found else None


def admin_dirs(repo: Git) -> list[Path]:
    """The git directories of all worktrees: the common one, and one for each linked worktree."""
    return [repo.common_dir, *sorted((repo.common_dir / "worktrees").glob("*"))]


def folder_of(admin: Path) -> Path:
    """The folder that a git directory from :func:`admin_dirs` belongs to."""
    try:
        text = (admin / "gitdir").read_text(errors="surrogateescape").rstrip("\n")
    except OSError:
        return admin.parent if admin.name == ".git" else admin
    return Path(os.path.normpath(admin / text)).parent


def work_tree_of(repo: Git, admin: Path) -> Path | None:
    """The top of the checkout that a git directory from :func:`admin_dirs` belongs to; None: it has none."""
    if admin != repo.common_dir:
        return folder_of(admin)
    named = repo.run("config", "--get", "core.worktree").text.rstrip("\n")
    if named:
        return Path(os.path.normpath(admin / named))
    return admin.parent if admin.name == ".git" else None


@contextmanager
def list_lock(repo: Git) -> Iterator[None]:
    """Hold the list of worktrees: against other threads and processes of ours, not against somebody's git."""
    import portalocker  # a twentieth of a daemon's start, and few of them make a worktree

    # portalocker polls; the holder only ever does milliseconds of work, but for the removal of a large worktree.
    with portalocker.Lock(
        repo.common_dir / "corral.worktrees",
        mode="a",
        timeout=_LOCK_WAIT_S,
        check_interval=0.005,
        fail_when_locked=False,
    ):
        yield
