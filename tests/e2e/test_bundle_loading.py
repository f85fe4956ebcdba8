"""The real client loads the bundle, and what it says to a daemon through hooks and bridge is what the daemon relies on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.listener import Body, Listener, coordinate, listening
from tests.conftest import git
from tests.e2e.client import Run
from tests.e2e.stage import Stage, bash, script, text, tool
from tests.e2e.team import plugin
from tests.support.files import executable

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).parents[2]
PLUGIN = ("--plugin-dir", str(ROOT))
RunClaude = Callable[..., Run]
Environment = Callable[..., dict[str, str]]
AGENTS = {f"corral:{name}" for name in ("implementer", "orchestrator", "researcher", "resolver", "reviewer")}
SKILLS = {f"corral:{folder.name}" for folder in (ROOT / "skills").iterdir()}


@pytest.fixture
def env(client_env: Environment, tmp_path: Path) -> dict[str, str]:
    """A client's environment in which ``corral mcp`` is the bridge, and no daemon can be started."""
    folder = tmp_path / "bin"
    folder.mkdir()
    executable(
        folder / "corral", f'#!/bin/sh\n[ "$1" = mcp ] && exec "{sys.executable}" -m corral.client.bridge\nexit 1\n'
    )
    return client_env(path=str(folder), extra={"PYTHONPATH": str(ROOT / "daemon")})


@pytest.fixture
def sock(repo: Path) -> Path:
    """Where the daemon of a coordinated ``repo`` listens."""
    (repo / ".git" / "info" / "exclude").write_text(".corral/\n.claude/worktrees/\n")
    return coordinate(repo)


