"""Letters from Corral itself: facts as text for readers and as data for programs, and their possible recipients."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.mail import messages
from corral.coordination.mail.addresses import EVERYBODY, MOST_RECIPIENTS, heir
from corral.coordination.mail.messages import BODY_LIMIT, Letter
from corral.coordination.sessions.store import names
from corral.core.events import EventKind
from corral.core.logs import logger
from corral.core.payload import Payload
from corral.core.states import Importance
from corral.store import events
from corral.store.rows.records import EventRow
from corral.store.rows.tasks import BatchTask, TaskRow

SHOWN = 50
"""Items of a list that a letter carries; of more it says how many there are."""
log = logger("announcements")


def written(
    kind: str, subject: str, facts: Payload, task: TaskRow | BatchTask | None, importance: Importance
) -> Letter:
    """A letter with one line per fact, and the same facts as data."""
    thread = (task["thread_id"] or f"task-{task['task_id']}") if task is not None else None
    body = "\n".join(_line(name, value) for name, value in facts.items() if value not in (None, [], {}))
    body = body.encode("utf-8", "backslashreplace").decode()  # names of files need not be UTF-8
    short = body.encode()[: BODY_LIMIT // 2].decode("utf-8", "ignore")
    data: Payload = {}
    for name, value in facts.items():
        data[name] = value[:SHOWN] if isinstance(value, list) else value
        if isinstance(value, list) and len(value) > SHOWN:
            data[f"{name}_count"] = len(value)
    return Letter(
        subject=subject[: messages.SUBJECT_LIMIT],
        body=short,
        importance=importance.value,
        thread_id=thread,
        kind=kind,
        data=data if len(body) == len(short) else {key: data[key] for key in list(facts)[:2]},
    )


def send(conn: Connection, letter: Letter, to: Iterable[str | None], event: EventRow, now: datetime) -> None:
    """Send a letter to every recipient that exists; it names the others, and an event records them.

    Args:
        to: Ids of sessions; None is nobody.
        event: The event that the letter reports.
    """
    recipients = list(dict.fromkeys(heir(conn, name) for name in to if name))
    reached = [name for name in recipients if _is_reached(conn, name)]
    lost = [name for name in recipients if name not in reached]
    if lost:
        undeliverable(conn, event, letter.kind, lost, "Nobody goes by that.", now)
        named = [name[:128] for name in lost[:SHOWN]]
        body = f"{letter.body}\n{_line('not_delivered_to', named)}"
        letter = replace(letter, body=body, data={**letter.data, "not_delivered_to": named})
    for start in range(0, len(reached), MOST_RECIPIENTS):
        # A key stands for one message: the first carries it, and the others are stored with it or not at all.
        key = letter.idempotency_key if start == 0 else None
        some = replace(letter, to=tuple(reached[start : start + MOST_RECIPIENTS]), idempotency_key=key)
        messages.send(conn, None, some, now)


def undeliverable(conn: Connection, event: EventRow, kind: str, to: list[str], reason: str, now: datetime) -> None:
    """Record the recipients that a letter did not reach; the history of the task shows it."""
    log.warning("not_announced", event_id=event["event_id"], kind=kind, recipients=to[:SHOWN], reason=reason)
    lost = EventKind.MESSAGE_BOUNCED({"kind": kind, "recipients": to[:SHOWN], "reason": reason})
    events.record(conn, now, lost, task_id=event["task_id"], merge_id=event["merge_id"])


def _is_reached(conn: Connection, name: str) -> bool:
    """Whether this name is the address of a session: not every id that a client gives itself is one."""
    return name == name.strip() and name.lower() != EVERYBODY and names.resolve(conn, name) is not None


def _line(name: str, value: Any) -> str:
    label = name.replace("_id", " ID").replace("_sha", " SHA").replace("duration_s", "duration (s)").replace("_", " ")
    if isinstance(value, dict):
        value = [f"{key.replace('_', ' ')}: {text}" for key, text in value.items()]
    if isinstance(value, list):
        shown = [item if isinstance(item, str) else json.dumps(item) for item in value[:SHOWN]]
        more = [f"and {len(value) - SHOWN} more"] if len(value) > SHOWN else []
        return "\n".join([f"{label}:", *(f"- {line}" for line in (*shown, *more))])
    return f"{label[0].upper()}{label[1:]}: {value}"
