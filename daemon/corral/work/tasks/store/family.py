"""SQL for leaders and followers among tasks."""

from __future__ import annotations

from operator import itemgetter

from sqlalchemy import Connection, and_, exists, not_, or_, select

from corral.core.states import OPEN_MERGES, Combine, TaskStatus
from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared
from corral.store.rows import columns_of
from corral.store.rows.tasks import StoredTask, TaskRow, TaskSummary
from corral.store.schema import merge_requests, tasks
from corral.work.tasks.store import attempts

_MOST_LEVELS = 64
MEMBER = "member:"
"""The beginning of the idempotency keys of tasks that several agents do."""

_leader, _member = tasks.alias("leader"), tasks.alias("member")
_request = merge_requests.alias("request")
_TO_LAND = exists().where(
    _request.c.task_id == _member.c.task_id, or_(*(_request.c.state == state for state in OPEN_MERGES))
)
_OPEN_MEMBER = (
    exists()
    .where(_member.c.parent_task_id == tasks.c.task_id, or_(_member.c.completed_at.is_(None), _TO_LAND))
    .where(_member.c.idempotency_key.startswith(MEMBER))
)
"""A member that works, or whose work, if members land by themselves, has neither landed nor come back."""
_DONE_MEMBER = (
    exists()
    .where(_member.c.parent_task_id == tasks.c.task_id, _member.c.status == TaskStatus.COMPLETED)
    .where(_member.c.idempotency_key.startswith(MEMBER))
)
DECIDED = Prepared[TaskRow](
    attempts.TASK_ROWS.where(tasks.c.combine.is_not(None), tasks.c.completed_at.is_(None))
    .where(or_(not_(_OPEN_MEMBER), and_(tasks.c.combine == Combine.FIRST, _DONE_MEMBER)))
    .order_by(tasks.c.seq)
)
LEADERLESS = Prepared[StoredTask](
    select(tasks)
    .join(_leader, _leader.c.task_id == tasks.c.parent_task_id)
    .where(tasks.c.parent_task_id.is_not(None), tasks.c.completed_at.is_(None), tasks.c.cancel_reason.is_(None))
    .where(_leader.c.completed_at.is_not(None))
)


def ancestors(conn: Connection, task_id: str) -> list[str]:
    """The tasks that lead a task, the nearest first."""
    leaders: list[str] = []
    parent: str | None = task_id
    while parent is not None and len(leaders) < _MOST_LEVELS:
        parent = conn.execute(select(tasks.c.parent_task_id).where(tasks.c.task_id == parent)).scalar()
        leaders += [parent] if parent is not None else []
    return leaders


def kin(conn: Connection, task_id: str) -> frozenset[str]:
    """The tasks that wait for this one, or do the same: its leaders, and the members of each of them that several agents do."""
    above = ancestors(conn, task_id)
    copies = select(tasks.c.task_id).where(
        tasks.c.parent_task_id.in_(above), tasks.c.idempotency_key.startswith(MEMBER)
    )
    return frozenset([*above, *conn.execute(copies).scalars()]) if above else frozenset()


def children(conn: Connection, task_id: str) -> list[str]:
    """The tasks that a task leads, the oldest first."""
    return list(
        conn.execute(select(tasks.c.task_id).where(tasks.c.parent_task_id == task_id).order_by(tasks.c.seq)).scalars()
    )


def steps(conn: Connection, task_id: str) -> list[TaskSummary]:
    """The tasks that a task is made of, as a list shows them, the oldest first; it can lead others too, which are no steps."""
    are_steps = and_(tasks.c.parent_task_id == task_id, tasks.c.step.is_not(None))
    return fetch_all(conn, select(*columns_of(tasks, TaskSummary)).where(are_steps).order_by(tasks.c.seq), TaskSummary)


def decided(conn: Connection) -> list[TaskRow]:
    """Whole rows of the tasks that wait for their members, none of which is open or whose first one is done; the oldest first."""
    return [row for row in DECIDED.all(conn, {}) if row["status"] == TaskStatus.WAITING]


def members(conn: Connection, task_id: str, number: int) -> list[TaskRow]:
    """Whole rows of the ``number`` tasks that do a task together, the oldest first."""
    keys = [member_key(task_id, position) for position in range(1, number + 1)]
    query = attempts.TASK_ROWS.where(tasks.c.idempotency_key.in_(keys)).order_by(tasks.c.seq)
    return fetch_all(conn, query, TaskRow)


def member_key(task_id: str, number: int) -> str:
    """The idempotency key of a task's member."""
    return f"{MEMBER}{task_id}:{number}"


def do_all_lead(conn: Connection) -> bool:
    """Whether workers run, and each of them leads a task that could start if there were one more."""
    led = exists().where(_member.c.parent_task_id == tasks.c.task_id, _member.c.status == TaskStatus.PENDING)
    leads = select(led).where(tasks.c.status == TaskStatus.RUNNING, tasks.c.runner.is_not(None))
    do_lead = conn.execute(leads).scalars().all()
    return bool(do_lead) and all(do_lead)


def leaderless(conn: Connection) -> list[StoredTask]:
    """Open tasks of a leader that has ended, and whose cancellation was not asked for; the oldest first."""
    return sorted(LEADERLESS.all(conn, {}), key=itemgetter("seq"))
