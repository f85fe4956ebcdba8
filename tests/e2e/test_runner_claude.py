"""The runner ``claude`` with the real client: what it does in a worktree, what it costs, and every way it ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.core.errors import InvalidInput, RunnerUnavailable
from corral.runners.claude import ClaudeRunner
from corral.runners.protocol import Assignment, Limits, Running, Usage
from tests.conftest import git
from tests.e2e.client import KEY
from tests.e2e.stage import Stage, bash, script, text, tool
from tests.integration.running import clock, find_marked, finish, look, make_assignment, wait
from tests.integration.test_runner_anthropic import events, odd_api, said
from tests.support.files import put
from tests.support.programs import requires

pytestmark = pytest.mark.e2e
Start = Callable[..., Running]
FOREVER = "tail -f /dev/null"  # the client refuses a long sleep
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.test",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.test",
}


@pytest.fixture
def start(
    claude: Path, client_env: Callable[..., dict[str, str]], tmp_path: Path, repo: Path, assignments: list[Assignment]
) -> Start:
    """Start a prompt in a linked worktree: ``start(prompt, environ={...}, limits=..., …)``."""
    worktree = tmp_path / "worktree"
    git(repo, "worktree", "add", "-q", "-b", "corral/task", str(worktree))

    def begin(prompt: str, environ: dict[str, str] | None = None, **changes: Any) -> Running:
        assignment = make_assignment(tmp_path, prompt=prompt, identity_env=IDENTITY, **changes)
        assignments.append(assignment)
        runner = ClaudeRunner(client_env(extra=environ), command=str(claude), stop_grace_s=5)
        return runner.start(assignment, clock())

    return begin


def commands_of(task_id: str) -> list[str]:
    """The command lines of everything a task runs now."""
    return [" ".join(psutil.Process(pid).cmdline()) for pid in find_marked(task_id)]


def test_it_writes_and_commits_in_its_worktree_alone_and_what_is_kept_has_no_key(
    start: Start, tmp_path: Path, repo: Path, stage: Stage
) -> None:
    running = start(
        script(
            tool("Write", file_path="$CWD/hello.txt", content="hello\n"),
            bash("git add hello.txt && git commit -q -m 'Say hello' && git log -1 --format='%an %s'"),
            tool("Write", file_path=f"{repo}/stolen.txt", content="x"),
            bash("echo $ANTHROPIC_API_KEY"),
            text(f"Said hello. The key is {KEY}."),
        )
    )
    finished = finish(running)
    assert finished.success, finished
    assert (finished.exit_code, finished.result["text"]) == (0, "Said hello. The key is [redacted].")
    assert git(tmp_path / "worktree", "log", "-1", "--format=%an|%s|%b") == "Ada|Say hello|"
    assert stage.requests[-1].result_texts[1] == "Ada Say hello"
    seen = running.observe(clock())
    assert (seen.usage.input_tokens, seen.usage.output_tokens, seen.usage.turns) == (500, 100, 5)
    assert seen.usage.cost_usd > 0
    assert seen.progress == "Said hello. The key is [redacted]."
    assert finished.result["denied_tools"] == ["Write"]
    assert not (repo / "stolen.txt").exists()


def test_a_long_prompt_arrives_whole_and_it_can_be_told_something_while_it_works(start: Start, stage: Stage) -> None:
    words = "é" * 300_000 + " THE END"
    running = start(script(bash("echo one; sleep 1"), text("Done."), say=words))
    look(running, lambda seen: (seen.progress or "").startswith("Bash"))
    assert running.tell("The base has moved.")
    assert finish(running).success
    assert any(words in text for text in stage.requests[0].texts)
    assert any("The base has moved." in text for request in stage.requests for text in request.texts)
    assert not running.tell("Too late.")


def test_a_busy_api_is_waited_for(start: Start, stage: Stage) -> None:
    stage.fail(429, times=2)
    running = start(script(text("At last.")))
    finished = finish(running)
    assert finished.success, finished
    assert finished.result["text"] == "At last."
    assert len(stage.requests) == 3


OTHER_ERRORS = [
    pytest.param(status, again, marks=pytest.mark.slow("one of each kind is enough"))
    for status, again in ((400, False), (500, True))
]


@pytest.mark.parametrize(("status", "again"), [(401, False), (429, True), *OTHER_ERRORS])
def test_an_api_error_is_one_in_spite_of_its_subtype(start: Start, stage: Stage, status: int, again: bool) -> None:
    stage.fail(status, times=None)
    finished = finish(start(script(text("x")), {"CLAUDE_CODE_MAX_RETRIES": "0"}))
    assert (finished.success, finished.error_code, finished.retryable) == (False, "api_error", again)
    assert finished.error_message
    assert finished.exit_code == 1


def test_an_api_that_is_away_is_worth_another_attempt(start: Start) -> None:
    environ = {"CLAUDE_CODE_MAX_RETRIES": "0", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    finished = finish(start(script(text("x")), environ))
    assert (finished.error_code, finished.retryable) == ("api_error", True)


@pytest.mark.faults
@pytest.mark.req("FR-SWARM-004")
@pytest.mark.parametrize(
    "garbage",
    [b"<html>Busy</html>", b"event: message_start\ndata: {no\n\n", events(said("Half."), until=2)],
    ids=["a page", "broken JSON", "half an answer"],
)
def test_an_api_that_answers_garbage_without_end_is_an_error_with_a_reason(
    start: Start, assignments: list[Assignment], garbage: bytes
) -> None:
    with odd_api(garbage) as api:
        finished = finish(start("Anything.", {"CLAUDE_CODE_MAX_RETRIES": "0", "ANTHROPIC_BASE_URL": api.url}))
    assert (finished.success, finished.error_code, finished.retryable) == (False, "api_error", True)
    assert "API Error" in str(finished.error_message)
    assert find_marked(assignments[0].task_id) == []


@pytest.mark.parametrize(
    ("limits", "code", "message"),
    [
        (Limits(max_turns=2), "max_turns", "The worker reached its limit of 2 turns."),
        (Limits(max_cost_usd=0.1), "budget_exceeded", "The worker reached its budget of 0.1 USD."),
        (Limits(max_tokens=50_000), "token_limit", "The worker used more than 50000 tokens."),
    ],
)
def test_limits_on_what_it_may_use(start: Start, limits: Limits, code: str, message: str) -> None:
    dear = {**bash("true"), "usage": {"input_tokens": 60_000}}
    finished = finish(start(script(dear, bash("sleep 1"), bash("sleep 1"), text("x")), limits=limits))
    assert (finished.success, finished.error_code, finished.retryable) == (False, code, False)
    assert finished.error_message == message


@requires("setsid")
@pytest.mark.faults
def test_of_a_worker_that_hangs_usage_and_progress_are_known_and_it_is_stopped_with_all_of_it(
    start: Start, assignments: list[Assignment], tmp_path: Path
) -> None:
    hangs = f"setsid sleep 6000 & echo $! > pid; {FOREVER}"
    running = start(script(bash(hangs), text("never")))
    seen = look(running, lambda seen: seen.progress == f"Bash {hangs}")
    assert seen.usage == Usage(100, 1, 0.0, 1)
    wait(lambda: (running.observe(clock()), (tmp_path / "worktree/pid").exists())[1])
    task_id = assignments[0].task_id
    assert any("sleep 6000" in line for line in commands_of(task_id))
    assert running.observe(clock() + timedelta(seconds=299)).finished is None
    running.stop(clock(), "timeout", "Too long.")
    finished = finish(running, deadline_s=4)
    assert (finished.error_code, finished.retryable) == ("timeout", True)
    assert running.observe(clock()).usage.input_tokens >= 100
    assert find_marked(task_id) == []


@pytest.mark.faults
def test_a_model_that_never_answers_is_stalled(start: Start, stage: Stage) -> None:
    running = start(script({"sleep": 600}, text("never")), limits=Limits(stall_s=300))
    look(running, lambda seen: seen.progressed)
    now = clock()
    running.observe(now + timedelta(seconds=299))
    running.observe(now + timedelta(seconds=301))
    assert finish(running, deadline_s=5).error_code == "stalled"


@pytest.mark.faults
def test_a_client_that_is_killed_is_told_apart(start: Start, assignments: list[Assignment]) -> None:
    running = start(script(bash(FOREVER), text("never")))
    look(running, lambda seen: seen.progress)
    os.kill(running.pid, signal.SIGKILL)
    finished = finish(running)
    assert (finished.error_code, finished.retryable) == ("killed", True)
    assert find_marked(assignments[0].task_id) == []


def test_an_agent_in_the_background_is_waited_for(start: Start, tmp_path: Path) -> None:
    inner = script(bash("sleep 1; echo made > by-agent.txt"), text("Agent done."))
    agent = tool("Agent", description="d", prompt=inner, subagent_type="general-purpose", run_in_background=True)
    finished = finish(start(script(agent, text("All done."))))
    assert finished.success, finished
    assert (tmp_path / "worktree/by-agent.txt").read_text() == "made\n"


def test_an_agent_in_the_background_that_hangs_is_no_success(start: Start, stage: Stage) -> None:
    inner = script(bash(FOREVER), text("never"))
    agent = tool("Agent", description="d", prompt=inner, subagent_type="general-purpose", run_in_background=True)
    running = start(script(agent, text("My part is done.")), limits=Limits(timeout_s=600))
    look(running, lambda seen: seen.usage.cost_usd > 0)
    assert running.tell("Hurry.")
    running.observe(clock() + timedelta(seconds=600))
    assert finish(running).error_code == "timeout"


def test_a_server_left_in_the_background_does_not_void_a_success(
    start: Start, assignments: list[Assignment], tmp_path: Path
) -> None:
    limits = Limits(stall_s=300)
    running = start(script(bash(FOREVER, run_in_background=True), text("Served.")), limits=limits)
    look(running, lambda seen: seen.progress == "Served.")
    wait(lambda: (running.observe(clock()), '"type":"result"' in (tmp_path / "logs/1.log").read_text())[1])
    assert running.observe(clock() + timedelta(seconds=200)).finished is None
    running.observe(clock() + timedelta(seconds=301))
    finished = finish(running)
    assert (finished.success, finished.result["text"]) == (True, "Served.")
    assert find_marked(assignments[0].task_id) == []


def test_a_bundle_that_does_not_load_is_a_warning_and_a_session_id_that_was_used_fails_with_what_the_client_said(
    start: Start, tmp_path: Path
) -> None:
    bundle, first = tmp_path / "bundle", "0b0b0b0b-0000-4000-8000-000000000001"
    put(bundle / ".claude-plugin" / "plugin.json", json.dumps({"name": "corral", "agents": "./nowhere/"}))
    finished = finish(start(script(text("x")), plugin_dir=bundle, session_id=first))
    assert finished.success
    assert any("invalid manifest" in warning for warning in finished.result["warnings"]), finished.result
    finished = finish(start(script(text("x")), session_id=first))
    assert (finished.error_code, finished.retryable) == ("command_failed", True)
    assert finished.error_message and "already in use" in finished.error_message


def test_a_missing_client_is_named_with_a_remedy(tmp_path: Path) -> None:
    runner = ClaudeRunner({"PATH": str(tmp_path)})
    with pytest.raises(RunnerUnavailable, match="'claude' was not found") as missing:
        runner.available()
    assert "--command" in missing.value.remedy
    with pytest.raises(RunnerUnavailable):
        runner.start(make_assignment(tmp_path, prompt="x"), clock())


def test_an_assignment_without_a_prompt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        ClaudeRunner({}).start(make_assignment(tmp_path), clock())
