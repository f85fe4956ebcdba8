"""Ending the sessions that are gone: their process has ended, or they were silent too long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.services import Services
from corral.coordination.sessions import session_end, transcripts
from corral.coordination.sessions.api import MAX_THRESHOLD_MINUTES
from corral.coordination.sessions.processes import is_running
from corral.coordination.sessions.registry import CONNECTION, PERSON, SILENT, Cleaned, EndedSession, pass_on, rest
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.sessions.transcripts import NEVER
from corral.core.errors import Conflict, CorralError, DatabaseUnavailable, InvalidInput
from corral.core.instants import after, iso, parse
from corral.core.logs import logger
from corral.core.payload import Payload
from corral.core.states import SessionStatus
from corral.store.rows.sessions import SessionLife

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
        services.db.write(lock_table.postpone, jump_s)


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
    clients = {row["session_id"]: services.runtime.clients_of(row["session_id"]) for row in killed}
    observations = Seen(
        awake_since=services.runtime.awake_since(services.started_at),
        is_running=lambda pid, started: (pid, started) not in dead,
        output_at=output_at,
        resting=frozenset(resting),
        connected=services.runtime.connected(),
        clients={session_id: [pid for pid in pids if is_running(pid, None)] for session_id, pids in clients.items()},
    )

    def end_some(conn: Connection) -> list[EndedSession]:
        reasons = judge(
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


# -- Which sessions live: a sign comes from the agent (a hook, a tool call, output), never from its connection.
#
# In the middle of a turn and without a sign for a while a session is ``stalled``: it is shown so, and its locks can
# be taken. After as long again it is over. At rest, with a process that lives, it may be silent for ever. A session
# without process or connection (over plain HTTP) has nothing but its signs, and is over where another one stalls.

LARGE_FLEET = 8


@dataclass(frozen=True)
class Seen:
    """Observations of the sessions from before the write.

    Attributes:
        awake_since: When this daemon began to listen, or the machine last woke up: silence before it does not count.
        is_running: Tells whether a process id with that start time still runs.
        output_at: By session, when its client last wrote down what it said.
        resting: Sessions whose transcript says that their turn is over, although no hook did.
        connected: Sessions whose bridge is connected.
        clients: By session whose process is gone, the others that have it open and run.
    """

    awake_since: datetime
    is_running: Callable[[int, float | None], bool]
    output_at: Mapping[str, datetime] = field(default_factory=dict)
    resting: frozenset[str] = frozenset()
    connected: frozenset[str] = frozenset()
    clients: Mapping[str, Sequence[int]] = field(default_factory=dict)


def judge(
    conn: Connection,
    now: datetime,
    observations: Seen,
    *,
    stall_after_s: float,
    end_after_s: float,
    cautious: bool = False,
) -> dict[str, str]:
    """Find the sessions that are over; mark those that stall, and those that rest although no hook said so.

    Args:
        stall_after_s: Seconds without a sign after which an active session is stalled.
        end_after_s: Seconds without a sign after which a session is over, at least ``stall_after_s``.
        cautious: Rather do nothing than end more than half of a large fleet for its silence.

    Returns:
        For each session that is over why: ``process_gone``, ``closed`` or ``silent``.

    Raises:
        Conflict: It was cautious.
    """
    living = session_rows.watched(conn)
    asking = {_family(row) for row in living if row["waiting_for"] is not None}
    reasons: dict[str, str] = {}
    for row in living:
        session_id = row["session_id"]
        if row["client_pid"] is not None and not observations.is_running(row["client_pid"], row["client_started"]):
            if not pass_on(conn, session_id, observations.clients.get(session_id, ())):
                # A connection has ended when its process has: whichever of the two is seen first.
                reasons[session_id] = "closed" if row["agent_type"] == CONNECTION else "process_gone"
            continue
        if (
            row["status"] == SessionStatus.ACTIVE
            and session_id in observations.resting
            and _has_client(row, observations)
        ):
            rest(conn, session_id, now)
            continue
        silent_s = _silent_s(conn, row, observations, now)
        if silent_s <= stall_after_s or _may_be_silent(conn, row, observations, now, asking):
            continue
        if silent_s > end_after_s or not _has_client(row, observations):
            reasons[session_id] = SILENT
        else:
            session_rows.stall(conn, session_id, iso(now))
    silent = sum(reason == SILENT for reason in reasons.values())
    if cautious and len(living) >= LARGE_FLEET and silent * 2 > len(living):
        raise _refuse_mass_expiry(silent, len(living), end_after_s)
    return reasons


def _silent_s(conn: Connection, row: SessionLife, observations: Seen, now: datetime) -> float:
    """Seconds without a sign; output is one, and recorded."""
    sign = parse(row["last_heartbeat"])
    output = observations.output_at.get(row["session_id"])
    if output is not None and sign < output <= now:
        session_rows.beat(conn, row["session_id"], iso(output))
        sign = output
    return (now - max(sign, observations.awake_since)).total_seconds()


def _family(row: SessionLife) -> str:
    """The session that its person sees: a subagent asks through its parent, and a parent waits while its subagent asks."""
    return str(row["parent_session_id"] or row["session_id"])


def _may_be_silent(conn: Connection, row: SessionLife, observations: Seen, now: datetime, asking: Set[str]) -> bool:
    session_id = row["session_id"]
    if row["agent_type"] == PERSON:  # a person's reservations live by their own time to live
        return bool(lock_rows.listing(conn, iso(now), [session_id]))
    if not _has_client(row, observations):
        return False
    return row["status"] == SessionStatus.IDLE or _family(row) in asking


def _has_client(row: SessionLife, observations: Seen) -> bool:
    return row["client_pid"] is not None or row["session_id"] in observations.connected


def _refuse_mass_expiry(silent: int, living: int, stale_after_s: float) -> Conflict:
    return Conflict(
        f"{silent} of {living} sessions were silent for {stale_after_s / 60:g} minutes; none was ended.",
        cause="So many do not die at once: rather something keeps them from being heard.",
        remedy="Look at `corral session list`; ask for a longer threshold, or end those that are dead one by one.",
        details={"silent": silent, "living": living},
    )
