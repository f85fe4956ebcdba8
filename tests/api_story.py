"""Every operation that can be asked at once, asked of a real daemon as the OpenAPI document shows, and answered as declared."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from corral.core.routing import PREFIX
from corral.daemon import nouns
from corral.faces.http.openapi import document
from corral.faces.http.router import Operation, operations
from tests.support.answers import unlike
from tests.support.coordinated import Coordinated


def _name(operation: Operation) -> str:
    return f"{operation.route.method} {operation.path.removeprefix(PREFIX)}"


CONFIG = "supervisor: {max_agents: 1}"
"""Of the repository in which the story is played."""
TEMPLATE = """
name: add-page
description: Add a page with a test.
parameters: {PAGE: {type: string, description: Its name.}}
prompt: Write the page {{ PAGE }}.
"""
DOCUMENT = document(OPERATIONS := operations(nouns.every()))
TYPES = {_name(one): one.route.answer for one in OPERATIONS if one.path.startswith(PREFIX)}
BODIES: dict[str, Any] = {
    _name(one): described["requestBody"]["content"]["application/json"]["example"]
    for one in OPERATIONS
    if "requestBody" in (described := DOCUMENT["paths"][one.path][one.route.method.lower()])
}
"""The bodies that the document shows."""


class Story:
    """Asks as the document shows, and keeps what an answer has otherwise than its type."""

    def __init__(self, house: Coordinated) -> None:
        self.house = house
        self.wrong: list[str] = []
        self.told: set[str] = set()

    def ask(self, operation: str, /, body: Any = None, *, query: str = "", **places: Any) -> Any:
        method, _, path = operation.partition(" ")
        filled = re.sub(r"\{(\w+)\}", lambda place: str(places[place[1]]), path)
        real = self.house.ask(method, filled + query, BODIES.get(operation) if body is None else body)
        self.wrong += [f"{operation}: {one}" for one in unlike(TYPES[operation], real)]
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
    ask("POST /tasks/{task_id}/feedback", task_id=done)
    ask("GET /tasks/{task_id}/log", task_id=done)
    ask("GET /tasks/{task_id}/follow", task_id=done)
    (merge,) = ask("GET /merges")
    ask("GET /merges/{merge_id}", merge_id=merge["merge_id"])
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
    return story
