"""Sessions of the real client from their first event to their end, however that comes: who they are, what they keep."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import git
from tests.e2e.client import Run, Terminal, trust
from tests.e2e.stage import bash, bash_until, script, text, tool
from tests.e2e.team import PLUGIN, Member, Team, plugin
from tests.support.files import executable

pytestmark = pytest.mark.e2e


def write(path: str, content: str = "x") -> dict[str, object]:
    return tool("Write", file_path=f"$CWD/{path}", content=content)


def unguarded(team: Team, member: Member) -> bool:
    shown = {row["session_id"]: row["unguarded"] for row in team.house.json("session", "list")}
    return bool(shown[member.session_id])


# -- ends


def test_a_session_whose_start_no_daemon_heard_is_known_and_briefed_with_its_first_prompt(team: Team) -> None:
    broken = team.repo.parent / "broken"
    executable(broken / "python3", "#!/bin/sh\nexit 1\n")
    lost = team.member(path=broken)
    transcript = lost.do(write("a.txt"))
    assert transcript.count(f"You are {lost.name} in a repository") == 1
    os.kill(lost.pid, signal.SIGKILL)
    team.until(lambda: lost.row["status"] == "disconnected")
    assert team.locks() == {}


def test_clear_begins_a_session_each_end_frees_what_it_held_and_without_a_bridge_it_is_unguarded(
    team: Team, tmp_path: Path
) -> None:
    member = team.member()
    with_mod, team.plugin = team.plugin, plugin(tmp_path / "plugin", mod=False)
    (team.repo / ".claude/settings.local.json").unlink()  # nor the hook of `init` that looks by itself
    lonely = team.member("--strict-mcp-config")  # as by a person, or a policy, that allows no MCP server, and no mod
    team.plugin = with_mod
    member.do(write("a.txt"))
    assert not unguarded(team, member)
    old = member.name
    member.conversation.turn("/clear")
    team.until(lambda: member.row["status"] == "disconnected")
    assert team.locks() == {} and not unguarded(team, member)
    member.conversation.turn(script(write("c.txt"), text("Done.")))
    fresh = member.conversation.events[-1]["session_id"]
    assert fresh != member.session_id
    row = team.session(fresh)
    assert row["agent_name"] != old
    assert row["status"] != "disconnected"
    assert team.locks() == {"c.txt": fresh}
    member.conversation.finish()
    team.until(lambda: team.session(fresh)["status"] == "disconnected")
    assert team.locks() == {} and not team.session(fresh)["unguarded"]
    lonely.do(write("b.txt"))
    team.until(lambda: unguarded(team, lonely))
    needs = [need for need in team.house.ask("GET", "/status")["needs_you"] if need["kind"] == "unguarded_session"]
    assert [need["ids"]["session_id"] for need in needs] == [lonely.session_id]
    assert "unguarded" in team.house.run("status").stdout
    assert f"guard: {needs[0]['what']}" in team.house.run("doctor", check=False).stdout
    assert "(idle, unguarded)" in str(team.house.hook("SessionStart", "newcomer"))
    lonely.conversation.finish()
    team.until(lambda: lonely.row["status"] == "disconnected")
    assert not unguarded(team, lonely)
    assert "unguarded" not in team.house.run("session", "list").stdout


def test_a_session_without_corral_on_its_path_is_guarded(team: Team) -> None:
    """As with a README's `export PATH` that was typed in another shell."""
    team.env["PATH"] = team.env["PATH"].partition(os.pathsep)[2]
    member, other = team.member(), team.member()
    transcript = member.do(write("a.txt"), bash("command -v corral && corral --version"))
    assert "corral 0." in transcript, "and its shell finds the command in the plugin"
    assert "is held by" in other.do(write("a.txt", "theirs"))
    assert not unguarded(team, member)


# -- the daemon, the bridge


