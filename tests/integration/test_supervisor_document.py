"""The checks that the supervisor's document lists, typed as it has them, and the sentences around them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from corral.core.instants import parse
from corral.core.states import PHASES
from tests.integration.planned import Plan
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import requires

NAME = "TEST-SUPERVISOR-INTEGRATION-001"
LIFECYCLE, LEASES = "analytics/supervisor_lifecycle.jsonl", "supervisor_leases.jsonl"
OF_TASK = f'select(.task_id=="{NAME}")'
LEASE = "[.task_id, .agent_id, .status, .acquired_at, .expires_at]"
FOUR = ["selected", "assigned", "started", "completed"]
CHECKS = {
    "a task is selected": f"""cat {LIFECYCLE} | jq 'select(.event=="selected")' | grep .""",
    "it is assigned": f"""cat {LIFECYCLE} | jq 'select(.event=="assigned")' | grep .""",
    "its lease is active": f"""cat {LEASES} | jq 'select(.status=="active")' | grep .""",
}
AFTERWARDS = {
    "all four events of the task": f"""test "$(jq -r '{OF_TASK} | .event' {LIFECYCLE} | xargs)" = "{" ".join(FOUR)}" """,
    "in the order of time": f"jq -s -e 'map({OF_TASK} | .timestamp) | . == sort' {LIFECYCLE}",
    "with the fields": f"""jq -s -e 'all(.[]; has("task_id") and has("timestamp") and has("agent_id"))' {LIFECYCLE}""",
    "ISO 8601": f"""jq -s -e 'all(.[]; .timestamp | sub("[.][0-9]+"; "") | fromdateiso8601 > 0)' {LIFECYCLE}""",
    "the fields of a lease": f"""jq -s -e 'all(.[]; {LEASE} | all(type == "string"))' {LEASES}""",
    "the lease is released": f"""jq -s -e 'map({OF_TASK}) | last.status == "released"' {LEASES}""",
    "done in the roadmap": f"""grep "{NAME}" roadmap.yaml | grep "status: done" """,
    "the evidence": f"ls evidence/{NAME}/lifecycle.json evidence/{NAME}/summary.md",
    "all four events in it": f"jq -e '.events | map(.event) == {json.dumps(FOUR)}' evidence/{NAME}/lifecycle.json",
    "what the agent wrote in each phase": f"cd evidence/{NAME} && ls " + " ".join(f"{phase}.md" for phase in PHASES),
}


@pytest.mark.req("SUP-AC1", "SUP-AC2", "SUP-AC3", "SUP-AC4", "SUP-AC5", "SUP-AC6", "SUP-FR3", "SUP-FR4", "SUP-FR6")
@requires("jq")
def test_the_checks_of_the_document_succeed(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    house, gate = coordinate(), tmp_path / "gate"
    state = house.root / ".corral" / "state"

    def succeeds(check: str) -> bool:
        return subprocess.run(["sh", "-c", check], cwd=state, capture_output=True).returncode == 0

    writes = "; ".join(f"echo {phase} > .corral-evidence/{phase}.md" for phase in PHASES)
    wait = f"until test -e {gate}; do sleep 0.05; done"
    plan = Plan(house, f"- {{id: {NAME}, status: pending, command: 'mkdir .corral-evidence; {writes}; {wait}'}}\n")
    house.run("supervisor", "start")

    def all_succeed(checks: dict[str, str]) -> None:
        for what, check in checks.items():
            print(what, check)
            eventually(partial(succeeds, check))

    all_succeed(CHECKS)
    assert not succeeds(AFTERWARDS["done in the roadmap"])
    gate.touch()
    plan.until(**{NAME: "done"})
    all_succeed(AFTERWARDS)


@pytest.mark.req("SUP-AC7")
def test_one_supervisor_runs_the_tasks_of_the_roadmap_and_all_others(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house, log = coordinate(config="supervisor: {max_agents: 1}\n"), tmp_path / "log"
    body = f"echo begin >> {log}; sleep 0.2; echo end >> {log}"
    plan = Plan(house, "".join(f"- {{id: {name}, command: '{body}'}}\n" for name in "AB"))
    house.run("supervisor", "start")
    others = [house.submit(f"other {number}", body) for number in range(2)]
    plan.until(A="done", B="done")
    house.run("wait", *others)
    assert log.read_text().split() == ["begin", "end"] * 4, "one at a time, whoever submitted it"


@pytest.mark.req("SUP-AC4")
def test_a_persons_lease_ends_when_it_says(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="sessions: {lease_s: 2}\n")
    offered = house.json("task", "submit", "--title", "by hand", "--description", "d")["task_id"]
    claimed = house.json("task", "claim")
    assert claimed["task_id"] == offered
    shown = house.run("status").stdout
    assert "running   1 that sessions claimed" in shown and " agents" not in shown
    detail = eventually(lambda: (row := house.json("task", "detail", offered))["status"] == "pending" and row)
    (ended,) = detail["attempt_history"]
    late = (parse(ended["ended_at"]) - parse(claimed["lease_expires_at"])).total_seconds()
    assert 0 <= late < 1.5
    assert house.run("task", "complete", offered, check=False).returncode == 4
