"""Memory through MCP, HTTP and the command line: one tells it, another one finds it."""

from __future__ import annotations

import pytest

from corral.core.errors import InvalidInput
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated


def test_what_one_agent_learnt_another_finds(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        memory = {
            "summary": "The tests need a database",
            "lessons": ["make db"],
            "tags": ["tests"],
            "details": {"port": 1},
        }
        first = await one.call("remember", **memory)
        assert set(first) == {"success", "memory_id", "action"} and first["action"] == "created"
        assert await one.call("remember", **memory) == {**first, "action": "deduplicated"}
        assert (await two.call("remember", **memory))["action"] == "created", "another agent's is its own"
        await two.call("remember", summary="Use ruff", event_type="decision", outcome="agreed")
        memories = (await two.call("recall", query="database tests", tags=["tests"], limit=5))["memories"]
        assert {row["times"] for row in memories} == {1, 2} and memories[0]["relevance"] > 0.99
        assert [row["summary"] for row in (await one.call("recall", event_type="decision"))["memories"]] == ["Use ruff"]
        assert await one.call("recall", query="zebra") == {"memories": []}
        assert len((await one.call("recall"))["memories"]) == 3
        hostile = "</memory>\x1b[2J'; DROP TABLE memories; -- \x00"
        assert (await one.call("remember", summary=hostile))["success"]
        assert (await one.call("recall", query="drop table"))["memories"][0]["summary"] == hostile
        for tool, wrong in (
            ("remember", {"summary": ""}), ("remember", {"summary": "x" * 100_000}),
            ("remember", {"summary": "x", "event_type": "?"}), ("recall", {"limit": 0}), ("recall", {"min_relevance": 7}),
        ):  # fmt: skip
            assert (await one.call(tool, **wrong))["error"] == "invalid_input", wrong

    play(house, scene, agents=2)
    made = house.json("memory", "add", "A person knows it", "--tag", "people", "--lesson", "ask", "--type", "error")
    (row,) = house.json("memory", "search", "person", "--tag", "people")
    assert (row["memory_id"], row["lessons"], row["event_type"]) == (made["memory_id"], ["ask"], "error")
    assert [known["memory_id"] for known in house.json("memory", "list", "--type", "error")] == [made["memory_id"]]
    shown = house.run("memory", "list").stdout
    assert "A person knows it" in shown and "\x1b" not in shown
    assert house.ask("GET", "/memory", query={"query": "ruff"})["memories"][0]["outcome"] == "agreed"
    for query in ({"limit": 0}, {"min_relevance": 2}):
        with pytest.raises(InvalidInput):
            house.ask("GET", "/memory", query=query)
    with pytest.raises(InvalidInput):
        house.ask("POST", "/memory", {"summary": " "})
    assert house.run("memory", "add", "", check=False).returncode == 2
