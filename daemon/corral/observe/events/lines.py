"""Format an event as a log line: level, component, sentence, and bounded data."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from corral.core.bounds import Bounds
from corral.core.events import EventKind
from corral.store.rows.records import EventRow

MOST = Bounds(text=500, items=20, depth=3)
"""How much of an event's data is in a line."""
SHORT_ID = 8
"""Length of an id in a sentence, as on the command line."""

LEVELS: Mapping[str, int] = {
    EventKind.SESSION_CHANGED: logging.DEBUG,
    EventKind.LOCK_AWAITED: logging.DEBUG,
    EventKind.MESSAGE_READ: logging.DEBUG,
    EventKind.MESSAGE_ACKNOWLEDGED: logging.DEBUG,
    EventKind.TASK_RETRIED: logging.WARNING,
    EventKind.TASK_INTERRUPTED: logging.WARNING,
    EventKind.TASK_REQUEUED: logging.WARNING,
    EventKind.MERGE_CONFLICT: logging.WARNING,
    EventKind.MERGE_FAILED: logging.WARNING,
    EventKind.MERGE_HELD: logging.WARNING,
    EventKind.MERGE_FLAKY: logging.WARNING,
    EventKind.MERGE_REQUEUED: logging.WARNING,
    EventKind.TARGET_PAUSED: logging.WARNING,
    EventKind.TARGET_FROZEN: logging.WARNING,
    EventKind.MERGE_BYPASSED: logging.WARNING,
    EventKind.TARGET_REWOUND: logging.WARNING,
    EventKind.TARGET_BYPASSED: logging.WARNING,
    EventKind.SUPERVISOR_PAUSED: logging.WARNING,
    EventKind.EDIT_DENIED: logging.WARNING,
    EventKind.COMMAND_DENIED: logging.WARNING,
    EventKind.IDENTITY_REFUSED: logging.WARNING,
    EventKind.LOCK_VIOLATED: logging.WARNING,
    EventKind.LOCK_FORCE_RELEASED: logging.WARNING,
    EventKind.MESSAGE_BOUNCED: logging.WARNING,
    EventKind.PROJECT_MOVED: logging.WARNING,
    EventKind.PROJECT_DATABASE_SET_ASIDE: logging.WARNING,
    EventKind.AGENT_ROLLED_BACK: logging.WARNING,
    EventKind.AGENT_ROLLOUT_STOPPED: logging.WARNING,
    EventKind.TASK_FAILED: logging.ERROR,
    EventKind.TASK_DEAD: logging.ERROR,
    EventKind.AGENT_FAILING: logging.ERROR,
    EventKind.ALERT_RAISED: logging.ERROR,
}
"""Levels by kind; the default is ``INFO``."""

COMPONENTS: Mapping[str, str] = {
    "task": "queue",
    "supervisor": "supervisor",
    "merge": "landing",
    "target": "landing",
    "session": "sessions",
    "agent": "sessions",
    "identity": "sessions",
    "lock": "locks",
    "edit": "locks",
    "change": "locks",
    "command": "locks",
    "message": "messages",
    "worktree": "worktrees",
}
"""Components by the noun of the kind; the default is the noun."""


def level(event: EventRow) -> int:
    """The level of an event, as in :mod:`logging`."""
    return LEVELS.get(event["kind"], logging.INFO)


def component(event: EventRow) -> str:
    """The component of an event."""
    noun = _noun(event)
    return COMPONENTS.get(noun, noun)


def fields(event: EventRow, names: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, Any]:
    """The further fields of the line: timestamp, sentence, ids and the event's data.

    Args:
        names: The names of sessions, by their ids.

    Secrets are removed from the data before it is cut to size; ``event_id`` identifies the full event.
    """
    ids = {name: event[name] for name in ("task_id", "session_id", "merge_id") if event[name] is not None}
    data = {"data": MOST.value(event["data"])} if event["data"] else {}
    return {"timestamp": event["at"], "message": sentence(event, names), "event_id": event["event_id"], **ids, **data}


def sentence(event: EventRow, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """A sentence for people: what happened to what, and the reason. ``Task 0b6ff4a2 retried: exit_status: …``."""
    verb = str(event["kind"]).partition(".")[2].replace("_", " ")
    subject = " ".join(part for part in (_noun(event).capitalize(), _name(event, names)) if part)
    cause = _cause(event["data"])
    return f"{subject} {verb}: {cause}" if cause else f"{subject} {verb}."


def _noun(event: EventRow) -> str:
    return str(event["kind"]).partition(".")[0]


def _name(event: EventRow, names: Mapping[str, str]) -> str:
    """The name of the event's subject, as on the command line."""
    data, noun = event["data"], _noun(event)
    key = {"session": "agent_name", "target": "target", "alert": "rule"}.get(noun, "")
    named = data.get(key) or (names.get(str(event["session_id"])) if noun == "session" else None)
    if named is None:
        own_id = event.get(f"{noun}_id")
        named = str(own_id)[:SHORT_ID] if own_id else _paths(data)
    return MOST.cut(str(named))


def _paths(data: Mapping[str, Any]) -> str:
    paths = data.get("paths") or [data[key] for key in ("file_path", "path") if isinstance(data.get(key), str)]
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}" if paths else ""


def _cause(data: Mapping[str, Any]) -> str:
    if data.get("reason"):
        return MOST.cut(str(data["reason"]))
    return MOST.cut(": ".join(str(data[key]) for key in ("error_code", "error_message") if data.get(key)))
