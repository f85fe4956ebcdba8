"""Workers of models that misbehave, all at once, under one daemon: each has a clear end, and the queue goes on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.faults import stand_in
from tests.faults.storm import processes_of
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

CONFIG = """
tasks: {{max_retries: 0, retry_initial_s: 0.1, retry_max_s: 0.2}}
supervisor: {{max_agents: 12, stop_grace_s: 1}}
limits: {{memory_mb_per_agent: 250, output_mb_per_agent: 8}}
runners: {{claude: {{command: {client}}}}}
"""
MOST_LOG = 8 << 20


class Bad(NamedTuple):
    """The end that a worker must have; ``told`` is in its error message."""

    outcome: str
    code: str | None
    told: str = ""
    timeout_s: int | None = None


CLAUDE = {
    "garbage": Bad("dead", "command_failed", "The client exited with 3 and no result"),
    "flood": Bad("failed", "output_limit", "more than 8 MB of output"),
    "events-without-end": Bad("failed", "output_limit", "more than 8 MB of output"),
    "deaf": Bad("dead", "timeout", "timed out after 3 s", 3),
    "eats": Bad("dead", "memory_limit", "the limit is 250"),
    "silent": Bad("dead", "command_failed", "The client exited with 0 and no result: no output"),
    "no-result": Bad("dead", "command_failed", "The client exited with 0 and no result"),
    "cut": Bad("dead", "command_failed", "The client exited with 0 and no result"),
    "does-nothing": Bad("nothing to land", None),
}
USAGE_LIMIT = Bad("pending", "api_error", "You've hit your session limit.")


@pytest.fixture
def house(coordinate: Callable[..., Coordinated], tmp_path: Path) -> Coordinated:
    """A repository whose client is the stand-in."""
    client = executable(
        tmp_path / "client", f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(stand_in.__file__))}\n"
    )
    made = coordinate(config=CONFIG.format(client=client))
    made.run("daemon", "start")
    return made


def submit(house: Coordinated, name: str, bad: Bad) -> str:
    limit = ("--timeout", str(bad.timeout_s)) if bad.timeout_s else ()
    asked = ("--title", name, "--prompt", f"{name} please", "--runner", "claude")
    return str(house.json("task", "submit", *asked, *limit)["task_id"])


@pytest.mark.req("FR-SWARM-004", "SUP-NFR1")
@pytest.mark.executed
def test_each_has_a_clear_end_a_usage_limit_is_told_and_the_queue_goes_on(house: Coordinated) -> None:
    daemon = psutil.Process(house.daemon_pid() or 0)
    ids = {name: submit(house, name, bad) for name, bad in CLAUDE.items()}
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, daemon.memory_info().rss)
        return all(row["status"] in ("completed", "failed", "dead") for row in house.ask("GET", "/tasks"))

    eventually(is_over, 120)
    for name, bad in CLAUDE.items():
        end = house.json("task", "detail", ids[name])
        assert (end["outcome"], end["error_code"]) == (bad.outcome, bad.code), (name, end["error_message"])
        assert bad.told in (end["error_message"] or ""), (name, end["error_message"])
        log = house.root / ".corral" / "logs" / "tasks" / ids[name] / "1.log"
        assert log.stat().st_size <= MOST_LOG, name
    assert most < 400 << 20, "nothing that a worker writes is kept in the daemon"
    eventually(lambda: [process for process, _ in processes_of(house.root)] == [daemon])
    limited = submit(house, "usage-limit", USAGE_LIMIT)
    eventually(lambda: house.ask("GET", f"/tasks/{limited}/detail")["attempt_history"][0]["error_code"])
    (attempt,) = house.json("task", "detail", limited)["attempt_history"]
    assert attempt["error_code"] == "api_error" and "You've hit your session limit." in attempt["error_message"]
    fine = house.carry_out("fine", "echo fine > fine.txt")
    assert house.json("task", "detail", fine)["merge"]["state"] == "landed", "commands go on"
