"""A task of a model whose worker died with its daemon goes on, with the real client and the real SDK against a scripted API."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from corral.git.checkouts import salvage
from corral.runners.anthropic import AnthropicRunner
from corral.runners.blame import CONVERSATION_LOST, DAEMON_DIED
from corral.runners.claude import ClaudeRunner
from corral.runners.protocol import Runner
from corral.store.rows.tasks import AttemptRow
from corral.work.loops import store as loop_rows
from corral.work.merges.store import merges
from corral.work.tasks.store import attempts
from tests.conftest import git, worktrees_of
from tests.e2e.stage import Stage, bash_until, script, text, tool
from tests.integration.running import find_marked, is_alive, keeper_of, kill
from tests.integration.supervision import House

THE_SDK = pytest.param("anthropic", marks=pytest.mark.slow("as with the client, and each start of the SDK takes 2 s"))
pytestmark = [pytest.mark.e2e, pytest.mark.faults]
INTERRUPTED = "You were interrupted in the middle of this task"


@pytest.fixture
def house(repo: Path, stage: Stage, claude: Path, client_env: Callable[..., dict[str, str]]) -> Iterator[House]:
    environ = client_env()
    runners: dict[str, Runner] = {
        "claude": ClaudeRunner(environ, command=str(claude), stop_grace_s=5),
        "anthropic": AnthropicRunner(
            {**os.environ, "ANTHROPIC_BASE_URL": stage.url}, lambda: environ["ANTHROPIC_API_KEY"]
        ),
    }
    opened = House(repo, None, runners)
    yield opened
    for row in opened.db.read(lambda conn: merges.listing(conn)):
        kill(str(row["task_id"]))
    opened.close()


def begun(house: House, runner: str, **more: Any) -> str:
    """A task that has written one line, and is in the middle of the second step."""
    gate = house.project.root.parent / "gate"
    wait = bash_until(f"[ -e {gate} ]", first=f"touch {gate}.waited")
    if runner == "anthropic":
        wait = tool("run_command", command=f"touch {gate}.waited; until [ -e {gate} ]; do sleep 0.1; done")
    write = (
        tool("Write", file_path="$CWD/one.txt", content="one\n")
        if runner == "claude"
        else tool("write_file", file_path="one.txt", content="one\n")
    )
    prompt = script(write, wait, text("Both are done."))
    (task_id,) = house.submit_all([{"title": "two steps", "runner": runner, "prompt": prompt, **more}])
    house.until(Path(f"{gate}.waited").exists, 60)
    return task_id


def die(house: House, task_id: str, lost: tuple[Path, str] | None = None) -> None:
    """The daemon, the keeper and the worker die at once; the next daemon starts, perhaps after files were lost."""
    keeper = keeper_of(house.project.attempts_dir / f"{task_id}.1")
    while pids := [pid for pid in (keeper, *find_marked(task_id)) if is_alive(pid)]:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if lost is not None:
        for file in lost[0].rglob(lost[1]):
            file.unlink()
    house.restart()


def tries(house: House, task_id: str) -> list[AttemptRow]:
    return house.db.read(lambda conn: attempts.of_task(conn, task_id))


def said(stage: Stage, words: str) -> list[dict[str, Any]]:
    """The messages of the first request that holds these words."""
    request = next(request for request in stage.requests if words in json.dumps(request.body["messages"]))
    return list(request.body["messages"])


@pytest.mark.parametrize("runner", ["claude", "anthropic"])
def test_it_goes_on_in_its_saved_tree_and_its_own_conversation(house: House, stage: Stage, runner: str) -> None:
    task_id = begun(house, runner)
    (before,) = tries(house, task_id)
    die(house, task_id)
    (house.project.root.parent / "gate").touch()
    detail = house.until_status(task_id, "completed", "failed", "dead", timeout_s=90)
    assert (detail["status"], detail["attempts"]) == ("completed", 1), detail
    first, second = tries(house, task_id)
    assert (first["error_code"], second["error_code"]) == (DAEMON_DIED, None)
    assert second["worktree_id"] == before["worktree_id"], "the same folder, at the same path"
    messages = json.dumps(said(stage, INTERRUPTED))
    assert messages.count("Do this.") == 1 and "one.txt" in messages, "it sees its task once, and what it did"
    assert str(worktrees_of(house.project.root)) in messages and "uncommitted changes included" in messages
    (merge,) = house.db.read(merges.listing)
    assert git(house.project.root, "show", f"{merge['head_sha']}:one.txt") == "one"
    assert salvage.listing(house.worktree_context.repo) == [], "nothing had to be saved elsewhere"


@pytest.mark.req("FR-LOOP-006")
@pytest.mark.parametrize("runner", ["claude", THE_SDK])
def test_an_iteration_goes_on_in_its_own_tree_and_conversation(house: House, stage: Stage, runner: str) -> None:
    loop = {"until": [{"kind": "tests", "command": "test -e one.txt"}]}
    task_id = begun(house, runner, loop=loop)
    (before,) = tries(house, task_id)
    die(house, task_id)
    (house.project.root.parent / "gate").touch()
    detail = house.until_status(task_id, "completed", "failed", "dead", timeout_s=90)
    assert (detail["status"], detail["attempts"]) == ("completed", 1), detail
    (iteration,) = house.db.read(lambda conn: loop_rows.iterations(conn, task_id))
    second = tries(house, task_id)[-1]
    assert (iteration["iteration"], second["worktree_id"]) == (1, before["worktree_id"])
    messages = json.dumps(said(stage, INTERRUPTED))
    assert messages.count("Do this.") == 1 and "one.txt" in messages, "it sees its task once, and what it did"
    usage = json.loads(iteration["record"])
    assert usage["usage"]["turns"] < usage["conversation"]["usage"]["turns"], (
        "the conversation is older than its worker"
    )
    assert git(house.project.root, "show", f"{iteration['head_sha']}:one.txt") == "one"


@pytest.mark.parametrize("runner", ["claude", THE_SDK])
def test_a_lost_conversation_begins_anew_and_is_told_the_saved_work(house: House, stage: Stage, runner: str) -> None:
    task_id = begun(house, runner)
    home = Path(str(house.runners["claude"]._environ["HOME"]))  # type: ignore[attr-defined]
    lost = (home / ".claude/projects", "*.jsonl")
    if runner == "anthropic":
        lost = (house.project.logs_dir, "*.conversation.log")
    (house.project.root.parent / "gate").touch()
    die(house, task_id, lost)
    detail = house.until_status(task_id, "completed", "failed", "dead", timeout_s=90)
    assert (detail["status"], detail["attempts"]) == ("completed", 1), detail
    assert [row["error_code"] for row in tries(house, task_id)] == [DAEMON_DIED, CONVERSATION_LOST, None]
    (saved,) = salvage.listing(house.worktree_context.repo)
    messages = said(stage, saved.ref)
    assert all(message["role"] != "assistant" for message in messages), "a new conversation"
    assert "Do this." in json.dumps(messages), "with its task"
    assert "one.txt | 1 +" in json.dumps(messages), "and with a summary of the difference"


def test_a_daemon_that_died_twice_still_knows_the_tree(house: House, stage: Stage) -> None:
    """The second death comes before the task could start again: the kept worktree is found in the rows."""
    task_id = begun(house, "anthropic")
    house.settings = house.settings.model_copy(
        update={"supervisor": house.settings.supervisor.model_copy(update={"max_agents": 0})}
    )
    die(house, task_id)
    house.until(lambda: house.status(task_id) == "pending")
    house.worktree_context.kept.clear()
    house.settings = house.settings.model_copy(
        update={"supervisor": house.settings.supervisor.model_copy(update={"max_agents": 2})}
    )
    house.restart()
    (house.project.root.parent / "gate").touch()
    assert house.until_status(task_id, "completed", "failed", "dead", timeout_s=60)["status"] == "completed"
    first, second = tries(house, task_id)
    assert second["worktree_id"] == first["worktree_id"]
