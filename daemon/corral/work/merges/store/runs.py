"""SQL for verification runs, and for what is remembered of a target from one to the next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from corral.core.instants import iso
from corral.core.states import ReceiptStatus
from corral.store.engine.fetch import fetch_all, has_any
from corral.store.rows.merges import RanVerification, VerificationRunRow
from corral.store.schema import (
    agent_sessions,
    attempts,
    landing_targets,
    merge_requests,
    receipts,
    verification_runs,
)

MOST_KEPT = 10_000
"""Runs that are remembered: the newest."""

MOST_LOOKED_AT = 500
"""Runs among which those of one target are looked for."""

RUNS_APART = 20
"""Verifications that run one at a time after one met a port that was taken, perhaps by another one's."""

_m, _r, _s = merge_requests.c, verification_runs.c, agent_sessions.c
_NEWEST = select(func.max(_r.run_id)).scalar_subquery()
_RECENT = _r.run_id > _NEWEST - MOST_LOOKED_AT
_WITH_RECEIPT = verification_runs.join(receipts, _r.receipt_id == receipts.c.receipt_id)
_IS_GREEN = receipts.c.status == ReceiptStatus.PASSED


def begin(
    conn: Connection,
    *,
    merge_id: str,
    target: str,
    commit_sha: str,
    candidate_sha: str,
    tree: str,
    fingerprint: str,
    slot: int,
    is_alone: bool,
    members: Sequence[str],
    now: datetime,
) -> int:
    """A verification begins in a slot; returns its number.

    Args:
        commit_sha: What is verified: the candidate, or what this was built upon.
        is_alone: Red is run again before it counts.
        members: The requests whose work it judges.
    """
    values = {
        "merge_id": merge_id, "target": target, "commit_sha": commit_sha, "candidate_sha": candidate_sha, "tree": tree,
        "fingerprint": fingerprint, "slot": slot, "is_alone": int(is_alone), "members": list(members), "started_at": iso(now),
    }  # fmt: skip
    conn.execute(delete(verification_runs).where(_r.run_id < _NEWEST - MOST_KEPT, _r.ended_at.is_not(None)))
    return int(conn.execute(insert(verification_runs).values(**values).returning(_r.run_id)).scalar_one())


def joined(conn: Connection, run_id: int) -> None:
    """Red of a run that began alone is not run again before it counts."""
    conn.execute(update(verification_runs).where(_r.run_id == run_id).values(is_alone=0))


def end(conn: Connection, run_id: int, now: datetime, receipt_id: str | None = None) -> None:
    """A verification has ended; without a receipt: nobody needed it any more, or it could not be followed."""
    conn.execute(update(verification_runs).where(_r.run_id == run_id).values(ended_at=iso(now), receipt_id=receipt_id))


def end_all(conn: Connection, now: datetime, but: Collection[int]) -> None:
    """Nothing runs but these: the daemon that had begun the others is gone."""
    others = (_r.ended_at.is_(None), _r.run_id.not_in(but))
    conn.execute(update(verification_runs).where(*others).values(ended_at=iso(now)))


def running(conn: Connection) -> list[VerificationRunRow]:
    """What runs now, by slot."""
    query = select(verification_runs).where(_r.ended_at.is_(None)).order_by(_r.slot)
    return fetch_all(conn, query, VerificationRunRow)


def of_merge(conn: Connection, merge_id: str) -> list[VerificationRunRow]:
    """The runs for a request, the oldest first."""
    query = select(verification_runs).where(_r.merge_id == merge_id).order_by(_r.run_id)
    return fetch_all(conn, query, VerificationRunRow)


def green_durations(conn: Connection, target: str, most: int) -> list[float]:
    """How long the newest green verifications of a target took, seconds; at most so many."""
    query = select(receipts.c.duration_s).select_from(_WITH_RECEIPT).where(_RECENT, _r.target == target, _IS_GREEN)
    return list(conn.execute(query.order_by(_r.run_id.desc()).limit(most)).scalars())


def number(conn: Connection) -> int:
    """How many verifications have ever begun."""
    return conn.execute(select(func.max(_r.run_id))).scalar() or 0


