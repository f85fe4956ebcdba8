"""``corral swarm status`` and what of it needs a person."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.coordinated import Coordinated, eventually

EATER = """
import os, time
held = b"x" * 190_000_000
while not os.path.exists(os.environ["CORRAL_PROJECT"] + "/go"):
    time.sleep(0.05)
"""


@pytest.mark.req("FR-SWARM-008", "FR-CONFIG-006")
def test_memory_that_holds_tasks_back_is_told_to_those_who_ask_and_needs_no_person(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="limits: {memory_mb: 220}\nsupervisor: {stop_grace_s: 0.5}\n")
    eats = house.submit("eats", f"{shlex.quote(sys.executable)} -c {shlex.quote(EATER)}")
    (throttle,) = eventually(lambda: house.json("swarm", "status")["throttled"])
    assert throttle["limit"] == "limits.memory_mb" and throttle["allowed"] == 220 and throttle["used"] > 176
    assert "`limits.memory_mb` is used to" in throttle["reason"]
    assert "`limits.memory_mb` is used to" in house.run("swarm", "status").stdout
    waits = house.submit("waits", "true")
    assert house.json("task", "detail", waits)["delay"].startswith("`limits.memory_mb` is used to")
    assert house.json("status")["needs_you"] == []
    (house.root / "go").touch()
    assert house.json("wait", eats, waits, "--timeout", "60")["done"] is True


@pytest.mark.req("SUP-NFR4", "FR-SWARM-005")
def test_the_figures_of_each_kind_are_beside_the_agents_and_repeated_failures_are_in_the_log(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="tasks: {max_retries: 0}\n")
    nothing = house.json("swarm", "status")
    assert set(nothing) == {"agents", "limits", "throttled", "metrics"}
    assert nothing["metrics"]["kinds"] == [] and nothing["metrics"]["median_s"] is None
    done = [house.submit(f"done {number}", "sleep 0.2") for number in range(2)]
    house.run("wait", *done, "--timeout", "60")
    failed = [house.submit(f"failed {number}", "exit 3") for number in range(5)]
    house.run("wait", *failed, "--timeout", "60", check=False)
    metrics = house.ask("GET", "/swarm")["metrics"]
    (kind,) = metrics["kinds"]
    counted = {
        name: kind[name] for name in ("kind", "completed", "failed", "other", "success_rate", "tokens", "cost_usd")
    }
    assert counted == {
        "kind": "command", "completed": 2, "failed": 5, "other": 0, "success_rate": 0.2857, "tokens": 0, "cost_usd": 0.0,
    }  # fmt: skip
    assert metrics["tasks"] == {"completed": 2, "dead": 5}
    assert kind["p95_s"] >= kind["median_s"] >= 0.2 and metrics["median_s"] == kind["median_s"]
    (line,) = (line for line in house.run("swarm", "status").stdout.splitlines() if line.startswith("command "))
    assert line.split()[:6] == ["command", "2", "5", "0", "29", "%"]

    def errors() -> list[dict[str, Any]]:
        text = (house.root / ".corral" / "logs" / "corral.log").read_text()
        return [line for line in map(json.loads, text.splitlines()) if line["level"] == "ERROR"]

    eventually(lambda: [line["event"] for line in errors()].count("task_dead") == 5)
    (failing,) = eventually(lambda: [line for line in errors() if line["event"] == "agent_failing"])
    assert "5 attempts by command failed in a row" in failing["message"] and "command_failed" in failing["message"]
