"""What is told once is told: an answer that gets lost on its way, and what it brought, come again with the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.bundle.listener import Body, coordinate, listening
from tests.integration.bridging import Bridge, said
from tests.support.coordinated import Coordinated, eventually, told


@pytest.fixture
def start() -> Iterator[Callable[[Path], Bridge]]:
    """Start bridges that end with the test."""
    bridges: list[Bridge] = []

    def make(cwd: Path) -> Bridge:
        bridges.append(Bridge(cwd))
        return bridges[-1]

    yield make
    for bridge in bridges:
        bridge.close()


def arrive(house: Coordinated, *sessions: str) -> list[str]:
    for session in sessions:
        house.hook("SessionStart", session)
    rows = {row["session_id"]: row["agent_name"] for row in house.ask("GET", "/sessions")}
    return [rows[session] for session in sessions]


def send(house: Coordinated, to: str, body: str, importance: str = "normal") -> None:
    letter = {"session_id": "ann", "to": [to], "subject": "Hello", "body": body, "importance": importance}
    house.ask("POST", "/messages", letter)


def event(house: Coordinated, **fields: Any) -> Body:
    return {"session_id": "ben", "cwd": str(house.root), **fields}


@pytest.mark.faults
def test_a_connection_that_breaks_under_an_answer_loses_nothing_and_tells_nothing_twice(
    house: Coordinated, make_repo: Callable[..., Path], start: Callable[[Path], Bridge]
) -> None:
    _, ben = arrive(house, "ann", "ben")
    elsewhere = make_repo("elsewhere")  # where the bridge takes what stands between it and the daemon for the daemon
    broken = 0

    def relay(name: str, body: Body) -> Body | None:
        nonlocal broken
        answer: Body = house.ask("POST", f"/hooks/{name}", body)
        broken -= 1
        return answer if broken < 0 else None

    with listening(coordinate(elsewhere), relay):
        bridge = start(elsewhere)
        send(house, ben, "One")
        broken = 1
        assert "| One" in told(bridge.hook("UserPromptSubmit", **event(house, prompt="x")))
        assert told(bridge.hook("PostToolBatch", **event(house))) == ""

        send(house, ben, "Two", "urgent")
        broken = 2
        assert bridge.hook("Stop", **event(house, stop_hook_active="false")) == {}
        held = bridge.hook("Stop", **event(house, stop_hook_active="false"))
        assert held["decision"] == "block" and held["reason"].count("| Two") == 1 and "| One" not in held["reason"]
        assert bridge.hook("Stop", **event(house, stop_hook_active="false")) == {}

        send(house, ben, "Three")
        house.hook("SubagentStart", "ben", agent_id="sub", agent_type="Explore")
        broken = 2
        assert bridge.hook("PostToolBatch", **event(house)) == {}
        assert told(bridge.hook("PostToolBatch", **event(house, agent_id="sub"))) == ""
        assert told(bridge.hook("PostToolBatch", **event(house))).count("| Three") == 1
        assert told(bridge.hook("PostToolBatch", **event(house))) == ""


@pytest.mark.faults
def test_a_daemon_that_is_killed_before_it_answers_has_told_nothing(
    house: Coordinated, start: Callable[[Path], Bridge]
) -> None:
    _, ben = arrive(house, "ann", "ben")
    send(house, ben, "Stop the press", "urgent")
    house.run("daemon", "stop")
    house.run("daemon", "start", CORRAL_CRASH_AT="hooks.handled")
    bridge = start(house.root)
    assert bridge.hook("Stop", **event(house, stop_hook_active="false")) == {}
    eventually(lambda: house.daemon_pid() is None)
    house.run("daemon", "start")
    (mail,) = house.ask("GET", "/messages", query={"session_id": "ben"})
    assert mail["state"] == "injected"  # it died between the commit and the answer
    held = bridge.hook("Stop", **event(house, stop_hook_active="false"))
    assert "| Stop the press" in held["reason"]
    assert bridge.hook("Stop", **event(house, stop_hook_active="true")) == {}
    assert said(bridge.answer_to(bridge.start_hook("PostToolBatch", **event(house)))) == {}


@pytest.mark.faults
def test_a_daemon_that_reads_an_event_when_its_bridge_has_given_up_tells_nothing(
    house: Coordinated, start: Callable[[Path], Bridge]
) -> None:
    _, ben = arrive(house, "ann", "ben")
    bridge = start(house.root)
    bridge.hook("PostToolBatch", **event(house))
    send(house, ben, "One", "urgent")
    daemon = psutil.Process(house.daemon_pid())
    daemon.suspend()
    try:
        assert bridge.hook("Stop", **event(house, stop_hook_active="false")) == {}
    finally:
        daemon.resume()
    eventually(
        lambda: next(row for row in house.ask("GET", "/sessions") if row["session_id"] == "ben")["status"] == "idle"
    )
    (mail,) = house.ask("GET", "/messages", query={"session_id": "ben"})
    assert mail["state"] == "queued"
    assert "| One" in bridge.hook("Stop", **event(house, stop_hook_active="false"))["reason"]


def test_urgent_mail_holds_a_subagent_once(house: Coordinated) -> None:
    arrive(house, "ann", "ben")
    sub: dict[str, Any] = {"agent_id": "sub", "agent_type": "Explore"}
    house.hook("SubagentStart", "ben", **sub)
    name = next(row["agent_name"] for row in house.ask("GET", "/sessions") if row["session_id"] == "sub")
    send(house, name, "Not that file", "urgent")
    assert house.hook("Stop", "ben") == {}
    held = house.hook("SubagentStop", "ben", stop_hook_active=False, **sub)
    assert held["decision"] == "block" and "| Not that file" in held["reason"]

    def status() -> str:
        return next(str(row["status"]) for row in house.ask("GET", "/sessions") if row["session_id"] == "sub")

    assert status() == "active"
    assert house.hook("SubagentStop", "ben", stop_hook_active=False, **sub) == {}
    assert status() == "disconnected"


def test_a_call_that_its_person_may_still_refuse_brings_no_mail(house: Coordinated) -> None:
    _, ben = arrive(house, "ann", "ben")
    send(house, ben, "One")
    for tool, tool_input in (("Edit", {"file_path": str(house.root / "a.txt")}), ("Bash", {"command": "true"})):
        assert house.hook("PreToolUse", "ben", tool_name=tool, tool_input=tool_input, tool_use_id=tool) == {}
    assert "| One" in told(house.hook("PostToolBatch", "ben"))


def test_what_is_told_once_is_never_cut_by_what_stands_beside_it(house: Coordinated) -> None:
    _, ben = arrive(house, "ann", "ben")
    paths = [f"{number:03d}-{'x' * 100}.txt" for number in range(60)]
    house.ask("POST", "/locks/acquire", {"session_id": "ann", "paths": paths, "checkout": str(house.root)})
    send(house, ben, "y" * 5000)
    call: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_use_id": "u"}
    house.hook("PreToolUse", "ben", **call)
    for path in paths:
        (house.root / path).write_text("x")
    text = told(house.hook("PostToolUse", "ben", **call))
    assert "</corral-mail>" in text and "Your shell command changed 000-" in text
    assert 9000 < len(text) < 10_000
