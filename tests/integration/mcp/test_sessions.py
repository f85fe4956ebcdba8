"""Sessions through MCP, HTTP and the command line: who is here, who can do what, who is dead, what a session changed."""

from __future__ import annotations

import asyncio
import subprocess
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from corral.core.errors import InvalidInput, NotFound
from corral.core.instants import iso, parse
from tests.conftest import commit_all, git
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually

AGENT = {
    "agent_id", "names", "agent_type", "session_id", "capabilities", "status", "unguarded", "current_task", "last_heartbeat",
    "started_at",
}  # fmt: skip


@pytest.mark.req("DISCOVER-1", "DISCOVER-2", "DISCOVER-3", "SESSION-1", "SESSION-2", "HEARTBEAT-1", "MCP-1")
def test_agents_find_each_other_by_what_they_can_do(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        me = await one.call("register_session", capabilities=["Python", "review"], current_task="Fix the login")
        assert set(me) == {"success", "session_id", "agent_id", "agent_name"}
        assert me["agent_id"] == me["agent_name"] and str(uuid.UUID(me["session_id"])) == me["session_id"]
        named = await two.call("register_session", agent_name="Sisyphus")
        assert (named["agent_id"], named["session_id"] != me["session_id"]) == ("Sisyphus", True)
        (other,) = (await two.call("discover_agents", capability="python"))["agents"]
        assert set(other) == AGENT
        assert {key: other[key] for key in ("agent_id", "agent_type", "capabilities", "status", "current_task")} == {
            "agent_id": me["agent_id"], "agent_type": "mcp", "capabilities": ["Python", "review"], "status": "active",
            "current_task": "Fix the login",
        }  # fmt: skip
        assert {row["agent_id"] for row in (await one.call("discover_agents"))["agents"]} == {
            me["agent_id"],
            "Sisyphus",
        }
        for nobody in ({"capability": "rust"}, {"capability": "review", "status": "idle"}, {"status": "disconnected"}):
            assert await one.call("discover_agents", **nobody) == {"agents": []}
        await one.call("register_session", current_task="Fix the logout")
        (other,) = (await two.call("discover_agents", capability="review"))["agents"]
        assert other["current_task"] == "Fix the logout", "what is not said again stays"
        await asyncio.sleep(0.002)  # instants are told in milliseconds
        assert await one.call("heartbeat") == {"success": True, "session_id": me["session_id"]}
        await two.call("register_session", capabilities=["rust"])
        await two.call("register_session", capabilities=[])
        (later,) = (await two.call("discover_agents", capability="review"))["agents"]
        assert later["last_heartbeat"] > other["last_heartbeat"] and later["started_at"] == other["started_at"]
        assert house.ask("POST", f"/sessions/{me['session_id']}/heartbeat")["session_id"] == me["session_id"]
        (last,) = (await two.call("discover_agents", capability="review"))["agents"]
        assert last["last_heartbeat"] > later["last_heartbeat"]
        assert [row["agent_name"] for row in house.json("session", "list", "--capability", "REVIEW")] == [
            me["agent_id"]
        ]

        # It rests, and goes on: found by that, and by what it can do only together with that.
        house.hook("SessionStart", "rests")
        house.ask("POST", "/sessions", {"session_id": "rests", "capabilities": ["cobol"]})
        for event, status, other in (("Stop", "idle", "active"), ("UserPromptSubmit", "active", "idle")):
            house.hook(event, "rests", prompt="Go on")
            for agent in (one, two):
                agents = (await agent.call("discover_agents", capability="cobol", status=status))["agents"]
                assert [(row["session_id"], row["status"]) for row in agents] == [("rests", status)]
            for wanted in ({"capability": "cobol", "status": other}, {"capability": "rust", "status": status}):
                assert await one.call("discover_agents", **wanted) == {"agents": []}, wanted
        house.hook("Stop", "rests")
        assert house.ask("POST", "/sessions", {"session_id": "rests"})["status"] == "active", "who registers is at work"
        house.ask("POST", "/sessions/rests/end")

        # What it says it can do takes the place of what it said before.
        await one.call("register_session", capabilities=["review"])
        assert await two.call("discover_agents", capability="python") == {"agents": []}

        for wrong, name in (
            ({"agent_name": "Sisyphus"}, "conflict"), ({"agent_name": "no name"}, "invalid_input"),
            ({"capabilities": [""]}, "invalid_input"), ({"capabilities": ["x" * 65]}, "invalid_input"),
            ({"capabilities": [str(n) for n in range(65)]}, "invalid_input"), ({"current_task": "x" * 3000}, "invalid_input"),
        ):  # fmt: skip
            assert (await one.call("register_session", **wrong))["error"] == name, wrong
        assert (await one.call("discover_agents", status="asleep"))["error"] == "invalid_input"
        assert (await one.call("register_session", capabilities=7))["error"] == "invalid_input"

    play(house, scene, agents=2, profile="full")
    eventually(lambda: house.json("session", "list", "--status", "active") == [])

    async def later(agent: Agent) -> None:
        assert (await agent.call("register_session", agent_name="Sisyphus"))["success"], "the name of one that is over"
        assert [row["agent_id"] for row in (await agent.call("discover_agents"))["agents"]] == ["Sisyphus"]
        for row in house.json("session", "list", "--status", "disconnected"):
            assert row["started_at"] < row["last_heartbeat"] <= row["ended_at"] <= iso(datetime.now(timezone.utc))
        gone = (await agent.call("discover_agents", status="disconnected"))["agents"]
        assert len(gone) == 3 and "Sisyphus" not in {row["agent_id"] for row in gone}

    play(house, later, profile="full")


def test_the_names_that_a_session_goes_by_are_shown_with_it(house: Coordinated) -> None:
    house.hook("SessionStart", "claude-1")

    async def scene(agent: Agent) -> None:
        first = await agent.call("register_agent", program="p", model="m", name="Sisyphus")
        assert first["name"] == "Sisyphus"
        await agent.call("register_agent", program="p", model="m", name="Boulder")
        (row,) = house.json("session", "list")
        assert row["names"] == ["Sisyphus", "Boulder"] and row["agent_name"] not in row["names"]
        assert "also Sisyphus, Boulder" in house.run("session", "list").stdout
        shown = house.json("session", "show", "boulder")
        assert (shown["session_id"], shown["names"]) == (row["session_id"], row["names"])
        assert "Sisyphus, Boulder" in house.run("session", "show", row["agent_name"]).stdout

    play(house, scene, profile="mail", CLAUDE_CODE_SESSION_ID="claude-1")


def leave_a_dead_one(house: Coordinated) -> None:
    """A session whose process died just now, and its lock."""
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            house.ask("POST", "/sessions", {"session_id": "dead", "client_pid": process.pid})
            house.ask("POST", "/locks/acquire", {"paths": ["src/dead.py"], "session_id": "dead"})
        finally:
            process.kill()


def test_a_cleanup_counts_the_dead_and_leaves_the_living_alone(house: Coordinated) -> None:
    nothing = {"success": True, "agents_cleaned": 0, "locks_released": 0}
    freed = {"success": True, "agents_cleaned": 1, "locks_released": 1}

    def cleaned(by: Callable[[], Any]) -> bool:
        """The daemon's own look, every few seconds, may come first: then another one has to die."""
        leave_a_dead_one(house)
        return bool(by() == freed)

    async def scene(agent: Agent) -> None:
        await agent.call("acquire_lock", file_path="src/a.py")
        leave_a_dead_one(house)
        while await agent.call("cleanup_dead_agents") != freed:
            assert time.monotonic() < until
            leave_a_dead_one(house)
        assert await agent.call("cleanup_dead_agents") == nothing
        assert await agent.call("cleanup_dead_agents", stale_threshold_minutes=1) == nothing
        for wrong in (0, -5, 1e9):
            assert (await agent.call("cleanup_dead_agents", stale_threshold_minutes=wrong))["error"] == "invalid_input"
        assert house.json("session", "cleanup") == nothing
        assert house.run("session", "cleanup", "--silent-for", "0", check=False).returncode == 2
        for by in (lambda: house.ask("POST", "/sessions/cleanup"), lambda: house.json("session", "cleanup")):
            eventually(lambda by=by: cleaned(by))  # type: ignore[misc]
        assert [row["file_path"] for row in house.json("lock", "list")] == ["src/a.py"]

    until = time.monotonic() + 20
    play(house, scene, profile="full")
    eventually(lambda: house.json("lock", "list") == [])  # of the agent, which has left
    assert house.ask("POST", "/sessions/cleanup") == nothing
    with pytest.raises(InvalidInput):
        house.ask("POST", "/sessions/cleanup", {"stale_threshold_minutes": 0})


@pytest.mark.faults
@pytest.mark.req("HANDOFF-4", "HEARTBEAT-4")
def test_a_database_that_cannot_be_opened_is_said_at_once_and_the_session_goes_on(house: Coordinated) -> None:
    database = house.root / ".corral" / "corral.db"

    async def scene(agent: Agent) -> None:
        me = (await agent.call("register_session"))["session_id"]
        house.stop()
        database.rename(database.with_name("aside"))
        database.mkdir()
        for tool, arguments in (("heartbeat", {}), ("write_handoff", {"summary": "x"}), ("heartbeat", {})):
            began = time.monotonic()
            answer = await agent.call(tool, **arguments)
            took_s = time.monotonic() - began
            assert (answer["success"], answer["error"]) == (False, "database_unavailable"), answer
            assert answer["message"] and answer["cause"]
        assert took_s < 1, "only the first waits for a daemon that cannot start"
        database.rmdir()
        database.with_name("aside").rename(database)
        house.run("daemon", "start")
        assert (await agent.call("heartbeat"))["session_id"] == me

    play(house, scene)


@pytest.mark.req("SESSION-1")
def test_what_a_session_changed_is_shown_with_it(house: Coordinated) -> None:
    house.hook("SessionStart", "one", source="startup")
    house.hook("SessionStart", "idle", source="startup")
    git(house.root, "switch", "-q", "-c", "login")
    before = git(house.root, "rev-parse", "HEAD")
    use: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "u1"}
    command = {"command": "echo x > login.py && git add login.py && git commit -m Login"}
    house.hook("PreToolUse", "one", tool_input=command, **use)
    (house.root / "login.py").write_text("x\n")
    commit_all(house.root, "Login\n\nwith a body", "login.py")
    house.hook("PostToolUse", "one", tool_input=command, **use)
    made = git(house.root, "rev-parse", "HEAD")
    shown = house.json("session", "show", "one")
    assert shown["changesets"] == {"commits": [{"sha": made, "subject": "Login", "branch": "login"}], "merges": []}
    git(house.root, "commit", "-q", "--allow-empty", "-m", "Unseen")
    merge = house.ask("POST", "/merges", {"branch": "login", "session_id": "one"})["merge_id"]
    changed = house.ask("GET", f"/sessions/{shown['agent_name']}")["changesets"]
    assert [commit["subject"] for commit in changed["commits"]] == ["Login", "Unseen"]
    assert [row["merge_id"] for row in changed["merges"]] == [merge]
    text = house.run("session", "show", shown["agent_name"].lower()).stdout
    assert made[:12] in text and merge in text
    assert house.json("session", "show", "idle")["changesets"] == {"commits": [], "merges": []}

    async def whois(agent: Agent) -> None:
        for name, theirs in ((shown["agent_name"], [git(house.root, "rev-parse", "login")]), ("idle", [])):
            answer = await agent.call("whois", agent_name=name)
            assert [commit["hexsha"] for commit in answer["recent_commits"]] == theirs

    play(house, whois, profile="mail")

    # What somebody else made and a command only fetched is not the session's.
    git(house.root, "switch", "-q", "-c", "other", before)
    house.hook("PreToolUse", "idle", tool_name="Bash", tool_use_id="u2", tool_input={"command": "git merge old"})
    old = git(
        house.root, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "Old", GIT_COMMITTER_DATE="2020-01-01T00:00:00Z"
    )
    git(house.root, "merge", "-q", "--ff-only", old)
    house.hook("PostToolUse", "idle", tool_name="Bash", tool_use_id="u2", tool_input={"command": "git merge old"})
    assert house.json("session", "show", "idle")["changesets"]["commits"] == []

    # When it came and went is on record; who comes back has not gone.
    asked = parse(iso(datetime.now(timezone.utc)))  # as instants are kept
    house.hook("SessionEnd", "idle", reason="other")
    over = house.json("session", "show", "idle")
    assert over["status"] == "disconnected" and parse(over["started_at"]) < asked
    assert asked <= parse(over["ended_at"]) <= datetime.now(timezone.utc)
    house.hook("SessionStart", "idle", source="resume")
    back = house.json("session", "show", "idle")
    assert (back["status"], back["ended_at"], back["started_at"]) == ("idle", None, over["started_at"])

    with pytest.raises(NotFound):
        house.ask("GET", "/sessions/nobody")
    assert house.run("session", "show", "nobody", check=False).returncode == 3
