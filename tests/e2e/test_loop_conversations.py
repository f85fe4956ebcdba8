"""The agent of a loop goes on in its conversation, with the real client and the real SDK against a scripted API."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.runners.anthropic import AnthropicRunner
from corral.runners.blame import CONVERSATION_LOST
from corral.runners.claude import ClaudeRunner
from corral.runners.protocol import Runner
from corral.work.loops import store as loop_rows
from corral.work.tasks.store import attempts
from tests.conftest import worktrees_of
from tests.e2e.stage import Request, Stage, bash, script, text, tool
from tests.integration.running import kill
from tests.integration.supervision import House

THE_SDK = pytest.param("anthropic", marks=pytest.mark.slow("as with the client, and each start of the SDK takes 2 s"))
pytestmark = pytest.mark.e2e
Open = Callable[[], House]
FIRST = "I wrote one line."


@pytest.fixture
def house(repo: Path, stage: Stage, claude: Path, client_env: Callable[..., dict[str, str]]) -> Iterator[Open]:
    opened: list[House] = []
    environ = client_env()
    runners: dict[str, Runner] = {
        "claude": ClaudeRunner(environ, command=str(claude), stop_grace_s=5),
        "anthropic": AnthropicRunner(
            {**os.environ, "ANTHROPIC_BASE_URL": stage.url}, lambda: environ["ANTHROPIC_API_KEY"]
        ),
    }

    def open_house() -> House:
        opened.append(House(repo, None, runners))
        return opened[-1]

    yield open_house
    for house in opened:
        for row in house.db.read(lambda conn: loop_rows.listing(conn, 9)):
            kill(row["task_id"])
        house.close()


def step_for(runner: str, line: str) -> dict[str, Any]:
    command = f"echo {line} >> lines.txt"
    return bash(command) if runner == "claude" else tool("run_command", command=command)


def loop_of(runner: str, tmp_path: Path, *lines: str, before: str = "true") -> dict[str, Any]:
    """A loop of an agent whose test says what the next iteration shall do; it is done with as many lines."""
    for number, line in enumerate(lines, 1):
        wanted = script(step_for(runner, line), text(f"I wrote {line}."), say="Not enough:")
        (tmp_path / f"said-{number}").write_text(wanted)
    check = f"{before}; n=$(wc -l < lines.txt); cat {tmp_path}/said-$n; test $n -gt {len(lines)}"
    loop = {"until": [{"kind": "tests", "command": check}]}
    prompt = script(step_for(runner, "one"), text(FIRST))
    return {"title": "lines", "runner": runner, "prompt": prompt, "loop": loop}


def history(house: House, task_id: str) -> list[dict[str, Any]]:
    rows = house.db.read(lambda conn: loop_rows.iterations(conn, task_id))
    return [{**row, **json.loads(row["record"])} for row in rows]


def first_asked(stage: Stage, word: str) -> Request:
    """The first request whose newest text holds a word."""
    return next(request for request in stage.requests if word in request.texts[-1] or word in request.texts[-2])


@pytest.mark.req("FR-LOOP-001", "FR-LOOP-005", "FR-LOOP-006")
@pytest.mark.parametrize("runner", ["claude", "anthropic"])
def test_it_goes_on_in_its_conversation_and_counts_each_iteration_once(
    house: Open, stage: Stage, tmp_path: Path, runner: str
) -> None:
    home = house()
    (task_id,) = home.submit_all([loop_of(runner, tmp_path, "two", "three")])
    detail = home.until_status(task_id, "completed", "failed", "dead", timeout_s=90)
    assert detail["status"] == "completed", detail
    rows = history(home, task_id)
    assert [row["conversation"]["continues"] for row in rows] == [None, 1, 2]
    assert ["echo three >> lines.txt" in "\n".join(row["actions"]) for row in rows] == [False, False, True], rows
    second = first_asked(stage, "This is iteration 2")
    conversation = json.dumps(second.body["messages"])
    assert FIRST in conversation and "Not enough:" in conversation, (
        "it sees what it did, and what the evaluation said of that"
    )
    assert conversation.count("Do this.") == 1, "it is not given its task once more"
    assert "I wrote two." in json.dumps(first_asked(stage, "This is iteration 3").body["messages"])
    assert len({row["session_id"] for row in rows}) == 3
    assert [row["usage"]["input_tokens"] for row in rows] == [200, 200, 200], "each has what it used itself"
    assert [row["usage"]["turns"] for row in rows] == [2, 2, 2]
    costs = [row["usage"]["cost_usd"] for row in rows]
    assert max(costs) < 1.5 * min(costs)


@pytest.mark.req("FR-LOOP-006")
@pytest.mark.parametrize("runner", ["claude", THE_SDK])
def test_a_new_daemon_goes_on_in_the_conversation_of_the_last_completed_iteration(
    house: Open, stage: Stage, tmp_path: Path, runner: str
) -> None:
    home = house()
    (task_id,) = home.submit_all([loop_of(runner, tmp_path, "two")])
    home.until(lambda: len(history(home, task_id)) == 1, 60)
    home.until(lambda: home.status(task_id) == "running", 60)
    home.supervisor.stop_all()
    home.until(lambda: not home.supervisor.running_count(), 30)
    home.worktree_context.stopping.clear()
    home.worktree_context.kept.clear()
    home.restart()
    assert home.until_status(task_id, "completed", "failed", "dead", timeout_s=90)["status"] == "completed"
    rows = history(home, task_id)
    assert [row["conversation"]["continues"] for row in rows] == [None, 1]
    last = stage.requests[-1]
    assert FIRST in json.dumps(last.body["messages"])
    assert f"You work in the folder {worktrees_of(home.project.root)}/task-" in "\n".join(last.texts)


@pytest.mark.req("FR-LOOP-006")
@pytest.mark.parametrize("runner", ["claude", THE_SDK])
def test_a_lost_conversation_begins_anew_with_the_feedback_and_says_so(
    house: Open, stage: Stage, tmp_path: Path, runner: str
) -> None:
    harness = house()
    home = Path(stage_home(harness))
    kept = home / ".claude/projects" if runner == "claude" else harness.project.logs_dir
    pattern = "*.jsonl" if runner == "claude" else "*.conversation.log"
    (task_id,) = harness.submit_all([loop_of(runner, tmp_path, "two", before=f"find {kept} -name '{pattern}' -delete")])
    detail = harness.until_status(task_id, "completed", "failed", "dead", timeout_s=90)
    assert detail["status"] == "completed", detail
    first, second = history(harness, task_id)
    assert (first["conversation"]["lost"], second["conversation"]["continues"]) == (None, None)
    assert "could not be resumed" in second["conversation"]["lost"], second["conversation"]
    conversation = json.dumps(first_asked(stage, "This is iteration 2").body["messages"])
    assert '"role": "assistant"' not in conversation and "Not enough:" in conversation and "is lost" in conversation
    assert "Do this." in conversation, "it is given its task again"
    tries = harness.db.read(lambda conn: attempts.of_task(conn, task_id))
    assert [row["error_code"] for row in tries].count(CONVERSATION_LOST) == 1


def test_a_conversation_that_the_api_refuses_begins_anew(house: Open, stage: Stage, tmp_path: Path) -> None:
    home = house()
    stage.fail(400, times=None, containing="Go on with the task in this conversation.")
    (task_id,) = home.submit_all([loop_of("anthropic", tmp_path, "two")])
    assert home.until_status(task_id, "completed", "failed", "dead", timeout_s=60)["status"] == "completed"
    assert "400" in history(home, task_id)[1]["conversation"]["lost"]


def stage_home(house: House) -> str:
    return str(house.runners["claude"]._environ["HOME"])  # type: ignore[attr-defined]
