"""Limits of all workers together, with real workers: what holds, what is stopped, and that all goes on by itself."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corral.config.model import Settings
from corral.core.instants import iso
from corral.runners.command import CommandRunner
from corral.runners.protocol import Assignment, Finished, Observation, Running, Usage
from corral.store import events
from corral.work.tasks import delays
from corral.work.workers import claiming
from tests.integration.supervision import House, settings_with
from tests.support.coordinated import Coordinated, eventually


class Talking:
    """A worker whose usage a file in its worktree names: ``TOKENS TURNS``."""

    def __init__(self, running: Running, file: Path) -> None:
        self._running, self._file = running, file
        self._told = [0, 0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._running, name)

    def observe(self, now: datetime) -> Observation:
        seen = self._running.observe(now)
        if seen.finished and (self._file.parent / "limited").exists():
            until = iso(datetime.now(timezone.utc) + timedelta(hours=3))
            refused = Finished(False, 1, "api_error", "Come back later.", True, {"retry_at": until})
            seen = replace(seen, finished=refused)
        if self._file.exists() and (numbers := self._file.read_text().split()):
            self._told = [int(number) for number in numbers]
        tokens, turns = self._told
        return replace(seen, usage=Usage(input_tokens=tokens, turns=turns, cost_usd=0.01 * tokens))


class TalkingRunner(CommandRunner):
    """Runs a prompt as a command, in the name of Claude Code."""

    name = "claude"

    def start(self, assignment: Assignment, now: datetime) -> Running:
        as_command = replace(assignment, command=assignment.prompt, prompt=None, definition=None)
        return Talking(super().start(as_command, now), assignment.worktree / "used")


@pytest.fixture
def swarm(repo: Path) -> Iterator[Callable[..., House]]:
    made: list[House] = []

    def make(**sections: Any) -> House:
        runners = {"command": CommandRunner(os.environ, stop_grace_s=0.5), "claude": TalkingRunner(os.environ)}
        made.append(House(repo, settings_with(**sections), runners))
        return made[-1]

    yield make
    for house in made:
        house.close()


def kinds(house: House) -> list[str]:
    return [event["kind"] for event in house.db.read(lambda conn: events.recent(conn, 50))]


def delay(house: House, task_id: str) -> str | None:
    def read(conn: Any) -> str | None:
        from corral.work.tasks.store import tasks

        row = tasks.get(conn, task_id)
        assert row is not None
        return delays.reason(conn, row, house.supervisor.pause, house.now(), throttles=house.supervisor.throttles)

    return house.db.read(read)


def prompt(house: House, text: str) -> str:
    return house.submit_all([{"title": text[:30], "prompt": text}])[0]


@pytest.mark.req("FR-SWARM-008", "FR-CONFIG-006")
@pytest.mark.parametrize("limit", [{"tokens_per_day": 1000}, {"cost_usd_per_day": 10}, {"requests_per_minute": 9}])
def test_a_budget_that_is_nearly_used_up_holds_models_and_nobody_else_and_is_told(
    swarm: Callable[..., House], limit: dict[str, float]
) -> None:
    house = swarm(limits=limit)
    first = prompt(house, "echo 900 9 > used; sleep 1.5; rm used")
    house.until_status(first, "completed")
    second, command = prompt(house, "true"), house.submit("true")
    house.until_status(command, "completed")
    assert house.status(second) == "pending"
    (name,) = limit
    assert f"`limits.{name}` is used to" in (delay(house, second) or "")
    assert "limit.reached" in kinds(house) and "limit.cleared" not in kinds(house)
    if name == "requests_per_minute":
        house.skipped = timedelta(seconds=61)
    else:
        house.settings = Settings()
    house.until_status(second, "completed")
    assert "limit.cleared" in kinds(house)


@pytest.mark.req("FR-SWARM-008", "FR-LOOP-002")
def test_a_loop_of_a_command_that_a_model_judges_is_held_too_and_says_why(swarm: Callable[..., House]) -> None:
    house = swarm(limits={"tokens_per_day": 1000})
    house.until_status(prompt(house, "echo 900 9 > used; sleep 1.5; rm used"), "completed")
    judged = house.submit("true", loop={"until": [{"kind": "judge", "rubric": "Good."}], "max_iterations": 1})
    tested = house.submit("true", loop={"until": [{"kind": "tests", "command": "true"}]})
    house.until_status(tested, "completed")
    assert house.status(judged) == "pending" and not house.detail(judged)["attempt_history"]
    reason = delay(house, judged) or ""
    assert "`limits.tokens_per_day` is used to 90" in reason and "judged by a model" in reason
    house.settings = Settings()
    house.until_status(judged, "failed")


@pytest.mark.req("FR-SWARM-008")
def test_past_a_budget_workers_of_models_are_stopped_and_their_task_is_not_charged(swarm: Callable[..., House]) -> None:
    house = swarm(limits={"tokens_per_day": 1000}, supervisor={"stop_grace_s": 0.5}, tasks={"on_interrupted": "fail"})
    task = prompt(house, "test -e $CORRAL_PROJECT/again || { echo 1200 3 > used; sleep 600; }")
    house.until(
        lambda: (
            bool(house.detail(task)["attempt_history"])
            and house.detail(task)["attempt_history"][0]["outcome"] is not None
        )
    )
    house.until_status(task, "pending")
    detail = house.detail(task)
    assert detail["attempts"] == 0 and detail["attempt_history"][0]["error_code"] == "limit_reached"
    assert detail["usage"]["input_tokens"] == 1200
    (house.project.root / "again").touch()
    house.settings = Settings()
    house.until_status(task, "completed")


@pytest.mark.req("FR-SWARM-004", "FR-SWARM-008")
def test_a_usage_limit_of_the_model_parks_its_tasks_until_it_is_over(swarm: Callable[..., House]) -> None:
    house = swarm(tasks={"retry_initial_s": 0.1, "retry_max_s": 0.2, "max_retries": 2})
    refused = prompt(house, "test -e $CORRAL_PROJECT/open || touch limited")
    house.until(lambda: house.detail(refused)["error_code"] == "api_error")
    other, command = prompt(house, "true"), house.submit("true")
    house.until_status(command, "completed")
    assert (house.status(refused), house.status(other)) == ("pending", "pending")
    assert "The model's usage limit is reached: Come back later. Its tasks start again at" in (
        delay(house, other) or ""
    )
    house.restart()
    house.until_status(house.submit("true"), "completed")
    assert house.status(other) == "pending" and "model.parked" in kinds(house), "a restart does not forget it"
    assert len(house.detail(refused)["attempt_history"]) == 1, "nobody asks before"
    (house.project.root / "open").touch()
    house.skipped = timedelta(hours=3, seconds=1)
    for task in (refused, other):
        house.until_status(task, "completed")
    assert "limit.cleared" in kinds(house)


@pytest.mark.req("FR-SWARM-001", "FR-SWARM-008")
def test_no_more_tasks_are_claimed_than_can_start(swarm: Callable[..., House]) -> None:
    house = swarm(supervisor={"max_agents": 5, "starts_at_once": 2})
    held: list[Callable[[], None]] = []
    house.start = held.append
    waiting = [house.submit("true") for _ in range(4)]
    house.supervisor.step(house.now())
    house.supervisor.step(house.now())
    assert [house.status(task) for task in waiting] == ["running", "running", "pending", "pending"] and len(held) == 2
    assert "All 2 workers that `supervisor.starts_at_once` allows are starting" in (house.supervisor.busy or "")
    held.pop(0)()
    house.supervisor.step(house.now())
    assert [house.status(task) for task in waiting].count("pending") == 1, "the next is claimed as one has started"
    while held:
        held.pop()()
        house.supervisor.step(house.now())

    def is_through(task: str) -> bool:
        while held:
            held.pop()()
        return house.status(task) == "completed"

    for task in waiting:
        house.until(partial(is_through, task))


@pytest.mark.req("FR-SWARM-004", "FR-QUEUE-006")
def test_workers_of_models_start_one_after_the_other_in_the_order_of_the_queue(swarm: Callable[..., House]) -> None:
    house = swarm()
    held: list[Callable[[], None]] = []
    house.start = held.append
    waits = [prompt(house, "true"), prompt(house, "true"), house.submit("true")]
    now = house.now()
    for seconds, started in ((0, 1), (0.04, 1), (0.06, 2), (0.08, 2), (0.12, 3)):
        house.supervisor.step(now + timedelta(seconds=seconds))
        running = [task for task in waits if house.status(task) == "running"]
        assert running == waits[:started], f"after {seconds} s"
    while held:
        held.pop()()
    for task in waits:
        house.until_status(task, "completed")


def test_why_no_worker_starts_is_said_without_agents_and_while_the_daemon_stops(swarm: Callable[..., House]) -> None:
    house = swarm(supervisor={"max_agents": 0})
    task = house.submit("true")
    house.supervisor.step(house.now())
    busy = house.supervisor.busy
    assert busy and busy.startswith("No worker starts, since `supervisor.max_agents` is 0; `corral config set ")
    house.settings = Settings()
    assert house.supervisor.busy is None
    house.supervisor.drain()
    house.supervisor.step(house.now())
    assert house.status(task) == "pending" and "The daemon is stopping" in (house.supervisor.busy or "")


EATER = """
import os, time
held = b"x" * 120_000_000
while not os.path.exists(os.environ["CORRAL_PROJECT"] + "/go"):
    time.sleep(0.05)
