"""Every operation that can be asked at once, asked of a real daemon as the OpenAPI document shows, and answered as declared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from corral.core.errors import ConfigInvalid, CorralError
from corral.core.routing import PREFIX
from corral.daemon import nouns
from corral.faces.http.openapi import document
from corral.faces.http.router import Operation, operations
from tests.support.answers import unlike
from tests.support.coordinated import Coordinated, eventually


def name_of(operation: Operation) -> str:
    return f"{operation.route.method} {operation.path.removeprefix(PREFIX)}"


CONFIG = "supervisor: {max_agents: 1}"
"""Of the repository in which the story is played."""
TEMPLATE = """
name: add-page
description: Add a page with a test.
parameters: {PAGE: {type: string, description: Its name.}}
prompt: Write the page {{ PAGE }}.
"""
KEY_FIRST = "POST /agents/{name}/improvement"
"""Without a key of the API it does not look for the agent."""
DOCUMENT = document(OPERATIONS := operations(nouns.every()))
TYPES = {name_of(operation): operation.route.answer for operation in OPERATIONS if operation.path.startswith(PREFIX)}
BODIES: dict[str, Any] = {
    name_of(operation): described["requestBody"]["content"]["application/json"]["example"]
    for operation in OPERATIONS
    if "requestBody" in (described := DOCUMENT["paths"][operation.path][operation.route.method.lower()])
}
"""The bodies that the document shows."""


class Story:
    """Asks as the document shows, and keeps what an answer has otherwise than its type."""

    def __init__(self, house: Coordinated) -> None:
        self.house = house
        self.wrong: list[str] = []
        self.told: set[str] = set()
        self.refused: set[tuple[str, str]] = set()
        self.named: dict[str, Any] = {}
        self.asked: list[tuple[str, str, Any]] = []

    def ask(self, operation: str, /, body: Any = None, *, query: str = "", **places: Any) -> Any:
        method, _, path = operation.partition(" ")
        filled = re.sub(r"\{(\w+)\}", lambda place: str(places[place[1]]), path)
        body = BODIES.get(operation) if body is None else body
        real = self.house.ask(method, filled + query, body)
        self.asked.append((operation, filled + query, body))
        self.wrong += [f"{operation}: {difference}" for difference in unlike(TYPES[operation], real)]
        self.told.add(operation)
        return real


def play(house: Coordinated) -> Story:
    """Ask in an order in which everything that is asked for is there."""
    story = Story(house)
    ask = story.ask
    for name in (
        "/health",
        "/status",
        "/project",
        "/config",
        "/database",
        "/teams",
        "/agents",
        "/runners",
        "/teams/validation",
        "/worktrees/at-risk",
        "/worktrees/place",
        "/alerts",
        "/keys",
        "/trust",
    ):
        ask(f"GET {name}")
    ask("POST /keys/reload")
    ask("POST /trust/reload")
    ask("GET /agents/{name}", name="implementer")
    ask("GET /agents/{name}/versions", name="implementer")
    ask("GET /agents/{name}/versions/{version}", name="implementer", version="1.0.0")
    ask("GET /agents/{name}/diff", name="implementer", query="?before=1.0.0&after=1.0.0")
    ask("GET /agent-record")
    ask("POST /agents/{name}/pin", name="implementer")
    ask("GET /agent-choices")
    ask("DELETE /agents/{name}/pin", name="implementer")

    ask("POST /sessions")
    ask("POST /sessions", {"session_id": "s-2", "agent_name": "Cedar"})
    ask("POST /sessions/{session_id}/names", session_id="s-1")
    ask("GET /sessions")
    ask("GET /sessions/{session_id}", session_id="GreenLake")
    ask("POST /sessions/{session_id}/heartbeat", session_id="s-1")
    ask("POST /sessions/cleanup")

    ask("POST /locks/acquire")
    ask("POST /locks/renew")
    ask("POST /locks/check")
    ask("POST /locks/check-commit")
    ask("GET /locks")
    ask("POST /locks/release")

    ask("POST /features")
    ask("POST /features/analyze")
    ask("GET /features")
    ask("GET /features/{feature_id}", feature_id="FEAT-123")
    ask("POST /features/deregister")

    handoff = ask("POST /handoffs")["handoff_id"]
    ask("GET /handoffs")
    ask("GET /handoffs/{handoff_id}", handoff_id=handoff)
    ask("POST /memory")
    ask("GET /memory")

    number = ask("POST /messages")["id"]
    ask("GET /messages", query="?session_id=s-1")
    ask("GET /messages/search", query="?q=minutes")
    ask("GET /messages/{message_id}", message_id=number)
    ask("POST /messages/{message_id}/reply", message_id=number)
    ask("GET /messages/threads/{thread_id}", thread_id=number)
    ask("POST /messages/{message_id}/read", message_id=number)
    ask("POST /messages/{message_id}/acknowledge", message_id=number)

    ask("GET /contacts", query="?agent=GreenLake")

    ask("POST /statusline")
    ask("POST /statusline/screen", {"session_id": "s-1"})
    ask("POST /hooks/Mail/told", {"session_id": "s-1", "messages": [1], "way": "turn"})
    ask("POST /alerts/test")
    ask("GET /swarm")
    ask("GET /metrics", query="?by=agent")
    story.house.await_audit()
    ask("GET /audit")
    ask("GET /audit/verification")
    ask("POST /gc")
    for path in ("POST /supervisor/once", "POST /supervisor/start", "GET /supervisor", "POST /supervisor/stop"):
        ask(path)
    ask("POST /pause")
    ask("POST /resume")
    done = ask("POST /tasks")["task_id"]
    ask("GET /wait", query=f"?task={done}&timeout_s=20")
    ask("GET /tasks")
    ask("GET /tasks/{task_id}", task_id=done)
    ask("GET /tasks/{task_id}/detail", task_id=done)
    ask("POST /tasks/{task_id}/feedback", task_id=done)
    ask("GET /tasks/{task_id}/log", task_id=done)
    ask("GET /tasks/{task_id}/follow", task_id=done)
    (merge,) = ask("GET /merges")
    ask("GET /merges/graph")
    ask("GET /merges/{merge_id}", merge_id=merge["merge_id"])
    ask("GET /merges/{merge_id}/approval", merge_id=merge["merge_id"])
    ask("GET /merges/{merge_id}/log", merge_id=merge["merge_id"])
    ask("GET /merges/{merge_id}/runs", merge_id=merge["merge_id"])
    ask("POST /merges/{merge_id}/open", merge_id=merge["merge_id"])
    ask("GET /merges/flakes")
    ask("GET /rewinds")
    ask("GET /merges/{merge_id}/diff", merge_id=merge["merge_id"])
    ask("GET /tasks/{task_id}/diff", task_id=done)
    ask("POST /targets/freeze")
    ask("GET /targets/stopped")
    ask("POST /merges/{merge_id}/revert", merge_id=merge["merge_id"])
    ask("POST /targets/thaw")
    ask("GET /wait", query="?all=true&timeout_s=20")
    review = {"title": "Review it", "task_type": "review"}
    claimed = ask("POST /tasks", review)["task_id"]
    ask("POST /tasks/{task_id}/reprioritize", task_id=claimed)
    ask("POST /tasks/{task_id}/state", task_id=claimed)
    ask("POST /tasks/{task_id}/state", task_id=claimed)
    ask("GET /tasks/{task_id}/state", task_id=claimed)
    ask("POST /tasks/{task_id}/state/delete", task_id=claimed)
    ask("POST /tasks/claim")
    ask("POST /tasks/{task_id}/complete", task_id=claimed)
    gone = ask("POST /tasks", {"title": "Add a greeting", "command": "echo no; exit 3"})["task_id"]
    ask("GET /wait", query=f"?task={gone}&timeout_s=20")
    ask("GET /dead-letters")
    ask("POST /dead-letters/retry", {"task_ids": [gone]})
    ask("GET /wait", query=f"?task={gone}&timeout_s=20")
    ask("POST /dead-letters/clear", {"all": True})
    until = [{"kind": "tests", "command": "echo 3 failed, 12 passed"}]
    loop = ask("POST /tasks", {"title": "Repeat", "command": "echo x > looped.txt", "loop": {"until": until}})[
        "task_id"
    ]
    ask("GET /wait", query=f"?task={loop}&timeout_s=20")
    (story.house.root / ".corral/templates").mkdir(exist_ok=True)
    (story.house.root / ".corral/templates/add-page.yaml").write_text(TEMPLATE)
    ask("GET /templates")
    ask("GET /templates/{name}", name="add-page")
    ask("GET /loops")
    for operation in ("GET /loops/{loop_id}", "GET /loops/{loop_id}/history", "GET /loops/{loop_id}/diff"):
        ask(operation, loop_id=loop)
    ask("POST /tasks/{task_id}/cancel", task_id=ask("POST /tasks", review)["task_id"])

    made = ask("POST /worktrees")
    (Path(made["path"]) / "new.txt").write_text("new")
    (Path(made["path"]) / "own.ignored").write_text("ignored")
    ask("GET /worktrees")
    ask("GET /worktrees/pool")
    ask("DELETE /worktrees/{name}", name="login")
    ask("GET /salvage")
    ask("GET /salvage/private")
    ask("POST /worktrees/{name}/recover", name="login")
    ask("POST /worktrees/{name}/recover/all", name="login")
    ask("POST /sessions/{session_id}/end", session_id="s-1")
    story.named = {"done": done, "merge": merge["merge_id"], "loop": loop, "message": number}
    return story


def refuse(story: Story) -> None:
    """Ask, after the story, for what the daemon refuses: each operation so that it answers the errors of its own."""
    done, merge, number = story.named["done"], story.named["merge"], story.named["message"]
    landed, cedar = {"merge_id": merge}, {"session_id": "s-2"}

    def refused(operation: str, name: str, body: Any = None, /, *, query: str = "", **places: Any) -> None:
        try:
            story.ask(operation, body, query=query, **places)
        except CorralError as error:
            story.wrong += [] if error.name == name else [f"{operation}: {error.name}, not {name}: {error}"]
            story.refused.add((operation, error.name))
        else:
            story.wrong.append(f"{operation}: not {name}")

    for declared in OPERATIONS:
        name, places = name_of(declared), dict.fromkeys(declared.names, "no-such")
        if declared.names and declared.route.finds and name != KEY_FIRST:
            refused(name, "not_found", query="?before=1&after=2" if name.endswith("/diff") else "", **places)
        elif declared.acting and declared.route.method == "GET":
            refused(name, "not_found", query="?agent_id=Nobody", **places)
        elif declared.acting:
            refused(name, "not_found", {**BODIES[name], "agent_id": "Nobody"}, **places)
    story.house.ask("POST", "/locks/acquire", {**cedar, "paths": ["src/held.py", ".claude/agents/helper.md"]})
    refused("POST /locks/acquire", "lock_held", {"paths": ["src/held.py"]})
    refused("POST /locks/force-release", "reservation_active", {"paths": ["src/held.py"]})
    letter = {**cedar, "to": ["Cedar"], "subject": "Hello", "body": "Some text.", "idempotency_key": "k-1"}
    story.house.ask("POST", "/messages", letter)
    refused("POST /messages", "idempotency_key_conflict", {**letter, "body": "Another text."})
    refused("POST /messages", "recipient_not_found", {**letter, "to": ["Nobody"], "idempotency_key": "k-2"})
    refused("POST /messages", "invalid_thread_id", {**letter, "thread_id": "../up", "idempotency_key": "k-2"})
    answer = {**cedar, "body": "Some text.", "idempotency_key": "k-1"}
    refused("POST /messages/{message_id}/reply", "idempotency_key_conflict", answer, message_id=number)
    lost = {**cedar, "body": "Some text.", "to": ["Nobody"]}
    refused("POST /messages/{message_id}/reply", "recipient_not_found", lost, message_id=number)
    refused("GET /messages", "invalid_timestamp", query="?since_ts=soon")
    refused("GET /messages/search", "not_found", query="?q=minutes&agent=Nobody")
    refused("GET /contacts", "not_found", query="?agent=Nobody")
    refused("GET /project", "project_not_found", query="?human_key=/nowhere")
    refused("POST /sessions", "conflict", {"session_id": "s-3", "agent_name": "Cedar"})
    story.house.ask("POST", "/sessions", {"session_id": "s-3", "agent_name": "Birch"})
    refused("POST /sessions/{session_id}/names", "conflict", {"name": "Cedar"}, session_id="s-3")
    refused("POST /features/analyze", "not_found", {"candidate_feature_id": "no-such"})
    refused("GET /audit", "not_found", query="?task=no-such")
    refused("GET /wait", "not_found", query="?task=no-such")
    refused("POST /tasks", "not_found", {"title": "Helps", "parent_task_id": "no-such"})
    refused("POST /tasks", "conflict", {"title": "Helps", "parent_task_id": done})
    once = {"title": "Once", "task_type": "review", "idempotency_key": "k-1"}
    waits = {"task_id": story.house.ask("POST", "/tasks", once)["task_id"]}
    refused("POST /tasks", "idempotency_key_conflict", {**once, "title": "Twice"})
    refused("POST /tasks/batch", "idempotency_key_conflict", {"tasks": [{**once, "title": "Twice"}]})
    unkeyed = {"title": "Ask", "runner": "anthropic", "agent": "implementer"}
    refused("POST /tasks", "runner_unavailable", unkeyed)
    refused("POST /tasks/batch", "runner_unavailable", {"tasks": [unkeyed]})
    for operation in ("complete", "cancel", "retry", "reprioritize"):
        name, body = ("lease_lost", {**cedar, "success": True}) if operation == "complete" else ("conflict", None)
        refused(f"POST /tasks/{{task_id}}/{operation}", name, body, task_id=done)
    story.ask("POST /tasks/{task_id}/state", {"key": "k", "value": 1}, **waits)
    refused("POST /tasks/{task_id}/state", "conflict", {"key": "k", "value": 2, "if_version": 7}, **waits)
    refused("POST /tasks/{task_id}/state/delete", "conflict", {"key": "k", "if_version": 7}, **waits)
    refused("GET /dead-letters/{task_id}", "conflict", task_id=done)
    refused("POST /gc", "not_found", {"forget": ["refs/corral/salvage/nothing/20260101T000000000000Z"]})
    for operation in ("retry", "clear"):
        refused(f"POST /dead-letters/{operation}", "not_found", {"task_ids": ["no-such"]})
        refused(f"POST /dead-letters/{operation}", "conflict", {"task_ids": [done]})
    refused("POST /loops/{loop_id}/stop", "conflict", loop_id=story.named["loop"])
    refused("POST /loops/{loop_id}/resume", "conflict", loop_id=story.named["loop"])
    for operation in ("approve", "cancel", "dismiss", "skip", "bypass", "revert"):
        refused(f"POST /merges/{{merge_id}}/{operation}", "conflict", **landed)
    story.house.ask("POST", "/targets/freeze", {"target": "main", "reason": "Nothing lands."})
    queued = story.house.ask("POST", "/tasks", {"title": "Queued", "command": "echo y > queued.txt"})["task_id"]
    (waiting,) = eventually(lambda: [row for row in story.house.ask("GET", "/merges") if row["task_id"] == queued])
    refused("POST /merges/{merge_id}/retry", "conflict", merge_id=waiting["merge_id"])
    story.house.ask("POST", f"/merges/{waiting['merge_id']}/cancel")
    story.house.ask("POST", "/targets/thaw", {"target": "main"})
    helper = story.house.root / ".claude/agents/helper.md"
    helper.parent.mkdir(parents=True, exist_ok=True)
    first = {"version": "1.0.0", "share": 0.5}
    for text in ("Help.", "Help more."):
        helper.write_text(f"---\nname: helper\ndescription: It helps.\n---\n\n{text}\n")
        story.ask("POST /agents/{name}/pin", {"version": "1.0.0"}, name="helper")
        story.ask("DELETE /agents/{name}/pin", name="helper")
    refused("POST /agents/{name}/rollback", "lock_held", first, name="helper")
    story.ask("POST /agents/{name}/rollout", first, name="helper")
    story.ask("GET /agents/{name}/rollout", name="helper")
    for operation in ("rollout", "pin"):
        refused(f"POST /agents/{{name}}/{operation}", "conflict", first, name="helper")
    refused("POST /agents/{name}/improvement", "runner_unavailable", name="helper")
    helper.with_name("broken.md").write_text("---\nname: [\n---\n")
    for declared in OPERATIONS:
        if (
            ConfigInvalid in declared.route.errors
            and declared.tag == "agents"
            and (name := name_of(declared)) != KEY_FIRST
        ):
            places = {**dict.fromkeys(declared.names, "1.0.0"), "name": "broken"}
            refused(
                name, "config_invalid", first, query="?before=1&after=2" if name.endswith("/diff") else "", **places
            )
    helper.with_name("broken.md").unlink()
    made = story.ask("POST /worktrees", {**cedar, "name": "mine"})
    story.house.hook("SessionStart", "s-4", cwd=Path(made["path"]))
    refused("POST /worktrees", "conflict", {"name": "mine"})
    refused("DELETE /worktrees/{name}", "work_at_risk", name="mine")
