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

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.logs import FILE, logger
from corral.core.steps import Step
from corral.observe.events import lines as event_lines
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
            self._db.write(lambda conn: events.move_position(conn, _READER, last))
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
        level = event_lines.level(event)
        if self._is_full and level < logging.WARNING:
            return
        writer = logger(event_lines.component(event))
        if writer.isEnabledFor(level):
            writer.log(level, str(event["kind"]).replace(".", "_"), **event_lines.fields(event, names))


def job(services: Services) -> Step:
    """The job of this module."""
    log = EventLog(services.db, services.project.logs_dir / FILE)
    services.bring(log)
    return Step("event_log", log.step, pause_s=PAUSE_S, reads_events=True)
