"""An agent is improved: the real SDK asks a scripted Messages API, and both versions do the same cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from corral.errors import Conflict, CorralError
from tests.conftest import git
from tests.coordinated import Coordinated, eventually
from tests.e2e.stage import Stage, script, text
from tests.integration.test_agent_record import work
from tests.integration.test_agents import define

GOOD, BAD = "Write GOOD work.", "Write bad work."
# The client of this agent does what its instructions say: they come before its prompt.
OBEYS = "if grep -q GOOD; then echo good > out.txt; else echo bad > out.txt; fi"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    with Stage() as made:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", made.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-000000000000")
        yield made


def proposal(instructions: str, **fields: Any) -> str:
    case = {
        "name": "tidy",
        "prompt": "Do it.",
        "test": "grep -q good out.txt && grep -q 7 seed.txt",
        "files": {"seed.txt": "7\n"},
    }
    return json.dumps(
        {"instructions": instructions, "changelog": "Better.", "reason": "It was bad.", "cases": [case], **fields}
    )


def scribe(house: Coordinated, body: str) -> None:
    file = define(house, "scribe", f"runner: note\ncommand: [sh, -c, '{OBEYS}']", body)
    git(house.root, "add", "-f", str(file))
    git(house.root, "commit", "-q", "-m", "Define the scribe")
    house.run("trust", "--yes")


def improved(
    house: Coordinated, answer: str, *args: str, meanwhile: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    notes = house.root / "notes.txt"
    notes.write_text(script(text(answer), say="Its work is bad."))
    house.json("agent", "improve", "scribe", "--feedback", str(notes), *args)
    meanwhile()

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = house.ask("GET", "/agents/scribe/improvement")
        return found if found["ended_at"] else None

    found: dict[str, Any] = eventually(ended, 150)
    return found


@pytest.mark.slow("runs several tasks, and a daemon dies")
@pytest.mark.req("FR-META-003", "FR-META-005")
def test_an_agent_is_improved_compared_and_not_deployed_unasked(house: Coordinated, stage: Stage) -> None:
    scribe(house, BAD)
    file = house.root / ".claude" / "agents" / "scribe.md"
    before, tip = file.read_text(), git(house.root, "rev-parse", "main")
    found = improved(house, proposal(GOOD), meanwhile=house.kill_daemon)
    assert (found["state"], found["reason"]) == ("done", None), found
    report = found["report"]
    assert report["recommendation"] == "deploy" and report["deployed"] is None, report
    assert (report["new"]["passed"]["hits"], report["old"]["passed"]["hits"]) == (2, 0)
    assert report["cases"] == [{"name": "tidy", "old": "0 of 2", "new": "2 of 2"}]
    assert "do not prove" in report["why"], "two runs each prove nothing, and it is said"
    assert file.read_text() == before and git(house.root, "rev-parse", "main") == tip, (
        "nothing lands, nothing is deployed"
    )
    (asked,) = [one for one in stage.requests if "You improve the instructions" in json.dumps(one.body)]
    assert "Write bad work." in json.dumps(asked.body)
    assert [row["version"] for row in house.json("agent", "versions", "scribe")] == ["1.1.0", "1.0.0"]
    house.json("agent", "rollback", "scribe", found["version"])
    assert "Write GOOD work." in file.read_text() and "command: [sh" in file.read_text()
    assert git(house.root, "status", "--porcelain", str(file)).split()[0] == "M"


@pytest.mark.slow("runs several tasks")
@pytest.mark.req("FR-META-005")
def test_only_a_version_that_does_better_is_deployed_where_that_was_asked_for(house: Coordinated, stage: Stage) -> None:
    scribe(house, BAD)
    file = house.root / ".claude" / "agents" / "scribe.md"
    better = improved(house, proposal(GOOD), "--deploy-if-better")
    assert better["report"]["deployed"] == str(file) and "Write GOOD work." in file.read_text(), better
    git(house.root, "commit", "-q", "-am", "Deploy it")
    worse = improved(house, proposal(BAD), "--deploy-if-better")
    assert worse["report"]["recommendation"] == "drop" and "Write GOOD work." in file.read_text()


@pytest.mark.req("FR-META-003")
def test_an_answer_that_is_no_proposal_is_asked_for_again_and_then_given_up(house: Coordinated, stage: Stage) -> None:
    scribe(house, BAD)
    with pytest.raises(CorralError, match="was never improved"):
        house.ask("GET", "/agents/scribe/improvement")
    bad = proposal(GOOD, cases=[{"name": "x", "prompt": "x", "test": "true", "files": {"../../x": "y"}}])
    found = improved(house, bad)
    assert found["state"] == "failed" and "no path for a case" in found["reason"], found
    asked = [one for one in stage.requests if "You improve the instructions" in json.dumps(one.body)]
    assert len(asked) == 3 and "was not usable" in json.dumps(asked[1].body)


def test_one_agent_is_improved_once_at_a_time(house: Coordinated, stage: Stage) -> None:
    scribe(house, BAD)
    work(house)
    stage.fail(529, times=None)
    house.ask("POST", "/agents/scribe/improvement", {})
    with pytest.raises(Conflict):
        house.ask("POST", "/agents/scribe/improvement", {})
