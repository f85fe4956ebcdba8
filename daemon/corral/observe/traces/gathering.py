"""The spans that end with a page of events: the events' own history, and the rows that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from corral.coordination.mail.store import messages, task_mail
from corral.core.events import MERGE_ENDS, EventKind, payload
from corral.core.instants import parse
from corral.core.payload import Payload
from corral.core.runners import traits
from corral.core.states import ReceiptStatus
from corral.observe.traces import spans
from corral.observe.traces.spans import Lifetime, Mark, Part, Span, Value
from corral.store import events
from corral.store.rows import required
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.store.rows.records import EventRow
from corral.store.rows.tasks import AttemptRow, TaskRow
from corral.work.merges.store import merges, receipts
from corral.work.tasks.store import attempts, tasks

MOST_HISTORY = 1000
"""Events of a task that are looked at; of one with more, its first wait and its whole begin with the task's row."""
TOLD = frozenset({*spans.ENDINGS, EventKind.MESSAGE_SENT})
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
        elif event["kind"] in spans.ENDINGS and event["task_id"] is not None:
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
    return [span for part in ended for span in as_spans(part, _about(conn, task, part))]


def _about(conn: Connection, task: TaskRow, part: Part) -> About:
    at = part.end["at"]
    if part.kind == spans.ATTEMPT:
        return _about_attempt(conn, task, part)
    if part.kind == spans.LANDING:
        merge = _unchanged(merges.find(conn, part.end["merge_id"] or ""), part)
        return About(task, merge=merge, receipt=receipts.get(conn, merge["receipt_id"]) if merge is not None else None)
    if part.kind == spans.TASK and task["thread_id"] is not None:
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
    return [message(event, {**about, **recipients}, task_ids)]


# -- A part of a task's life as a span, with what the rows say about it: a pure function.
#
# Names of attributes are those of OpenTelemetry's semantic conventions where there is one, else they begin with
# ``corral.``. A row that has changed since the event, or was deleted, adds nothing: the span then says what the event
# says.

_FAILED = (EventKind.TASK_FAILED, EventKind.TASK_DEAD, EventKind.MERGE_FAILED, EventKind.MERGE_CONFLICT)
_SUCCEEDED = (EventKind.TASK_COMPLETED, EventKind.MERGE_LANDED)


@dataclass(frozen=True)
class About:
    """The rows that a part is about; None or empty: there are none.

    Attributes:
        message_ids: The messages that belong to it.
    """

    task: TaskRow
    attempt: AttemptRow | None = None
    merge: MergeRow | None = None
    receipt: ReceiptRow | None = None
    message_ids: Sequence[str] = field(default=())


def as_spans(part: Part, about: About) -> list[Span]:
    """The span of a part; a landing's verification follows it as one of its own."""
    task_id, kind = about.task["task_id"], part.kind
    whole = "task" if part.life is None else f"task {part.life}"
    own = whole if kind == spans.TASK else _name(part)
    parent = whole if kind != spans.TASK else ("task" if part.life is not None else None)
    end = parse(part.end["at"])
    start = min(_start(part, about), end)
    span = Span(
        name=kind,
        trace_id=spans.trace_id(task_id),
        span_id=spans.span_id(task_id, own),
        parent_id=None if parent is None else spans.span_id(task_id, parent),
        start=start,
        end=end,
        attributes=spans.attributes(_ATTRIBUTES[kind](part, about)),
        is_error=_is_error(part),
        links=[spans.of_message(message_id) for message_id in about.message_ids[-spans.MOST_LINKS :]],
        marks=[_mark(event) for event in part.marks],
    )
    return [span, *_verification(span, about)]


def message(event: EventRow, values: Mapping[str, Value | None], task_ids: Sequence[str]) -> Span:
    """The span of a message, in a trace of its own, with links to the tasks that it belongs to.

    Args:
        event: Of the kind ``message.sent``.
        values: Attributes that its row gives.
    """
    message_id, at = str(event["data"]["message_id"]), parse(event["at"])
    named: dict[str, Value | None] = {
        "messaging.system": "corral",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": message_id,
        "messaging.message.conversation_id": str(event["data"]["thread_id"]),
        **values,
    }
    links = [spans.of_task(task_id) for task_id in task_ids[: spans.MOST_LINKS]]
    own = spans.of_message(message_id)
    return Span("message", own.trace_id, own.span_id, None, at, at, spans.attributes(named), None, links, (), True)


def _name(part: Part) -> str:
    """Of a part within its task: each ends with an event of its own."""
    return f"{part.kind} {part.end['event_id']}"


def _start(part: Part, about: About) -> datetime:
    if part.began_at is not None:
        return parse(part.began_at)
    if part.kind == spans.ATTEMPT:
        return parse(part.end["at"])
    if part.kind == spans.LANDING and about.merge is not None:
        return parse(about.merge["created_at"])
    return parse(about.task["created_at"])


def _is_error(part: Part) -> bool | None:
    kind = part.end["kind"]
    if part.kind == spans.WAIT:
        return None
    if part.kind == spans.ATTEMPT and kind in (EventKind.TASK_RETRIED, EventKind.TASK_REQUEUED):
        return True
    return True if kind in _FAILED else False if kind in _SUCCEEDED else None