def deny(reason: str) -> Body:
    return {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def context(event: str, words: str) -> Body:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": words}}


def bodies(heard: Listener, event: str) -> list[Body]:
    return [body for name, body in heard.events if name == event]


def test_the_real_client_accepts_the_bundle_strictly(claude: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        [claude, "plugin", "validate", "--strict", "."],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation passed" in done.stdout


def test_everything_in_the_bundle_is_there_and_without_a_daemon_the_model_sees_no_tool_of_it(
    repo: Path, sock: Path, stage: Stage, env: dict[str, str], run_claude: RunClaude
) -> None:
    with listening(sock):
        run = run_claude(repo, script(text("hello")), *PLUGIN, env=env)
    assert "plugin_errors" not in run.init
    assert [p["source"] for p in run.init["plugins"] if p["name"] == "corral"] == ["corral@inline"]
    assert [(s["name"], s["status"]) for s in run.init["mcp_servers"]] == [("plugin:corral:corral", "connected")]
    assert set(run.init["agents"]) >= AGENTS
    assert set(run.init["skills"]) >= SKILLS
    assert not [name for request in stage.requests for name in request.tools if "corral" in name]


def test_a_session_is_heard_from_its_start_to_its_end(
    repo: Path, sock: Path, stage: Stage, env: dict[str, str], run_claude: RunClaude, tmp_path: Path
) -> None:
    hooks_alone = plugin(tmp_path / "hooks alone", mod=False)

    def answer(event: str, body: Body) -> Body:
        if event == "PreToolUse" and body["tool_input"].get("file_path", "").endswith("held.txt"):
            return deny("held by Wren until 12:00")
        return context(event, f"note for {event}") if event in ("SessionStart", "PostToolUse") else {}

    steps = [
        tool("Write", file_path="$CWD/free.txt", content="secret content"),
        tool("Write", file_path="$CWD/held.txt", content="secret content"),
        bash("exit 3"),
        text("that is all"),
    ]
    with listening(sock, answer) as heard:
        run = run_claude(repo, script(*steps), *hooks_alone, env=env)
    assert heard.named() == [
        *("SessionStart", "UserPromptSubmit"),
        *("PreToolUse", "PostToolUse", "PostToolBatch"),
        *("PreToolUse", "PostToolBatch"),
        *("PreToolUse", "PostToolUseFailure", "PostToolBatch"),
        *("Stop", "SessionEnd"),
    ]
    assert {body["session_id"] for _, body in heard.events} == {run.result["session_id"]}
    assert {Path(body["cwd"]).resolve() for _, body in heard.events} == {repo.resolve()}
    client = {str(body["_hook"]["pid"]) for _, body in heard.events if body["_hook"]["source"] == "command"}
    (bridge,) = {body["_hook"]["bridge"] for _, body in heard.events if body["_hook"]["source"] == "bridge"}
    assert heard.opened == [f"/api/v1/bridge?pid={bridge}&client={client.pop()}&session={run.result['session_id']}"]
    assert client == set()
    assert heard.closed == heard.opened
    assert bodies(heard, "PreToolUse")[0]["tool_input"] == {"file_path": str(repo / "free.txt")}
    assert bodies(heard, "PreToolUse")[2]["tool_input"] == {"command": "exit 3"}
    assert bodies(heard, "Stop")[0]["last_assistant_message"] == "that is all"
    assert bodies(heard, "Stop")[0]["stop_hook_active"] is False
    assert "secret content" not in str([body for name, body in heard.events if name != "UserPromptSubmit"])
    assert (repo / "free.txt").exists()
    assert not (repo / "held.txt").exists()
    request = stage.requests[-1]
    assert "held by Wren until 12:00" in request.result_texts[1]
    assert "note for SessionStart" in str(request.body)
    assert "note for PostToolUse" in str(request.body)


@pytest.mark.req("HOOK")
def test_without_a_daemon_a_session_works_as_ever(
    repo: Path, sock: Path, env: dict[str, str], run_claude: RunClaude
) -> None:
    run = run_claude(repo, script(tool("Write", file_path="$CWD/a.txt", content="x"), text("bye")), *PLUGIN, env=env)
    assert (run.exit_code, run.result["result"]) == (0, "bye")
    assert (repo / "a.txt").read_text() == "x"
    logs = repo / ".corral" / "logs"
    assert "SessionStart" in (logs / "hook.log").read_text()
    assert "PreToolUse" in (logs / "bridge.log").read_text()


def test_a_killed_bridge_opens_the_gate_for_one_edit_and_its_end_is_seen(
    repo: Path, sock: Path, env: dict[str, str], run_claude: RunClaude, tmp_path: Path
) -> None:
    hooks_alone = plugin(tmp_path / "hooks alone", mod=False)

    def answer(event: str, body: Body) -> Body:
        if event == "PreToolUse" and body["tool_input"].get("file_path", "").endswith("one.txt"):
            os.kill(int(body["_hook"]["bridge"]), signal.SIGKILL)
        return deny("no") if event == "PreToolUse" else {}

    steps = [tool("Write", file_path=f"$CWD/{name}.txt", content="x") for name in ("one", "two")]
    with listening(sock, answer) as heard:
        run_claude(repo, script(*steps, text("bye")), *hooks_alone, env=env)
    assert (repo / "one.txt").exists()
    assert not (repo / "two.txt").exists()
    first, second = (body["_hook"]["bridge"] for body in bodies(heard, "PreToolUse"))
    assert first != second
    assert [url.split("&")[0].rpartition("=")[2] for url in heard.closed] == [first, second]


def test_the_same_plugin_from_two_places_hears_each_event_once(
    repo: Path, sock: Path, sealed: Path, env: dict[str, str], run_claude: RunClaude, tmp_path: Path
) -> None:
    hooks_alone = plugin(tmp_path / "hooks alone", mod=False)
    copy = sealed / ".claude" / "skills" / "corral"
    plugin(copy, mod=False)
    with listening(sock) as heard:
        run_claude(repo, script(bash("true"), text("bye")), *hooks_alone, env=env)
    assert len(heard.opened) == 1
    assert heard.named() == [
        *("SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolBatch", "Stop", "SessionEnd")
    ]


# -- worktrees ------------------------------------------------------------------------------------------------------


def delegation(agent: str, *steps: dict[str, Any]) -> dict[str, Any]:
    prompt = script(*steps, say="Build it.")
    return tool("Agent", description="build", prompt=prompt, subagent_type=agent, run_in_background=False)


def test_a_repository_without_corral_keeps_isolation_and_is_not_changed(
    repo: Path, stage: Stage, env: dict[str, str], run_claude: RunClaude
) -> None:
    steps = [
        delegation("corral:implementer", tool("Write", file_path="built.txt", content="x"), text("built")),
        {"tool": "EnterWorktree", "input": {"name": "mine"}},
        bash("pwd; git branch --show-current"),
        tool("ExitWorktree", action="keep"),
        text("bye"),
    ]
    run = run_claude(repo, script(*steps), *PLUGIN, "--allowedTools", "Agent", env=env)
    assert run.result["result"] == "bye"
    folder = repo / ".claude" / "worktrees"
    entered = next(r.result_texts[2] for r in stage.requests if len(r.results) == 3)
    assert entered.split() == [str(folder / "mine"), "worktree-mine"]
    (isolated,) = folder.glob("agent-*")
    assert (isolated / "built.txt").exists()
    assert not (repo / "built.txt").exists()
    assert not (repo / ".corral").exists()
    assert git(repo, "status", "--short") == "?? .claude/"


# -- skills ---------------------------------------------------------------------------------------------------------


def test_a_skill_that_is_typed_reaches_the_model(
    repo: Path, sock: Path, stage: Stage, env: dict[str, str], run_claude: RunClaude
) -> None:
    skill = "corral:task-execution"
    with listening(sock):
        run_claude(repo, f"/{skill} now", *PLUGIN, env=env)
    body = (ROOT / "skills" / skill.partition(":")[2] / "SKILL.md").read_text().split("---\n", 2)[2].strip()
    assert body[:200] in "\n".join(stage.requests[0].texts)
