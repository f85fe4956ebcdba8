"""Limits of the configuration, as a daemon enforces them: workers at once, open tasks, memory of each."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable

import pytest

from tests.support.coordinated import Coordinated, eventually

LIMITS = (
    "supervisor: {max_agents: 2}\nqueue: {max_size: 1}\ntasks: {max_retries: 0}\nrunners: {command: {memory_mb: 120}}\n"
)
EATER = f"{shlex.quote(sys.executable)} -c 'import time; b = bytearray(b\"x\" * 300_000_000); time.sleep(600)'"


@pytest.mark.req("FR-CONFIG-006")
def test_each_limit_that_is_configured_is_enforced(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config=LIMITS)
    waits = "while ! test -e $CORRAL_PROJECT/go; do sleep 0.1; done"
    first = house.submit("task 0", waits)
    eventually(
        lambda: house.ask("GET", f"/tasks/{first}/detail")["status"] == "running"
    )  # until then it is in the queue
    second = house.submit("task 1", waits)
    eventually(lambda: house.ask("GET", f"/tasks/{second}/detail")["status"] == "running")
    third = house.submit("task 2", waits)
    assert [row["task_id"] for row in house.json("task", "list", "--status", "running")] == [first, second]
    assert house.json("task", "detail", third)["status"] == "pending", "max_agents: 2"
    full = house.run("task", "submit", "--title", "one too many", "--command", "true", check=False)
    assert full.returncode != 0 and "queue.max_size" in full.stderr, "max_size: 1, and one is pending"
    lines = map(json.loads, (house.root / ".corral/logs/corral.log").read_text().splitlines())
    (line,) = (line for line in lines if line["event"] == "queue_full")
    assert (line["level"], line["limit"], line["used"], line["allowed"]) == ("WARNING", "queue.max_size", 1, 1)
    (house.root / "go").touch()
    eventually(lambda: house.ask("GET", f"/tasks/{third}/detail")["status"] == "completed")
    eater = house.submit("eats", EATER)
    ended = eventually(lambda: (detail := house.ask("GET", f"/tasks/{eater}/detail"))["error_message"] and detail)
    assert "the limit is 120" in ended["error_message"], "memory_mb: 120"
