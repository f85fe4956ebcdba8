"""Shared state and followers through MCP: agents find their task by themselves."""

from __future__ import annotations

import pytest

from corral.faces.mcp.profiles import CORE, QUEUE
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated


@pytest.mark.req("FR-SWARM-006", "FR-SWARM-007")
def test_a_leader_and_its_follower_share_values_without_naming_a_task(house: Coordinated) -> None:
    assert {"get_state", "set_state", "list_state", "delete_state"} <= set(QUEUE) and "submit_work" in CORE

    async def scene(one: Agent, two: Agent) -> None:
        for tool, arguments in (
            ("set_state", {"key": "k", "value": 1}),
            ("get_state", {"key": "k"}),
            ("list_state", {}),
        ):
            refused = await one.call(tool, **arguments)
            assert (refused["error"], refused["message"]) == ("invalid_input", "You work on no task."), tool
        refused = await one.call("submit_work", task_type="part", description="part", follower=True)
        assert refused["error"] == "invalid_input" and "task" in refused["message"]
        leader = (await one.call("submit_work", task_type="whole", description="whole"))["task_id"]
        assert (await one.call("get_work", task_types=["whole"]))["task_id"] == leader
        part = (await one.call("submit_work", task_type="part", description="part", follower=True))["task_id"]
        assert house.json("task", "detail", part)["parent_task_id"] == leader
        assert (await two.call("get_work", task_types=["part"]))["task_id"] == part

        made = await one.call("set_state", key="plan", value={"steps": 2}, if_version=0)
        assert (made["success"], made["version"], made["value"]) == (True, 1, {"steps": 2})
        assert (await two.call("get_state", key="plan"))["value"] == {"steps": 2}, "the leader's is the follower's"
        late = await two.call("set_state", key="plan", value=3, if_version=7)
        assert (late["success"], late["error"]) == (False, "conflict")
        assert (await two.call("set_state", key="plan", value=[3], if_version=1))["version"] == 2
        assert (await two.call("set_state", key="own", value="x", task_id=part[:8]))["version"] == 1
        listed = (await one.call("list_state"))["values"]
        assert [(row["key"], row["value"], row["version"]) for row in listed] == [("plan", [3], 2)]
        assert listed[0]["updated_by"] != made["updated_by"]
        assert house.json("state", "list", part)[0]["key"] == "own"
        assert (await one.call("delete_state", key="plan", if_version=1))["error"] == "conflict"
        assert (await one.call("delete_state", key="plan"))["deleted"] is True
        assert (await two.call("get_state", key="plan"))["error"] == "not_found"
        await one.call("complete_work", task_id=leader, success=True)
        assert (await two.call("set_state", key="k", value=1, task_id=leader))["error"] == "conflict"

    play(house, scene, agents=2, profile="queue")
