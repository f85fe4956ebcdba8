"""Which sessions live: a sign comes from the agent (a hook, a tool call, output), never from its connection.

In the middle of a turn and without a sign for a while a session is ``stalled``: it is shown so, and its locks can be taken. After
as long again it is over. At rest, with a process that lives, it may be silent for ever. A session without process or connection
(over plain HTTP) has nothing but its signs, and is over where another one stalls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.sessions.registry import CONNECTION, PERSON, SILENT, rest
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import Conflict
from corral.core.instants import iso, parse
from corral.core.states import SessionStatus
from corral.store.rows.sessions import SessionLife

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
    """

    awake_since: datetime
    is_running: Callable[[int, float | None], bool]
    output_at: Mapping[str, datetime] = field(default_factory=dict)
    resting: frozenset[str] = frozenset()
    connected: frozenset[str] = frozenset()


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
