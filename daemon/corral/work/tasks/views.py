"""Tasks as they are shown: in a list, and one with everything that is known of it. Reading changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from corral.core.errors import InvalidInput
from corral.core.outcomes import Outcome
from corral.core.payload import Payload
from corral.core.runners import traits
from corral.core.states import TaskSort, TaskStatus
from corral.store import events
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import TaskRow
from corral.work.merges import wire as merge_shapes
from corral.work.merges.store import merges, receipts
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.state import store as shared_state
from corral.work.tasks import wire as task_shapes
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import dependencies, family, lists, outcomes, tasks
from corral.work.tasks.tasks import find
from corral.work.worktrees import store as worktrees


def listing(
    conn: Connection,
    /,
    *,
    statuses: Sequence[str] = (),
    sort: str = TaskSort.PRIORITY,
    after: str | None = None,
    **filters: Any,
) -> list[Payload]:
    """Tasks as a list shows them, with their ``outcome`` (:mod:`corral.core.outcomes`).

    Args:
        statuses: Only tasks whose status or outcome is one of these.
        sort: A :class:`corral.core.states.TaskSort`.
        after: Only those behind this :func:`cursor`.
        filters: The others of :func:`corral.work.tasks.store.lists.listing`.

    Raises:
        InvalidInput: There is no such state, order or place.
    """
    if sort not in TaskSort.values():
        raise InvalidInput(f"{sort[:40]!r} is not an order.", remedy=f"Use one of: {', '.join(TaskSort.values())}.")
    words = (*TaskStatus.values(), *Outcome.values())
    for status in statuses:
        if status not in words:
            raise InvalidInput(f"{status[:40]!r} is not a state of a task.", remedy=f"Use one of: {', '.join(words)}.")
    behind = _read_cursor(after) if after is not None else None
    rows = lists.listing(conn, statuses=statuses, sort=sort, after=behind, **filters)
    outcome_of = outcomes.of_tasks(conn, [row["task_id"] for row in rows])
    return [{**task_shapes.summary(row), "outcome": outcome_of[row["task_id"]]} for row in rows]


def cursor(row: Payload) -> str:
    """Where a task stands in the list, as it is shown there."""
    return f"{row['priority']},{row['task_id']}"


def _read_cursor(text: str) -> tuple[int, str]:
    priority, _, task_id = text.partition(",")
    if not priority.isdecimal() or len(priority) > 2 or not task_id:
        raise InvalidInput(f"Invalid cursor {text[:80]!r}.", remedy="Follow the `Link` header of the page before.")
    return int(priority), task_id


def read(conn: Connection, task_id: str) -> Payload:
    """A task as the task document shows it (:class:`corral.work.tasks.api.TaskRead`).

    Raises:
        NotFound: No such task.
    """
    return task_shapes.read(find(conn, task_id))


def writes_events(conn: Connection, task_id: str, number: int) -> bool:
    """Whether the output of the attempt with this number is the event stream of a model's client."""
    attempts = attempt_rows.of_task(conn, task_id)
    return any(attempt["number"] == number and traits(attempt["runner"]).streams for attempt in attempts)


def detail(conn: Connection, task_id: str) -> Payload:
    """Everything about one task, a :class:`corral.work.tasks.api.TaskFacts`; reading changes nothing."""
    row = find(conn, task_id)
    merge = merge_tasks.decisive(conn, row["task_id"])
    place = worktrees.get(conn, row["worktree_id"]) if row["worktree_id"] else None
    history = events.of_task(conn, row["task_id"])
    attempts = attempt_rows.of_task(conn, row["task_id"])
    shown, shown_attempts = task_shapes.summary(row), [task_shapes.attempt(attempt) for attempt in attempts]
    for name in ("error_code", "error_message", "attempts", "result", "branch", "task_type", "input_data", "agent", "runner",
                 "description", "command", "prompt", "thread_id", "agent_requirements", "deadline_at", "target",
                 "submitted_by", "session_id", "timeout_s", "max_retries", "limits",
                 "progress", "not_before_at", "started_at", "completed_at", "cancel_reason", "faults", "crashes",
                 "metadata", "combine"):  # fmt: skip
        shown[name] = row[name]
    return {
        **shown,
        "outcome": outcomes.of_tasks(conn, [row["task_id"]])[row["task_id"]],
        "worktree": place["path"] if place and place["removed_at"] is None else None,
        "usage": task_shapes.usage(attempts),
        "duration_s": sum(attempt["duration_s"] or 0.0 for attempt in shown_attempts),
        "memory_mb": max((attempt["memory_mb"] or 0 for attempt in attempts), default=0) or None,
        "state": {value["key"]: value["version"] for value in shared_state.of_task(conn, row["task_id"])},
        "attempt_history": shown_attempts,
        "merge": _merge(conn, merge) if merge else None,
        "wait_for": dependencies.parents_of(conn, row["task_id"]),
        "agents": row["agents_wanted"],
        "followers": family.children(conn, row["task_id"]),
        "steps": _steps(conn, row),
        "claims": tasks.claims_of(conn, row["task_id"])[row["task_id"]],
        "history": [{"at": event["at"], "kind": event["kind"], "data": event["data"]} for event in history],
    }


def _merge(conn: Connection, merge: MergeRow) -> Payload:
    merge_id = merge["merge_id"]
    return merge_shapes.of_task(
        merge, receipts.get(conn, merge["receipt_id"]), merges.taken_back(conn, [merge_id]).get(merge_id)
    )


def _steps(conn: Connection, row: TaskRow) -> list[Payload]:
    """The steps of a task in the order of their submission; none for most."""
    if row["steps_wanted"] is None:
        return []
    steps = family.steps(conn, row["task_id"])
    outcome_of = outcomes.of_tasks(conn, [step["task_id"] for step in steps])
    waits = dependencies.among(conn, row["task_id"])
    return [
        {
            "task_id": step["task_id"],
            "number": step["seq"],
            "step": step["step"],
            "title": step["title"],
            "status": step["status"],
            "outcome": outcome_of[step["task_id"]],
            "wait_for": waits.get(step["task_id"], []),
        }
        for step in steps
    ]
