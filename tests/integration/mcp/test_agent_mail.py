"""A client of Agent Mail plays a stored conversation, unchanged: over the bridge, and over plain HTTP with the token."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.integration.mcp.client import Agent, over_http, play
from tests.support.coordinated import Coordinated

Call = Callable[..., Awaitable[Any]]
STORED = Path(__file__).with_name("agent_mail_conversation.json")
"""What a client of Agent Mail says, one call a step; ``$name`` stands for something that an earlier answer told."""


async def _recite(call: Call, root: Path) -> None:
    known: dict[str, Any] = {"$root": str(root)}

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(one) for one in value]
        return known.get(value, value) if isinstance(value, str) else value

    for step in json.loads(STORED.read_text()):
        answer = await call(step["tool"], **{key: filled(value) for key, value in step["arguments"].items()})
        assert not (isinstance(answer, dict) and "mcp_error" in answer), (step["tool"], answer)
        for path, expected in step["answer"].items():
            value = answer
            for part in path.split("."):
                value = value[int(part)] if isinstance(value, list) else value[part]
            if isinstance(expected, str) and expected.startswith("$") and expected not in known:
                known[expected] = value
            assert value == filled(expected), (step["tool"], path)


def test_a_stored_conversation_of_an_agent_mail_client_plays_over_the_bridge(house: Coordinated) -> None:
    async def scene(one: Agent) -> None:
        await _recite(one.call, house.root)

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
