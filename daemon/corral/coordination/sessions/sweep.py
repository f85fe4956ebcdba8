"""Ending the sessions that are gone: their process has ended, or they were silent too long."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.services import Services
from corral.coordination.sessions import liveness, session_end, transcripts
from corral.coordination.sessions.api import MAX_THRESHOLD_MINUTES
from corral.coordination.sessions.liveness import Seen
from corral.coordination.sessions.processes import is_running
from corral.coordination.sessions.registry import Cleaned, EndedSession
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.sessions.transcripts import NEVER
from corral.core.errors import CorralError, DatabaseUnavailable, InvalidInput
from corral.core.instants import after, iso
from corral.core.logs import logger
from corral.core.payload import Payload
from corral.core.states import SessionStatus

LOOK_EVERY_S = 3.0
"""Between two looks at the processes of live sessions; without a live session nothing is looked at."""

AT_ONCE = 20
"""Most sessions that end in one transaction, so that other writes do not wait long."""

log = logger("sessions")


async def clean_up(services: Services, minutes: float) -> Payload:
    """End the sessions that were silent for so many minutes; returns how many, and how many locks came free."""
    if not 1 <= minutes <= MAX_THRESHOLD_MINUTES:
        raise InvalidInput(f"A threshold of {minutes:g} minutes is not possible.", remedy="Use 1 minute to a week.")
    cleaned = await services.work(lambda: end_silent(services, minutes * 60))
    return {"success": True, "agents_cleaned": cleaned.agents, "locks_released": cleaned.locks}


def end_silent(services: Services, stale_after_s: float) -> Cleaned:
    """End the sessions that were silent so long, at once; blocks on the database.

    Raises:
        Conflict: More than half of a large fleet would go; nothing was done.
    """
    now = services.now()
    mind_the_jump(services, now)
    return sweep(services, now, stall_after_s=stale_after_s, end_after_s=stale_after_s, cautious=True)


def mind_the_jump(services: Services, now: datetime) -> None:
    """A jump of the clock, or a machine that slept, counts as waking up: every lock gets the time that it had left."""
    jump_s = services.runtime.looks(now, max(services.settings().sessions.stale_after_s, LOOK_EVERY_S + 1))
    if jump_s:
        services.db.write(lambda conn: lock_table.postpone(conn, jump_s))


def sweep(
    services: Services, now: datetime, *, stall_after_s: float, end_after_s: float, cautious: bool = False
) -> Cleaned:
    """End the sessions whose process is gone or that are silent too long, a few in each transaction; blocks on the database.

    Args:
        stall_after_s: Silence in the middle of a turn after which a session is stalled.
        end_after_s: Silence after which it ends.
        cautious: Refuse where more than half of a large fleet would go.
    """
    # Read processes and files before the write: the one writer must not wait for them.
    living = services.db.read(session_rows.watched)
    processes = {(row["client_pid"], row["client_started"]) for row in living}
    dead = {process for process in processes if process[0] is not None and not is_running(process[0], process[1])}
    killed = [row for row in living if (row["client_pid"], row["client_started"]) in dead]
    last_words = {row["session_id"]: transcripts.last_words(row["transcript_path"]) for row in killed}
    answered_at = {row["session_id"]: transcripts.answered_at(row["transcript_path"]) for row in killed}
    heard_by = max(after(now, -stall_after_s), iso(services.started_at))  # a Stop before that fell while no daemon ran
    silent = [row for row in living if row["status"] == SessionStatus.ACTIVE and row["last_heartbeat"] < heard_by]
    output_at = {row["session_id"]: at for row in silent if (at := transcripts.written_at(row["transcript_path"]))}
    # What was written down before the last sign tells of an earlier turn.
    since = (row for row in silent if iso(output_at.get(row["session_id"], NEVER)) >= row["last_heartbeat"])
    moving = (row for row in since if row["stalled_since_at"] is None)
    resting = (row["session_id"] for row in moving if transcripts.is_at_rest(row["transcript_path"]))
    observations = Seen(
        awake_since=services.runtime.awake_since(services.started_at),
        is_running=lambda pid, started: (pid, started) not in dead,
        output_at=output_at,
        resting=frozenset(resting),
        connected=services.runtime.connected(),
    )

    def end_some(conn: Connection) -> list[EndedSession]:
        reasons = liveness.judge(
            conn,
            now,
            observations,
            stall_after_s=stall_after_s,
            end_after_s=end_after_s,
            cautious=cautious and not ended,
        )
        batch = [(session_id, reason) for session_id, reason in reasons.items() if session_id not in failed][:at_once]
        tried[:] = [session_id for session_id, _reason in batch]
        for session_id, _reason in batch:
            if words := last_words.get(session_id):
                session_rows.change(conn, session_id, {"last_words": words})
            session_end.put_back_unanswered(conn, session_id, answered_at.get(session_id), now)
        return session_end.end_all(conn, batch, now, services.offer_again)

    ended: list[EndedSession] = []
    failed: set[str] = set()  # a session whose end fails must not block the end of the others
    tried: list[str] = []
    at_once = AT_ONCE
    while True:
        tried.clear()
        try:
            batch = services.db.write(end_some)
        except (CorralError, ValueError, LookupError) as error:
            if not tried or isinstance(error, DatabaseUnavailable):
                raise
            if len(tried) == 1:
                failed.add(tried[0])
                log.warning("session_not_ended", session_id=tried[0], reason=str(error))
            at_once = 1
            continue
        if not batch:
            break
        ended += batch
    if ended:
        services.nudge("supervisor")
    return Cleaned(agents=len(ended), locks=sum(len(row["released"]) for row in ended))
