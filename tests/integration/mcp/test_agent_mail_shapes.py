"""Answers in the shapes of the servers that clients were written for: fields, resources, and nothing that is not so."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError

from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated

ME = {"program": "opencode", "model": "m"}
MESSAGE = {"id", "project_id", "sender_id", "thread_id", "topic", "subject", "importance", "ack_required", "created_ts",
           "attachments", "from"}  # fmt: skip
AGENT = {"id", "name", "program", "model", "task_description", "inception_ts", "last_active_ts", "project_id",
         "attachments_policy", "unread_count"}  # fmt: skip
TASK = {"id", "task_type", "description", "status", "priority", "input_data", "claimed_by", "claimed_at", "result",
        "error_message", "depends_on", "deadline", "created_at", "completed_at"}  # fmt: skip


@pytest.fixture
def house(house: Coordinated) -> Coordinated:
    """Its daemon runs: a first call waits eight seconds for one, which on a busy machine may take longer."""
    house.run("daemon", "start")
    return house


def test_messages_agents_and_the_server_are_told_as_agent_mail_tells_them(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        root = str(house.root)
        for name in ("Ann", "Ben"):
            await agent.call("register_agent", project_key=root, **ME, name=name)
        letter: dict[str, Any] = {"subject": "Plan", "body_md": "Later", "thread_id": "bd-1", "cc": ["Ann"]}
        sent = await agent.call("send_message", project_key=root, sender_name="Ann", to=["Ben"], **letter)
        payload = sent["deliveries"][0]["payload"]
        assert {*payload} >= {*MESSAGE, "body_md", "to", "cc", "bcc"} and payload["body_md"] == "Later"
        answered = await agent.call("reply_message", message_id=payload["id"], sender_name="Ben", body_md="Yes")
        assert {*answered} >= {*MESSAGE, "body_md", "reply_to"}

        whole = await agent.read(f"resource://message/{payload['id']}?project={quote(root, safe='')}")
        assert {*whole} >= {*MESSAGE, "body_md"} and (whole["from"], whole["body_md"]) == ("Ann", "Later")
        out = await agent.read(f"resource://outbox/Ann?project={quote(root, safe='')}&include_bodies=true")
        assert (out["project"], out["agent"], out["count"]) == (root, "Ann", 1)
        (row,) = out["messages"]
        assert {*row} >= {*MESSAGE, "body_md"} and (row["to"], row["cc"], row["bcc"]) == (["Ben"], ["Ann"], [])
        box = await agent.read(f"resource://mailbox/Ben?project={quote(root, safe='')}&limit=5")
        assert [(row["subject"], row["kind"], row["commit"]) for row in box["messages"]] == [("Plan", "to", None)]
        with pytest.raises(MCPError, match="NOT_FOUND"):
            await agent.read("resource://message/999")

        here = await agent.read(f"resource://agents/{root}")
        assert here["project"]["human_key"] == root and here["retired_agents"] == []
        assert all({*row} >= AGENT for row in here["agents"])
        assert {row["name"]: row["unread_count"] for row in here["agents"]} == {"Ann": 2, "Ben": 1}
        detail = await agent.read(f"resource://project/{here['project']['slug']}")
        assert {*detail} == {"id", "slug", "human_key", "created_at", "agents"}
        assert {row["name"] for row in detail["agents"]} == {"Ann", "Ben"}
        assert {row["agent_id"] for row in (await agent.call("discover_agents"))["agents"]} == {"Ann", "Ben"}

        about = await agent.read("resource://config/environment")
        assert {*about} == {"environment", "database_url", "http"} and {*about["http"]} == {"host", "port", "path"}
        assert (house.root / ".corral/run/token").read_text().strip() not in json.dumps(about)
        directory = await agent.read("resource://tooling/directory")
        tools = {tool["name"]: tool for cluster in directory["clusters"] for tool in cluster["tools"]}
        assert "mail" in tools["send_message"]["profiles"] and tools["send_message"]["summary"]
        assert {*await agent.tools()} == {name for name, tool in tools.items() if "mail" in tool["profiles"]}

    play(house, scene, profile="mail")


def test_contacts_are_open_and_no_answer_says_that_something_was_changed(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        for name in ("Ann", "Ben"):
            await agent.call("register_agent", **ME, name=name)
        asked = await agent.call("request_contact", from_agent="Ann", to_agent="Ben", ttl_seconds=60)
        assert (asked["status"], asked["expires_ts"]) == ("approved", None), "it does not expire"
        refused = await agent.call("respond_contact", to_agent="Ben", from_agent="Ann", accept=False)
        assert {key: refused[key] for key in ("from", "to", "approved", "expires_ts", "updated")} == {
            "from": "Ann", "to": "Ben", "approved": True, "expires_ts": None, "updated": 0
        }  # fmt: skip
        policy = await agent.call("set_contact_policy", agent_name="Ben", policy="block_all")
        assert (policy["agent"], policy["policy"]) == ("Ben", "open")
        assert "Nothing was changed" in policy["note"] and policy["note"] == refused["note"]
        assert (await agent.call("send_message", sender_name="Ann", to=["Ben"], subject="s", body_md="x"))["count"] == 1

        shake = {"project_key": str(house.root), "requester": "Ann", "target": "Ben"}
        plain = await agent.call("macro_contact_handshake", **shake)
        assert plain["request"]["status"] == "approved" and plain["response"] is plain["welcome_message"] is None
        welcome = {"auto_accept": True, "welcome_subject": "Hello", "welcome_body": "x"}
        shaken = await agent.call("macro_contact_handshake", **shake, **welcome)
        assert shaken["request"] == shaken["response"] == asked and shaken["welcome_message"]["count"] == 1
        assert "Hello" in [row["subject"] for row in await agent.call("fetch_inbox", agent_name="Ben")]
        for wrong in ({"welcome_subject": "x"}, {**welcome, "auto_accept": False}):
            error = await agent.call("macro_contact_handshake", **shake, **wrong)
            assert error["mcp_error"]["error"]["type"] == "INVALID_ARGUMENT"

    play(house, scene, profile="mail")


def test_tasks_handoffs_and_memories_have_the_coordinators_fields(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        await agent.call("register_session", agent_name="Ann")
        first = (await agent.call("submit_work", task_type="t", description="First"))["task_id"]
        later = (await agent.call("submit_work", task_type="t", description="Later", depends_on=[first]))["task_id"]
        await agent.call("get_work")
        read = await agent.call("get_task", task_id=first)
        assert {*read["task"]} == TASK and read["task"]["id"] == read["task_id"] == first
        assert (read["task"]["claimed_by"], read["task"]["description"]) == ("Ann", "First")
        assert read["task"]["claimed_at"] is not None
        waiting = (await agent.call("get_task", task_id=later))["task"]
        assert (waiting["depends_on"], waiting["claimed_by"], waiting["claimed_at"]) == ([first], None, None)
        written = await agent.call("write_handoff", summary="Half of it.")
        (handoff,) = (await agent.call("read_handoff"))["handoffs"]
        assert handoff["id"] == handoff["handoff_id"] == written["handoff_id"]
        kept = await agent.call("remember", summary="It is so.")
        (memory,) = (await agent.call("recall"))["memories"]
        assert memory["id"] == kept["memory_id"] and memory["relevance_score"] == memory["relevance"] > 0

    play(house, scene, profile="full")
