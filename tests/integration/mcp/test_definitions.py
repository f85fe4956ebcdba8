"""What a model pays for: the definitions of the tools, and the instructions. Tokens are counted high: 3.5 characters each."""

from __future__ import annotations

import json

import pytest

from corral.core.instructions import INSTRUCTIONS
from corral.faces.mcp.profiles import CORE, MAIL, QUEUE, TOOLS
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated

CHARACTERS_PER_TOKEN = 3.5
PROMISED = """acquire_lock release_lock check_locks get_work complete_work submit_work get_task write_handoff read_handoff
    discover_agents register_session heartbeat cleanup_dead_agents remember recall cancel_task_convention register_feature
    deregister_feature get_feature list_active_features analyze_feature_conflicts ensure_project register_agent whois
    file_reservation_paths release_file_reservations renew_file_reservations force_release_file_reservation
    check_file_reservation_conflicts send_message reply_message fetch_inbox acknowledge_message mark_message_read
    search_messages macro_start_session macro_prepare_thread macro_file_reservation_cycle request_contact respond_contact
    list_contacts set_contact_policy create_agent_identity health_check request_merge merge_status list_flakes revert_merge help
    get_state set_state list_state delete_state"""

PROMISED_IN_CORE = """acquire_lock release_lock check_locks get_work complete_work submit_work write_handoff read_handoff
    discover_agents register_session heartbeat remember recall get_task send_message fetch_inbox request_merge help"""


@pytest.mark.parametrize("name", sorted(set(PROMISED.split()) | set(CORE) | set(MAIL) | set(QUEUE)))
def test_every_tool_that_is_promised_is_there(name: str) -> None:
    assert name in TOOLS


def test_the_instructions_are_short() -> None:
    assert len(INSTRUCTIONS) / CHARACTERS_PER_TOKEN <= 200


@pytest.mark.req("MCP-1")
def test_the_core_profile_costs_little(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        tools = (await agent.session.list_tools()).tools
        assert {tool.name for tool in tools} == set(PROMISED_IN_CORE.split()) == set(CORE) and len(tools) <= 18
        definitions = [
            json.dumps({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema})
            for tool in tools
        ]
        costs = {tool.name: len(text) / CHARACTERS_PER_TOKEN for tool, text in zip(tools, definitions, strict=True)}
        assert sum(costs.values()) <= 4500, costs
        assert all(tool.description for tool in tools)

    play(house, scene)


@pytest.mark.req("MCP-2")
def test_what_goes_on_can_be_read_without_a_tool(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        await one.call("acquire_lock", file_path="src/a.py")
        house.ask("POST", "/locks/acquire", {"paths": ["db:schema:users"], "session_id": "other"})
        task_id = (await one.call("submit_work", task_type="t", description="x"))["task_id"]
        later = (await two.call("submit_work", task_type="t", description="y", depends_on=[task_id]))["task_id"]
        handoffs = [(await agent.call("write_handoff", summary="Half of it."))["handoff_id"] for agent in (one, two)]
        listed = {str(resource.uri) for resource in (await one.session.list_resources()).resources}
        assert {
            "locks://current",
            "work://pending",
            "handoffs://recent",
            "features://active",
            "merges://queue",
        } <= listed
        mine, theirs = await one.read("locks://current")
        assert (mine["file_path"], mine["agent_type"], mine["locked_at"]) == ("src/a.py", "mcp", mine["acquired_at"])
        assert (theirs["file_path"], theirs["session_id"]) == ("db:schema:users", "other")
        pending = {task["task_id"]: task["status"] for task in await one.read("work://pending")}
        assert pending == {task_id: "pending", later: "waiting"}
        assert [handoff["handoff_id"] for handoff in await one.read("handoffs://recent")] == handoffs[::-1]
        assert await one.read("features://active") == await one.read("merges://queue") == []

    play(house, scene, agents=2)
