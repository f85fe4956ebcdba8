"""The small jobs of coordination: ending dead and silent sessions, expiring locks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from corral.coordination import locks, sessions
from corral.coordination.sessions import Cleaned
from corral.observe.logs import logger
from corral.server import transcripts
from corral.server.presence import is_running
from corral.server.services import Services
from corral.store import sessions as rows
from corral.work import departures

LOOK_EVERY_S = 3.0
"""Between two looks at the processes of live sessions; without a live session nothing is looked at."""

AT_ONCE = 20
"""Sessions that end in one transaction, at most: whoever writes meanwhile waits for no more than these."""

log = logger("sessions")


class SessionKeeper:
    """Step: sweep the sessions, expire the locks.

    A jump of the clock, or a machine that slept, counts as waking up: everybody gets the whole time of silence again, and
    every lock the time that it had left.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def step(self, now: datetime) -> datetime | None:
        """Look once; next when a session is to be looked at again, or the first lock expires."""
        services = self._services
        _mind_the_jump(services, now)
        if services.db.read(rows.anyone):
            _sweep(services, now, services.settings().sessions.stale_after_s)
        expiry = services.db.write(lambda conn: locks.expire(conn, now))
        # Said before the look: a session that comes after it finds nobody watching, and asks for another look.
        services.unwatched = True
        services.unwatched = not (living := services.db.read(rows.anyone))
        again = now + timedelta(seconds=LOOK_EVERY_S) if living else None
        if not living:
            services.witness.rests()
        return min((due for due in (again, expiry) if due is not None), default=None)


def clean_up(services: Services, stale_after_s: float) -> Cleaned:
    """Give up, now, the sessions that were silent so long, for whoever asks; blocks on the database.

    Raises:
        Conflict: More than half of a large fleet would go; nothing was done.
    """
    now = services.now()
    _mind_the_jump(services, now)
    return _sweep(services, now, stale_after_s, cautious=True)


def _mind_the_jump(services: Services, now: datetime) -> None:
    jump_s = services.witness.looks(now)
    if jump_s:
        services.db.write(lambda conn: locks.postpone(conn, jump_s))


def _sweep(services: Services, now: datetime, stale_after_s: float, *, cautious: bool = False) -> Cleaned:
    # Looked up before the write: the one writer waits for nobody's processes, nor for their files.
    living = services.db.read(rows.watched)
    processes = {(row["client_pid"], row["client_started"]) for row in living}
    gone = {process for process in processes if process[0] is not None and not is_running(*process)}
    killed = [row for row in living if (row["client_pid"], row["client_started"]) in gone]
    said = {row["session_id"]: transcripts.last_words(row["transcript_path"]) for row in killed}

    def sweep(conn: Connection) -> list[dict[str, Any]]:
        over = sessions.doomed(
            conn,
            now,
            stale_after_s=stale_after_s,
            awake_since=services.witness.awake_since(services.started_at),
            connected=services.witness.connected(),
            is_running=lambda pid, started: (pid, started) not in gone,
            cautious=cautious and not ended,
        )
        some = list(over.items())[:AT_ONCE]
        for session_id, _reason in some:
            if words := said.get(session_id):
                rows.change(conn, session_id, {"last_words": words})
        return departures.end_all(conn, some, now, services.settings().tasks)

    ended: list[dict[str, Any]] = []
    while some := services.db.write(sweep):
        ended += some
    for row in ended:
        log.info("session_ended", session_id=row["session_id"], reason=row["end_reason"])
    if ended:
        services.nudge("supervisor")
    return Cleaned(agents=len(ended), locks=sum(len(row["released"]) for row in ended))
