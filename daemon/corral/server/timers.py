"""The small jobs of coordination: ending dead and silent sessions, expiring locks."""

from __future__ import annotations

from datetime import datetime, timedelta

from corral.coordination import locks, sessions
from corral.observe.logs import logger
from corral.server.hooks import is_running
from corral.server.services import Services
from corral.store import sessions as rows

LOOK_EVERY_S = 3.0
"""Between two looks at the processes of live sessions; without a live session nothing is looked at."""

log = logger("sessions")


class SessionKeeper:
    """Step: sweep the sessions, expire the locks.

    A jump of the clock, or a machine that slept, counts as waking up: everybody gets the whole time of silence again, and
    every lock the time that it had left.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._awake_since = services.started_at
        self._last: datetime | None = None

    def step(self, now: datetime) -> datetime | None:
        """Look once; next when a session is to be looked at again, or the first lock expires."""
        services = self._services
        jump_s = (now - self._last).total_seconds() if self._last is not None else 0.0
        if abs(jump_s) > 60 + LOOK_EVERY_S:
            self._awake_since = now
            services.db.write(lambda conn: locks.postpone(conn, jump_s))
        self._last = now
        stale_after_s = services.settings().sessions.stale_after_s
        if services.db.read(rows.live):
            ended = services.db.write(
                lambda conn: sessions.sweep(
                    conn,
                    now,
                    stale_after_s=stale_after_s,
                    awake_since=self._awake_since,
                    connected=services.witness.connected(),
                    is_running=is_running,
                )
            )
            for row in ended:
                log.info("session_ended", session_id=row["session_id"], reason=row["end_reason"])
            if ended:
                services.nudge("supervisor")
        expiry = services.db.write(lambda conn: locks.expire(conn, now))
        # Said before the look: a session that comes after it finds nobody watching, and asks for another look.
        services.unwatched = True
        services.unwatched = not (living := bool(services.db.read(rows.live)))
        again = now + timedelta(seconds=LOOK_EVERY_S) if living else None
        if not living:
            self._last = None
        return min((due for due in (again, expiry) if due is not None), default=None)
