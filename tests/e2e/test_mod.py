"""The mod in the real client: it guards, brings mail and gives worktrees, where hooks are off, and without a daemon."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import commit_all, worktrees_of
from tests.e2e.client import Terminal, run_client, trust
from tests.e2e.stage import bash, bash_until, script, text, tool
from tests.e2e.team import PLUGIN, ROOT, Team, argv, plugin

pytestmark = pytest.mark.e2e
HELD = "held.txt"


def held(team: Team) -> str:
    """A file that a person holds, with their content."""
    file = team.repo / HELD
    file.write_text("theirs\n")
    team.house.run("lock", "acquire", HELD)
    return file.read_text()


def test_the_mod_alone_refuses_what_another_holds_also_in_a_subagent(team: Team, sealed: Path, tmp_path: Path) -> None:
    content = held(team)
    (sealed / "here").symlink_to(team.repo)
    inner = script(tool("Write", file_path=str(team.repo / HELD), content="from inside"), text("Tried."))
    team.plugin = plugin(tmp_path / "modules only", hooks=False)
    team.run(
        tool("Write", file_path=f"$CWD/{HELD}", content="mine"),
        tool("Write", file_path=f"\n~/here/{HELD} \u00a0", content="mine"),  # the client takes white space away
        tool("Agent", description="try", prompt=inner, subagent_type="general-purpose", run_in_background=False),
        tool("Write", file_path="$CWD/free.txt", content="mine"),
        flags=("--allowedTools", "Agent"),
    )
    assert (team.repo / HELD).read_text() == content
    assert (team.repo / "free.txt").read_text() == "mine"
    results = next(request.result_texts for request in team.stage.requests[::-1] if len(request.results) == 4)
    assert all("is held by" in words for words in results[:2])
    firsts = [request.result_texts for request in team.stage.requests if len(request.results) == 1]
    assert sum("is held by" in words for (words,) in firsts) >= 2, "the session's own, and its subagent's"
    assert [row["file_path"] for row in team.house.ask("GET", "/locks") if row["file_path"] == "free.txt"]


LAST_LOOK = """
import json, sys
sys.path.insert(0, {folder!r})
from real_hook import *
if __name__ == "__main__" and sys.argv[1] == "PreToolUse":
    payload = json.load(sys.stdin)
    print(json.dumps(payload), file=open({looked!r}, "a"))
    said = {{"permissionDecision": "deny", "permissionDecisionReason": "Last look."}}
    if payload["tool_input"]["file_path"].endswith("held.txt"):
        print(json.dumps({{"hookSpecificOutput": {{"hookEventName": "PreToolUse", **said}}}}))
"""


def test_the_mod_obeys_the_last_look_where_no_daemon_answers(team: Team, tmp_path: Path) -> None:
    looked = tmp_path / "looked.json"
    (team.repo / HELD).write_text("theirs\n")
    team.plugin = plugin(tmp_path / "copy", hooks=False)
    hook = Path(team.plugin[1]) / "hooks" / "hook.py"
    hook.rename(hook.with_name("real_hook.py"))
    hook.write_text(LAST_LOOK.format(folder=str(hook.parent), looked=str(looked)))
    team.house.stop()
    writes = [tool("Write", file_path=f"$CWD/{name}", content="mine") for name in (HELD, "free.txt")]
    team.run(*writes, flags=("--strict-mcp-config",))
    (first, second) = map(json.loads, looked.read_text().splitlines()[:2])
    assert (first["tool_name"], first["hook_event_name"], first["cwd"]) == ("Write", "PreToolUse", str(team.repo))
    assert {"session_id", "tool_use_id", "tool_input"} <= set(first) and "content" not in first["tool_input"]
    assert (team.repo / HELD).read_text() == "theirs\n"
    assert (team.repo / "free.txt").read_text() == "mine" and second["tool_input"]["file_path"].endswith("free.txt")


def test_a_mod_that_does_not_load_is_told_of_and_the_hooks_guard(team: Team, tmp_path: Path) -> None:
    content = held(team)
    well = team.member()
    well.do(bash("true"))
    team.plugin = plugin(tmp_path / "broken", guard_js="export const guard = (\n")
    silent = team.member()
    assert "is held by" in silent.do(tool("Write", file_path=f"$CWD/{HELD}", content="mine"))
    assert (team.repo / HELD).read_text() == content
    needs = [need for need in team.house.ask("GET", "/status")["needs_you"] if need["kind"] == "silent_mod"]
    assert [need["ids"]["session_id"] for need in needs] == [silent.session_id]
    assert "without Corral's mod" in team.house.run("doctor", check=False).stdout
    assert "without Corral's mod" in team.house.ask("POST", "/statusline", {"session_id": well.session_id})["line"]


def test_mail_comes_into_a_running_turn_and_is_said_to_be_there_only_then(team: Team, tmp_path: Path) -> None:
    member = team.member()
    go = tmp_path / "go"
    member.begin(bash_until(f"[ -e {go} ]"), bash("true"), text("Bye."))
    team.until(lambda: any(request.step and "go" in str(request.step) for request in member.requests))
    team.until(lambda: [row for row in team.sessions() if row["session_id"] == member.session_id])
    team.house.run("message", "send", member.name, "A question", "Which file?")

    assert receipt(team, member.session_id) == ("queued", None)
    go.touch()
    member.conversation.wait(lambda: member.conversation.results)
    team.until(lambda: receipt(team, member.session_id) == ("injected", "turn"))
    requests = [request for request in member.requests if "| Which file?" in str(request.body["messages"])]
    assert requests and str(requests[-1].body["messages"]).count("| Which file?") == 1


def receipt(team: Team, session_id: str) -> tuple[str, str | None]:
    """The state of a session's only message, and which way it went."""
    (mail,) = team.house.ask("GET", "/messages", query={"session_id": session_id})
    return mail["state"], mail["way"]


