"""The daemon is killed at every step of an improvement of an agent; the next start goes on, and does no step twice."""

from __future__ import annotations

from contextlib import suppress

import pytest

from corral.core.crash import VARIABLE
from corral.core.errors import CorralError
from tests.e2e.stage import script, text
from tests.integration.test_agent_improvements import BAD, COMPARED, GOOD, Jury, ended, of_improvement, proposal, scribe
from tests.integration.test_agent_improvements import stage as stage
from tests.support.coordinated import Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

STEPS = ("begun", "asked", "prepared", "testing", "judging", "deployed")


@pytest.mark.slow("the daemon dies six times")
@pytest.mark.req("FR-META-003")
def test_killed_at_every_step_of_an_improvement(
    house: Coordinated, stage: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.configure("agents: {improve: {rounds: 1}}\n")
    file = scribe(house, BAD)
    feedback = script(text(proposal(GOOD, rubric="It is tidy.")), say="Its work is bad.")
    house.stop()
    for step in STEPS:
        monkeypatch.setenv(VARIABLE, f"improvement.{step}")
        with suppress(CorralError):  # it may die before it answers
            if step == "begun":
                body = {"feedback": feedback, "deploy_if_better": True}
                house.ask("POST", "/agents/scribe/improvement", body)
            else:
                house.ask("GET", "/status")
        eventually(lambda: house.daemon_pid() is None)
    monkeypatch.delenv(VARIABLE)
    improvement = ended(house)
    assert (improvement["state"], improvement["reason"]) == ("done", None), improvement
    report = improvement["report"]
    assert (report["recommendation"], report["deployed"]) == ("deploy", str(file)) and GOOD in file.read_text()
    assert report["judged"]["new"] == 1 and len(stage.asked(COMPARED)) == 2
    assert len(of_improvement(house)) == 1 + 2 + 2, "one proposal, a run by each version, a judge for each order"
    assert not [need for need in house.ask("GET", "/status")["needs_you"] if "improvement" in need["what"]]
