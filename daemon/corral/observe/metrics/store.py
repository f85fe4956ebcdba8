"""SQL for figures: finished tasks with the use of all their attempts, landings, verifications, and events by kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, or_, select

from corral.core.events import EventKind
from corral.core.states import TERMINAL_TASKS, MergeState, ReceiptRole, ReceiptStatus
from corral.store.engine.fetch import fetch_all
from corral.store.rows.metrics import FinishedTask, LandedMerge, RecentTask, TargetSeen, Verification
from corral.store.schema import attempts, events, merge_requests, receipts, tasks, verification_runs
from corral.work.tasks.wire import IMPROVEMENT

LATEST = "9999"
"""After every instant."""
_a, _t = attempts.c, tasks.c
_IS_LAST = and_(_a.task_id == _t.task_id, _a.number == _t.current_attempt)


def finished(conn: Connection, since: str, limit: int, until: str = LATEST) -> list[FinishedTask]:
    """The tasks that ended after one instant and not after another, the oldest first; at most so many, the newest."""
    ended = (
        select(tasks, _a.agent.label("worker"), _a.runner.label("ran"), _a.model, _a.started_at, _a.ended_at)
        .outerjoin_from(tasks, attempts, _IS_LAST)
        .where(_t.status.in_(TERMINAL_TASKS), _t.completed_at > since, _t.completed_at <= until)
        .order_by(_t.completed_at.desc())
        .limit(limit)
        .subquery()
    )
    its = ended.c

    def named(
        column: ColumnElement[Any], name: str
    ) -> ColumnElement[Any]:  # runs of an improvement count as that alone
        return case((its.task_type == IMPROVEMENT, IMPROVEMENT), else_=column).label(name)

    used = {name: _a.usage[name] for name in ("input_tokens", "output_tokens", "cost_usd")}
    read, written = (func.coalesce(used[name].as_integer(), 0) for name in ("input_tokens", "output_tokens"))
    query: Select[tuple[object, ...]] = (
        select(
            its.task_id, its.status, its.error_code, named(its.template, "template"), its.created_at, its.completed_at,
            named(func.coalesce(its.worker, its.agent), "agent"), named(func.coalesce(its.ran, its.runner), "runner"),
            named(its.model, "model"), its.started_at, its.ended_at,
            func.min(_a.claimed_at).label("claimed_at"), func.count(_a.number).label("attempts"),
            func.coalesce(func.sum(read + written), 0).label("tokens"),
            func.coalesce(func.sum(func.coalesce(used["cost_usd"].as_float(), 0.0)), 0.0).label("cost_usd"),
            func.max(_a.memory_mb).label("memory_mb"),
        )
        .outerjoin_from(ended, attempts, _a.task_id == its.task_id)
        .group_by(
            its.task_id, its.status, its.error_code, its.template, its.created_at, its.completed_at, its.worker, its.agent,
            its.ran, its.runner, its.model, its.started_at, its.ended_at, its.task_type,
        )
        .order_by(its.completed_at)
    )  # fmt: skip
    return fetch_all(conn, query, FinishedTask)


def recent(conn: Connection, most: int) -> list[RecentTask]:
    """The newest tasks that have ended, at most so many."""
    ended = (
        select(_t.task_id, _t.status, _t.created_at, _t.current_attempt)
        .where(_t.status.in_(TERMINAL_TASKS))
        .order_by(_t.seq.desc())
        .limit(most)
        .subquery()
    )
    first = attempts.alias("first")
    claimed = select(func.min(first.c.claimed_at)).where(first.c.task_id == ended.c.task_id).scalar_subquery()
    last = and_(_a.task_id == ended.c.task_id, _a.number == ended.c.current_attempt)
    query = select(
        ended.c.status, ended.c.created_at, claimed.label("claimed_at"), _a.started_at, _a.ended_at
    ).outerjoin_from(ended, attempts, last)
    return fetch_all(conn, query, RecentTask)


def landed(conn: Connection, since: str, most: int | None = None, until: str = LATEST) -> list[LandedMerge]:
    """The requests that landed after one instant, and not after another; at most so many, the newest."""
    its = merge_requests.c
    landed = (its.state == MergeState.LANDED, its.finished_at > since, its.finished_at <= until)
    query = select(its.created_at, its.finished_at).where(*landed)
    return fetch_all(conn, query.order_by(its.seq.desc()).limit(most), LandedMerge)


def verifications(conn: Connection, since: str, most: int | None = None, until: str = LATEST) -> list[Verification]:
    """The verifications that came to a verdict after one instant, and not after another; at most so many, the newest."""
    its = receipts.c
    judged = (
        its.status.in_((ReceiptStatus.PASSED, ReceiptStatus.FAILED)),
        or_(its.role.is_(None), its.role.not_in((ReceiptRole.CHECK, ReceiptRole.CHECK_CONTROL))),
    )
    query = select(its.status, its.duration_s).where(its.created_at > since, its.created_at <= until, *judged)
    return fetch_all(conn, query.order_by(its.created_at.desc()).limit(most), Verification)


def targets_seen(conn: Connection, since: str, until: str = LATEST) -> list[TargetSeen]:
    """When targets were seen green or red after one instant, and not after another, in that order."""
    first = select(func.min(events.c.event_id)).where(events.c.at > since).scalar_subquery()
    data, requests = events.c.data, merge_requests.c
    query = (
        select(
            func.coalesce(requests.target, data["target"].as_string()).label("target"),
            events.c.at, events.c.kind, data["reason"].as_string().label("reason"),
        )
        .outerjoin_from(events, merge_requests, events.c.merge_id == requests.merge_id)
        .outerjoin(receipts, receipts.c.receipt_id == requests.receipt_id)
        .where(
            events.c.event_id >= first,
            events.c.at <= until,
            or_(
                and_(events.c.kind == str(EventKind.MERGE_LANDED), receipts.c.status == ReceiptStatus.PASSED),
                events.c.kind == str(EventKind.MERGE_HELD),
                and_(events.c.kind == str(EventKind.TARGET_PAUSED), data["red_sha"].as_string().is_not(None)),
                and_(events.c.kind == str(EventKind.TARGET_RESUMED), data["green_sha"].as_string().is_not(None)),
            ),
        )
        .order_by(events.c.event_id)
    )  # fmt: skip
    return fetch_all(conn, query, TargetSeen)


def verification_runs_between(conn: Connection, since: str, until: str = LATEST) -> int:
    """How many verifications began after one instant, and not after another."""
    its = verification_runs.c
    query = select(func.count()).where(its.started_at > since, its.started_at <= until)
    return int(conn.execute(query).scalar_one())


def count_events(conn: Connection, since: str, kinds: Sequence[str], until: str = LATEST) -> dict[str, int]:
    """How often each kind of event happened after one instant, and not after another."""
    first = select(func.min(events.c.event_id)).where(events.c.at > since).scalar_subquery()
    query = select(events.c.kind, func.count()).where(
        events.c.event_id >= first, events.c.at <= until, events.c.kind.in_(list(kinds))
    )
    return {kind: int(number) for kind, number in conn.execute(query.group_by(events.c.kind))}
