"""The daemon's supervisor is killed at every named point, and at random; the next one finishes or undoes everything."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from corral.config.paths import find_project
from corral.config.sections.work import Tasks as TaskRules
from corral.config.sections.work import Worktrees
from corral.core.errors import DatabaseUnavailable
from corral.git.checkouts import salvage
from corral.git.process.command import open_repository
from corral.runners.command import CommandRunner
from corral.runners.protocol import Assignment, Running
from corral.work.merges.store import merges
from corral.work.tasks import tasks
from corral.work.tasks.store import tasks as task_rows
from tests.conftest import git, worktrees_in, worktrees_of
from tests.integration.running import find_marked, finish, is_alive, keeper_of, kill
from tests.integration.supervision import IMPATIENT, House, in_a_process, settings_with, utc_now
from tests.support.coordinated import eventually
from tests.support.examples import examples
from tests.support.programs import requires

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]


def work(number: int) -> dict[str, Any]:
    """Half of it committed, half left over."""
    command = f"echo {number} > one-{number}.txt && git add . && git commit -q -m half && sleep 0.1 && echo x > two-{number}.txt"
    return {"title": f"work {number}", "command": command, "author_name": "A", "author_email": "a@b.test"}


BROKEN = {"title": "broken", "command": "echo half > half.txt; exit 1"}

POINTS = (
    ("task.claimed", work(1)),
    ("worktree.intended", work(1)),
    ("worktree.folder_made", work(1)),
    ("worktree.added", work(1)),
    ("task.start", work(1)),
    ("task.started", work(1)),
    ("task.started", BROKEN),
    ("task.collected", work(1)),
    ("task.closed", work(1)),
    ("task.closed", BROKEN),
    ("worktree.reclaiming", BROKEN),
    ("worktree.salvaged", BROKEN),
    ("worktree.removed", work(1)),
    ("worktree.removed", BROKEN),
)


def check(root: Path, acknowledged: list[str], heads_for: int) -> None:
    """A fresh supervisor brings everything to its end, and nothing is lost, doubled or left lying about."""
    house = House(root, IMPATIENT)
    try:
        house.until(house.idle, 60)
        for task_id in acknowledged:
            detail = house.detail(task_id)
            number = detail["title"].removeprefix("work ")
            if detail["title"] == "broken":
                assert detail["status"] == "dead" and detail["attempts"] == 1
                continue
            assert (detail["status"], detail["attempts"]) == ("completed", 1), detail
            (merge,) = [row for row in house.db.read(merges.listing) if row["task_id"] == task_id]
            files = git(root, "ls-tree", "--name-only", merge["head_sha"]).split()
            assert {f"one-{number}.txt", f"two-{number}.txt"} <= set(files)
            assert git(root, "rev-parse", f"refs/heads/{merge['branch']}") == merge["head_sha"]
            assert not find_marked(task_id)
        assert len(house.db.read(merges.listing)) == heads_for
        branches = git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads/corral").split()
        assert sorted(branches) == sorted(row["branch"] for row in house.db.read(merges.listing))
        assert len(git(root, "worktree", "list").splitlines()) == 1
        assert worktrees_in(root) == []
        assert git(root, "fsck", "--connectivity-only", "--no-dangling") == ""
        assert git(root, "status", "--porcelain") == ""
    finally:
        house.close()


def stored(root: Path) -> dict[str, str]:
    """The title of every task in the database that a killed daemon left; the last ones may lack only their answer."""
    with closing(sqlite3.connect(root / ".corral" / "corral.db")) as conn:
        return dict(conn.execute("SELECT task_id, title FROM tasks"))


@pytest.mark.req("FR-QUEUE-005")
@pytest.mark.parametrize(("point", "item"), POINTS)
def test_killed_at_a_named_point(repo: Path, point: str, item: dict[str, Any]) -> None:
    child = in_a_process(repo, [item], CORRAL_CRASH_AT=point)
    acknowledged = child.communicate(timeout=60)[0].split()[1:]
    assert child.returncode == -signal.SIGKILL, "the point was never reached"
    titles = stored(repo)
    assert set(acknowledged) <= set(titles), "an acknowledged task is gone"
    check(repo, list(titles), heads_for=sum(title != "broken" for title in titles.values()))
    if "broken" in titles.values():
        assert any("half.txt" in saved_work.files for saved_work in salvage.listing(open_repository(repo / ".git")))


@pytest.mark.req("FR-QUEUE-005")
def test_killed_again_and_again_at_random(repo: Path) -> None:
    rng = random.Random(11)
    acknowledged: list[str] = []
    House(repo, IMPATIENT).close()
    for round_number in range(examples(12, usual=5)):
        items = [work(10 * round_number + n) for n in range(3)]
        child = in_a_process(repo, items)
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        time.sleep(rng.random() * 1.5)
        child.kill()
        acknowledged += [word for word in child.communicate()[0].split() if word != "done"]
    everything = list(stored(repo))
    assert set(acknowledged) <= set(everything), "an acknowledged task is gone"
    assert acknowledged
    check(repo, everything, heads_for=len(everything))


def started_in_a_process(repo: Path, command: str, **extra: str) -> tuple[str, int]:
    """Start a task by a daemon, which is then killed; the task, and its worker's pid, which the command writes to ``pids``."""
    pids = repo.parent / "pids"
    child = in_a_process(repo, [{"title": "long", "command": f"echo $$ >> {pids}; {command}"}], **extra)
    eventually(lambda: pids.exists() and pids.read_text().strip() != "")
    child.kill()
    child.communicate()
    (task_id,) = stored(repo)
    return task_id, int(pids.read_text().split()[-1])


