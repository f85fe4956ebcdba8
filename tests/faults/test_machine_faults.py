"""What the machine does to the start of tasks: none of them pays for it, and what is wrong is said where people look."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import OutOfResources
from corral.runners import keeping, worker
from corral.runners.command import CommandRunner
from corral.runners.process import spawn
from corral.runners.protocol import Assignment, Running
from tests.conftest import git
from tests.integration.running import clock, finish, make_assignment
from tests.integration.supervision import House, settings_with
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import program

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

QUICK = "tasks: {max_retries: 0, retry_initial_s: 0.5, retry_max_s: 2}\n"


@contextmanager
def small_volume(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [program("mount"), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run([program("umount"), "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no byte on the volume of a folder; returns the file to remove."""
    ballast = folder / ".ballast"
    with ballast.open("wb", buffering=0) as file:
        chunk = 1 << 20
        while chunk:
            try:
                file.write(b"\1" * chunk)
            except OSError:
                chunk //= 2
    return ballast


@pytest.mark.req("D3")
@pytest.mark.parametrize("place", ["refs/heads/corral", "worktrees"])
def test_a_worktree_that_finds_no_room_says_so(
    coordinate: Callable[..., Coordinated], tmp_path: Path, place: str
) -> None:
    root = tmp_path / "worktrees"
    house = coordinate(config=f"worktrees: {{root: {root}}}\n")
    house.run("daemon", "start")
    with small_volume(house.root / ".git" / place if "/" in place else root, "1m,nr_inodes=1"):
        done = house.run("worktree", "create", "mine", check=False)
        assert done.returncode == 1 and ("The disk is full" in done.stderr or "No space left" in done.stderr), (
            done.stderr
        )
    assert house.run("worktree", "create", "mine").returncode == 0


@pytest.mark.req("D3", "G2")
def test_a_full_worktrees_volume_fails_nobody_and_all_goes_on_when_it_is_free(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    house = coordinate(config=f"{QUICK}worktrees: {{root: {volume}}}\n")
    gate, began = tmp_path / "gate", tmp_path / "began"
    with small_volume(volume, "16m"):
        running = house.submit(
            "at work", f"touch {began}; while [ ! -e {gate} ]; do sleep 0.05; done; echo x > out.txt || exit 1"
        )
        eventually(began.exists)
        ballast = fill(volume)
        ids = [house.submit(f"waits {number}", f"echo x > {number}.txt") for number in range(3)]
        (need,) = eventually(
            lambda: [need for need in house.json("status")["needs_you"] if need["kind"] == "paused_claiming"]
        )
        assert "is full" in need["what"] and "Free space" in need["remedy"]
        delay = eventually(lambda: house.json("task", "detail", ids[-1])["delay"])
        assert "is full" in delay
        assert "is full" in house.run("wait", ids[-1], "--timeout", "0.2", check=False).stdout
        gate.touch()
        ended = eventually(lambda: house.json("task", "detail", running)["error_code"])
        assert ended == "disk_full"
        ballast.unlink()
        house.run("wait", running, *ids, "--timeout", "90")
        for task_id in (running, *ids):
            detail = house.json("task", "detail", task_id)
            assert detail["merge"]["state"] == "landed" and detail["attempts"] == 1, "nothing is counted"
        kinds = [need["kind"] for need in house.json("status")["needs_you"]]
        assert "paused_claiming" not in kinds
        house.stop()


class Starved(CommandRunner):
    """The machine has no process to give until ``gate`` exists."""

    def __init__(self, gate: Path) -> None:
        super().__init__(os.environ)
        self.gate = gate
        self.asked: list[str] = []

    def start(self, assignment: Assignment, now: datetime) -> Running:
        self.asked.append(assignment.task_id)
        if not self.gate.exists():
            raise OutOfResources("/bin/sh could not be started: Resource temporarily unavailable.")
        return super().start(assignment, now)


def test_where_no_start_succeeds_one_is_tried_now_and_then_and_all_go_on_after_it(repo: Path) -> None:
    runner = Starved(repo.parent / "gate")
    rules = {"max_retries": 0, "retry_initial_s": 0.4, "retry_max_s": 0.8}
    house = House(repo, settings_with(tasks=rules), {"command": runner})
    try:
        ids = [house.submit(f"echo {number}") for number in range(6)]
        house.until(lambda: house.supervisor.pause is not None and not house.supervisor.running_count())
        pause = house.supervisor.pause
        assert pause is not None and pause.error_code == "out_of_resources" and "End other processes" in pause.remedy
        first, moment = len(runner.asked), house.now()
        house.until(lambda: (house.now() - moment).total_seconds() > 2)
        assert 1 <= len(runner.asked) - first <= 5, (
            "one after the other, with a pause between them: not all against one wall"
        )
        runner.gate.touch()
        house.until(lambda: all(house.status(task_id) == "completed" for task_id in ids), 20)
        assert house.supervisor.pause is None
        assert {house.detail(task_id)["attempts"] for task_id in ids} == {1}
        assert {house.detail(task_id)["faults"] for task_id in ids} == {0}
        house.settle()
    finally:
        house.close()


def test_a_checkout_that_git_cannot_make_is_said_and_tried_again(repo: Path) -> None:
    blob = git(repo, "rev-parse", "HEAD:README.md")
    kept, away = repo / ".git" / "objects" / blob[:2] / blob[2:], repo.parent / "away"
    house = House(repo, settings_with(tasks={"max_retries": 0, "retry_initial_s": 0.2, "retry_max_s": 0.4}))
    try:
        kept.rename(away)
        task_id = house.submit("true")
        house.until(lambda: house.detail(task_id)["faults"] > 0)
        away.rename(kept)
        assert house.until_status(task_id, "completed")["attempts"] == 1
        house.settle()
    finally:
        house.close()


def test_a_pause_that_nobody_waits_for_is_forgotten(repo: Path) -> None:
    from corral.work.tasks import tasks

    runner = Starved(repo.parent / "gate")
    house = House(repo, settings_with(tasks={"retry_initial_s": 0.2, "retry_max_s": 0.4}), {"command": runner})
    try:
        ids = [house.submit("true") for _ in range(2)]
        house.until(lambda: house.supervisor.pause is not None and not house.supervisor.running_count())
        for task_id in ids:
            house.db.write(lambda conn, task=task_id: tasks.cancel(conn, task, house.now(), house.settings.tasks))  # type: ignore[misc]
        house.until(lambda: house.supervisor.pause is None)
    finally:
        house.close()


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENOSPC])
def test_a_process_that_the_machine_cannot_start_is_no_fault_of_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_args: Any, **_values: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("corral.runners.process.subprocess.Popen", refuse)
    with pytest.raises(OutOfResources) as caught:
        spawn(["/bin/true"], cwd=tmp_path, env={}, log=tmp_path / "log")
    assert os.strerror(number) in caught.value.message


@pytest.mark.parametrize(("kills", "code"), [([7, 8], "out_of_memory"), ([7, 7], "killed"), ([None, None], "killed")])
def test_who_was_killed_by_the_kernel_for_want_of_memory_is_told_from_who_killed_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: list[int | None], code: str
) -> None:
    kill = iter(kills)
    for module in (keeping, worker):  # at the start, and at the end
        monkeypatch.setattr(module, "kernel_kills", lambda: next(kill))
    running = CommandRunner(os.environ).start(make_assignment(tmp_path, command="kill -9 $$"), clock())
    assert finish(running).error_code == code
