"""Clients of Agent Mail: a stored conversation, and every tool with all its parameters; over the bridge, and over plain HTTP."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from corral.faces.mcp.profiles import MAIL, TOOLS
from tests.integration.mcp.agent_mail_calls import NOT_HERE, PARAMETERS, STEPS
from tests.integration.mcp.client import Agent, over_http, play
from tests.support.coordinated import Coordinated

Call = Callable[..., Awaitable[Any]]
STORED = Path(__file__).with_name("agent_mail_conversation.json")
"""What a client of Agent Mail says, one call a step; ``$name`` stands for something that an earlier answer told."""


async def _recite(call: Call, root: Path) -> None:
    known: dict[str, Any] = {"$root": str(root)}

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(part) for part in value]
        return known.get(value, value) if isinstance(value, str) else value

    for step in json.loads(STORED.read_text()):
        answer = await call(step["tool"], **{key: filled(value) for key, value in step["arguments"].items()})
        assert not (isinstance(answer, dict) and "mcp_error" in answer), (step["tool"], answer)
        for path, expected in step["answer"].items():
            value = _at(answer, path)
            if isinstance(expected, str) and expected.startswith("$") and expected not in known:
                known[expected] = value
            assert value == filled(expected), (step["tool"], path)


def _at(answer: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        answer = answer[int(part)] if isinstance(answer, list) else answer[part]
    return answer


async def _rely(agent: Agent, root: Path) -> dict[str, Any]:
    """Play the steps of :mod:`agent_mail_calls`, and hold the answers against them; returns what they told."""
    known: dict[str, Any] = {"$root": str(root)}

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(part) for part in value]
        return known.get(value, value) if isinstance(value, str) else value

    for step in STEPS:
        if step.tool.startswith("resource://"):
            uri = step.tool
            for name, value in known.items():
                uri = uri.replace(name, quote(str(value), safe=""))
            answer = await agent.read(uri)
        else:
            answer = await agent.call(step.tool, **{key: filled(value) for key, value in step.arguments.items()})
        assert not (isinstance(answer, dict) and "mcp_error" in answer), (step.tool, answer)
        for path, fields in step.fields.items():
            missing = {*fields.split()} - {*_at(answer, path)}
            assert not missing, (step.tool, path, missing)
        known |= {name: _at(answer, path) for name, path in step.keep.items()}
    return known


def test_the_table_has_every_parameter_and_says_which_tools_are_not_here() -> None:
    arguments: dict[str, set[str]] = {}
    for step in STEPS:
        arguments.setdefault(step.tool, set()).update(step.arguments)
    assert {tool: {*names.split()} for tool, names in PARAMETERS.items()} == {
        tool: names for tool, names in arguments.items() if not tool.startswith("resource://")
    }
    ours = {"help", "discover_agents", "check_file_reservation_conflicts"}
    assert {*MAIL} == {*PARAMETERS, *ours} and not {*NOT_HERE.split()} & {*TOOLS}


def test_a_stored_conversation_of_an_agent_mail_client_plays_over_the_bridge(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        await _recite(agent.call, house.root)
        values = await _rely(agent, house.root)
        assert (values["$ann"], values["$ben"]) == (None, None), "the process proves who calls"

    play(house, scene, profile="mail")


@pytest.mark.req("X4")
def test_a_stored_conversation_of_an_agent_mail_client_plays_over_plain_http(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="daemon: {tcp: true}")
    house.run("daemon", "start")

    async def run() -> None:
        async with AsyncExitStack() as stack:
            agent = await over_http(stack, house, "/api/")
            await _recite(agent.call, house.root)
            values = await _rely(agent, house.root)
            assert len({values["$ann"], values["$ben"], None}) == 3, "each has a token of its own"
            spoken = await agent.call("send_message", sender_name="Nobody", to=["Sisyphus"], subject="s", body_md="x")
            assert spoken["mcp_error"]["error"]["type"] == "NOT_FOUND"
            house.hook("SessionStart", "claude-1")
            theirs = next(row for row in house.json("session", "list") if row["session_id"] == "claude-1")
            spoken = await agent.call("fetch_inbox", agent_name=theirs["agent_name"])
            assert spoken["mcp_error"]["error"]["type"] == "OPERATION_NOT_PERMITTED"
            me = {"program": "opencode", "model": "m"}
            refused = await agent.call("register_agent", **me, name=theirs["agent_name"])
            assert refused["mcp_error"]["error"]["type"] == "CONFLICT"
            house.hook("SessionEnd", "claude-1", reason="other")
            again = await agent.call(
                "macro_start_session", human_key=str(house.root), **me, agent_name=theirs["agent_name"]
            )
            assert again["agent"]["name"] == theirs["agent_name"], "it is over: somebody else goes on under its name"
            coders = [(await agent.call("register_agent", **me))["name"] for _ in range(2)]
            assert len(set(coders)) == 2

    anyio.run(run)
    kinds = {row["agent_name"]: row["agent_type"] for row in house.json("session", "list")}
    assert kinds["Sisyphus"] == "http"
