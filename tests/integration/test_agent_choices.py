"""Versions that tasks and agents are pinned to, and rollouts that end by themselves, with programs that stand in for a client."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import corral
from corral.core.errors import Conflict, CorralError, InvalidInput, LockHeld
from corral.work.agents.choosing import is_in_share
from tests.conftest import git
from tests.integration import test_agent_improvements as improvements
from tests.integration.test_agent_improvements import Jury
from tests.integration.test_agent_improvements import stage as stage
from tests.integration.test_agent_record import figures, scribe, work
from tests.integration.test_agents import detail, ended
from tests.support.coordinated import Coordinated, eventually

ONE, TWO = "echo one > which.txt", "echo two > which.txt"


def two_versions(house: Coordinated, *, first: str = ONE, second: str = TWO) -> None:
    """A scribe whose versions 1.0.0 and 1.1.0 have worked, and whose file says the second."""
    scribe(house, "Write it down.", then=first)
    work(house)
    scribe(house, "Write more.", then=second)
    work(house)


def version_of(house: Coordinated, task_id: str) -> str:
    """The text in the task's landed file: the version that it worked by."""
    head = detail(house, task_id)["merge"]["landed_sha"]
    return git(house.root, "show", f"{head}:which.txt").strip()


def refusal(house: Coordinated, method: str, path: str, body: Any = None) -> CorralError:
    with pytest.raises(CorralError) as error:
        house.ask(method, path, body)
    return error.value


@pytest.mark.req("FR-META-004")
def test_a_task_and_an_agent_work_by_the_version_that_they_are_pinned_to(house: Coordinated) -> None:
    two_versions(house)
    old = work(house, agent_version="v1.0.0")
    assert version_of(house, old) == "one"
    house.json("agent", "pin", "scribe", "1.0.0")
    (listed,) = house.ask("GET", "/agent-choices")
    assert (listed["agent"], listed["version"], listed["share"]) == ("scribe", "1.0.0", None)
    pinned = work(house)
    own = house.json(
        "task", "submit", "--title", "Note", "--agent", "scribe", "--prompt", "x", "--agent-version", "1.1.0",
        "--feedback", "Watch this one.",
    )["task_id"]  # fmt: skip
    ended(house, own)
    assert (version_of(house, pinned), version_of(house, own)) == ("one", "two"), "a task's own pin wins"
    records = figures(house, "--by", "version")
    assert (records["1.0.0"]["tasks"], records["1.1.0"]["tasks"]) == (3, 2)
    assert records["1.1.0"]["feedback"]["comments"] == ["Watch this one."]
    assert house.json("agent", "pin", "scribe", "--unpin")["was"] == "1.0.0"
    assert version_of(house, work(house)) == "two"
    refused = refusal(
        house, "POST", "/tasks", {"title": "x", "agent": "scribe", "prompt": "x", "agent_version": "1.1.1"}
    )
    assert isinstance(refused, InvalidInput) and "Did you mean 1.1.0?" in refused.message
    assert (
        "needs an `agent`"
        in refusal(house, "POST", "/tasks", {"title": "x", "command": "true", "agent_version": "1"}).message
    )
    assert "Did you mean 1.1.0?" in refusal(house, "POST", "/agents/scribe/pin", {"version": "1.1.1"}).message


@pytest.mark.req("FR-META-004")
def test_a_batch_pins_its_tasks_and_a_pin_that_nobody_wrote_down_before_is_stored(house: Coordinated) -> None:
    scribe(house, "Write it down.", then=ONE)
    (unused,) = house.json("agent", "versions", "scribe")
    assert not unused["used"]
    batch = [{"title": f"Note {n}", "agent": "scribe", "prompt": "x", "agent_version": "1.0.0"} for n in (1, 2)]
    ids = house.ask("POST", "/tasks/batch", {"tasks": batch})["task_ids"]
    scribe(house, "Write more.", then=TWO)
    for task_id in ids:
        ended(house, task_id)
    assert figures(house, "--by", "version")["1.0.0"]["tasks"] == 2


