"""Check that a repository and Corral's files in it are this user's own. Standard library only.

The owner of a repository decides what runs in it: git's configuration names programs, Corral's database names tasks. So
another user's files are refused before they are read, by git's rule (``ensure_valid_ownership`` in its setup.c): the
owner is this user or, for root, the user who called sudo; ``safe.directory`` in the user's or the system's git
configuration makes an exception, never one in the repository's own. The database and ``run/`` must be this user's own
even then.

git checks this for a repository that it finds, but not for one given with ``--git-dir``, as Corral does.
``hooks/hook.py`` and ``hooks/ownership.py`` follow the same rule without importing this module.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from corral.core import files
from corral.core.errors import DubiousOwnership

PRIVATE = ("run", "corral.db")
"""Prefixes of names in ``.corral`` that must be this user's own even where ``safe.directory`` allows the rest."""
TRUSTED_SCOPES = ("system", "global", "command")
"""The scopes where git honours ``safe.directory``: not a repository or a worktree."""


def is_own(uid: int) -> bool:
    """Whether a user id is this user's: the effective one, or for root that of the user who called sudo."""
    me = os.geteuid()
    return uid == me or (me == 0 and str(uid) == os.environ.get("SUDO_UID"))


def is_foreign(path: str) -> bool:
    """Whether another user owns a path, or its link target. A missing path has no owner."""
    try:
        return any(not is_own(uid) for uid in _owners(path))
    except OSError:
        return False  # this user cannot read or run an inaccessible file either


def require_repository(directory: Path, parts: Iterable[Path]) -> None:
    """Require that a repository is this user's own, or covered by ``safe.directory``.

    Args:
        directory: Git's name for it: the top of a checkout, else the git directory. It is checked as well.
        parts: Its ``.git`` and its git directories.

    Raises:
        DubiousOwnership: Another user owns it.
    """
    # The folder may be named by somebody else's link, as /home is on some machines: "/." checks the link's target.
    for path in (f"{directory}/.", *map(os.fspath, parts)):
        if is_foreign(path) and not is_safe(directory):
            raise DubiousOwnership(
                f"detected dubious ownership in repository at '{_shown(directory)}'",
                cause=f"{_describe_owner(path)} The owner of a repository decides what runs in it, as you.",
                remedy=f"If you trust them: git config --global --add safe.directory {_quoted(directory)}",
            )


def require_files(directory: Path, home: Path, database: Path) -> None:
    """Require that ``.corral`` and everything directly in it is this user's own.

    Args:
        directory: Git's name for the repository: ``safe.directory`` covers ``home`` with it, except private files.
        home: Its ``.corral`` folder; it may be missing.
        database: Its database, in ``home`` or in its own folder.

    Raises:
        DubiousOwnership: Another user owns part of it.
    """
    try:
        names = os.listdir(home)  # noqa: PTH208
    except OSError:  # missing, or unreadable
        names = []
    elsewhere = () if database.parent == home else (os.fspath(database.parent), os.fspath(database))
    for path in (*elsewhere, os.fspath(home), *(f"{home}/{name}" for name in names)):
        if not is_foreign(path):
            continue
        is_private = path in elsewhere or path.startswith(tuple(f"{home}/{name}" for name in PRIVATE))
        if is_private or not is_safe(directory):
            raise DubiousOwnership(
                f"detected dubious ownership of '{_shown(path)}'",
                cause=f"{_describe_owner(path)} Its owner decides what Corral runs as you"
                + ("; safe.directory makes no exception here." if is_private else "."),
                remedy=f"Remove it, or make it yours: sudo chown -R {os.geteuid()} {_quoted(path)}",
            )


def is_safe(*directories: Path) -> bool:
    """Whether ``safe.directory`` in the user's or the system's git configuration covers one of these. Runs git.

    A value is the repository's path, ``path/*`` for everything below, or ``*`` for all; an empty one cancels those
    before it.
    """
    real, safe = {os.path.realpath(directory) for directory in directories}, False
    for value in _safe_directories():
        allowed = os.path.expanduser(value)  # noqa: PTH111 - a path object has no trailing /*
        if not value:
            safe = False
        elif value == "*":
            safe = True
        elif allowed.startswith("/") and allowed.endswith("/*"):
            above = os.path.realpath(allowed[:-2]).rstrip("/") + "/"
            safe = safe or any(directory.startswith(above) for directory in real)
        elif allowed.startswith("/"):
            safe = safe or os.path.realpath(allowed) in real
    return safe


def _safe_directories() -> list[str]:
    """The values of ``safe.directory`` that count, in git's order; none if git cannot be run."""
    import subprocess  # imported only if another user owns something

    # No repository's configuration is read: it may be the one in question.
    environ = {**os.environ, "GIT_DIR": os.devnull}
    environ.pop("GIT_CONFIG", None)
    argv = ["git", "config", "--show-scope", "--null", "--get-all", "safe.directory"]
    try:
        result = subprocess.run(
            argv, cwd="/", env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return []
    fields = os.fsdecode(result.stdout).split("\0")
    return [value for scope, value in zip(fields[::2], fields[1::2], strict=False) if scope in TRUSTED_SCOPES]


def _owners(path: str) -> Iterator[int]:
    """The owner of a path and, for a link, of its target."""
    status = os.lstat(path)
    yield status.st_uid
    if stat.S_ISLNK(status.st_mode):
        yield os.stat(path).st_uid  # noqa: PTH116 - paths are text here: objects cost as much as the rest of discovery


def _describe_owner(path: str) -> str:
    """A sentence that names a foreign path and its owner."""
    owner = next((uid for uid in _owners(path) if not is_own(uid)), "unknown")
    return f"{_shown(path.removesuffix('/.'))} belongs to uid {owner}; you are uid {os.geteuid()}."


def _shown(path: Path | str) -> str:
    """A path with control characters escaped: another user chose it."""
    from corral.core.visible import one_line  # only in an error

    return one_line(os.fspath(path))


def _quoted(path: Path | str) -> str:
    import shlex  # only in an error

    return shlex.quote(_shown(path))


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read, as :func:`corral.core.files.replace` does."""
    files.replace(file, text.encode(), mode=0o600)
