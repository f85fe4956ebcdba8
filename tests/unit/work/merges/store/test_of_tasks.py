"""Which task a merge request belongs to, and which request of a task counts."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from corral.core.instants import iso
from corral.core.states import MergeState
from corral.store.schema import agent_sessions, merge_requests
from corral.work.merges.store import intents, merges
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.tasks.store import tasks
from corral.work.worktrees import store as worktrees

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=timezone.utc)
AT = iso(NOW)


def task(conn: Connection, task_id: str, **values: Any) -> str:
    fresh: dict[str, Any] = {
        "task_id": task_id, "task_type": "task", "title": task_id, "status": "pending", "priority": 5, "limits": {},
        "max_retries": 0, "attempts": 0, "ignore_dependency_failure": False, "fencing_token": 0, "created_at": AT,
    }  # fmt: skip
    tasks.create(conn, {**fresh, **values}, [])
    return task_id


def claimed(conn: Connection, task_id: str, session_id: str, **values: Any) -> str:
    task(conn, task_id, **values)
    tasks.lease(conn, task_id, session_id=session_id, now=AT, lease_expires_at=AT)
    return task_id


def session(conn: Connection, session_id: str, **values: Any) -> str:
    fresh: dict[str, Any] = {
        "session_id": session_id, "agent_name": session_id, "agent_type": "claude", "status": "active", "capabilities": [],
        "started_at": AT, "last_heartbeat": AT,
    }  # fmt: skip
    conn.execute(agent_sessions.insert().values({**fresh, **values}))
    return session_id


def worktree(conn: Connection, name: str, **values: Any) -> str:
    fresh: dict[str, Any] = {
        "worktree_id": name, "name": name, "path": f"/{name}", "branch": f"corral/{name}", "base_sha": "0" * 40,
        "purpose": "session", "state": "ready", "provision": {}, "created_at": AT,
    }  # fmt: skip
    worktrees.create(conn, {**fresh, **values})
    return f"corral/{name}"


def submit(conn: Connection, branch: str, head: int, task_id: str | None = None, target: str = "main") -> str:
    about: dict[str, Any] = {"session_id": None, "base_sha": None, "title": branch, "priority": 5}
    return merges.submit(conn, **about, task_id=task_id, branch=branch, target=target, head_sha=f"{head:040}", now=NOW)


def test_a_branch_leads_to_its_task_by_its_worktree_before_anything_that_the_one_who_asks_holds(
    any_database: Connection,
) -> None:
    conn = any_database
    asking, maker = session(conn, "asking"), session(conn, "maker")
    claimed(conn, "held", asking)
    claimed(conn, "made", maker)
    task(conn, "allocated")
    of_task = worktree(conn, "one", purpose="task", task_id="allocated")
    of_session = worktree(conn, "two", session_id=maker)
    assert merge_tasks.owners(conn, of_task, asking) == ["allocated"]
    assert merge_tasks.owners(conn, of_session, asking) == ["made"], "a session at work on a task has that worktree"
    assert merge_tasks.owners(conn, of_session, None) == ["made"], "a person hands it in"
    assert merge_tasks.owners(conn, "anything", asking) == ["held"]
    assert merge_tasks.owners(conn, "anything", None) == []
    assert merge_tasks.owners(conn, "anything", session(conn, "idle")) == []


def test_a_worker_and_its_subagents_hold_the_workers_task_and_a_branch_keeps_the_one_it_had(
    any_database: Connection,
) -> None:
    conn = any_database
    task(conn, "worked")
    session(conn, "worker", task_id="worked")
    session(conn, "helper", parent_session_id="worker")
    session(conn, "main")
    claimed(conn, "first", "main")
    session(conn, "below", parent_session_id="main")
    assert merge_tasks.owners(conn, "side", "worker") == merge_tasks.owners(conn, "side", "helper") == ["worked"]
    assert merge_tasks.owners(conn, "mine", "below") == ["first"]
    claimed(conn, "second", "main")
    assert merge_tasks.owners(conn, "mine", "main") == ["first", "second"], "for the caller to choose"
    submit(conn, "mine", 1, "second")
    assert merge_tasks.owners(conn, "mine", None) == merge_tasks.owners(conn, "mine", "main") == ["second"]


def test_a_branch_has_one_open_request_for_a_target(any_database: Connection) -> None:
    conn = any_database
    first = submit(conn, "mine", 1)
    elsewhere = submit(conn, "mine", 1, target="release")
    second = submit(conn, "mine", 2)
    assert [merges.get(conn, merge_id)["state"] for merge_id in (first, elsewhere, second)] == [
        "superseded",
        "queued",
        "queued",
    ]
    row = {**merges.get(conn, second), "merge_id": "third"}
    del row["seq"]
    with pytest.raises(IntegrityError), conn.begin_nested():
        conn.execute(merge_requests.insert().values(**row))


def test_one_that_is_landing_is_marked_and_stays_until_that_is_over(any_database: Connection) -> None:
    conn = any_database
    first = submit(conn, "mine", 1)
    intents.intend(conn, target="main", old_sha="a", new_sha="b", merge_ids=[first], now=NOW)
    second, third = submit(conn, "mine", 2), submit(conn, "mine", 3)
    assert [merges.get(conn, merge_id)["state"] for merge_id in (first, second, third)] == [
        "queued",
        "superseded",
        "queued",
    ]
    assert merges.get(conn, first)["replaced_by"] == second
    merge = merges.open_of_branch(conn, "mine", "main")
    assert merge is not None and merge["merge_id"] == third


def test_a_task_with_an_open_request_has_not_landed_whatever_else_of_it_has(any_database: Connection) -> None:
    conn = any_database
    task(conn, "t", status="completed", completed_at=AT)

    def standing() -> Any:
        return tasks.standing(conn, ["t"])[0]["merge_state"]

    assert standing() is None
    older = submit(conn, "one", 1)
    submit(conn, "one", 1, "t")
    assert merges.get(conn, older)["task_id"] == "t", "asked for again, for its task"
    newer = submit(conn, "two", 2, "t")
    merges.finish(conn, newer, MergeState.CONFLICT, now=NOW, reason="x")
    counts = merge_tasks.decisive(conn, "t")
    assert standing() == "queued" and counts is not None and counts["merge_id"] == older
    merges.finish(conn, older, MergeState.CANCELLED, now=NOW)
    assert standing() == "conflict", "of those that have ended the newest counts"
    latest = submit(conn, "two", 3, "t")
    assert standing() == "queued"
    merges.supersede(conn, merges.get(conn, latest), "another", NOW)
    assert standing() == "conflict", "one that was replaced says nothing"
