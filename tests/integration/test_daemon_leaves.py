"""A daemon whose repository is gone from its place ends and makes nothing again; and there is never a second one."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from corral.config.paths import find_project
from corral.daemon import instance
from corral.daemon.instance import claim
from tests.conftest import git
from tests.support.coordinated import Coordinated, eventually

WITHIN_S = 10
"""One second until it is noticed, two for the workers, the rest for a slow machine."""


def is_dead(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def at_work(house: Coordinated, folder: Path) -> tuple[str, psutil.Process]:
    """A task that works until ``go`` exists; its id and its worker."""
    runs, go = folder / "runs", folder / "go"
    task = house.submit("long", f"echo $$ >> {runs}; while [ ! -e {go} ]; do sleep 0.1; done; echo done > long.txt")
    eventually(lambda: runs.exists() and runs.read_text().strip())
    return task, psutil.Process(int(runs.read_text()))


@pytest.mark.parametrize("how", ["moved", "deleted", "deleted slowly"])
def test_a_daemon_whose_repository_is_gone_ends_and_makes_nothing_again(
    house: Coordinated, tmp_path: Path, how: str
) -> None:
    task, worker = at_work(house, tmp_path)
    daemon = psutil.Process(house.daemon_pid() or 0)
    moved = Coordinated(tmp_path / "moved")
    if how == "moved":
        house.root.rename(moved.root)
    else:
        if how == "deleted slowly":  # so slowly that the daemon puts its files back meanwhile, and .git is not empty
            shutil.rmtree(house.root / ".corral", ignore_errors=True)
            eventually((house.root / ".corral/run/daemon.json").exists)
        kept = () if how == "deleted" else (".corral", ".git")
        for entry in [*house.root.iterdir(), *(house.root / ".git").iterdir()]:
            if entry.is_file():
                entry.unlink()
            elif entry.name not in kept:
                shutil.rmtree(entry, ignore_errors=True)
    eventually(lambda: is_dead(daemon) and is_dead(worker), WITHIN_S)
    left = [folder for folder in (house.root / ".corral", house.root / ".git") if folder.exists()]
    assert not left, [str(path.relative_to(house.root)) for folder in left for path in sorted(folder.rglob("*"))]
    assert how == "deleted" or not house.root.exists(), "also the folders that could not be removed meanwhile"
    if how == "moved":
        try:
            (tmp_path / "go").touch()
            moved.run("wait", task, "--timeout", "60")
            assert git(moved.root, "show", "main:long.txt") == "done"
            log = (moved.root / ".corral/logs/corral.log").read_text()
            assert "The repository was moved or deleted" in log and not house.root.exists()
        finally:
            moved.stop()


def test_a_lock_file_that_is_removed_is_made_again_and_no_second_daemon_starts_meanwhile(house: Coordinated) -> None:
    house.run("daemon", "start")
    daemon, lock = psutil.Process(house.daemon_pid() or 0), find_project(house.root).lock_file
    daemon.suspend()  # it answers nobody, and sees nothing
    try:
        lock.unlink()
        command = [sys.executable, "-m", "corral.daemon", "--project", str(house.root)]
        starters = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
        eventually(lock.exists)
        with pytest.raises(subprocess.TimeoutExpired):  # longer than a starter waits for an answer
            starters[0].wait(4)
    finally:
        daemon.resume()
    assert [starter.wait(30) for starter in starters] == [0, 0]
    assert house.daemon_pid() == daemon.pid

    def is_held() -> bool:
        with lock.open("r+") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    eventually(is_held, WITHIN_S)


def test_a_daemon_ends_itself_when_another_process_keeps_the_new_lock_file(house: Coordinated) -> None:
    house.run("daemon", "start")
    daemon, lock = psutil.Process(house.daemon_pid() or 0), find_project(house.root).lock_file
    record = (house.root / ".corral/run/daemon.json").read_bytes()
    daemon.suspend()
    lock.unlink()
    with lock.open("x") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        daemon.resume()
        eventually(lambda: is_dead(daemon), WITHIN_S)
    assert (house.root / ".corral/run/daemon.json").read_bytes() == record, "what the other one says of itself stays"


def test_where_folders_cannot_be_locked_the_lock_file_is_known_by_its_inode(
    house: Coordinated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "_lock_folder", lambda _folder: None)
    project = find_project(house.root)
    first = claim(project)
    assert first is not None and first.keep()
    project.lock_file.unlink()
    second = claim(project)
    assert second is not None and second.keep()
    assert not first.keep()
    second.release()
    assert first.keep() and first.keep()
    first.release()


def test_a_database_that_is_put_in_place_of_a_running_daemons_is_not_read(
    house: Coordinated, coordinate: Callable[..., Coordinated]
) -> None:
    other = coordinate()
    other.submit("of the other", "true")
    other.run("daemon", "stop")
    house.submit("own", "true")
    eventually(lambda: house.json("status")["tasks"].get("completed") == 1)
    (other.root / ".corral/corral.db").replace(house.root / ".corral/corral.db")
    assert [row["title"] for row in house.json("task", "list")] == ["own"]
    assert (house.root / ".corral/corral.db.replaced").is_file()
    house.kill_daemon()
    assert [row["title"] for row in house.json("task", "list")] == ["own"]
