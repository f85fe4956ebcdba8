"""Mail through MCP: what Agent Mail's clients say plays unchanged, and nobody speaks for another."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from corral.coordination.sessions.names import ADJECTIVES, NOUNS, agent_name
from tests.conftest import git
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated


@pytest.mark.req("REGISTER-1", "REGISTER-2")
def test_agents_register_write_and_answer(house: Coordinated) -> None:
    elsewhere = house.root.parent / "elsewhere"
    git(house.root, "worktree", "add", "-q", str(elsewhere))

    async def scene(boss: Agent, coder: Agent) -> None:
        project = await boss.call("ensure_project", human_key=str(house.root))
        assert set(project) == {"id", "slug", "human_key", "created_at"}
        assert await coder.call("ensure_project", human_key=str(elsewhere)) == project
        key = project["slug"]
        chief = await boss.call(
            "register_agent", project_key=key, program="opencode", model="any", name="Sisyphus",
            task_description="Orchestrator - Batch 1",
        )  # fmt: skip
        assert (chief["name"], chief["task_description"]) == ("Sisyphus", "Orchestrator - Batch 1")
        me = await coder.call(
            "register_agent", project_key=str(elsewhere), program="opencode-coder", model="m",
            task_description="Executing bd-1",
        )  # fmt: skip
        assert me["name"] in {adjective + noun for adjective in ADJECTIVES for noun in NOUNS}
        assert me["program"] == "opencode-coder"
        listed = {row["agent_name"]: row["current_task"] for row in house.json("session", "list")}
        assert listed[me["name"]] == "Executing bd-1" and "Orchestrator - Batch 1" in listed.values()
        task = "Orchestrator - Batch 2"
        again = await boss.call(
            "register_agent", project_key=key, program="opencode", model="any", name="Sisyphus", task_description=task
        )
        assert (again["id"], again["task_description"]) == (chief["id"], task)
        assert house.json("session", "show", "Sisyphus")["current_task"] == task
        sent = await coder.call(
            "send_message", project_key=key, sender_name=me["name"], to=["sisyphus"], subject="[bd-1] Task Complete",
            body_md="Commit: abc", thread_id="batch-1", importance="high", ack_required=True,
        )  # fmt: skip
        (delivery,) = sent["deliveries"]
        assert sent["count"] == 1 and delivery["payload"]["to"] == ["Sisyphus"]
        (got,) = await boss.call("fetch_inbox", project_key=key, agent_name="Sisyphus", include_bodies=True)
        assert (got["from"], got["thread_id"], got["body_md"], got["kind"]) == (
            me["name"], "batch-1", "Commit: abc", "to",
        )  # fmt: skip
        answer = await boss.call(
            "reply_message", project_key=key, message_id=got["id"], sender_name="Sisyphus", body_md="Good"
        )
        assert (answer["thread_id"], answer["subject"]) == ("batch-1", "Re: [bd-1] Task Complete")
        assert (answer["importance"], answer["reply_to"]) == ("high", got["id"])
        done = await boss.call("acknowledge_message", project_key=key, agent_name="Sisyphus", message_id=got["id"])
        again = await boss.call("acknowledge_message", message_id=got["id"])
        assert done["acknowledged"] and done == again
        read = await coder.call("mark_message_read", message_id=answer["id"])
        assert read["read"] and read["read_at"]
        assert [row["subject"] for row in await coder.call("fetch_inbox", urgent_only=True)] == [answer["subject"]]
        assert [row["id"] for row in await boss.call("search_messages", project_key=key, query="commit")] == [got["id"]]
        seen = await boss.call("whois", project_key=key, agent_name=me["name"].lower())
        assert (seen["program"], seen["status"], seen["recent_commits"]) == ("opencode-coder", "active", [])
        thread = await boss.read(f"resource://thread/batch-1?project={key}&include_bodies=true")
        assert [row["body_md"] for row in thread["messages"]] == ["Commit: abc", "Good"]
        mine = await coder.read(f"resource://inbox/{me['name']}?include_bodies=true&limit=5")
        assert (mine["count"], mine["messages"][0]["body_md"]) == (1, "Good")

    play(house, scene, agents=2, profile="mail", CORRAL_SESSION_ID="")
    # Two that would be given the same name are not.
    seeds: dict[str, str] = {}
    alike = next(
        (seeds[name], seed)
        for seed in map(str, itertools.count())
        if seeds.setdefault(name := agent_name(lambda _: False, seed), seed) != seed
    )
    names = [house.ask("POST", "/sessions", {"session_id": seed})["agent_name"] for seed in alike]
    assert names[0] != names[1] and all(re.fullmatch(r"([A-Z][a-z]+){2}", name) for name in names)


def test_what_is_wrong_is_said_in_agent_mails_words_and_nobody_speaks_for_another(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        me = (await one.call("register_agent", program="p", model="m", name="Ann"))["name"]

        async def wrong(agent: Agent, tool: str, **arguments: Any) -> str:
            error = (await agent.call(tool, **arguments))["mcp_error"]["error"]
            assert set(error) == {"type", "message", "recoverable", "data"} and error["recoverable"]
            return str(error["type"])

        hello = {"subject": "Hello", "body_md": "x"}
        assert await wrong(one, "send_message", to=["Nobody"], **hello) == "RECIPIENT_NOT_FOUND"
        assert await wrong(one, "send_message", to=[], **hello) == "INVALID_ARGUMENT"
        assert await wrong(one, "send_message", to=["Ann"], thread_id="/x", **hello) == "INVALID_THREAD_ID"
        assert await wrong(one, "send_message", to=["Ann"], subject="s", body_md="x" * 3_000_000) == "INVALID_ARGUMENT"
        assert await wrong(one, "ensure_project", human_key="/nowhere") == "PROJECT_NOT_FOUND"
        assert await wrong(one, "ensure_project", human_key="x\0/../y") == "PROJECT_NOT_FOUND"
        assert await wrong(one, "fetch_inbox", project_key="other") == "PROJECT_NOT_FOUND"
        assert await wrong(one, "fetch_inbox", since_ts="soon") == "INVALID_TIMESTAMP"
        assert await wrong(one, "acknowledge_message", message_id=77) == "NOT_FOUND"
        assert await wrong(one, "register_agent", program="", model="m") == "EMPTY_PROGRAM"
        assert await wrong(one, "register_agent", program="p", model="m", name="a b") == "INVALID_AGENT_NAME"
        assert await wrong(two, "register_agent", program="p", model="m", name="ann") == "CONFLICT"
        assert await wrong(two, "whois", agent_name="Nobody") == "NOT_FOUND"
        for tool, arguments in (
            ("send_message", {"sender_name": me, "to": ["Ann"], **hello}),
            ("fetch_inbox", {"agent_name": me}),
            ("acknowledge_message", {"agent_name": me, "message_id": 1}),
        ):
            assert await wrong(two, tool, **arguments) == "OPERATION_NOT_PERMITTED"
        key = {"idempotency_key": "once", "to": ["Ann"], "subject": "Once"}
        first = await two.call("send_message", body_md="x", **key)
        again = await two.call("send_message", body_md="x", **key)
        assert again["idempotent_replay"] and again["deliveries"] == first["deliveries"]
        assert await wrong(two, "send_message", body_md="y", **key) == "IDEMPOTENCY_KEY_CONFLICT"
        new = await two.call("create_agent_identity", program="p", model="m", name_hint="Ann")
        assert new["name"] != "Ann" and new["name"].isalpha()
        assert (await two.call("request_contact", to_agent="Ann", reason="x"))["status"] == "approved"
        assert (await one.call("respond_contact", from_agent=new["name"], accept=True))["approved"]
        assert [row["to"] for row in await one.call("list_contacts")] == [
            row["agent_name"] for row in house.json("session", "list") if new["id"] == row["session_id"]
        ]
        assert (await one.call("set_contact_policy", policy="block_all"))["policy"] == "open"
        assert (await one.call("health_check"))["status"] == "ok"

    play(house, scene, agents=2, profile="mail")
    kinds = [event["kind"] for event in house.ask("GET", "/status")["recent"]]
    assert kinds.count("identity.refused") == 3


def test_macros_do_several_steps_in_one_call(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        began = await one.call(
            "macro_start_session", human_key=str(house.root), program="p", model="m", agent_name="Ann",
            task_description="Executing bd-1", file_reservation_paths=["src/a.py"],
        )  # fmt: skip
        assert set(began) == {"project", "agent", "registration_token", "file_reservations", "inbox"}
        assert (began["agent"]["name"], began["inbox"]) == ("Ann", [])
        (granted,) = began["file_reservations"]["granted"]
        await one.call("send_message", to=["Ann"], subject="To do", body_md="All of it", thread_id="bd-1")
        joined = await two.call(
            "macro_prepare_thread", project_key=began["project"]["slug"], thread_id="bd-1", program="p", model="m"
        )
        thread = joined["thread"]
        assert (thread["total_messages"], thread["summary"]["participants"]) == (1, [began["agent"]["names"][0]])
        assert thread["examples"][0]["body_md"] == "All of it"
        number = str(thread["examples"][0]["id"])
        slug = began["project"]["slug"]
        again = await two.call("macro_prepare_thread", project_key=slug, thread_id=number, program="p", model="m")
        assert again["thread"] == thread
        tried = await two.call("macro_file_reservation_cycle", paths=["src/*.py", "docs/x.md"], auto_release=True)
        assert [row["path_pattern"] for row in tried["file_reservations"]["granted"]] == ["docs/x.md"]
        assert tried["released"]["released"] == 1
        held = await two.read(f"resource://file_reservations/{began['project']['slug']}?active_only=true")
        assert [(row["id"], row["path_pattern"]) for row in held] == [(granted["id"], "src/a.py")]

    play(house, scene, agents=2, profile="mail")
