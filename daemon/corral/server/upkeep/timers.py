"""The small jobs of coordination: ending dead and silent sessions, expiring locks."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection

from corral.app.runtime.services import Services
from corral.coordination.locks import table as locks
from corral.coordination.sessions import liveness
from corral.coordination.sessions import registry as sessions
from corral.coordination.sessions.liveness import Seen
from corral.coordination.sessions.registry import Cleaned
from corral.errors import CorralError, DatabaseUnavailable
from corral.models.instants import after
from corral.models.states import SessionStatus
from corral.observe.logs import logger
from corral.server.hooks import transcripts
from corral.server.hooks.presence import BRIDGE_WITHIN, is_running
from corral.server.hooks.unannounced import note_alive
from corral.store.sessions import sessions as rows
from corral.work.workers import departures

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
        self._bridges_awaited = False

    def step(self, now: datetime) -> datetime | None:
        """Look once; next when a session is to be looked at again, or the first lock expires."""
        services = self._services
        _mind_the_jump(services, now)
        if services.db.read(rows.anyone):
            stale_after_s = services.settings().sessions.stale_after_s
            _sweep(services, now, stall_after_s=stale_after_s, end_after_s=2 * stale_after_s)
        self._await_bridges(now)
        _note_missing_bridges(services, now)
        expiry = services.db.write(lambda conn: locks.expire(conn, now))
        # Said before the look: a session that comes after it finds nobody watching, and asks for another look.
        services.unwatched = True
        services.unwatched = not (living := services.db.read(rows.anyone))
        again = now + timedelta(seconds=LOOK_EVERY_S) if living else None
        if living:
            note_alive(services.project)
        if not living:
            services.witness.rests()
        due = (again, expiry, services.witness.next_missing())
        return min((one for one in due if one is not None), default=None)

    def _await_bridges(self, now: datetime) -> None:
        """Once, after a start: each session of a client is expected to find this daemon again by its bridge."""
        if self._bridges_awaited:
            return
        self._bridges_awaited = True
        for row in self._services.db.read(rows.watched):
            if row["client_pid"] is not None and row["entrypoint"] and row["parent_session_id"] is None:
                self._services.witness.await_bridge(row["session_id"], row["client_pid"], now + BRIDGE_WITHIN)


def clean_up(services: Services, stale_after_s: float) -> Cleaned:
    """Give up, now, the sessions that were silent so long, for whoever asks; blocks on the database.

    Raises:
        Conflict: More than half of a large fleet would go; nothing was done.
    """
    now = services.now()
    _mind_the_jump(services, now)
    return _sweep(services, now, stall_after_s=stale_after_s, end_after_s=stale_after_s, cautious=True)


def _mind_the_jump(services: Services, now: datetime) -> None:
    jump_s = services.witness.looks(now, max(services.settings().sessions.stale_after_s, LOOK_EVERY_S + 1))
    if jump_s:
        services.db.write(lambda conn: locks.postpone(conn, jump_s))


def _note_missing_bridges(services: Services, now: datetime) -> None:
    missing = services.witness.take_missing(now)
    if missing:
        services.db.write(partial(sessions.unguard, session_ids=missing, now=now))
        log.warning("bridges_missing", session_ids=missing)
        services.changes.announce()


def _sweep(
    services: Services, now: datetime, *, stall_after_s: float, end_after_s: float, cautious: bool = False
) -> Cleaned:
    # Looked up before the write: the one writer waits for nobody's processes, nor for their files.
    living = services.db.read(rows.watched)
    processes = {(row["client_pid"], row["client_started"]) for row in living}
    gone = {process for process in processes if process[0] is not None and not is_running(*process)}
    killed = [row for row in living if (row["client_pid"], row["client_started"]) in gone]
    said = {row["session_id"]: transcripts.last_words(row["transcript_path"]) for row in killed}
    silent = [row for row in living if _is_silent(row, now, stall_after_s)]
    output_at = {row["session_id"]: at for row in silent if (at := transcripts.written_at(row["transcript_path"]))}
    moving = (row for row in silent if row["stalled_since_at"] is None)
    resting = (row["session_id"] for row in moving if transcripts.is_at_rest(row["transcript_path"]))
    seen = Seen(
        awake_since=services.witness.awake_since(services.started_at),
        is_running=lambda pid, started: (pid, started) not in gone,
        output_at=output_at,
        resting=frozenset(resting),
        connected=services.witness.connected(),
    )

    def sweep(conn: Connection) -> list[dict[str, Any]]:
        over = liveness.judge(
            conn,
            now,
            seen,
            stall_after_s=stall_after_s,
            end_after_s=end_after_s,
            cautious=cautious and not ended,
        )
        some = [(session_id, reason) for session_id, reason in over.items() if session_id not in failed][:at_once]
        tried[:] = [session_id for session_id, _reason in some]
        for session_id, _reason in some:
            if words := said.get(session_id):
                rows.change(conn, session_id, {"last_words": words})
        return departures.end_all(conn, some, now, services.settings().tasks)

    ended: list[dict[str, Any]] = []
    failed: set[str] = set()  # one whose end fails must not keep the others from theirs
    tried: list[str] = []
    at_once = AT_ONCE
    while True:
        tried.clear()
        try:
            some = services.db.write(sweep)
        except (CorralError, ValueError, LookupError) as error:
            if not tried or isinstance(error, DatabaseUnavailable):
                raise
            if len(tried) == 1:
                failed.add(tried[0])
                log.warning("session_not_ended", session_id=tried[0], reason=str(error))
            at_once = 1
            continue
        if not some:
            break
        ended += some
    if ended:
        services.nudge("supervisor")
    return Cleaned(agents=len(ended), locks=sum(len(row["released"]) for row in ended))


def _is_silent(row: dict[str, Any], now: datetime, stall_after_s: float) -> bool:
    """Whether hooks and tool calls say so little of a session that its client's own output is to be asked."""
    return bool(row["status"] == SessionStatus.ACTIVE and row["last_heartbeat"] < after(now, -stall_after_s))