@pytest.mark.faults
@pytest.mark.req("HOOK-3")
def test_of_daemon_bridge_and_session_each_may_be_killed_and_no_edit_is_lost_or_unguarded(team: Team) -> None:
    member, other = team.member(), team.member()

    # The daemon, between two edits.
    member.do(write("before.txt"))
    team.house.kill_daemon()
    member.do(write("after.txt"))
    assert (team.repo / "before.txt").exists()
    assert (team.repo / "after.txt").exists()
    assert "no daemon: " in (team.repo / ".corral" / "logs" / "bridge.log").read_text()
    team.until(team.house.daemon_pid)
    member.do(write("later.txt"))
    transcript = other.do(write("before.txt", "theirs"), write("later.txt", "theirs"), write("free.txt"))
    assert f"before.txt is held by {member.name}" in transcript
    assert f"later.txt is held by {member.name}" in transcript
    assert (team.repo / "later.txt").read_text() == "x"
    assert team.locks()["free.txt"] == other.session_id
    assert not unguarded(team, member)

    # The bridge: the session is shown unguarded until it has another.
    go = team.repo.parent / "go"
    bridge = member.bridge
    member.begin(bash_until(f"[ -e {go} ]", first="touch began"), write("last.txt"), text("Done."))
    team.until((team.repo / "began").exists)
    bridge.kill()
    team.until(lambda: unguarded(team, member))
    assert "unguarded" in team.house.run("status").stdout
    go.touch()
    team.until(member.has_done)
    assert team.until(lambda: member.bridge).pid != bridge.pid
    team.until(lambda: not unguarded(team, member))
    assert team.locks()["last.txt"] == member.session_id

    # The session: what it held is free within seconds.
    os.kill(member.pid, signal.SIGKILL)
    began = time.monotonic()
    member.conversation.process.wait()
    team.until(lambda: member.row["status"] == "disconnected")
    assert time.monotonic() - began < 20
    assert member.row["end_reason"] == "process_gone"
    assert set(team.locks().values()) == {other.session_id}
    assert "is held by" not in other.do(tool("Read", file_path="$CWD/last.txt"), write("last.txt", "other"))
    assert (team.repo / "last.txt").read_text() == "other"


# -- identities


@pytest.mark.req("SESSION-1")
def test_a_session_that_is_resumed_keeps_its_name_and_a_fork_gets_its_own(team: Team) -> None:
    first = team.run(write("a.txt")).result["session_id"]
    before = team.session(first)
    assert before["status"] == "disconnected"
    again = team.run(bash("echo again >> a.txt"), flags=("--resume", first)).result["session_id"]
    assert again == first
    assert team.session(first)["agent_name"] == before["agent_name"]
    assert len(team.sessions()) == 1
    fork = team.run(bash("echo fork >> a.txt"), flags=("--resume", first, "--fork-session")).result["session_id"]
    assert fork != first
    names = {row["session_id"]: row["agent_name"] for row in team.sessions()}
    assert set(names) == {first, fork}
    assert names[first] == before["agent_name"] != names[fork]


# -- loaded twice, or where nothing is coordinated


@pytest.mark.slow("twenty calls of tools, to compare their time")
def test_a_repository_without_corral_is_neither_changed_nor_slowed(
    make_repo: Callable[..., Path], run_claude: Callable[..., Run], team: Team
) -> None:
    steps = [write("new.txt"), *(bash(f"echo {number} >> new.txt") for number in range(8)), text("Done.")]
    took, seen = {}, {}
    for name, flags in (("without", ()), ("with", PLUGIN)):
        plain = make_repo(name)
        run = run_claude(plain, script(*steps), *flags, env=team.env)
        asked = team.stage.requests_in(plain)
        took[name] = asked[-1].at - asked[0].at
        seen[name] = [request.result_texts for request in asked]
        assert run.result["result"] == "Done."
        assert not (plain / ".corral").exists()
        assert git(plain, "status", "--short", "--ignored") == "?? new.txt"
        assert "Corral" not in str([request.body["messages"] for request in asked]).replace("corral:", "")
        assert team.sessions() == []
    assert [len(texts) for texts in seen["with"]] == [len(texts) for texts in seen["without"]]
    assert took["with"] < 2 * took["without"] + 1


# -- a person


def test_a_session_that_waits_for_its_person_is_shown_so(team: Team, sealed: Path, claude: Path) -> None:
    trust(sealed, team.repo)
    with Terminal(claude, team.repo, team.env, *PLUGIN, "--permission-mode", "default") as terminal:
        terminal.wait(lambda: team.sessions())
        terminal.wait("? for shortcuts")
        terminal.send(script(write("a.txt"), text("bye")))
        terminal.wait(lambda: team.sessions()[0]["waiting_for"], timeout_s=60)
        (row,) = team.house.json("session", "list")
        assert row["waiting_for"] == "permission for Write"
        terminal.wait(lambda: team.sessions()[0]["current_task"] == "Do this.")
        assert "waiting for permission for Write" in team.house.run("status").stdout
        terminal.type("\r")
        terminal.wait((team.repo / "a.txt").exists)
        terminal.wait(lambda: team.sessions()[0]["waiting_for"] is None)
