"""totals that outlive what they count

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_EVENTS = {
    "merge.failed": "evictions",
    "merge.conflict": "conflicts",
    "merge.flaky": "flakes",
    "task.retried": "retries",
    "edit.denied": "edits_denied",
    "lock.awaited": "lock_waits",
}
_FAILED = ("failed", "dead")


def upgrade() -> None:
    totals = op.create_table(
        "totals",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("label", sa.String(length=128), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", "label", "outcome", name=op.f("pk_totals")),
    )
    for query in (*_ended_tasks(), *_use(), _events()):
        op.execute(totals.insert().from_select(["name", "label", "outcome", "number"], query))


def _tables() -> tuple[sa.TableClause, sa.TableClause, sa.ColumnElement[Any]]:
    common = ("task_id", "agent", "runner")
    tasks = sa.table("tasks", *map(sa.column, (*common, "status", "error_code", "current_attempt")))
    usage = sa.column("usage", sa.JSON())
    attempts = sa.table("attempts", *map(sa.column, (*common, "number", "ended_at")), usage)
    agent, runner = (sa.func.coalesce(attempts.c[name], tasks.c[name]) for name in ("agent", "runner"))
    return tasks, attempts, sa.func.coalesce(sa.func.nullif(agent, ""), sa.func.nullif(runner, ""), "session")


def _ended_tasks() -> tuple[sa.SelectBase, ...]:
    tasks, attempts, kind = _tables()
    its = tasks.c
    outcome = sa.case((its.status.in_(_FAILED), "failed"), else_=its.status)
    last = sa.and_(attempts.c.task_id == its.task_id, attempts.c.number == its.current_attempt)
    code = sa.func.coalesce(its.error_code, "failed")
    return (
        sa.select(sa.literal("tasks_finished"), kind, outcome, sa.func.count())
        .outerjoin_from(tasks, attempts, last)
        .where(its.status.in_(("completed", "cancelled", *_FAILED)))
        .group_by(kind, outcome),
        sa.select(sa.literal("task_failures"), code, sa.literal(""), sa.func.count())
        .where(its.status.in_(_FAILED))
        .group_by(code),
    )


def _use() -> tuple[sa.SelectBase, ...]:
    tasks, attempts, kind = _tables()
    usage = attempts.c.usage
    read, written = (sa.func.coalesce(usage[name].as_integer(), 0) for name in ("input_tokens", "output_tokens"))
    sums = {"tokens": read + written, "cost_usd": sa.func.coalesce(usage["cost_usd"].as_float(), 0.0)}
    return tuple(
        sa.select(sa.literal(name), kind, sa.literal(""), sa.func.sum(used))
        .join_from(attempts, tasks, attempts.c.task_id == tasks.c.task_id)
        .where(attempts.c.ended_at.is_not(None))
        .group_by(kind)
        for name, used in sums.items()
    )


def _events() -> sa.SelectBase:
    kind = sa.column("kind", sa.String())
    events = sa.table("events", kind)
    name = sa.case(*((kind == which, name) for which, name in _EVENTS.items()))
    query = sa.select(name, sa.literal(""), sa.literal(""), sa.func.count()).select_from(events)
    return query.where(kind.in_(list(_EVENTS))).group_by(name)
