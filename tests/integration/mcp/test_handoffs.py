"""Handoffs through every surface: written by an agent, by Corral for a session that died, read by the next."""

from __future__ import annotations

import pytest

from corral.core.errors import InvalidInput, NotFound
from tests.conftest import git
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually, told


@pytest.mark.req("HANDOFF-1", "HANDOFF-2", "HANDOFF-3", "MCP-1")
def test_agents_leave_and_read_handoffs(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        assert await two.call("read_handoff") == {"handoffs": []}
        written = await one.call(
            "write_handoff",
            summary="The login works.",
            completed_work=["login"],
            in_progress="reset\nmail",
            next_steps=["test it"],
        )
        assert set(written) == {"success", "handoff_id"} and written["success"] is True
        assert await two.call("read_handoff") == {"handoffs": []}, "it is another agent's"
        await two.call("write_handoff", summary="Second.")
        (newest,) = (await one.call("read_handoff", agent_name="all"))["handoffs"]
        assert newest["summary"] == "Second." and (await two.call("read_handoff"))["handoffs"] == [newest]
        first = (await two.call("read_handoff", agent_name="all", limit=5))["handoffs"][1]
        assert (await one.call("read_handoff", limit=5))["handoffs"] == [first]
        assert (first["handoff_id"], first["in_progress"]) == (written["handoff_id"], ["reset", "mail"])
        for agent, left in ((one, first), (two, newest)):
            me = await agent.call("register_session")
            assert [left[key] for key in ("session_id", "agent_name")] == [me["session_id"], me["agent_name"]]
        assert (await two.call("read_handoff", agent_name=first["agent_name"]))["handoffs"] == [first]
        assert (await two.call("read_handoff", agent_name="Nobody", limit=3)) == {"handoffs": []}
        assert [row["summary"] for row in await two.read("handoffs://recent")] == ["Second.", "The login works."]
        for wrong in ({"summary": ""}, {"summary": "x" * 1_000_000}):
            assert (await one.call("write_handoff", **wrong))["error"] == "invalid_input"
        assert (await one.call("read_handoff", limit=0))["error"] == "invalid_input"
        hostile = "</handoff>\x1b[2J\x00 {{}}"
        assert (await one.call("write_handoff", summary=hostile))["success"]
        assert (await one.call("read_handoff"))["handoffs"][0]["summary"] == hostile

    play(house, scene, agents=2)
    assert len(house.json("handoff", "list")) == 3, "who has written one itself needs no other"
    assert "\x1b" not in house.run("handoff", "list").stdout


@pytest.mark.req("HOOK-1", "HOOK-2", "HANDOFF-5")
def test_what_a_session_leaves_is_in_the_next_ones_briefing(house: Coordinated) -> None:
    assert "left this" not in told(house.hook("SessionStart", "one", source="startup"))
    house.hook("UserPromptSubmit", "one", prompt="Fix the login")
    assert house.json("session", "show", "one")["branch"] == "main"
    git(house.root, "switch", "-q", "-c", "login")
    house.edit("one", "src/a.py")
    assert house.json("session", "show", "one")["branch"] == "login"
    house.hook("Stop", "one", last_assistant_message="The reset still fails.")
    house.hook("SessionEnd", "one", reason="other")
    (left,) = house.json("handoff", "list")
    assert (left["automatic"], left["session_id"], left["relevant_files"]) == (True, "one", ["src/a.py"])
    assert left["branch"] == "login"
    text = told(house.hook("SessionStart", "two", source="startup"))
    for part in ("left this", "Fix the login", "The reset still fails.", "src/a.py", left["handoff_id"][:8]):
        assert part in text
    assert len(text) <= 1500
    assert "left this" not in told(house.hook("SessionStart", "three", source="startup"))
    shown = house.run("handoff", "show", left["handoff_id"][:8]).stdout
    assert "The reset still fails." in shown and "src/a.py" in shown


def test_a_connection_that_held_something_leaves_word_and_one_that_listened_does_not(house: Coordinated) -> None:
    async def scene(busy: Agent, listener: Agent) -> None:
        await busy.call("acquire_lock", file_path="src/b.py")
        await listener.call("check_locks")
        await listener.call("read_handoff")

    play(house, scene, agents=2)
    (left,) = eventually(lambda: house.json("handoff", "list"))
    eventually(lambda: house.json("session", "list", "--status", "active") == [])
    assert left["relevant_files"] == ["src/b.py"] and "hung up" in left["summary"]
    assert house.json("handoff", "list") == [left]


def test_people_write_and_read_them_and_are_told_what_is_wrong(house: Coordinated) -> None:
    made = house.json(
        "handoff", "write", "Half done.", "--done", "one", "--done", "two", "--next", "three", "--file", "src/a.py"
    )
    row = house.json("handoff", "show", made["handoff_id"])
    assert (row["completed_work"], row["next_steps"], row["relevant_files"]) == (
        ["one", "two"],
        ["three"],
        ["src/a.py"],
    )
    assert house.ask("GET", "/handoffs", query={"agent_name": row["agent_name"]})["handoffs"] == [row]
    with pytest.raises(InvalidInput):
        house.ask("POST", "/handoffs", {"summary": " "})
    with pytest.raises(NotFound):
        house.ask("GET", "/handoffs/00000000-0000")
    assert house.run("handoff", "show", "nothing", check=False).returncode == 3
    assert house.run("handoff", "write", "", check=False).returncode == 2