"""
HOLDS_120_MB = f"{shlex.quote(sys.executable)} -c {shlex.quote(EATER)}"


@pytest.mark.req("FR-SWARM-008", "FR-CONFIG-006")
def test_memory_holds_back_and_the_youngest_gives_way_and_runs_again(swarm: Callable[..., House]) -> None:
    house = swarm(limits={"memory_mb": 220}, supervisor={"stop_grace_s": 0.5})
    old, young = (house.submit(HOLDS_120_MB) for _ in range(2))
    house.until(lambda: any(attempt["outcome"] == "interrupted" for attempt in house.detail(young)["attempt_history"]))
    assert all(attempt["outcome"] is None for attempt in house.detail(old)["attempt_history"]), "the older one works on"
    last = house.submit("true")
    house.until(lambda: bool(house.supervisor.throttles) or house.supervisor.use.memory_mb < 176)
    (house.project.root / "go").touch()
    for task in (old, young, last):
        house.until_status(task, "completed")
    assert house.detail(young)["attempts"] == 1, "the stopped attempt is not counted"
    assert len(house.detail(young)["attempt_history"]) == 2, "it waits until there is room for what it needs"
    peaks = house.db.read(lambda conn: [row[0] for row in conn.exec_driver_sql("SELECT memory_mb FROM attempts")])
    assert max(peak or 0 for peak in peaks) > 110


@pytest.mark.req("FR-SWARM-008", "FR-CONFIG-006")
def test_no_worker_starts_without_room_for_the_memory_that_those_before_it_used(swarm: Callable[..., House]) -> None:
    house = swarm(limits={"memory_mb": 300}, supervisor={"stop_grace_s": 0.5})
    first = house.submit(HOLDS_120_MB)
    house.until(lambda: house.supervisor.use.memory_mb > 110)
    (house.project.root / "go").touch()
    house.until_status(first, "completed")
    (house.project.root / "go").unlink()
    *others, last = (house.submit(HOLDS_120_MB) for _ in range(3))
    house.supervisor.step(house.now())
    states = [house.status(task) for task in (*others, last)]
    assert states == ["running", "running", "pending"], f"they start at once; {house.supervisor.throttles}"
    assert "`limits.memory_mb` leaves no room: its worker is expected to use 1" in (delay(house, last) or "")
    house.until(lambda: house.supervisor.use.memory_mb > 220)
    (house.project.root / "go").touch()
    for task in (*others, last):
        house.until_status(task, "completed")
        assert len(house.detail(task)["attempt_history"]) == 1, "nobody had to give way"


@pytest.mark.req("FR-SWARM-008")
def test_on_a_machine_without_memory_workers_run_one_by_one_and_tasks_say_why(
    swarm: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claiming, "available_mb", lambda: 200.0)
    house = swarm(limits={"memory_mb": None})
    tasks = [house.submit("until test -e $CORRAL_PROJECT/go; do sleep 0.05; done") for _ in range(3)]
    house.until(lambda: house.status(tasks[0]) == "running")
    house.supervisor.step(house.now())
    assert [house.status(task) for task in tasks] == ["running", "pending", "pending"]
    assert "The machine has 190 MiB of memory left" in (delay(house, tasks[1]) or "")
    (house.project.root / "go").touch()
    for task in tasks:
        house.until_status(task, "completed")


@pytest.mark.req("FR-SWARM-005", "FR-SWARM-004")
def test_the_swarm_is_shown_and_an_agent_that_is_killed_gives_its_task_back(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(
        config="tasks: {retry_initial_s: 0.1, max_retries: 2}\nsupervisor: {max_agents: 1, stop_grace_s: 0.5}\n"
    )
    assert house.json("swarm", "status")["agents"] == []
    assert house.run("swarm", "status").stdout.startswith("No agent is running.")
    task = house.submit("long", "test -e $CORRAL_PROJECT/again && exit 0; echo working; sleep 600")
    waits = house.submit("waits", "true")
    agent = eventually(
        lambda: next(
            (agent for agent in house.json("swarm", "status")["agents"] if agent["progress"] == "working"), None
        )
    )
    assert {name: agent[name] for name in ("kind", "task_id", "parent", "state", "tokens", "cost_usd")} == {
        "kind": "command", "task_id": task, "parent": None, "state": "running", "tokens": 0, "cost_usd": 0.0,
    }  # fmt: skip
    assert agent["pid"] and agent["heartbeat_at"]
    assert eventually(lambda: house.json("swarm", "status")["agents"][0]["memory_mb"] is not None)
    limits = house.json("swarm", "status")["limits"]
    assert limits["supervisor.max_agents"] == {"used": 1, "allowed": 1}
    assert limits["queue.max_size"] == {"used": 1, "allowed": 1000}
    why = "All 1 workers that `supervisor.max_agents` allows are running."
    assert house.json("task", "detail", waits)["delay"] == why
    assert house.json("swarm", "status")["throttled"] == [{"limit": "supervisor.max_agents", "reason": why}]
    house.run("pause")
    assert [throttle["limit"] for throttle in house.json("swarm", "status")["throttled"]] == [
        "pause",
        "supervisor.max_agents",
    ]
    house.run("resume")
    (house.root / "again").touch()
    assert house.json("agent", "kill", agent["agent_id"])["task_id"] == task
    done = house.json("wait", task, waits, "--timeout", "60")
    assert [row["status"] for row in done["tasks"]] == ["completed", "completed"]
    attempts = house.json("task", "detail", task)["attempt_history"]
    assert [attempt["error_code"] for attempt in attempts] == ["agent_killed", None]
    assert house.run("agent", "kill", task, check=False).returncode == 3


@pytest.mark.req("FR-SWARM-008")
def test_a_limit_that_keeps_nobody_waiting_is_not_shown(swarm: Callable[..., House]) -> None:
    house = swarm(limits={"memory_mb": 390})
    runs = house.submit("until test -e $CORRAL_PROJECT/go; do sleep 0.05; done")
    house.until(lambda: house.status(runs) == "running")
    house.supervisor.step(house.now())
    assert house.supervisor.throttles == [], "a worker of Claude Code has no room, and no task is for one"
    waits = prompt(house, "true")
    house.until(lambda: bool(house.supervisor.throttles))
    assert "`limits.memory_mb` leaves no room" in (delay(house, waits) or "")
    (house.project.root / "go").touch()
    for task in (runs, waits):
        house.until_status(task, "completed")
