"""The cancellation convention, of a task in every state, by every way there is to ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import CorralError
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually

REASON = "The package failed."
ENDED = {"error_code": "cancelled_by_orchestrator", "reason": REASON}
Cancel = Callable[[str], str]
"""Cancels a task; returns the status that the answer tells, or the name of the error."""


def _by_http(house: Coordinated) -> Cancel:
    def cancel(task_id: str) -> str:
        try:
            answer = house.ask("POST", f"/tasks/{task_id}/cancel", {"reason": REASON, "convention": True})
        except CorralError as error:
            return error.name
        return str(answer["status"])

    return cancel


def _by_command(house: Coordinated) -> Cancel:
    def cancel(task_id: str) -> str:
        done = house.run("task", "cancel", task_id, "--reason", REASON, "--convention", check=False)
        return {3: "not_found", 4: "conflict"}.get(done.returncode) or str(done.stdout.split()[1])

    return cancel


def _by_tool(house: Coordinated) -> Cancel:
    def cancel(task_id: str) -> str:
        async def scene(agent: Agent) -> Any:
            return await agent.call("cancel_task_convention", task_id=task_id, reason=REASON)

        answer = play(house, scene, profile="queue")
        return str(answer["status"] if answer["success"] else answer["error"])

    return cancel


def _offer(house: Coordinated, title: str, **how: Any) -> str:
    return str(house.ask("POST", "/tasks", {"title": title, **how})["task_id"])


def _claim(house: Coordinated) -> str:
    return str(house.ask("POST", "/tasks/claim", {"session_id": "hand"})["task_id"])


def _worker(house: Coordinated, started: Path) -> str:
    """A task whose worker is at work, and does not go when it is asked to."""
    stubborn = f"trap '' TERM; touch {started}; while :; do sleep 0.2; done"
    task_id = _offer(house, "stubborn", command=stubborn)
    eventually(started.exists)
    return task_id


@pytest.mark.req("CANCEL-1", "CANCEL-2")
@pytest.mark.parametrize("by", [_by_http, _by_command, _by_tool])
def test_the_convention_ends_whatever_has_not_ended(
    coordinate: Callable[..., Coordinated], tmp_path: Path, by: Callable[[Coordinated], Cancel]
) -> None:
    house = coordinate(config="supervisor: {stop_grace_s: 1}")
    cancel = by(house)
    running = _worker(house, tmp_path / "started")
    claimed = _offer(house, "claimed")
    assert _claim(house) == claimed
    waiting = _offer(house, "waiting", wait_for=[running])
    pending = _offer(house, "pending")
    began = time.monotonic()
    for task_id in (waiting, pending, claimed, running):
        assert cancel(task_id) == "failed"
        read = house.ask("GET", f"/tasks/{task_id}")
        assert (read["status"], read["result"]) == ("failed", {**(read["result"] or {}), **ENDED})
        assert cancel(task_id) == "failed", "said twice, it is the same"
    assert time.monotonic() - began < 60
    with pytest.raises(CorralError) as lost:
        house.ask("POST", f"/tasks/{claimed}/complete", {"success": True, "session_id": "hand"})
    assert lost.value.name == "lease_lost"
    house.ask("POST", f"/tasks/{running}/retry")
    assert house.ask("GET", f"/tasks/{waiting}")["status"] == "failed", "what it was waiting for does not revive it"


@pytest.mark.parametrize("by", [_by_http, _by_command, _by_tool])
def test_the_convention_changes_nothing_that_has_ended(house: Coordinated, by: Callable[[Coordinated], Cancel]) -> None:
    cancel = by(house)
    assert cancel("00000000-0000-4000-8000-000000000000") == "not_found"
    done = _offer(house, "done")
    assert _claim(house) == done
    house.ask("POST", f"/tasks/{done}/complete", {"success": True, "session_id": "hand", "result": {"x": 1}})
    failed = _offer(house, "failed")
    assert _claim(house) == failed
    house.ask("POST", f"/tasks/{failed}/complete", {"success": False, "session_id": "hand", "result": {"x": 2}})
    plainly = _offer(house, "cancelled")
    house.ask("POST", f"/tasks/{plainly}/cancel", {"reason": "No."})
    dead = _offer(house, "dead", command="exit 1", max_retries=0)
    eventually(lambda: house.ask("GET", f"/tasks/{dead}")["status"] == "dead")
    eventually(lambda: house.ask("GET", f"/tasks/{dead}/detail")["worktree"] is None)
    for task_id in (done, failed, plainly, dead):
        before = house.ask("GET", f"/tasks/{task_id}/detail")
        assert cancel(task_id) == "conflict"
        assert house.ask("GET", f"/tasks/{task_id}/detail") == before
