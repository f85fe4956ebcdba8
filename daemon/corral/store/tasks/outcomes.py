"""SQL for what became of tasks and merge requests, and which of it is still open: under way, or failed and not settled."""

from __future__ import annotations

from collections import Counter
from functools import cache

from sqlalchemy import Connection, and_, exists, or_, select, update

from corral.models import outcomes
from corral.models.states import OPEN_MERGES, RETURNED_MERGES, TaskStatus
from corral.store.engine.fetch import fetch_all, fetch_first
from corral.store.engine.prepared import Prepared, one_of
from corral.store.merges.of_tasks import of_decisive
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import TaskRow
from corral.store.schema import merge_requests, tasks
from corral.store.tasks.attempts import TASK_ROWS
from corral.store.tasks.dependencies import DEPENDENCY_FAILED
from corral.store.tasks.tasks import OPEN

_m, _t = merge_requests.c, tasks.c
_CANCELLED = "cancelled_by_orchestrator"
_newer = merge_requests.alias("newer")
_MERGE_STATE = of_decisive(_m.state).correlate(tasks).scalar_subquery()
_MERGE_DISMISSED = of_decisive(_m.dismissed_at).correlate(tasks).scalar_subquery()

# A task that failed with another one is settled with that one; what somebody called off is settled.
_FAILED = and_(
    _t.status.in_((TaskStatus.FAILED, TaskStatus.DEAD)),
    _t.error_code.not_in((DEPENDENCY_FAILED, _CANCELLED)),
    _t.dismissed_at.is_(None),
)
_NOT_LANDED = and_(
    _t.status == TaskStatus.COMPLETED,
    or_(_MERGE_STATE.in_(OPEN_MERGES), and_(_MERGE_STATE.in_(RETURNED_MERGES), _MERGE_DISMISSED.is_(None))),
)
OPEN_TASKS = or_(_t.status.in_(OPEN), _FAILED, _NOT_LANDED)
"""Of a task: it is under way, or failed or came back, and nobody has settled that."""

_REPLACED = exists(
    select(_newer.c.seq).where(_newer.c.branch == _m.branch, _newer.c.target == _m.target, _newer.c.seq > _m.seq)
)
UNSETTLED = and_(one_of(_m.state, RETURNED_MERGES), _m.dismissed_at.is_(None), ~_REPLACED)
"""Of a merge request: it came back, no newer one of its branch took its place, and nobody dismissed it."""

OPEN_REQUESTS = or_(one_of(_m.state, OPEN_MERGES), UNSETTLED)


def of_tasks(conn: Connection, task_ids: list[str]) -> dict[str, str]:
    """The outcome of each of these tasks, at most a few hundred, by id."""
    query = select(_t.task_id, _t.status, _t.dismissed_at, _MERGE_STATE, _MERGE_DISMISSED)
    rows = conn.execute(query.where(_t.task_id.in_(task_ids)))
    return {
        task_id: outcomes.of_task(status, merge_state, dismissed=bool(by_task or by_merge))
        for task_id, status, by_task, merge_state, by_merge in rows
    }


def open_tasks(conn: Connection) -> list[str]:
    """The tasks that are under way, or failed without that being settled; the oldest first."""
    return [str(one) for one in conn.execute(select(_t.task_id).where(OPEN_TASKS).order_by(_t.seq)).scalars()]


def open_requests(conn: Connection, *, without_task: bool = False) -> list[MergeRow]:
    """The merge requests of the same kind, whole rows, the oldest first."""
    return _open_requests(without_task).all(conn, {})


@cache
def _open_requests(without_task: bool) -> Prepared[MergeRow]:
    query = select(merge_requests).where(OPEN_REQUESTS).order_by(_m.seq)
    return Prepared(query.where(_m.task_id.is_(None)) if without_task else query)


def failed_tasks(conn: Connection, limit: int) -> list[TaskRow]:
    """Whole rows of the tasks that failed without that being settled, the latest first."""
    query = TASK_ROWS.where(_FAILED).order_by(_t.seq.desc()).limit(limit)
    return fetch_all(conn, query, TaskRow)


def returned_requests(conn: Connection) -> list[MergeRow]:
    """Whole rows of the requests that came back without that being settled: for their task no other one counts."""
    counts_for_task = of_decisive(_m.seq).correlate(tasks).scalar_subquery()
    query = select(counts_for_task).where(_t.status == TaskStatus.COMPLETED, OPEN_TASKS)
    decisive = set(conn.execute(query).scalars())
    return [
        row
        for row in open_requests(conn)
        if row["finished_at"] is not None and (row["task_id"] is None or row["seq"] in decisive)
    ]


def counts(conn: Connection) -> dict[str, int]:
    """How many are open, by outcome: each task once, and each merge request that belongs to none."""
    query = select(_t.status, _MERGE_STATE).where(OPEN_TASKS)
    found = Counter(outcomes.of_task(status, state, dismissed=False) for status, state in conn.execute(query))
    found.update(outcomes.of_merge(row["state"], dismissed=False) for row in open_requests(conn, without_task=True))
    return dict(sorted(found.items()))


def dismiss_merge(conn: Connection, merge_id: str, at: str) -> MergeRow | None:
    """Nothing more is to be done about a request that came back; None if it did not, or was dismissed already."""
    wanted = (_m.merge_id == merge_id, _m.state.in_(RETURNED_MERGES), _m.dismissed_at.is_(None))
    query = update(merge_requests).where(*wanted).values(dismissed_at=at).returning(merge_requests)
    return fetch_first(conn, query, MergeRow)


def dismiss_task(conn: Connection, task_id: str, at: str) -> bool:
    """Nothing more is to be done about a task that failed; False if it did not, or was dismissed already."""
    wanted = (
        _t.task_id == task_id,
        _t.status.in_((TaskStatus.FAILED, TaskStatus.DEAD)),
        _t.dismissed_at.is_(None),
    )
    return conn.execute(update(tasks).where(*wanted).values(dismissed_at=at)).rowcount > 0
