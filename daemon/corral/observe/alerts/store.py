"""SQL for alerts: the alerts themselves, the events that rules count, what was told, and what is on its way to the webhook."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Integer, bindparam, delete, insert, literal_column, or_, select, update

from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.states import TaskStatus
from corral.store.engine.fetch import fetch_all, fetch_first
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows import columns_of
from corral.store.rows.records import AlertRow, DeliveryRow, EndedAttemptEvent, PendingTask
from corral.store.schema import events, tasks
from corral.store.schema_project import alerts, deliveries, told_needs
from corral.work.tasks.wire import IMPROVEMENT

ENDS = (EventKind.TASK_COMPLETED, EventKind.TASK_RETRIED, EventKind.TASK_FAILED, EventKind.TASK_DEAD)
_ENDED = Prepared[EndedAttemptEvent](
    select(events.c.event_id, events.c.at, events.c.kind, tasks.c.task_id, events.c.data, tasks.c.agent, tasks.c.runner)
    .join(tasks, tasks.c.task_id == events.c.task_id)
    .where(events.c.event_id > bindparam("after"), one_of(events.c.kind, ENDS), events.c.at > bindparam("since"))
    .where(tasks.c.task_type != IMPROVEMENT)  # a version that fails its test cases is a result
    .order_by(events.c.event_id)
    .limit(bindparam("limit", type_=Integer))
)
_OLDEST_PENDING = Prepared[PendingTask](
    select(*columns_of(tasks, PendingTask))
    .where(tasks.c.status == TaskStatus.PENDING)
    .order_by(tasks.c.seq + literal_column("0"))  # in the table's own order SQLite would pass all that has ended
    .limit(1)
)


# -- the state that rules judge


def ended_attempts(conn: Connection, after: int, since: str, limit: int) -> list[EndedAttemptEvent]:
    """The events that ended attempts, recorded after one and since an instant, in their order."""
    return _ENDED.all(conn, {"after": after, "since": since, "limit": limit})


def oldest_pending(conn: Connection) -> PendingTask | None:
    """The task that could start and was submitted first."""
    return _OLDEST_PENDING.first(conn, {})


# -- alerts


def open_or_raised_since(conn: Connection, since: str) -> list[AlertRow]:
    """The open alerts, and those that were raised since an instant."""
    query = select(alerts).where(or_(alerts.c.resolved_at.is_(None), alerts.c.raised_at > since))
    return fetch_all(conn, query, AlertRow)


def listing(conn: Connection, *, with_resolved: bool, limit: int) -> list[AlertRow]:
    """Alerts, the latest first."""
    query = select(alerts).order_by(alerts.c.raised_at.desc(), alerts.c.alert_id).limit(limit)
    if not with_resolved:
        query = query.where(alerts.c.resolved_at.is_(None))
    return fetch_all(conn, query, AlertRow)


def named(conn: Connection, prefix: str) -> list[AlertRow]:
    """The alerts whose id begins so; two at most."""
    return fetch_all(
        conn, select(alerts).where(alerts.c.alert_id.startswith(prefix, autoescape=True)).limit(2), AlertRow
    )


def create(conn: Connection, row: AlertRow) -> None:
    """Store a new alert.

    Raises:
        IntegrityError: There is an open one of this rule and subject.
    """
    conn.execute(insert(alerts).values(**row))


def raise_again(conn: Connection, alert_id: str, reason: str, remedy: str, at: str) -> AlertRow | None:
    """Raise an open, unacknowledged alert once more; None if it is no such alert any more."""
    its = alerts.c
    query = (
        update(alerts)
        .where(its.alert_id == alert_id, its.resolved_at.is_(None), its.acknowledged_at.is_(None))
        .values(raised_at=at, reason=reason, remedy=remedy, times=its.times + 1, told=None)
        .returning(alerts)
    )
    return fetch_first(conn, query, AlertRow)


def acknowledge(conn: Connection, alert_id: str, at: str) -> AlertRow | None:
    """Mark an open alert as seen; None if it is not open or was seen before."""
    its = alerts.c
    query = update(alerts).where(its.alert_id == alert_id, its.resolved_at.is_(None), its.acknowledged_at.is_(None))
    return fetch_first(conn, query.values(acknowledged_at=at).returning(alerts), AlertRow)


def resolve(conn: Connection, alert_id: str, at: str) -> AlertRow | None:
    """Close an open alert; None if it is not open."""
    query = update(alerts).where(alerts.c.alert_id == alert_id, alerts.c.resolved_at.is_(None))
    return fetch_first(conn, query.values(resolved_at=at).returning(alerts), AlertRow)


# -- what a person was notified of


def untold(conn: Connection) -> list[AlertRow]:
    """Open, unacknowledged alerts that were not told, and resolved ones that were told as raised; the oldest first."""
    its = alerts.c
    raised = its.resolved_at.is_(None) & its.acknowledged_at.is_(None) & its.told.is_(None)
    resolved = its.resolved_at.is_not(None) & (its.told == "raised")
    return fetch_all(conn, select(alerts).where(or_(raised, resolved)).order_by(its.raised_at), AlertRow)


def mark_told(conn: Connection, rows: Sequence[AlertRow]) -> None:
    """Record that a person was notified of these alerts in these states."""
    for row in rows:
        state = "raised" if row["resolved_at"] is None else "resolved"
        conn.execute(update(alerts).where(alerts.c.alert_id == row["alert_id"]).values(told=state))


def told_keys(conn: Connection) -> dict[str, str]:
    """When a person was notified of each need, by its key."""
    return {row.key: row.told_at for row in conn.execute(select(told_needs.c.key, told_needs.c.told_at))}


def set_told(conn: Connection, keys: Collection[str], at: str) -> None:
    """Record that a person was notified of these needs."""
    conn.execute(delete(told_needs).where(told_needs.c.key.in_(list(keys))))
    conn.execute(insert(told_needs), [{"key": key, "told_at": at} for key in keys])


def forget_told(conn: Connection, keys: Collection[str]) -> None:
    """Forget these needs; one that comes back is news again."""
    conn.execute(delete(told_needs).where(told_needs.c.key.in_(list(keys))))


# -- on the way to the webhook


def enqueue(conn: Connection, delivery_id: str, body: Mapping[str, Any], now: datetime, most: int) -> int:
    """Queue a notification; the oldest waiting ones are dropped where more than so many wait. Returns how many were."""
    at = iso(now)
    row = {"delivery_id": delivery_id, "body": body, "state": "waiting", "tries": 0, "created_at": at}
    conn.execute(insert(deliveries).values(**row, not_before_at=at))
    waiting = select(deliveries.c.delivery_id).where(deliveries.c.state == "waiting")
    beyond = waiting.order_by(deliveries.c.created_at.desc(), deliveries.c.delivery_id).offset(most)
    old = list(conn.execute(beyond).scalars())
    if old:
        gone = {"state": "dropped", "settled_at": at, "error": "too many notifications wait"}
        conn.execute(update(deliveries).where(deliveries.c.delivery_id.in_(old)).values(**gone))
    return len(old)


def next_delivery(conn: Connection) -> DeliveryRow | None:
    """The waiting notification that may be sent first."""
    query = select(deliveries).where(deliveries.c.state == "waiting")
    return fetch_first(conn, query.order_by(deliveries.c.not_before_at, deliveries.c.created_at).limit(1), DeliveryRow)


def delivery(conn: Connection, delivery_id: str) -> DeliveryRow | None:
    """One notification."""
    return fetch_first(conn, select(deliveries).where(deliveries.c.delivery_id == delivery_id), DeliveryRow)


def change_delivery(conn: Connection, delivery_id: str, values: Mapping[str, Any]) -> None:
    """Change a waiting notification."""
    query = update(deliveries).where(deliveries.c.delivery_id == delivery_id, deliveries.c.state == "waiting")
    conn.execute(query.values(**values))