def kill_and_wait(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid))


@pytest.mark.parametrize("victims", [("keeper",), ("worker",), ("keeper", "worker"), ("worker", "keeper")])
def test_a_worker_that_died_with_its_daemon_is_ended_salvaged_and_begun_again_at_once(
    repo: Path, victims: tuple[str, ...]
) -> None:
    gate, pids = repo.parent / "gate", repo.parent / "pids"
    task_id, worker = started_in_a_process(
        repo, f"echo orphan > orphan.txt; while [ ! -e {gate} ]; do sleep 0.05; done"
    )
    folder = find_project(repo, initialised=False).attempts_dir / f"{task_id}.1"
    for victim in victims:
        kill_and_wait({"keeper": keeper_of(folder), "worker": worker}[victim])
    if victims == ("worker",):
        eventually(lambda: "\nexit -9" in (folder / "record").read_text())
    house = House(repo, settings_with(tasks={"retry_initial_s": 600}))  # nobody waits after the first death
    try:
        house.until(lambda: len(pids.read_text().split()) == 2, 20)
        assert worker not in find_marked(task_id)
        detail = house.detail(task_id)
        assert (detail["attempts"], detail["crashes"]) == (1, 1)
        gate.touch()
        assert house.until_status(task_id, "completed")["attempts"] == 1
        house.until(house.idle, 20)
        assert any("orphan.txt" in saved_work.files for saved_work in salvage.listing(house.worktree_context.repo))
        kinds = [event["kind"] for event in house.detail(task_id)["history"]]
        assert "task.interrupted" in kinds and "task.resumed" in kinds
    finally:
        house.close()


def test_a_daemon_killed_between_a_start_and_its_record_is_followed_by_one_that_records_it(repo: Path) -> None:
    task_id, worker = started_in_a_process(repo, "sleep 1; echo x > x.txt", CORRAL_CRASH_AT="task.started")
    house = House(repo, IMPATIENT)
    try:
        detail, row = house.detail(task_id), house.db.read(lambda conn: task_rows.get(conn, task_id))
        assert row and (row["pid"], row["status"]) == (worker, "running") and row["started_at"] is not None
        assert [event["kind"] for event in detail["history"]].count("task.started") == 1
        assert house.until_status(task_id, "completed")["attempts"] == 1
    finally:
        house.close()


def test_stopping_the_daemon_interrupts_salvages_and_the_next_one_goes_on(repo: Path) -> None:
    gate = repo.parent / "gate"
    command = f"trap '' TERM; echo kept > kept.txt; touch ready; while [ ! -e {gate} ]; do sleep 0.05; done"
    house = House(repo, IMPATIENT)
    ids = house.submit_all([{"title": f"t{n}", "command": command} for n in range(3)])
    house.until(lambda: len(list(worktrees_of(repo).glob("*/ready"))) == 3)
    began = time.monotonic()
    house.close()
    assert time.monotonic() - began < 15
    assert not any(find_marked(task_id) for task_id in ids)
    after = House(repo, IMPATIENT)
    try:
        assert len(salvage.listing(after.worktree_context.repo)) == 3
        gate.touch()
        after.until(lambda: all(after.status(task_id) == "completed" for task_id in ids))
        assert {after.detail(task_id)["attempts"] for task_id in ids} == {1}
    finally:
        after.close()


