"""Operations do what they declare: the answers and the errors of each, and whether it changes anything."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from corral.config.paths import find_project
from corral.core.routing import PREFIX
from corral.daemon import nouns
from corral.daemon.wiring import assemble
from corral.faces.http.router import Router
from corral.work.worktrees.api import OF_A_WORKTREE
from tests import api_story
from tests.api_story import OPERATIONS, TYPES, Story, name_of
from tests.support.coordinated import Coordinated

OF_A_PLACE = " ".join(error.name for error in OF_A_WORKTREE if error.name not in ("conflict", "limit_reached"))
MADE_AGAIN = (
    "POST /tasks/{task_id}/attach, POST /merges/{merge_id}/open, POST /worktrees/{name}/recover, "
    "POST /worktrees/{name}/recover/all"
)
NOT_PROVOKED = (
    (
        "The place of worktrees, the settings or a setup command is spoilt.",
        OF_A_PLACE,
        f"POST /worktrees, POST /verification/dry-run, {MADE_AGAIN}",
    ),
    ("No place for worktrees is left.", "unsupported", "GET /worktrees/place"),
    ("People have a hundred worktrees.", "limit_reached", f"POST /worktrees, POST /verification/dry-run, {MADE_AGAIN}"),
    ("The worktree is another one's.", "conflict", MADE_AGAIN),
    ("Something else was put into the place of a worktree.", "path_replaced folder_linked", "DELETE /worktrees/{name}"),
    ("Something else was put into the place of all.", "path_replaced", "POST /worktrees/retire"),
    (
        "The target is gone, on which something has landed.",
        "target_gone",
        "POST /worktrees, POST /worktrees/{name}/recover/all",
    ),
    ("What is to be forgotten changes meanwhile.", "conflict", "POST /gc"),
    (
        "A target's own settings are broken.",
        "config_invalid",
        "GET /merges/{merge_id}/approval, POST /merges/{merge_id}/approve, POST /merges/{merge_id}/bypass",
    ),
    ("A definition is broken, and there is a key.", "config_invalid", "POST /agents/{name}/improvement"),
    ("A template is broken.", "config_invalid", "GET /templates/{name}"),
    (
        "The keychain is locked.",
        "api_key_unavailable",
        "POST /tasks, POST /tasks/batch, POST /agents/{name}/improvement",
    ),
    ("The queue is full.", "conflict", "POST /tasks/batch"),
    (
        "An improvement runs, which asks the API.",
        "conflict",
        "POST /agents/{name}/improvement, POST /agents/{name}/improvement/resume",
    ),
    ("The agent's file is in no commit, or behind a link.", "conflict folder_linked", "POST /agents/{name}/rollback"),
    ("An alert has resolved itself.", "conflict", "POST /alerts/{alert_id}/acknowledge"),
    (
        "The daemon stops while it is asked.",
        "daemon_unreachable",
        "POST /hooks/Stop/wait, POST /hooks/Mail/wait, POST /locks/acquire",
    ),
    ("A session ends while it waits, or a thousand globs are locked.", "conflict", "POST /locks/acquire"),
    (
        "A thousand sessions live.",
        "limit_reached",
        "POST /sessions, POST /sessions/{session_id}/heartbeat, POST /hooks/{event}",
    ),
    ("Three hundred messages in a minute.", "resource_exhausted", "POST /messages, POST /messages/{message_id}/reply"),
    ("A loop runs.", "conflict", "POST /loops/{loop_id}/land"),
    ("A target loses more while one looks.", "conflict", "POST /rewinds/accept"),
    ("Another dry run is in progress.", "conflict", "POST /verification/dry-run"),
)
"""Declared errors that the story does not provoke: what would have to be first, the names, and the operations."""
WRITES = {"GET /messages/search"}
"""A question that writes: the index learns what was sent since the last one."""
NOT_ASKED = {"GET /events", "GET /agents/{name}/improvement", "GET /dead-letters/{task_id}"}
"""Questions that are not asked again: a stream, what takes a model first, and of a task that is dismissed when the story ends."""
NEWS = ("POST /messages", "/messages", {"session_id": "s-2", "to": ["Cedar"], "subject": "News", "body": "Some."})


def test_the_examples_are_answered_and_refused_as_declared_and_questions_change_nothing(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config=api_story.CONFIG)
    story = api_story.play(house)
    assert len(story.told) > len(TYPES) * 0.75
    api_story.refuse(story)
    assert not story.wrong, "\n".join(story.wrong)

    declared = {(name_of(operation), error.name) for operation in OPERATIONS for error in operation.route.errors}
    listed = {
        (name, error) for _why, errors, names in NOT_PROVOKED for error in errors.split() for name in names.split(", ")
    }
    assert declared - story.refused == listed

    questions = {name_of(operation) for operation in OPERATIONS if not operation.route.changes}
    assert questions - {name for name, _target, _body in story.asked} == NOT_ASKED
    house.stop()
    assert _writing(house, story) == WRITES


def _writing(house: Coordinated, story: Story) -> set[str]:
    """The questions that change the database: asked again where no job writes beside them, each after some news."""
    project, pool = find_project(house.root), ThreadPoolExecutor(2)
    services = assemble(project, pool).services
    questions = {name_of(operation) for operation in OPERATIONS if not operation.route.changes}

    async def ask() -> set[str]:
        services.changes.bind(asyncio.get_running_loop())
        router, writing = Router(services, nouns.HOT, nouns.every), set()
        with closing(sqlite3.connect(f"{project.database.as_uri()}?mode=ro", uri=True)) as conn:
            for operation, target, body in story.asked:
                if operation in questions:
                    assert await _ask(router, *NEWS) == 201
                    before = [*conn.iterdump()]
                    assert await _ask(router, operation, target.replace("timeout_s=20", "timeout_s=0"), body) == 200
                    writing |= {operation} if [*conn.iterdump()] != before else set()
        return writing

    try:
        return asyncio.run(ask())
    finally:
        services.db.close()
        pool.shutdown()


async def _ask(router: Router, operation: str, target: str, body: Any) -> int:
    """Ask in this process; returns the status."""
    path, _, query = target.partition("?")
    scope = {"type": "http", "method": operation.split()[0], "path": PREFIX + path, "query_string": query.encode()}
    data, statuses = b"" if body is None else json.dumps(body).encode(), list[int]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    await router({**scope, "headers": [], "server": None}, receive, send)
    return statuses[0]
