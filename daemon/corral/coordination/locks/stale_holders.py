"""Taking a lock from a holder that is stale or stalled. An active holder keeps it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.locks.keys import LockKey, spellings
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder, wire
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import LockHeld
from corral.core.events import EventKind
from corral.core.instants import iso, parse
from corral.core.payload import Payload
from corral.core.states import SessionStatus
from corral.core.visible import embedded
from corral.store import events
from corral.store.rows.sessions import LockOfHolder

INACTIVE_S = 1800.0
"""A session without a heartbeat for so long may be stale."""
QUIET_S = 900.0
"""More recent mail, file or git activity shows that the holder is active all the same."""


class ReservationActive(LockHeld):
    """A lock is not taken away: its holder is active."""

    name = "reservation_active"
    default_remedy = "Ask the holder by message to release it, or wait for it (`corral lock acquire --wait`)."


@dataclass(frozen=True)
class Activity:
    """When something was last seen to happen; None: never.

    Attributes:
        mail_at: The holder sent, read or acknowledged a message.
        file_at: A file that the lock covers was written.
        git_at: A commit that touches what the lock covers was made.
    """

    mail_at: datetime | None = None
    file_at: datetime | None = None
    git_at: datetime | None = None


@dataclass(frozen=True)
class Judgement:
    """The reasons why a holder counts as stale, and the signs that it is active; ``stale`` without such a sign."""

    reasons: tuple[str, ...]
    signs: tuple[str, ...]

    @property
    def stale(self) -> bool:
        """Whether the lock may be taken away."""
        return not self.signs


def judge(lock: LockOfHolder, activity: Activity, now: datetime) -> Judgement:
    """Whether a holder is gone.

    Args:
        lock: With ``status``, ``last_heartbeat`` and ``stalled_since_at`` of its session.
    """
    reasons, signs = [], []
    silent_s = (now - parse(lock["last_heartbeat"])).total_seconds()
    # Activity before a session stalled says nothing about now.
    stalled_s = QUIET_S
    if lock["stalled_since_at"] is not None:
        stalled_s = min(QUIET_S, (now - parse(lock["stalled_since_at"])).total_seconds())
        reasons.append(f"its session is stalled: no sign of it for {_short(silent_s)}, in the middle of a turn")
    elif lock["status"] == SessionStatus.DISCONNECTED:
        reasons.append("its session is disconnected")
    elif silent_s > INACTIVE_S:
        reasons.append(f"its session has been inactive for {_minutes(silent_s)}")
    else:
        signs.append(f"its session's last heartbeat was {_minutes(silent_s)} ago")
    for kind, at in (("mail", activity.mail_at), ("file", activity.file_at), ("git", activity.git_at)):
        ago_s = None if at is None else (now - at).total_seconds()
        if ago_s is not None and ago_s <= stalled_s:
            signs.append(f"{kind} activity {_minutes(ago_s)} ago")
        else:
            reasons.append(f"no {kind} activity in the last {_short(stalled_s)}")
    return Judgement(tuple(reasons), tuple(signs))


def force_release(
    conn: Connection,
    keys: Sequence[LockKey],
    lock_ids: Sequence[str],
    activities: dict[str, Activity],
    by: Holder,
    now: datetime,
    *,
    note: str = "",
    notify: bool = True,
    by_person: bool = False,
) -> list[Payload]:
    """Take the locks on the keys and with the ids from their holders, all or none; the caller's own are left alone.

    Args:
        activities: By ``lock_id``, as it was looked up a moment ago; a lock that is not in it came since, and is alive.
        note: Why, for the former holder.
        notify: Whether the former holder is told.
        by_person: A person is certain: then an active holder loses them too.

    Returns:
        The former locks, each with ``stale_reasons`` and the four ``last_…_activity_at``.

    Raises:
        ReservationActive: A holder is active; ``details`` says which, and by what activity.
    """
    locks = lock_rows.named(
        conn, iso(now), match_keys=[spelling for key in keys for spelling in spellings(key)], lock_ids=lock_ids
    )
    others = [row for row in locks if row["session_id"] != by.session_id]
    released = []
    for lock in others:
        activity = activities.get(lock["lock_id"])
        judgement = judge(lock, activity, now) if activity else Judgement((), ("it was taken a moment ago",))
        if by_person and not judgement.stale:
            judgement = Judgement(("a person took it",), ())
        if not judgement.stale:
            raise _active(lock, judgement)
        released.append(
            {**wire(lock), **_activity_fields(lock, activity or Activity()), "stale_reasons": list(judgement.reasons)}
        )
    lock_rows.release_these(conn, [lock["lock_id"] for lock in others])
    taker = session_rows.get(conn, by.session_id)
    name = taker["agent_name"] if taker is not None else None
    for lock, facts in zip(others, released, strict=True):
        event = EventKind.LOCK_FORCE_RELEASED(
            {"path": lock["file_path"], "by": by.session_id, "note": note, "reasons": facts["stale_reasons"]}
        )
        events.record(conn, iso(now), event, session_id=lock["session_id"])
        if notify:
            why = "; ".join(facts["stale_reasons"])
            text = f"{name} released your lock on {embedded(lock['file_path'])}: {why}." + (
                f" {name} says: {embedded(note)}" if note else ""
            )
            session_rows.notify(conn, lock["session_id"], f"{text} Acquire it again before you go on.", iso(now))
    return released


def _active(lock: LockOfHolder, judgement: Judgement) -> ReservationActive:
    name = lock["agent_name"]
    return ReservationActive(
        f"{lock['file_path']} is not taken from {name}: its session is active.",
        cause=f"Its activity: {'; '.join(judgement.signs)}.",
        remedy=f"Ask {name} by message to release it, or wait: it expires at {lock['expires_at']} at the latest. A person takes "
        f"it all the same: `{shlex.join(['corral', 'lock', 'force-release', lock['file_path'], '--yes'])}`.",
        details={"holder": name, "session_id": lock["session_id"], "signs": list(judgement.signs), "lock": wire(lock)},
    )


def _activity_fields(lock: LockOfHolder, activity: Activity) -> Payload:
    instants = {"mail": activity.mail_at, "filesystem": activity.file_at, "git": activity.git_at}
    dated = {f"last_{kind}_activity_at": iso(at) if at else None for kind, at in instants.items()}
    return {"last_agent_activity_at": lock["last_heartbeat"], **dated}


def _minutes(seconds: float) -> str:
    return f"{max(0, round(seconds / 60))} min"


def _short(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else _minutes(seconds)
