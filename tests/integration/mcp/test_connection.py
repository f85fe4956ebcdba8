"""An MCP client meets the daemon through the bridge: tools, resources, who it is, and what a restart does to it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from corral.client import gate, wire
from corral.config.paths import find_project, find_socket
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually


@pytest.mark.req("MCP-1")
def test_a_client_is_a_session_of_its_own_for_as_long_as_it_is_connected(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        assert "acquire_lock" in await one.tools()
        assert (await one.call("acquire_lock", file_path="src/a.py", reason="mine"))["action"] == "acquired"
        refused = await two.call("acquire_lock", file_path="./src/*.py")
        assert (refused["success"], refused["error"], refused["reason"]) == (False, "lock_held", "locked_by_other")
        (lock,) = await two.call("check_locks", file_paths=["src/"])
        assert lock["locked_by"] == refused["locked_by"]
        assert (await two.call("release_lock", file_path="src/a.py"))["error"] == "not_found"
        assert (await one.read("locks://current"))[0]["file_path"] == "src/a.py"
        live = house.json("session", "list", "--status", "active")
        assert [row["agent_type"] for row in live] == ["mcp"] * 2

    play(house, scene, agents=2)
    eventually(lambda: house.json("session", "list", "--status", "active") == [])
    assert house.json("lock", "list") == []


def test_a_connection_survives_a_restart_of_the_daemon(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        assert (await agent.call("acquire_lock", file_path="src/a.py"))["success"]
        house.kill_daemon()
        eventually(lambda: house.daemon_pid() is None)
        assert (await agent.call("acquire_lock", file_path="src/b.py"))["success"]
        held = {row["file_path"]: row["session_id"] for row in house.json("lock", "list")}
        assert set(held) == {"src/a.py", "src/b.py"} and len(set(held.values())) == 1

    play(house, scene)


def test_a_daemon_that_is_killed_soon_after_its_start_is_started_again_at_once(house: Coordinated) -> None:
    bridge = gate.Gate(find_project(house.root), str(house.root))
    for number in (1, 2):
        call: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}}
        assert "result" in bridge.forward(call, "core")
        house.kill_daemon()
        eventually(lambda: house.daemon_pid() is None)


def test_a_call_that_waits_is_over_when_its_connection_is(house: Coordinated) -> None:
    house.run("lock", "acquire", "src/a.py")
    house.hook("SessionStart", "lives")

    def queue() -> int:
        with closing(sqlite3.connect(f"file:{house.root / '.corral/corral.db'}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM lock_waits").fetchone()[0])

    call = {"name": "acquire_lock", "arguments": {"file_path": "src/a.py", "wait_seconds": 60}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    # As the bridge of a session does, which the client may kill while the session goes on.
    headers = {"X-Corral-Session": "lives", "Accept": "application/json, text/event-stream"}
    with wire.dial(str(find_socket(find_project(house.root))), 10) as link:
        link.sendall(wire.request("POST", "/mcp?profile=core", body, headers))
        eventually(lambda: queue() == 1)
    eventually(lambda: queue() == 0)
    house.run("lock", "release", "src/a.py")
    assert house.json("lock", "list") == []


def test_bad_input_is_answered_and_the_connection_goes_on(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        assert (await agent.call("acquire_lock", file_path="../x"))["error"] == "invalid_input"
        assert (await agent.call("acquire_lock", nonsense=1))["error"] == "invalid_input"
        assert "mcp_error" in await agent.call("no_such_tool")
        assert await agent.call("check_locks") == []

    play(house, scene)


@pytest.mark.executed  # a forked daemon has imported what one that is started may be without
def test_a_daemon_that_was_started_as_users_start_it_answers_mcp(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        assert (await agent.call("acquire_lock", file_path="src/a.py"))["success"]

    play(house, scene)