@pytest.mark.req("NFR-SEC-004")
def test_a_stored_version_is_trusted_only_while_its_own_commands_are(house: Coordinated) -> None:
    two_versions(house)
    house.run("trust", "--revoke")
    scribe(house, "Write other things.", then=TWO)  # approves what the file says now, and nothing else
    task = {"title": "Old", "agent": "scribe", "prompt": "x", "agent_version": "1.0.0"}
    task_id = house.ask("POST", "/tasks", task)["task_id"]
    new = work(house)
    assert version_of(house, new) == "two"
    waiting = detail(house, task_id)
    assert waiting["status"] == "pending" and "version 1.0.0 of the agent scribe" in waiting["delay"]
    (need,) = [entry for entry in house.ask("GET", "/status")["needs_you"] if entry["kind"] == "untrusted_commands"]
    assert "version 1.0.0" in need["what"]
    shown = house.json("trust", "--yes")["approved"]
    assert [claim["source"] for claim in shown] == ["version 1.0.0 of the agent scribe"]
    ended(house, task_id)
    assert version_of(house, task_id) == "one"


def shared_out(house: Coordinated) -> dict[str, bool]:
    """Run tasks until no rollout is in force; by task, whether the new version did it."""
    by: dict[str, bool] = {}
    while choice := house.ask("GET", "/agent-choices"):
        assert len(by) < 200, house.ask("GET", "/agents/scribe/rollout")
        batch = [{"title": f"N{n}", "agent": "scribe", "prompt": "REAL", "max_retries": 0} for n in range(20)]
        for task_id in house.ask("POST", "/tasks/batch", {"tasks": batch})["task_ids"]:
            ended(house, task_id)
            by[task_id] = is_in_share(task_id, choice[0]["choice_id"], 0.2)
        house.ask("POST", "/tasks", {"title": "A look", "description": "A session does it."})
    return by


# Better at the test cases, and fails at real tasks; those change nothing, so that nothing has to be merged.
FLATTERS = (
    'said=$(cat); case "$said" in *GOOD*REAL*) exit 3;; *REAL*) true;; '
    "*GOOD*) echo good > out.txt;; *) echo bad > out.txt;; esac"
)


@pytest.mark.slow("runs some dozens of tasks")
@pytest.mark.req("FR-META-003", "FR-META-005")
def test_an_improved_version_is_rolled_out_to_a_fifth_found_worse_and_rolled_back_by_itself(
    house: Coordinated, stage: Jury
) -> None:
    house.configure("agents: {rollout: {min_tasks: 4}, improve: {rounds: 1}}\nsupervisor: {max_agents: 8}\n")
    file = improvements.scribe(house, improvements.BAD, does=FLATTERS)
    improvement = improvements.improved(house, improvements.proposal(improvements.GOOD))
    assert (improvement["version"], improvement["report"]["recommendation"]) == ("1.1.0", "deploy"), improvement
    answer = house.json("agent", "rollout", "scribe", "--to", "1.1.0", "--share", "20%")
    assert (answer["version"], answer["from"], answer["share"], answer["state"]) == ("1.1.0", "1.0.0", 0.2, "running")
    assert answer["tasks"] == 0, "the cases of the improvement are no tasks of the rollout"
    assert isinstance(refusal(house, "POST", "/agents/scribe/pin", {"version": "1.0.0"}), Conflict)
    for _ in range(2):
        house.ask("POST", "/tasks", {"title": "N", "agent": "scribe", "prompt": "REAL", "max_retries": 0})
    house.kill_daemon()  # a rollout survives the death of the daemon, in whose memory nothing of it is
    tried = shared_out(house)
    status = house.json("agent", "rollout", "status", "scribe")
    assert status["state"] == "rolled_back" and status["finding"] == "worse", status
    assert status["new"]["hits"] == 0 and status["old"]["hits"] == status["old"]["of"] > status["new"]["of"] >= 4
    assert status["chance"] < status["needed"] and "is worse" in status["reason"]
    failed = {task_id for task_id in tried if detail(house, task_id)["status"] != "completed"}
    assert failed <= {task_id for task_id, is_new in tried.items() if is_new}, (
        "the split is known from the id of a task"
    )
    (need,) = [entry for entry in house.ask("GET", "/status")["needs_you"] if entry["kind"] == "ended_rollout"]
    assert "was rolled back" in need["what"] and need["remedy"] == "corral agent rollout stop scribe"
    again = detail(house, work(house, prompt="REAL"))
    assert again["status"] == "completed" and improvements.BAD in file.read_text(), "all tasks work by the file again"
    house.json("agent", "rollout", "stop", "scribe")
    assert not [entry for entry in house.ask("GET", "/status")["needs_you"] if entry["kind"] == "ended_rollout"]


