"""What happened, written to the daemon's log: a line for each event of the event record, in its order.

The job reads what others have committed, so that they never wait for it, and takes a bounded part of the processor's time:
:data:`PAGE` lines a step, and a step every :data:`PAUSE_S` at most. How far it has come is stored after the lines are written: a
daemon that is killed in between writes those of one step again, with the same ``event_id``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.bounds import Bounds
from corral.core.events import EventKind
from corral.core.logs import FILE, logger
from corral.core.steps import Step
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows.records import EventRow

PAGE = 100
"""Lines that one step writes at most."""
PAUSE_S = 0.5
"""Least time between two steps, seconds; what came meanwhile waits, in the database."""
BACKLOG = 1000
"""Events that the first run logs of a database that was never logged, the newest."""
MOST_OF_A_DAY = 64 << 20
"""Bytes of today's file from which on only events of level ``WARNING`` and above are written."""
_READER = "log"

log = logger("event_log")


class EventLog:
    """Step: write the events that are not in the log yet.

    Args:
        db: Holds the event record.
        log_file: Today's file, for its size.
    """

    def __init__(self, db: Store, log_file: Path) -> None:
        self._db = db
        self._file = log_file
        self._position: int | None = None
        self._is_full = False

    def step(self, now: datetime) -> datetime | None:
        """Write one page; look again at once if there may be more."""
        position = self._start() if self._position is None else self._position
        with self._db.reading() as conn:
            page = events.listing(conn, after_id=position, limit=PAGE)
        if page:
            self._look_at_size()
            ids = {event["session_id"] for event in page if event["session_id"]}
            with self._db.reading() as conn:
                names = sessions.names_of(conn, ids)
            for event in page:
                self._write(event, names)
            last = page[-1]["event_id"]
            self._db.write(events.move_position, _READER, last)
            self._position = last
        else:
            self._position = position
        return now if len(page) == PAGE else None

    def finish(self, now: datetime, pages: int) -> None:
        """Write what is left, at the end, when nobody else steps: at most so many pages; the next start writes the rest."""
        for _page in range(pages):
            if self.step(now) is None:
                return

    def _start(self) -> int:
        def find(conn: Connection) -> int:
            stored = events.position(conn, _READER)
            return max(0, events.newest(conn) - BACKLOG) if stored is None else stored

        return self._db.read(find)

    def _look_at_size(self) -> None:
        try:
            is_full = self._file.stat().st_size > MOST_OF_A_DAY
        except OSError:  # it is made with the next line
            is_full = False
        if is_full and not self._is_full:
            message = (
                f"Today's log has reached {MOST_OF_A_DAY >> 20} MB: until midnight UTC only events of level WARNING and "
                "above are written. The database has them all."
            )
            log.warning("log_full", message=message, path=str(self._file))
        self._is_full = is_full

    def _write(self, event: EventRow, names: Mapping[str, str]) -> None:
        level = level_of(event)
        if self._is_full and level < logging.WARNING:
            return
        writer = logger(component(event))
        if writer.isEnabledFor(level):
            writer.log(level, str(event["kind"]).replace(".", "_"), **fields(event, names))


def job(services: Services) -> Step:
    """The job of this module."""
    log = EventLog(services.db, services.project.logs_dir / FILE)
    services.bring(log)
    return Step("event_log", log.step, pause_s=PAUSE_S, reads_events=True)


# -- Format an event as a log line: level, component, sentence, and bounded data

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


def level_of(event: EventRow) -> int:
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
