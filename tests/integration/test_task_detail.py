"""``corral task detail``: everything about a task, and a task followed live to its end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import InvalidInput
from tests.support.coordinated import Coordinated, eventually

AGAIN = "tasks: {max_retries: 1, retry_initial_s: 0}\n"


@contextmanager
def following(house: Coordinated, task: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """``corral task detail TASK --follow`` while the test does something else."""
    argv = [sys.executable, "-m", "corral", "task", "detail", task, "--follow", *more]
    follower = subprocess.Popen(argv, cwd=house.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield follower
    finally:
        follower.kill()
        follower.communicate()


def lines(follower: subprocess.Popen[str], until: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """The lines that it prints, up to the first that fits."""
    rows: list[dict[str, Any]] = []
    assert follower.stdout is not None
    for line in follower.stdout:
        rows.append(json.loads(line))
        assert len(rows) < 200, "it tells the same again and again"
        if until(rows[-1]):
            return rows
    raise AssertionError(f"it ended before: {rows}")


def story(events: list[dict[str, Any]]) -> list[str]:
    """The kinds of events, and the lines of output between them."""
    texts: list[str] = []
    for event in events:
        texts += event["text"].splitlines() if event["kind"] == "output" else [event["kind"]]
    return texts


@pytest.mark.req("FR-QUEUE-004")
def test_a_waiting_task_is_followed_through_its_retry_until_it_has_landed(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=AGAIN)
    go, twice = tmp_path / "go", tmp_path / "twice"
    script = (
        f"test -e {twice} || {{ touch {twice}; echo one; exit 3; }}; echo two; until [ -e {go} ]; do sleep 0.05; done"
    )
    gate = house.submit("gate", f"until [ -e {go}.gate ]; do sleep 0.05; done; echo x > gate.txt")
    task = house.submit("talks", f"{script}; echo three; echo x > made.txt", "--wait-for", gate)
    with following(house, task[:8], "--json") as follower:
        first = lines(follower, lambda line: line["kind"] == "task.submitted")
        Path(f"{go}.gate").touch()
        running = lines(follower, lambda line: line.get("text") == "two\n")
        assert house.json("task", "detail", task)["status"] == "running", "shown while it runs, not afterwards"
        go.touch()
        last = lines(follower, lambda line: line["kind"] == "ended")
        assert follower.wait(30) == 0
    texts = story([*first, *running, *last])
    attempt = ["task.claimed", "task.assigned", "task.started"]
    assert texts == [
        *("task.submitted", "task.unblocked", *attempt, "one", "task.retried"),
        *(*attempt, "two", "three", "task.completed", "merge.queued", "merge.landed", "ended"),
    ]  # fmt: skip
    assert last[-1]["task"]["outcome"] == "landed" and last[-1]["task"]["result"]["exit_code"] == 0
    with following(house, task, "--json") as again:
        assert story(lines(again, lambda line: line["kind"] == "ended")) == texts, "the same, of a task that has ended"


@pytest.mark.req("FR-QUEUE-004")
@pytest.mark.parametrize("how", ["restarted", "killed"])
def test_following_goes_on_after_a_restart_of_the_daemon(
    coordinate: Callable[..., Coordinated], tmp_path: Path, how: str
) -> None:
    house = coordinate(config="supervisor: {stop_grace_s: 0.5}\n")
    go = tmp_path / "go"
    task = house.submit("long", f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo over")
    with following(house, task, "--json") as follower:
        before = lines(follower, lambda line: line.get("text") == "begun\n")
        house.kill_daemon() if how == "killed" else house.run("daemon", "restart")
        go.touch()
        after = lines(follower, lambda line: line["kind"] == "ended")
        assert follower.wait(30) == 0
    texts = story([*before, *after])
    assert texts.count("begun") == texts.count("over") == 1, "its worker outlived the daemon"
    kinds = [kind for kind in texts if kind.startswith("task.")]
    recorded = [event["kind"] for event in house.json("task", "detail", task)["history"]]
    assert kinds == recorded, "each event once, in order"
    assert "task.interrupted" not in kinds


@pytest.mark.req("FR-QUEUE-004")
def test_following_shows_lines_to_people_and_ends_quietly(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate()
    go = tmp_path / "go"
    task = house.submit("says", f"echo early; until [ -e {go} ]; do sleep 0.05; done; exit 3", "--priority", "7")
    with following(house, task) as follower:
        assert follower.stdout is not None and follower.stderr is not None
        shown: list[str] = []
        while not shown or shown[-1] != "early\n":
            shown.append(follower.stdout.readline())
        assert shown[:2] == ["says  running\n", "  priority  7\n"] or shown[0] == "says  pending\n"
        assert any("task.started  pid " in line for line in shown)
        follower.send_signal(signal.SIGINT)
        assert follower.wait(30) == 130
        assert follower.stderr.read() == "interrupted\n"
    go.touch()
    with following(house, task) as follower:
        assert follower.stdout is not None
        rest = follower.stdout.read()
        assert follower.wait(30) == 0, "the end of the task is told, and is no failure of the command"
    (dead,) = (line for line in rest.splitlines() if "  task.dead  " in line)
    assert "error_code command_failed" in dead and "  error     command_failed: " in rest


@pytest.mark.req("FR-QUEUE-004")
def test_a_place_that_is_none_is_refused(house: Coordinated) -> None:
    task = house.submit("x", "true")
    for place in ("1", "1.2", "a.b.c", "-1.0.0", "1.1.1;"):
        with pytest.raises(InvalidInput, match="Invalid place"):
            house.ask("GET", f"/tasks/{task}/follow", query={"place": place})


@pytest.mark.req("FR-QUEUE-004")
def test_detail_shows_what_was_submitted_what_was_used_and_what_came_of_it(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=AGAIN)
    go = tmp_path / "go"
    script = f"echo half; until [ -e {go} ]; do sleep 0.05; done; python3 -c 'print(40 + 2)'"
    options = ("--priority", "8", "--metadata", '{"ticket": 7}', "--input", '{"branch": "feat/x"}', "--timeout", "600",
             "--max-tokens", "5000")  # fmt: skip
    task = house.submit("the answer", script, *options)
    eventually(lambda: house.ask("GET", f"/tasks/{task}/detail")["progress"] == "half")
    house.run("state", "set", task, "plan", "[1, 2]")
    shown = house.run("task", "detail", task).stdout
    for line in ("progress  half", "state     plan (version 1)", 'input     {"branch": "feat/x"}', "priority  8"):
        assert f"  {line}\n" in shown
    assert '  metadata  {"ticket": 7}\n' in shown and '  limits    {"max_tokens": 5000}\n' in shown
    eventually(lambda: house.ask("GET", f"/tasks/{task}/detail")["memory_mb"])
    go.touch()
    house.run("wait", task, "--timeout", "60")
    ended = house.json("task", "detail", task)
    (attempt,) = ended["attempt_history"]
    assert ended["duration_s"] == attempt["duration_s"] > 0 and ended["memory_mb"] == attempt["memory_mb"] > 0
    assert ended["state"] == {} and ended["result"]["output"].splitlines() == ["half", "42"]
    shown = house.run("task", "detail", task).stdout
    assert f" s, {ended['memory_mb']} MB\n" in shown and "  result    {" in shown
    for name, field in (("submitted", "created_at"), ("started", "started_at"), ("ended", "completed_at")):
        assert f"  {name:<9} {ended[field][:19].replace('T', ' ')} UTC\n" in shown
