"""One daemon per project: an OS lock held for the whole life decides, not a pid file."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from corral.client import Client
from corral.config.paths import Project, runtime_dir, socket_path
from corral.errors import DaemonUnreachable

WAIT_S = 18.0
"""How long a starter waits for a daemon that holds the lock to answer (it starts) or to leave (it stops)."""


@dataclass
class Instance:
    """The right to be the daemon; closing ``lock`` gives it up."""

    project: Project
    lock: IO[str]

    def release(self) -> None:
        """Give up the right. The lock file stays: removing it would let two daemons lock two files of one name."""
        self.lock.close()


def claim(project: Project) -> Instance | None:
    """Become the daemon of a project.

    Returns:
        The right, or None when another daemon has it and answers.

    Raises:
        DaemonUnreachable: Another daemon has the lock, and neither answers nor leaves; or the folder cannot be written.
    """
    _prepare(project)
    deadline = time.monotonic() + WAIT_S
    client = Client(project, autostart=False)
    while True:
        lock = _try_lock(project.lock_file)
        health = client.health(timeout_s=2)
        if lock is not None and health is None:
            return Instance(project, lock)
        if lock is not None:  # the one that answers has a lock too: on a file that somebody deleted
            lock.close()
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
        project.logs_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        private_folder(project.run_dir)
        if socket_path(project).parent != project.run_dir:
            private_folder(runtime_dir())
    except OSError as error:
        raise DaemonUnreachable(
            "The daemon could not be started.",
            cause=f"{error.filename or project.home} cannot be written: {error.strerror}.",
            remedy=f"Make {project.home} writable for you.",
        ) from error


def private_folder(folder: Path) -> None:
    """Make (or insist on) a folder that only this user can enter.

    Raises:
        DaemonUnreachable: What stands there is a link, another user's, or open to others; it may have been planted.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise DaemonUnreachable(
            f"{folder} is not a private folder of yours.",
            cause="It is a link, or others can enter it: somebody else may have made it.",
            remedy="Remove it; in place of a runtime folder, XDG_RUNTIME_DIR may name one that only you can enter.",
        )


def _try_lock(path: Path) -> IO[str] | None:
    handle = os.fdopen(
        os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "r+", encoding="ascii"
    )
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return None
    return handle
