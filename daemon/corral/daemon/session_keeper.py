"""The small jobs of coordination: ending dead and silent sessions, expiring locks."""

from __future__ import annotations

from datetime import datetime, timedelta

from corral.coordination.locks import table as lock_table
from corral.coordination.services import Services
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.sessions.sweep import LOOK_EVERY_S, mind_the_jump, sweep
from corral.core.logs import logger
from corral.core.steps import Step
from corral.faces.hooks import meanwhile
from corral.faces.hooks.presence import BRIDGE_WITHIN
from corral.faces.hooks.unannounced import note_alive

log = logger("sessions")


class SessionKeeper:
    """Step: sweep the sessions, expire the locks.

    After a jump of the clock, or a sleep of the machine, every session gets its whole time of silence again, and every lock
    the time that it had left.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._bridges_awaited = False

    def step(self, now: datetime) -> datetime | None:
        """Sweep once; returns when a session must be checked again, or the first lock expires."""
        services = self._services
        meanwhile.take_over(services, now)
        mind_the_jump(services, now)
        if services.db.read(session_rows.anyone):
            stale_after_s = services.settings().sessions.stale_after_s
            sweep(services, now, stall_after_s=stale_after_s, end_after_s=2 * stale_after_s)
        self._await_bridges(now)
        _note_missing_bridges(services, now)
        expiry = services.db.write(lock_table.expire, now)
        # Set before the read: a session that starts after it finds nobody watching, and nudges this job.
        services.unwatched = True
        services.unwatched = not (living := services.db.read(session_rows.anyone))
        again = now + timedelta(seconds=LOOK_EVERY_S) if living else None
        if living:
            note_alive(services.project)
        if not living:
            services.runtime.rests()
        due = (again, expiry, services.runtime.next_missing())
        return min((instant for instant in due if instant is not None), default=None)

    def _await_bridges(self, now: datetime) -> None:
        """Once, after a start: expect the bridge of each client's session to reconnect to this daemon."""
        if self._bridges_awaited:
            return
        self._bridges_awaited = True
        for row in self._services.db.read(session_rows.watched):
            if row["client_pid"] is not None and row["entrypoint"] and row["parent_session_id"] is None:
                self._services.runtime.await_bridge(row["session_id"], row["client_pid"], now + BRIDGE_WITHIN)


def _note_missing_bridges(services: Services, now: datetime) -> None:
    missing = services.runtime.take_missing(now)
    if missing:
        services.db.write(session_registry.unguard, session_ids=missing, now=now)
        log.warning("bridges_missing", session_ids=missing)
        services.changes.announce()


def job(services: Services) -> Step:
    """The job of this module."""
    return Step("sessions", SessionKeeper(services).step, pause_s=0.2, reads_settings=True)