def _task(part: Part, about: About) -> dict[str, Value | None]:
    task, data = about.task, part.end["data"]
    return {
        "corral.task.id": task["task_id"],
        "corral.task.number": task["seq"],
        "corral.task.title": task["title"],
        "corral.task.type": task["task_type"],
        "corral.task.priority": task["priority"],
        "corral.task.template": task["template"],
        "corral.task.parent_id": task["parent_task_id"],
        "corral.task.outcome": str(part.end["kind"]).partition(".")[2],
        "corral.task.is_reopened": True if part.life is not None else None,
        "corral.thread.id": task["thread_id"],
        **_error(data),
    }


def _wait(part: Part, about: About) -> dict[str, Value | None]:
    return {"corral.task.id": about.task["task_id"], "corral.attempt.number": part.number}


def _attempt(part: Part, about: About) -> dict[str, Value | None]:
    row, data = about.attempt, part.end["data"]
    values: dict[str, Value | None] = {
        "corral.task.id": about.task["task_id"],
        "corral.attempt.number": part.number,
        "corral.attempt.outcome": str(part.end["kind"]).partition(".")[2],
    }
    if row is None:
        return {**values, **_error(data)}
    values |= {
        "corral.attempt.outcome": row["outcome"],
        "corral.runner.name": row["runner"],
        "corral.attempt.memory_mb": row["memory_mb"],
        "session.id": row["session_id"],
        "host.name": row["host"],
        "vcs.ref.head.name": row["branch"],
        "vcs.ref.head.revision": row["head_sha"],
        **_error({"error_code": row["error_code"], "error_message": row["error_message"]}),
    }
    if not traits(row["runner"]).is_model:
        return {**values, "corral.agent.name": row["agent"]}
    usage = row["usage"]
    return values | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.agent.name": row["agent"],
        "gen_ai.conversation.id": row["session_id"],
        "gen_ai.request.model": row["model"],
        "gen_ai.usage.input_tokens": usage.get("input_tokens"),
        "gen_ai.usage.output_tokens": usage.get("output_tokens"),
        "corral.usage.turns": usage.get("turns"),
        "corral.usage.cost_usd": usage.get("cost_usd"),
    }


def _landing(part: Part, about: About) -> dict[str, Value | None]:
    state, merge = str(part.end["kind"]).partition(".")[2], about.merge
    ended = required(payload(part.end, *MERGE_ENDS.values()))
    values: dict[str, Value | None] = {
        "corral.task.id": about.task["task_id"],
        "corral.merge.state": state,
        "corral.merge.reason": ended["reason"],
        "corral.merge.landed_sha": ended["landed_sha"],
        "vcs.change.id": part.end["merge_id"],
        "vcs.change.state": "merged" if state == "landed" else "closed",
        "error.type": f"merge_{state}" if state in ("conflict", "failed") else None,
    }
    if merge is None:
        return values
    return values | {
        "vcs.change.title": merge["title"],
        "vcs.ref.head.name": merge["branch"],
        "vcs.ref.head.revision": merge["head_sha"],
        "vcs.ref.base.name": merge["target"],
        "corral.receipt.id": merge["receipt_id"],
        "corral.receipt.status": about.receipt["status"] if about.receipt is not None else None,
    }


_ATTRIBUTES = {
    spans.TASK: _task,
    spans.WAIT: _wait,
    spans.ATTEMPT: _attempt,
    spans.LANDING: _landing,
}


def _verification(landing: Span, about: About) -> list[Span]:
    """The verification that decided a landing, if one ran within it: a receipt of an earlier one is only named."""
    receipt = about.receipt
    if landing.name != spans.LANDING or receipt is None or not receipt["commands"]:
        return []
    ended = parse(receipt["created_at"])
    began = ended - timedelta(seconds=receipt["duration_s"])
    if began < landing.start - timedelta(seconds=1) or ended > landing.end + timedelta(seconds=1):
        return []
    has_failed = receipt["status"] not in (ReceiptStatus.PASSED, ReceiptStatus.UNVERIFIED, ReceiptStatus.BYPASSED)
    values: dict[str, Value | None] = {
        "corral.receipt.id": receipt["receipt_id"],
        "corral.receipt.status": receipt["status"],
        "corral.receipt.reason": receipt["reason"],
        "corral.verification.tests": receipt["tests"],
        "corral.verification.tree": receipt["tree"],
        "process.exit.code": receipt["exit_code"],
        "error.type": f"verification_{receipt['status']}" if has_failed else None,
    }
    own = spans.span_id(about.task["task_id"], f"verification {landing.span_id}")
    named, is_error = spans.attributes(values), has_failed
    return [Span("verification", landing.trace_id, own, landing.span_id, began, ended, named, is_error)]


def _error(data: Mapping[str, Any]) -> dict[str, Value | None]:
    return {
        "error.type": data.get("error_code"),
        "error.message": data.get("error_message"),
        "corral.reason": data.get("reason"),
    }


def _mark(event: EventRow) -> Mark:
    """An event within a span; of its data, what is a text or a number at the top."""
    attributes = {
        f"corral.{name}": value
        for name, value in event["data"].items()
        if isinstance(value, (str, int, float)) and name != "error_message"
    }
    return Mark(event["kind"], parse(event["at"]), spans.attributes(attributes))
