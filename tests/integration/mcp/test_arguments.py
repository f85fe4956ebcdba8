"""What a client says to a tool or asks of a resource: paths as it has them, what nobody needs, what is wrong, too much."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from mcp.shared.exceptions import MCPError

from corral.faces.mcp.arguments import IGNORED, MOST_BYTES, MOST_LOOKED_AT
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated

ME = {"program": "opencode", "model": "m"}


def test_resources_take_the_project_by_its_path(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        await agent.call("register_agent", **ME, name="Ann")
        await agent.call("send_message", to=["Ann"], subject="Hello", body_md="x", thread_id="bd-1")
        await agent.call("file_reservation_paths", paths=["src/a.py"])
        for project in (str(house.root), quote(str(house.root), safe=""), quote(str(house.root / ".git/.."), safe="")):
            box = await agent.read(f"resource://inbox/Ann?project={project}&limit=5&format=json&agent_token=t")
            assert [row["subject"] for row in box["messages"]] == ["Hello"], project
            thread = await agent.read(f"resource://thread/bd-1?project={project}&include_bodies=true")
            assert [row["body_md"] for row in thread["messages"]] == ["x"], project
            held = await agent.read(f"resource://file_reservations/{project}?active_only=true")
            assert [row["path_pattern"] for row in held] == ["src/a.py"], project
        with pytest.raises(MCPError, match="PROJECT_NOT_FOUND"):
            await agent.read("resource://inbox/Ann?project=/nowhere")

    play(house, scene, profile="mail")


def test_what_agent_mails_clients_say_beyond_what_is_needed_is_ignored(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        more = dict.fromkeys(IGNORED, "x")
        root = str(house.root)
        await agent.call("ensure_project", human_key=root, **more)
        await agent.call("register_agent", project_key=root, name="Ann", **{**more, **ME})
        sent = await agent.call("send_message", project_key=root, to=["Ann"], subject="Hello", body_md="x", **more)
        assert sent["count"] == 1
        inbox = {"project_key": root, "agent_name": "Ann", **more}
        (row,) = await agent.call("fetch_inbox", **inbox, unread_only=True, mark_read=True)
        assert row["subject"] == "Hello"
        assert await agent.call("fetch_inbox", **inbox, unread_only=True) == []
        assert len(await agent.call("fetch_inbox", **inbox, ack_overdue_only=False)) == 1
        assert await agent.call("fetch_inbox", **inbox, ack_overdue_only=True) == [], "it is not to be acknowledged"
        reserved = await agent.call("file_reservation_paths", project_key=root, paths=["src/a.py"], **more)
        assert reserved["conflicts"] == []
        assert (await agent.call("register_session", delegated_from="Sisyphus"))["success"] is True

    play(house, scene, profile="full")


def test_wrong_arguments_are_told_as_everything_else_that_is_wrong(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        for tool, arguments, field in (
            ("acquire_lock", {"nonsense": 1, "file_path": "a"}, "nonsense"),
            ("acquire_lock", {}, "file_path"),
            ("acquire_lock", {"file_path": {"a": 1}}, "file_path"),
            ("register_session", {"capabilities": 7}, "capabilities"),
            ("complete_work", {"task_id": "x", "success": "perhaps"}, "success"),
        ):
            answer = await agent.call(tool, **arguments)
            assert (answer["success"], answer["error"]) == (False, "invalid_input"), answer
            assert answer["message"].startswith(f"{field}: ") and "pydantic" not in str(answer)
            assert [row["field"] for row in answer["details"]["errors"]] == [field]
        for tool, mail, field in (
            ("send_message", {"to": ["Ann"], "subject": "s"}, "body_md"),
            ("send_message", {"to": 7, "subject": "s", "body_md": "x"}, "to"),
            ("fetch_inbox", {"limit": "many"}, "limit"),
            ("fetch_inbox", {"agent_nme": "Ann"}, "agent_nme"),
            ("file_reservation_paths", {"paths": ["a"], "ttl_seconds": "long"}, "ttl_seconds"),
            ("macro_contact_handshake", {}, "target"),
            ("request_contact", {"to_agent": " "}, "to_agent"),
            ("respond_contact", {}, "from_agent"),
        ):
            error = (await agent.call(tool, **mail))["mcp_error"]["error"]
            assert (error["type"], error["recoverable"]) == ("INVALID_ARGUMENT", True)
            assert error["message"].startswith(f"{field}: ") and "pydantic" not in str(error)
            assert error["data"]["errors"][0]["field"] == field and error["data"]["errors"][0]["message"]
        nameless: tuple[tuple[str, dict[str, Any]], ...] = (
            ("whois", {"agent_name": ""}),
            ("send_message", {"to": [""], "subject": "s", "body_md": "x"}),
            ("mark_message_read", {"message_id": " "}),
        )
        for tool, arguments in nameless:
            assert "The name is empty." in (await agent.call(tool, **arguments))["mcp_error"]["error"]["message"], tool
        assert "title: It is empty" in (await agent.call("submit_work", task_type="t", description=""))["message"]

    play(house, scene, profile="full")


def test_what_is_far_too_large_is_told_as_everything_else_that_is_wrong(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        book = "x" * 5_000_000
        mail: dict[str, Any] = {"to": ["Ann"], "subject": "s", "body_md": book}
        error = (await agent.call("send_message", **mail))["mcp_error"]["error"]
        assert (error["type"], error["data"]["errors"][0]["field"]) == ("INVALID_ARGUMENT", "body_md")
        assert error["message"].startswith("body_md: 5000000 characters") and str(MOST_BYTES) in error["message"]
        for tool, arguments, field in (
            ("write_handoff", {"summary": book}, "summary"),
            ("acquire_lock", {"file_path": "a", "reason": book}, "reason"),
            ("remember", {"summary": "s", "details": {"a": book}}, "details"),
        ):
            answer = await agent.call(tool, **arguments)
            assert (answer["success"], answer["error"], answer["details"]["errors"][0]["field"]) == (
                False, "invalid_input", field,
            )  # fmt: skip
        with pytest.raises(MCPError, match=f"at most {MOST_BYTES} bytes"):
            await agent.call("send_message", to=["Ann"], subject="s", body_md="x" * (MOST_LOOKED_AT + 1))
        assert (await agent.call("acquire_lock", file_path="a"))["success"]

    play(house, scene, profile="full")