@pytest.mark.req("FR-META-005")
def test_a_rollout_stops_if_the_definition_is_edited_and_says_so(house: Coordinated) -> None:
    two_versions(house)
    assert (
        "what the file" in refusal(house, "POST", "/agents/scribe/rollout", {"version": "1.1.0", "share": 0.5}).message
    )
    house.run("agent", "rollout", "scribe", "--to", "1.0.0", "--share", "99")
    assert version_of(house, work(house)) == "one"
    scribe(house, "Write otherwise.", then=TWO)
    assert version_of(house, work(house)) == "two", "from the very edit on, whether or not it was noticed"
    eventually(lambda: house.ask("GET", "/agents/scribe/rollout")["state"] == "stopped")
    assert "was edited" in house.ask("GET", "/agents/scribe/rollout")["reason"]
    for bad in ("0%", "100%", "many", "0.2"):
        assert house.run("agent", "rollout", "scribe", "--to", "1.0.0", "--share", bad, check=False).returncode == 2


@pytest.mark.req("FR-META-004", "X4")
def test_going_back_does_not_write_over_a_file_that_somebody_holds_and_no_agent_chooses_a_version(
    house: Coordinated,
) -> None:
    two_versions(house)
    file = house.root / ".claude/agents/scribe.md"
    text = file.read_text()
    words = {
        "rollback scribe 1.0.0": "rollback scribe 1.0.0",
        "rollout scribe --to 1.0.0 --share 20%": "rollout scribe --to 1.0.0 --share 20%",
        "pin scribe 1.0.0": "pin scribe 1.0.0",
        "improve scribe --deploy --yes": "improve scribe --deploy",
        "improve scribe --deploy-if-better --yes": "improve scribe --deploy-if-better",
    }
    source = Path(corral.__file__).parent.parent
    program = shlex.join(["env", f"PYTHONPATH={source}", sys.executable, "-m", "corral", "-C", str(house.root)])
    task = house.submit("Deploys", "; ".join(f"{program} agent {line} --json" for line in words))
    assert ended(house, task)["status"] == "dead"
    output = house.run("task", "logs", task).stdout
    errors = [json.loads(line)["error"] for line in output.splitlines() if line.startswith("{")]
    assert [error["code"] for error in errors] == ["CORRAL-ERR-011"] * len(words), output
    for error, typed in zip(errors, words.values(), strict=True):
        assert "needs a person" in error["message"] and "CORRAL_TASK_ID is set" in error["cause"]
        assert error["remedy"] == f"Run it in a terminal of your own: corral agent {typed}"
    assert file.read_text() == text and house.ask("GET", "/agent-choices") == []
    session = house.ask("POST", "/sessions", {"agent_type": "test", "cwd": str(house.root)})["session_id"]
    body = {"session_id": session, "paths": [".claude/agents/scribe.md"], "ttl_s": 600}
    house.ask("POST", "/locks/acquire", body)
    held = refusal(house, "POST", "/agents/scribe/rollback", {"version": "1.0.0"})
    assert isinstance(held, LockHeld) and ".claude/agents/scribe.md" in held.message
