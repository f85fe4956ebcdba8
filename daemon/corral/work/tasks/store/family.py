"""SQL for leaders and followers among tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import itemgetter

from sqlalchemy import Connection, and_, bindparam, exists, not_, or_, select

from corral.core.states import OPEN_MERGES, Combine, TaskStatus
from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared
from corral.store.rows import columns_of
from corral.store.rows.tasks import ReadyTask, StoredTask, TaskRow, TaskSummary
from corral.store.schema import merge_requests, tasks
from corral.work.tasks.store import attempts
from corral.work.tasks.store.tasks import READY_TASKS

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
_LEADER = Prepared[object](select(tasks.c.parent_task_id).where(tasks.c.task_id == bindparam("which")))
_LED = select(tasks.c.task_id, tasks.c.parent_task_id, tasks.c.status).where(
    tasks.c.parent_task_id.in_(bindparam("leaders", expanding=True)),
    tasks.c.status.in_((TaskStatus.PENDING, TaskStatus.WAITING)),
)


def ancestors(conn: Connection, task_id: str) -> list[str]:
    """The tasks that lead a task, the nearest first."""
    leaders: list[str] = []
    parent: str | None = task_id
    while parent is not None and len(leaders) < _MOST_LEVELS:
        parent = _LEADER.text(conn, {"which": parent})
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


def pending_below(conn: Connection, leaders: Iterable[str]) -> dict[str, str]:
    """The pending tasks that these lead, also through tasks that wait; each with its leader among these."""
    pending: dict[str, str] = {}
    leader_of = {leader: leader for leader in leaders}
    for _level in range(_MOST_LEVELS):
        rows = conn.execute(_LED, {"leaders": [*leader_of]}).all() if leader_of else []
        pending |= {row.task_id: leader_of[row.parent_task_id] for row in rows if row.status == TaskStatus.PENDING}
        leader_of = {row.task_id: leader_of[row.parent_task_id] for row in rows if row.status == TaskStatus.WAITING}
    return pending


def ready_among(
    conn: Connection, task_ids: Collection[str], now: str, *, priority: int | None = None
) -> list[ReadyTask]:
    """Those of some tasks that a runner could start now, as :func:`corral.work.tasks.store.tasks.ready` tells them."""
    query = READY_TASKS.where(
        tasks.c.task_id.in_([*task_ids]),
        tasks.c.status == TaskStatus.PENDING,
        tasks.c.runner.is_not(None),
        or_(tasks.c.not_before_at.is_(None), tasks.c.not_before_at <= now),
    )
    if priority is not None:
        query = query.where(tasks.c.priority == priority)
    return fetch_all(conn, query.order_by(tasks.c.priority.desc(), tasks.c.seq), ReadyTask)


def leaderless(conn: Connection) -> list[StoredTask]:
    """Tasks that have not ended although their leader has, and whose cancellation was not asked for yet; the oldest first."""
    return sorted(LEADERLESS.all(conn, {}), key=itemgetter("seq"))
