"""An agent is improved: the real SDK asks a scripted Messages API, and both versions do the same cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import Conflict, CorralError
from tests.conftest import commit_all, git
from tests.e2e.stage import Json, Stage, Step, script, text, tool
from tests.integration.test_agent_record import figures, work
from tests.integration.test_agents import define
from tests.support.coordinated import Coordinated, eventually
from tests.support.terminals import on_terminal

GOOD, BAD = "Write GOOD work.", "Write bad work."
# The client of this agent does what its instructions say: they come before its prompt.
OBEYS = "if grep -q GOOD; then echo good > out.txt; else echo bad > out.txt; fi"
ASKED, COMPARED = "Below stand the definition", "Two works were done"


class Jury(Stage):
    """A stage whose judge knows good work by its word, wherever it stands; ``biased``: it prefers the first."""

    biased = False

    def answer(self, body: Json) -> tuple[Step, Any]:
        step, failure = super().answer(body)
        asked = json.dumps(body)
        if COMPARED in asked:
            first = asked.partition("The first work:")[2].partition("The second work:")[0]
            better = "first" if self.biased or "good" in first else "second"
            return text(json.dumps({"reasons": "It is so.", "better": better})), failure
        return step, failure

    def asked(self, words: str) -> list[str]:
        """The requests that contain some words."""
        return [body for request in self.requests if words in (body := json.dumps(request.body))]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Jury]:
    with Jury() as made:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", made.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-000000000000")
        yield made


def proposal(instructions: str, *, rubric: str | None = None, test: str = "grep -q good out.txt", **fields: Any) -> str:
    case = {
        "name": "tidy",
        "prompt": "Do it.",
        "test": f"{test} && grep -q 7 seed.txt",
        "rubric": rubric,
        "files": {"seed.txt": "7\n"},
    }
    return json.dumps(
        {"instructions": instructions, "changelog": "Better.", "reason": "It was bad.", "cases": [case], **fields}
    )


def scribe(house: Coordinated, body: str, *, does: str = OBEYS) -> Path:
    file = define(house, "scribe", f"runner: note\ncommand: [sh, -c, '{does}']", body)
    commit_all(house.root, "Define the scribe", str(file), force=True)
    house.run("trust", "--yes")
    return file


def begin(house: Coordinated, answer: str, *args: str) -> None:
    notes = house.root / "notes.txt"
    notes.write_text(script(text(answer), say="Its work is bad."))
    house.json("agent", "improve", "scribe", "--feedback", str(notes), *args)


def ended(house: Coordinated) -> dict[str, Any]:
    def over() -> dict[str, Any] | None:
        improvement: dict[str, Any] = house.ask("GET", "/agents/scribe/improvement")
        return improvement if improvement["ended_at"] else None

    improvement: dict[str, Any] = eventually(over, 150)
    return improvement


def improved(
    house: Coordinated, answer: str, *args: str, meanwhile: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    begin(house, answer, *args)
    meanwhile()
    return ended(house)


def of_improvement(house: Coordinated) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = house.ask("GET", "/tasks", query={"task_type": "agent_improvement"})
    return tasks


@pytest.mark.slow("runs several tasks, and a daemon dies")
@pytest.mark.req("FR-META-001", "FR-META-003", "FR-META-005")
def test_an_agent_is_improved_compared_and_not_deployed_unasked(house: Coordinated, stage: Jury) -> None:
    file = scribe(house, BAD)
    before, tip = file.read_text(), git(house.root, "rev-parse", "main")
    corral = ["-m", "corral", "agent", "improve", "scribe"]
    refused = on_terminal(corral, cwd=house.root, typed="n\n")
    assert refused.code == 1 and "Spend up to 10 USD on an improvement of scribe?" in refused.written
    missing = house.run("agent", "improve", "scribe", "--feedback", "no.txt", check=False)
    assert missing.returncode == 2 and "Cannot read the file 'no.txt' of --feedback" in missing.stderr
    with pytest.raises(CorralError, match="was never improved"):
        house.ask("GET", "/agents/scribe/improvement")
    answer = proposal(GOOD, rubric="It is tidy.", description="Use it for good work.")
    improvement = improved(house, answer, meanwhile=house.kill_daemon)
    assert (improvement["state"], improvement["reason"]) == ("done", None), improvement
    report = improvement["report"]
    assert report["recommendation"] == "deploy" and report["deployed"] is None, report
    assert (report["new"]["passed"]["hits"], report["old"]["passed"]["hits"]) == (2, 0)
    assert report["cases"] == [{"name": "tidy", "old": "0 of 2", "new": "2 of 2"}]
    assert "do not prove" in report["why"], "two runs each prove nothing, and it is said"
    assert file.read_text() == before and git(house.root, "rev-parse", "main") == tip, (
        "nothing lands, nothing is deployed"
    )
    assert git(house.root, "for-each-ref", "refs/corral/cases/") == "", "nothing of it is left but its runs"
    (asked,) = stage.asked(ASKED)
    assert "Write bad work." in asked and "write_file" not in asked and "run_command" not in asked
    judged = report["judged"]
    assert (judged["new"], judged["old"], judged["ties"], judged["unjudged"]) == (2, 0, 0, 0)
    assert judged["cost_usd"] > 0 and report["cost_usd"] > judged["cost_usd"] and judged["model"] == "claude-opus-5-5"
    asked_judges = stage.asked(COMPARED)
    assert (
        len(asked_judges) == 4
        and sum("+good" in prompt.partition("The second work:")[0] for prompt in asked_judges) == 2
    )
    hidden = ("1.1.0", "1.0.0", improvement["improvement_id"], GOOD, BAD, '"tools"')
    assert not [word for prompt in asked_judges for word in hidden if word in prompt]
    assert [row["version"] for row in house.json("agent", "versions", "scribe")] == ["1.1.0", "1.0.0"]
    real, cases = figures(house), figures(house, "--by", "task_type")["agent_improvement"]
    assert (real[""]["tasks"], cases["tasks"]) == (0, 4), "cases say nothing of the agent's real work"
    with pytest.raises(CorralError, match="for Corral's own tasks"):
        house.ask("POST", "/tasks", {"title": "x", "command": "true", "task_type": "agent_improvement"})
    blind = house.run("agent", "improve", "scribe", "--deploy", check=False)
    assert blind.returncode == 2 and "--yes" in blind.stderr and file.read_text() == before
    (need,) = [entry for entry in house.ask("GET", "/status")["needs_you"] if entry["kind"] == "ended_improvement"]
    assert "recommends its version: 2 of 2 runs passed" in need["what"] and need["remedy"].endswith("scribe --deploy")
    agreed = on_terminal([*corral, "--deploy"], cwd=house.root, typed="y\n")
    assert agreed.code == 0 and "Write version 1.1.0 into the file of scribe?" in agreed.written
    assert house.json("agent", "improve", "scribe", "--status")["report"]["deployed"] == str(file)
    assert not [entry for entry in house.ask("GET", "/status")["needs_you"] if entry["kind"] == "ended_improvement"]
    assert "Write GOOD work." in file.read_text() and "command: [sh" in file.read_text()
    assert 'description: "Use it for good work."' in file.read_text()
    assert git(house.root, "status", "--porcelain", str(file)).split()[0] == "M"


@pytest.mark.slow("runs several tasks")
@pytest.mark.req("FR-META-005")
def test_only_a_version_that_does_better_is_deployed_where_that_was_asked_for(house: Coordinated, stage: Jury) -> None:
    house.configure("agents: {improve: {rounds: 1}}\n")
    file = scribe(house, BAD)
    stage.biased = True
    equal = improved(house, proposal(GOOD, rubric="It is tidy.", test="true"), "--deploy-if-better")["report"]
    assert (equal["judged"]["ties"], equal["recommendation"], equal["deployed"]) == (1, "iterate", None), (
        "a judge that prefers what is first prefers neither"
    )
    stage.biased = False

    def edited() -> None:
        file.write_text(file.read_text() + "Never in a hurry.\n")
        git(house.root, "commit", "-q", "-m", "Edit the scribe", "--", str(file))
        house.run("trust", "--yes")

    other = improved(house, proposal(GOOD, rubric="It is tidy.", test="true"), "--deploy-if-better", meanwhile=edited)
    assert other["report"]["recommendation"] == "deploy" and other["report"]["deployed"] is None
    assert "its file was changed meanwhile" in other["report"]["why"] and "Never in a hurry." in file.read_text()
    better = improved(house, proposal(GOOD, rubric="It is tidy.", test="true"), "--deploy-if-better")["report"]
    assert better["deployed"] == str(file) and "the judge preferred the new" in better["why"], better
    assert "Write GOOD work." in file.read_text()


@pytest.mark.req("FR-META-003")
def test_without_a_key_an_improvement_is_refused_when_it_is_asked_for(house: Coordinated) -> None:
    scribe(house, BAD)
    refused = house.run("agent", "improve", "scribe", check=False)
    assert refused.returncode != 0 and "key" in refused.stderr and "corral config set-key" in refused.stderr
    assert house.run("agent", "improve", "scribe", "--status", check=False).returncode == 3, "none was begun"


@pytest.mark.req("FR-META-003")
def test_an_answer_that_is_no_proposal_is_asked_for_again_and_then_given_up(house: Coordinated, stage: Jury) -> None:
    scribe(house, BAD)
    bad = proposal(GOOD, cases=[{"name": "x", "prompt": "x", "test": "true", "files": {"../../x": "y"}}])
    improvement = improved(house, bad)
    assert improvement["state"] == "failed" and "no path for a case" in improvement["reason"], improvement
    asked = stage.asked(ASKED)
    assert len(asked) == 3 and "was not usable" in asked[1]
    (need,) = [entry for entry in house.ask("GET", "/status")["needs_you"] if entry["kind"] == "ended_improvement"]
    assert "no usable proposal" in need["what"]
    with pytest.raises(Conflict, match="cannot go on"):
        house.ask("POST", "/agents/scribe/improvement/resume")


@pytest.mark.slow("the API fails at every step")
@pytest.mark.req("FR-META-003")
def test_while_the_api_is_away_an_improvement_ends_after_few_requests_and_goes_on_later(
    house: Coordinated, stage: Jury
) -> None:
    house.configure("tasks: {max_retries: 1, retry_initial_s: 0.1, retry_max_s: 0.2}\nagents: {improve: {rounds: 1}}\n")
    define(house, "scribe", "runner: anthropic", BAD)
    steps = script(tool("write_file", file_path="out.txt", content="good"), text("done"), say="Do it so, é.")
    case = {"name": "tidy", "prompt": steps, "test": "grep -q good out.txt", "rubric": "It is tidy."}
    answer = proposal(GOOD, cases=[case])
    (house.root / "notes.txt").write_text(script(text(answer), say="Its work is bad."))
    # Of each phase: what is asked, the most requests, and the tasks that there are then; a run of a case has one try.
    for words, most, tasks in ((ASKED, 8, 1), ("so, é", 8, 3), (COMPARED, 16, 7)):
        stage.fail(529, times=None, containing=words)
        before = len(stage.requests)
        start = ("--feedback", "notes.txt") if words == ASKED else ("--resume",)
        house.json("agent", "improve", "scribe", *start)
        improvement = ended(house)
        assert (
            improvement["state"] == "failed"
            and "529" in improvement["reason"]
            and "--resume` goes on" in improvement["reason"]
        ), improvement
        assert (
            sum(request.step is None for request in stage.requests[before:]) <= most
            and len(of_improvement(house)) == tasks
        )
        stage.recover()
    house.json("agent", "improve", "scribe", "--resume")
    report = ended(house)["report"]
    assert (report["judged"]["ties"], report["recommendation"]) == (1, "iterate"), "both did the same: nothing was lost"
    assert len(of_improvement(house)) == 7 and report["cost_usd"] > report["judged"]["cost_usd"] > 0
    assert sum(request.step is not None and ASKED in json.dumps(request.body) for request in stage.requests) == 1


@pytest.mark.req("FR-META-002", "FR-META-003")
def test_an_improvement_begins_with_the_record_the_feedback_and_failed_logs_without_secrets(
    house: Coordinated, stage: Jury
) -> None:
    secret = f"ghp_{'a1B2' * 9}"
    scribe(house, BAD, does=f"echo I gave up with {secret}; exit 3")
    house.ask("POST", f"/tasks/{work(house)}/feedback", {"rating": 1, "comment": "Far too terse."})
    stage.fail(529, times=None)
    house.ask("POST", "/agents/scribe/improvement", {"feedback": f"It printed {secret}."})
    with pytest.raises(Conflict):  # one at a time
        house.ask("POST", "/agents/scribe/improvement", {})
    (asked, *_) = eventually(lambda: stage.asked(ASKED))
    for part in ("Write bad work.", "'failed': 1", "Far too terse.", "I gave up with", "It printed "):
        assert part in asked
    assert secret not in asked
