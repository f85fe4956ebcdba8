"""``corral swarm status`` and what of it needs a person."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable

import pytest

from tests.coordinated import Coordinated, eventually

EATER = """
import os, time
held = b"x" * 190_000_000
while not os.path.exists("../../../go"):
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