def test_a_stop_that_runs_out_of_time_makes_no_task_suspect(repo: Path) -> None:
    house = House(repo, IMPATIENT)
    task_id = house.submit("sleep 600")
    house.until(lambda: house.detail(task_id)["started_at"] is not None)
    house.supervisor.drain()
    house.supervisor.abandon(utc_now())
    assert (house.status(task_id), house.detail(task_id)["crashes"]) == ("interrupted", 0)
    house.close()
    after = House(repo, IMPATIENT)
    try:
        after.until(lambda: after.detail(task_id)["started_at"] is not None and after.status(task_id) == "running")
        assert (after.detail(task_id)["attempts"], after.detail(task_id)["crashes"]) == (1, 0)
    finally:
        after.close()


def test_draining_lets_workers_finish_and_starts_no_more(repo: Path) -> None:
    house = House(
        repo, IMPATIENT.model_copy(update={"supervisor": IMPATIENT.supervisor.model_copy(update={"max_agents": 1})})
    )
    gate = repo.parent / "gate"
    first = house.submit(f"while [ ! -e {gate} ]; do sleep 0.02; done")
    second = house.submit("true")
    house.until(lambda: house.detail(first)["started_at"] is not None)
    house.supervisor.drain()
    gate.touch()
    house.until(lambda: house.supervisor.running_count() == 0)
    assert (house.status(first), house.status(second)) == ("completed", "pending")
    house.close()


def test_a_spawned_piece_of_work_that_breaks_in_an_unforeseen_way_requeues_its_task(repo: Path) -> None:
    class Broken:
        name = "command"

        def available(self, program: object = ()) -> None: ...

        def start(self, _assignment: object, _now: object) -> Any:
            raise ZeroDivisionError("a defect")

        def follow(self, _assignment: object, _kept: object, _now: object) -> Any: ...

    house = House(repo, settings_with(tasks={"max_crashes": 2, "retry_initial_s": 0.1}), {"command": Broken()})
    task_id = house.submit("true")
    with pytest.raises(ZeroDivisionError):
        house.until(lambda: house.status(task_id) == "dead" and not house.worktrees.listing())
    house.failures.clear()
    detail = house.detail(task_id)
    assert (detail["error_code"], detail["crashes"]) == ("worker_lost", 3), "not counted, and bounded all the same"
    house.close()


class StartsThenBreaks(CommandRunner):
    """The worker runs, and then the thread that started it meets a defect."""

    started: Running

    def start(self, assignment: Assignment, now: datetime) -> Running:
        self.started = super().start(assignment, now)
        raise ZeroDivisionError("a defect")


