"""One daemon per project: an OS lock held for the whole life decides, not a pid file.

There are two locks: on a file in the git directory, which must still be at its path, and, if the file system allows it, on the
git directory itself, which nobody removes by accident.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import portalocker
from portalocker import AlreadyLocked, LockException, LockFlags

from corral.client.connection import Client
from corral.config.links import make_own_folder
from corral.config.paths import Project, runtime_dir, socket_path
from corral.core.errors import DaemonUnreachable

WAIT_S = 18.0
"""Seconds that a starter waits for the daemon that holds the lock to answer (it starts) or to exit (it stops)."""

_AT_ONCE = LockFlags.EXCLUSIVE | LockFlags.NON_BLOCKING


@dataclass
class Instance:
    """The right to be the daemon.

    Attributes:
        lock: The lock file, locked.
        folder: A descriptor of the git directory, locked; None: its file system locks no folders.
    """

    project: Project
    lock: IO[str]
    folder: int | None

    @property
    def is_kept(self) -> bool:
        """Whether the file at the path is the one that is locked."""
        return _is_at(self.project.lock_file, self.lock)

    def keep(self) -> bool:
        """Take the lock again if somebody removed or replaced its file; False: another process holds the new file's lock."""
        if self.is_kept:
            return True
        from corral.core.logs import logger  # heavy for a starter that finds a running daemon

        log = logger("daemon")
        try:
            taken = _try_lock(self.project.lock_file)
        except OSError as error:  # e.g. a full disk: while there is no file, nobody else can lock it either
            log.warning("lock_file_missing", path=str(self.project.lock_file), reason=str(error))
            return True
        if taken is None:
            return False
        self.lock.close()
        self.lock = taken
        log.warning("lock_file_made_again", path=str(self.project.lock_file))
        return True

    def release(self) -> None:
        """Give up the right. The lock file stays: removing it would let two daemons lock two files of one name."""
        self.lock.close()
        if self.folder is not None:
            os.close(self.folder)


def claim(project: Project) -> Instance | None:
    """Become the daemon of a project.

    Returns:
        The right, or None when another daemon has it and answers.

    Raises:
        DaemonUnreachable: Another daemon has the lock, and neither answers nor leaves; or the folder cannot be written.
        PathReplaced: ``.corral`` or ``.corral/logs`` is a symbolic link.
    """
    _prepare(project)
    deadline = time.monotonic() + WAIT_S
    client = Client(project, autostart=False)
    while True:
        instance = _try_claim(project)
        health = client.health(timeout_s=2)
        if instance is not None and health is None:
            return instance
        if instance is not None:  # the answering daemon has a lock too: on a file that somebody deleted
            instance.release()
        if health is not None and not health.get("stopping"):
            client.close()
            return None
        if time.monotonic() > deadline:
            raise DaemonUnreachable(
                "Another daemon holds this project's lock and does not answer.",
                cause="It is stuck, or still stopping.",
                remedy=f"Wait a little; else end the process named in {project.daemon_json}.",
            )
        time.sleep(0.05)


def _prepare(project: Project) -> None:
    try:
        private_folder(project.run_dir)
        make_own_folder(project.logs_dir, project.root)
        if socket_path(project).parent != project.run_dir:
            private_folder(runtime_dir())
    except OSError as error:
        raise DaemonUnreachable(
            "The daemon could not be started.",
            cause=f"{error.filename or project.home} cannot be written: {error.strerror or error}.",
            remedy=f"Make {error.filename or project.home} a folder that you can write.",
        ) from error


def private_folder(folder: Path) -> None:
    """Make (or insist on) a folder that only this user can enter.

    Raises:
        DaemonUnreachable: The file there is a link, another user's, or open to others; it may have been planted.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise DaemonUnreachable(
            f"{folder} is not a private folder of yours.",
            cause="It is a link, or others can enter it: somebody else may have made it.",
            remedy="Remove it; in place of a runtime folder, XDG_RUNTIME_DIR may name one that only you can enter.",
        )


def _try_claim(project: Project) -> Instance | None:
    _unshare(project.lock_file)
    lock = _try_lock(project.lock_file)
    if lock is None:
        return None
    try:
        return Instance(project, lock, _lock_folder(project.common_dir))
    except AlreadyLocked:  # its holder's lock file was removed
        lock.close()
        return None


def _unshare(path: Path) -> None:
    """Replace a lock file that is shared with another repository, because one is a copy by hard links."""
    with suppress(FileNotFoundError):
        if path.lstat().st_nlink > 1:
            own = path.with_name(f"{path.name}.own")
            own.touch(mode=0o600)
            own.replace(path)


def _lock_folder(folder: Path) -> int | None:
    """Lock a folder; None if its file system cannot.

    Raises:
        AlreadyLocked: Another process has it locked.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        portalocker.lock(descriptor, _AT_ONCE)
    except AlreadyLocked:
        os.close(descriptor)
        raise
    except LockException:  # e.g. NFS, which locks only what can be written
        os.close(descriptor)
        return None
    return descriptor


def _is_at(path: Path, handle: IO[str]) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(handle.fileno()))
    except FileNotFoundError:
        return False


def _try_lock(path: Path) -> IO[str] | None:
    """Lock the file at a path; None if another process holds it, or if it was removed or replaced meanwhile."""
    handle = os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+", encoding="ascii"
    )
    try:
        portalocker.lock(handle, _AT_ONCE)
    except LockException:
        handle.close()
        return None
    if not _is_at(path, handle):
        handle.close()
        return None
    return handle