def ran_since(conn: Connection, at: str, most: int) -> list[RanVerification]:
    """What runs, or has ended since an instant, in the order in which it began; at most so many, the newest."""
    ran = (
        select(
            _r.run_id,
            _r.merge_id,
            _r.target,
            _r.slot,
            _r.members,
            _r.started_at,
            _r.ended_at,
            receipts.c.status,
            _m.title,
        )
        .outerjoin_from(verification_runs, merge_requests, _m.merge_id == _r.merge_id)
        .outerjoin(receipts, receipts.c.receipt_id == _r.receipt_id)
        .where(or_(_r.ended_at.is_(None), _r.ended_at > at))
    )
    return fetch_all(conn, ran.order_by(_r.run_id.desc()).limit(most), RanVerification)[::-1]


def was_alone(conn: Connection, receipt_id: str | None) -> bool:
    """Whether a receipt is of a run whose red counts by itself."""
    return has_any(conn, select(_r.run_id).where(_r.receipt_id == receipt_id, _r.is_alone == 1))


def slots(conn: Connection, receipt_ids: Sequence[str]) -> dict[str, int]:
    """In which slot the runs of receipts were, in the order in which they began, as far as they are remembered."""
    query = select(_r.receipt_id, _r.slot).where(_r.receipt_id.in_(receipt_ids)).order_by(_r.run_id)
    return dict(conn.execute(query).all())


def green_slots(conn: Connection, commit_sha: str) -> set[int]:
    """The slots in which a commit was lately green."""
    query = select(_r.slot).select_from(_WITH_RECEIPT).where(_RECENT, _r.commit_sha == commit_sha, _IS_GREEN)
    return set(conn.execute(query).scalars())


def was_beside(conn: Connection, run_id: int) -> bool:
    """Whether another verification ran while one did that has not been ended yet."""
    began_at = select(_r.started_at).where(_r.run_id == run_id).scalar_subquery()
    ran_meanwhile = or_(_r.ended_at.is_(None), _r.ended_at > began_at)
    return has_any(
        conn, select(_r.run_id).where(_r.run_id > run_id - MOST_LOOKED_AT, _r.run_id != run_id, ran_meanwhile)
    )


def set_apart(conn: Connection, run_id: int) -> None:
    """A run met a port that one beside it may have had: the next :data:`RUNS_APART` go one at a time."""
    conn.execute(update(verification_runs).where(_r.run_id == run_id).values(apart_after=_NEWEST))


def are_apart(conn: Connection) -> bool:
    """Whether verifications go one at a time now."""
    return has_any(conn, select(_r.run_id).where(_RECENT, _r.apart_after > _NEWEST - RUNS_APART))


def last_of_targets(conn: Connection) -> dict[str, int]:
    """The number of the last run of each target, among the newest of all."""
    query = select(_r.target, func.max(_r.run_id)).where(_RECENT).group_by(_r.target)
    return dict(conn.execute(query).all())


def troubled_slots(conn: Connection) -> set[int]:
    """The slots whose last verdict was none: what began there met an error."""
    last = select(func.max(_r.run_id)).where(_RECENT, _r.receipt_id.is_not(None))
    query = select(_r.slot).select_from(_WITH_RECEIPT)
    query = query.where(_r.run_id.in_(last.group_by(_r.slot)), receipts.c.status == ReceiptStatus.ERROR)
    return set(conn.execute(query).scalars())


def were_agents_at_work(conn: Connection, run_id: int) -> bool:
    """Whether a worker ran, or a session gave a sign, since a verification began."""
    began_at = select(_r.started_at).where(_r.run_id == run_id).scalar_subquery()
    worked = select(attempts.c.number).where(or_(attempts.c.ended_at.is_(None), attempts.c.ended_at > began_at))
    return has_any(conn, worked) or has_any(conn, select(_s.session_id).where(_s.last_heartbeat > began_at))


def batch(conn: Connection, target: str) -> int | None:
    """How many requests make one chain on a target; None: nothing landed there yet."""
    return conn.execute(select(landing_targets.c.batch).where(landing_targets.c.target == target)).scalar()


def set_batch(conn: Connection, target: str, number: int) -> None:
    """Remember how many requests make one chain on a target."""
    mine = landing_targets.c.target == target
    if conn.execute(update(landing_targets).where(mine).values(batch=number)).rowcount == 0:
        conn.execute(insert(landing_targets).values(target=target, batch=number))