@requires("setsid")
@pytest.mark.parametrize("how", ["refused", "broken"])
def test_a_worker_that_could_not_be_recorded_is_dead_before_its_task_goes_on(
    repo: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def refuse(*_args: object, **_values: object) -> None:
        raise DatabaseUnavailable("The disk is full.")

    if how == "refused":
        monkeypatch.setattr("corral.work.tasks.attempts.started", refuse)
    breaks = StartsThenBreaks(os.environ)
    house = House(repo, settings_with(tasks={"retry_initial_s": 60}), {"command": breaks} if how == "broken" else None)
    # One that resists, and one that left the group.
    task_id = house.submit("trap '' TERM; setsid sleep 600 & while :; do sleep 0.1; done")
    try:
        with suppress(ZeroDivisionError):
            house.until(lambda: house.status(task_id) == "pending" and house.detail(task_id)["not_before_at"])
        detail = house.detail(task_id)
        assert (detail["faults"], detail["crashes"]) == ((1, 0) if how == "refused" else (0, 1))
        assert (detail["status"], detail["attempts"]) == ("pending", 0), "the machine's fault is not counted"
        assert find_marked(task_id) == []
        house.failures.clear()
    finally:
        kill(task_id)
        if how == "broken":
            finish(breaks.started)
        house.close()


@pytest.mark.req("FR-QUEUE-003")
@pytest.mark.parametrize("convention", [False, True])
def test_a_task_cancelled_whose_worker_outlived_its_daemon_ends_after_it_with_its_work_saved(
    repo: Path, convention: bool
) -> None:
    child = in_a_process(repo, [{"title": "long", "command": "echo x > part.txt; while :; do sleep 0.1; done"}])
    eventually(lambda: list(worktrees_of(repo).glob("*/part.txt")))
    child.kill()
    child.communicate()
    (task_id,) = stored(repo)
    house = House(repo, settings_with())
    try:
        asked = house.db.write(lambda conn: tasks.cancel(conn, task_id, utc_now(), TaskRules(), convention=convention))
        assert (asked["status"], asked["cancel_reason"]) == ("running", "Cancelled."), "its worker is alive"
        ended = house.until_status(task_id, "failed" if convention else "cancelled")
        assert ended["error_code"] == ("cancelled_by_orchestrator" if convention else None)
        assert find_marked(task_id) == [], "it ends after its worker"
        house.until(lambda: not house.in_use())
        assert any("part.txt" in saved_work.files for saved_work in salvage.listing(open_repository(repo / ".git")))
    finally:
        kill(task_id)
        house.close()


LONG_SETUP = IMPATIENT.model_copy(
    update={"worktrees": Worktrees(setup=["echo $$ > half && mv half setting-up; sleep 600"])}
)


def setting_up(house: House) -> int:
    """Wait until a worktree is being set up; the setup command's process."""
    folders: list[Path] = []

    def seen() -> bool:
        folders[:] = house.worktree_context.root.glob("*/setting-up")
        return bool(folders)

    house.until(seen)
    return int(folders[0].read_text())


def test_stopping_the_daemon_ends_a_setup_command_and_the_attempt_is_not_counted(repo: Path) -> None:
    house = House(repo, LONG_SETUP)
    task_id = house.submit("true")
    pid = setting_up(house)
    assert pid in find_marked(task_id)
    began = time.monotonic()
    house.close()
    assert time.monotonic() - began < 20
    assert find_marked(task_id) == []
    after = House(repo, IMPATIENT)
    try:
        assert after.until_status(task_id, "completed")["attempts"] == 1
        assert "task.interrupted" in [event["kind"] for event in after.detail(task_id)["history"]]
    finally:
        after.close()


@pytest.mark.req("FR-QUEUE-003")
def test_cancelling_a_task_ends_its_setup_command(repo: Path) -> None:
    house = House(repo, LONG_SETUP)
    try:
        task_id = house.submit("true")
        setting_up(house)
        house.db.write(lambda conn: tasks.cancel(conn, task_id, utc_now(), house.settings.tasks, reason="No."))
        house.until_status(task_id, "cancelled", timeout_s=20)
        assert find_marked(task_id) == []
    finally:
        house.close()


def test_a_setup_command_of_a_killed_daemon_is_ended_before_its_task_goes_on(repo: Path) -> None:
    child = in_a_process(repo, [{"title": "t", "command": "true"}], SETTINGS=LONG_SETUP.model_dump_json())
    assert child.stdout is not None
    child.stdout.readline()
    task_id = child.stdout.readline().strip()
    eventually(lambda: list(worktrees_of(repo).glob("*/setting-up")))
    child.kill()
    child.communicate()
    assert find_marked(task_id)
    house = House(repo, IMPATIENT)
    try:
        house.until_status(task_id, "completed")
        assert find_marked(task_id) == []
    finally:
        house.close()


MANY = examples(32, usual=12)


def test_a_kill_in_the_middle_of_many_allocations(repo: Path) -> None:
    child = in_a_process(repo, [{"title": f"t{n}", "command": "true"} for n in range(MANY)])
    assert child.stdout is not None
    for _ in range(MANY + 1):
        child.stdout.readline()
    eventually(lambda: len(worktrees_in(repo)) >= 4)
    child.kill()
    child.communicate()
    house = House(repo, IMPATIENT)
    try:
        house.until(house.idle, 60)
        assert git(repo, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]
        assert len(git(repo, "worktree", "list").splitlines()) == 1
    finally:
        house.close()
