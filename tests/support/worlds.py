"""What may be down while sessions edit: each takes something away from a coordinated repository, and gives it back at its end."""

from __future__ import annotations

import contextlib
import resource
import sqlite3
from collections.abc import Callable, Iterator

import psutil

from tests.support.coordinated import Coordinated

World = Callable[[Coordinated], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def killed(house: Coordinated) -> Iterator[None]:
    """The daemon was killed with -9."""
    house.kill_daemon()
    yield


def unstartable(house: Coordinated, mode: int = 0o755) -> None:
    """No daemon of this repository can start: its folder is not private any more."""
    (house.root / ".corral" / "run").chmod(mode)


def killed_for_good(house: Coordinated) -> None:
    """The daemon was killed with -9, and none can start."""
    house.kill_daemon()
    unstartable(house)


@contextlib.contextmanager
def stopped_for_good(house: Coordinated) -> Iterator[None]:
    """The daemon was stopped, and none can start."""
    house.run("daemon", "stop")
    unstartable(house)
    try:
        yield
    finally:
        unstartable(house, 0o700)


@contextlib.contextmanager
def broken_settings(house: Coordinated) -> Iterator[None]:
    """The settings are broken, with nothing that a daemon could start with instead."""
    house.kill_daemon()
    config = house.root / ".corral" / "config.yaml"
    before = config.read_text()
    config.write_text("locks: 3\n")
    (house.root / ".corral" / "run" / "settings.json").unlink()
    try:
        yield
    finally:
        config.write_text(before)


@contextlib.contextmanager
def frozen(house: Coordinated) -> Iterator[None]:
    """The daemon runs, and answers nothing."""
    process = psutil.Process(house.daemon_pid())
    process.suspend()
    try:
        yield
    finally:
        process.resume()


@contextlib.contextmanager
def locked(house: Coordinated) -> Iterator[None]:
    """Another process holds the database's write lock."""
    with contextlib.closing(sqlite3.connect(house.root / ".corral" / "corral.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@contextlib.contextmanager
def no_room_for(pid: int) -> Iterator[None]:
    """Every file of a process is as large as it may be: what a full disk is, without a disk."""
    process = psutil.Process(pid)
    limits = process.rlimit(resource.RLIMIT_FSIZE)
    process.rlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        yield
    finally:
        process.rlimit(resource.RLIMIT_FSIZE, limits)


@contextlib.contextmanager
def full_disk(house: Coordinated) -> Iterator[None]:
    """Nothing that the daemon stores has room."""
    pid = house.running_pid()
    with no_room_for(pid):
        yield
