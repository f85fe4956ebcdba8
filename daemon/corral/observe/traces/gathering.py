"""The spans that end with a page of events: the events' own history, and the rows that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from corral.coordination.mail.store import messages, task_mail
from corral.core.events import EventKind
from corral.core.payload import Payload
from corral.observe.traces import lifetime, parts, spans
from corral.observe.traces.lifetime import Lifetime, Part
from corral.observe.traces.parts import About
from corral.observe.traces.spans import Span
from corral.store import events
from corral.store.rows.merges import MergeRow
from corral.store.rows.records import EventRow
from corral.store.rows.tasks import AttemptRow, TaskRow
from corral.work.merges.store import merges, receipts
from corral.work.tasks.store import attempts, tasks

MOST_HISTORY = 1000
"""Events of a task that are looked at; of one with more, its first wait and its whole begin with the task's row."""
TOLD = frozenset({*lifetime.ENDINGS, EventKind.MESSAGE_SENT})
"""The kinds of events that a span can end with."""


def gather(conn: Connection, page: Sequence[EventRow]) -> list[Span]:
    """The spans that end with these events, in the order of the events; a query for a reader.

    The same events give the same spans again, except for attributes of rows that have changed or gone.
    """
    spans_of: dict[int, list[Span]] = {}
    by_task: dict[str, list[EventRow]] = {}
    for event in page:
        if event["kind"] == EventKind.MESSAGE_SENT:
            spans_of[event["event_id"]] = _message(conn, event)
        elif event["kind"] in lifetime.ENDINGS and event["task_id"] is not None:
            by_task.setdefault(event["task_id"], []).append(event)
    for task_id, task_events in by_task.items():
        task = tasks.get(conn, task_id)
        if task is not None:
            ended = _ended(conn, task_id, task_events)
            spans_of.update({event_id: _spans(conn, task, parts) for event_id, parts in ended.items()})
    return [span for event_id in sorted(spans_of) for span in spans_of[event_id]]


def _ended(conn: Connection, task_id: str, task_events: Sequence[EventRow]) -> dict[int, list[Part]]:
    """The parts of a task's life that end with these events."""
    event_ids, last = {event["event_id"] for event in task_events}, task_events[-1]["event_id"]
    life, ended = Lifetime(), dict[int, list[Part]]()
    for event in events.of_task(conn, task_id, MOST_HISTORY):
        if event["event_id"] <= last:
            parts = life.feed(event)
            if event["event_id"] in event_ids:
                ended[event["event_id"]] = parts
    return ended


def _spans(conn: Connection, task: TaskRow, ended: Iterable[Part]) -> list[Span]:
    return [span for part in ended for span in parts.as_spans(part, _about(conn, task, part))]


def _about(conn: Connection, task: TaskRow, part: Part) -> About:
    at = part.end["at"]
    if part.kind == lifetime.ATTEMPT:
        return _about_attempt(conn, task, part)
    if part.kind == lifetime.LANDING:
        merge = _unchanged(merges.find(conn, part.end["merge_id"] or ""), part)
        return About(task, merge=merge, receipt=receipts.get(conn, merge["receipt_id"]) if merge is not None else None)
    if part.kind == lifetime.TASK and task["thread_id"] is not None:
        return About(task, message_ids=task_mail.of_thread(conn, task["thread_id"], at, spans.MOST_LINKS))
    return About(task)


def _about_attempt(conn: Connection, task: TaskRow, part: Part) -> About:
    rows: list[AttemptRow] = attempts.of_task(conn, task["task_id"])
    row = next(
        (attempt for attempt in rows if attempt["number"] == part.number and attempt["ended_at"] is not None), None
    )
    if row is None:
        return About(task)
    until = row["ended_at"] or part.end["at"]
    mail = task_mail.of_session(conn, row["session_id"], row["claimed_at"], until, spans.MOST_LINKS)
    return About(task, attempt=row, message_ids=mail)


def _unchanged(merge: MergeRow | None, part: Part) -> MergeRow | None:
    """The merge request, if its row still describes this end: one that was queued again since does not."""
    return merge if merge is not None and merge["finished_at"] == part.end["at"] else None


def _message(conn: Connection, event: EventRow) -> list[Span]:
    """The span of a message that belongs to a task."""
    row = messages.find(conn, str(event["data"]["message_id"]))
    task_ids = task_mail.tasks_of(conn, row, spans.MOST_LINKS) if row is not None else []
    if row is None or not task_ids:
        return []
    recipients: Payload = {"corral.message.recipients": len(messages.recipients(conn, row["seq"]))}
    about: Payload = {
        "corral.agent.name": row["sender_name"],
        "session.id": row["sender_session_id"],
        "corral.message.kind": row["kind"],
        "corral.message.importance": row["importance"],
    }
    return [parts.message(event, {**about, **recipients}, task_ids)]