def test_a_session_at_rest_is_woken_by_its_mod_and_nothing_waits_beside_it(
    team: Team, sealed: Path, claude: Path
) -> None:
    trust(sealed, team.repo)
    with Terminal(claude, team.repo, team.env, *PLUGIN, "--permission-mode", "acceptEdits") as terminal:
        terminal.wait("accept edits on")
        terminal.wait(team.sessions)
        terminal.send(script(text("One.")))
        terminal.wait(lambda: team.sessions()[0]["status"] == "idle")
        children = psutil.Process(terminal.process.pid).children()
        terminal.wait(
            lambda: not [child for child in children if child.is_running() and "import wait" in str(argv(child))]
        )
        row = team.sessions()[0]
        team.house.run("message", "send", row["agent_name"], "A question", "Which file?")
        terminal.wait(lambda: any("| Which file?" in str(request.body["messages"]) for request in team.stage.requests))
        terminal.wait(lambda: receipt(team, row["session_id"]) == ("injected", "prompt"))
        (request,) = [request for request in team.stage.requests if "| Which file?" in str(request.body["messages"])][
            :1
        ]
        assert "The corral plugin sent a message" in str(request.body["messages"])


def test_a_person_sees_in_the_terminal_who_holds_what(team: Team, sealed: Path, claude: Path) -> None:
    trust(sealed, team.repo)
    held(team)
    with Terminal(claude, team.repo, team.env, *PLUGIN, "--permission-mode", "acceptEdits") as terminal:
        terminal.wait("main is not verified | others hold 1")
        terminal.send(script(tool("Write", file_path=f"$CWD/{HELD}", content="mine"), text("Tried.")))
        terminal.wait("Corral: held.txt is held by")
        terminal.wait(lambda: any(request.step == {"text": "Tried."} for request in team.stage.requests))
        asked = len(team.stage.requests)
        terminal.send("/corral locks")
        terminal.wait("held.txt root")
        assert len(team.stage.requests) == asked  # no turn of the model
        terminal.send(script(tool("Write", file_path="$CWD/mine.txt", content="x"), text("Wrote.")))
        terminal.wait("you hold mine.txt")


@pytest.fixture
def shared(team: Team) -> Team:
    commit_all(team.repo, "Coordinate with Corral", ".corral", ".claude")
    return team


def test_a_name_that_a_live_session_holds_is_refused_with_another_one(shared: Team, claude: Path) -> None:
    def start(*steps: Any) -> Any:
        return shared.run(*steps, flags=("--worktree", "same"))

    place = worktrees_of(shared.repo) / "same"
    first = start(tool("Write", file_path="$CWD/mine.txt", content="x"))
    assert first.init["cwd"] == str(place)
    member = shared.member("--worktree", "same")  # the first has ended: its worktree is handed over, with what is in it
    assert "x" in member.do(tool("Read", file_path="$CWD/mine.txt"))
    argv = [str(claude), "-p", "hi", "--worktree", "same", *PLUGIN]
    done = subprocess.run(argv, cwd=shared.repo, env=shared.env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "same-2 is free" in done.stderr
    assert not (shared.repo / ".claude" / "worktrees").exists()


@pytest.mark.parametrize(
    "by", ["the mod", pytest.param("the hook", marks=pytest.mark.slow("hook.py starts it for both"))]
)
def test_the_first_worktree_starts_the_daemon(shared: Team, claude: Path, tmp_path: Path, by: str) -> None:
    if by == "the mod":
        (shared.repo / ".claude" / "settings.json").unlink()
    else:
        shared.plugin = plugin(tmp_path / "hooks alone", mod=False)
    shared.house.stop()
    prompt = script(bash("true"), text("Done."))
    run = run_client(claude, shared.repo, prompt, shared.env, *shared.plugin, "--worktree", "aa", timeout_s=150)
    assert run.init["cwd"] == str(worktrees_of(shared.repo) / "aa")
    assert not (shared.repo / ".claude" / "worktrees").exists()


def test_the_plugin_is_valid_in_the_eyes_of_the_client(
    claude: Path, client_env: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    folder = plugin(tmp_path / "copy")[1]
    shutil.copy(ROOT / "tests" / "bundle" / "mod.test.ts", folder)
    for command in (("validate", "--strict"), ("test",)):
        done = subprocess.run(
            [str(claude), "plugin", *command, folder], env=client_env(), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr
