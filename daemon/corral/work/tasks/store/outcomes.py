"""SQL for what became of tasks and merge requests, and which of it is still open: under way, or failed and not settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache, partial
from itertools import product
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    and_,
    bindparam,
    exists,
    func,
    not_,
    or_,
    select,
    union_all,
    update,
)

from corral.core import outcomes
from corral.core.outcomes import Outcome
from corral.core.states import OPEN_MERGES, OPEN_TASKS, RETURNED_MERGES, TaskStatus
from corral.store.engine.fetch import fetch_first
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows import columns_of
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import CountedState, FailedTask, TaskFailure
from corral.store.schema import merge_requests, tasks
from corral.store.schema_project import loops
from corral.work.merges.store.of_tasks import decisive_first, of_decisive, standing
from corral.work.tasks.store.dependencies import DEPENDENCY_FAILED
from corral.work.tasks.store.family import MEMBER

_m, _t = merge_requests.c, tasks.c
_CANCELLED = "cancelled_by_orchestrator"
_newer = merge_requests.alias("newer")
_MERGE_STATE = of_decisive(standing()).correlate(tasks).scalar_subquery()
_MERGE_DISMISSED = of_decisive(_m.dismissed_at).correlate(tasks).scalar_subquery()

# A task that failed with another one is settled with that one; what somebody called off is settled.
# The agents that do a task together are judged by its rule: that task fails, or succeeds without them.
_FAILED = and_(
    or_(_t.status == TaskStatus.FAILED, _t.status == TaskStatus.DEAD),
    _t.error_code != DEPENDENCY_FAILED,
    _t.error_code != _CANCELLED,
    _t.dismissed_at.is_(None),
    or_(_t.idempotency_key.is_(None), not_(_t.idempotency_key.startswith(MEMBER))),
)
_NOT_LANDED = and_(
    _t.status == TaskStatus.COMPLETED,
    or_(_MERGE_STATE.in_(OPEN_MERGES), and_(_MERGE_STATE.in_(RETURNED_MERGES), _MERGE_DISMISSED.is_(None))),
)
_UNSETTLED = or_(_t.status.in_(OPEN_TASKS), _FAILED, _NOT_LANDED)
"""Of a task: it is under way, or failed or came back, and nobody has settled that."""

_REPLACED = exists(
    select(_newer.c.seq).where(_newer.c.branch == _m.branch, _newer.c.target == _m.target, _newer.c.seq > _m.seq)
)
_OPEN_MERGE = one_of(_m.state, OPEN_MERGES)
_RETURNED = one_of(_m.state, RETURNED_MERGES)
_member, _leader = tasks.alias("member"), tasks.alias("leader")
_OF_FAILED_TASK = exists(
    select(_leader.c.seq)
    .join(_member, _member.c.parent_task_id == _leader.c.task_id)
    .where(_member.c.task_id == _m.task_id, _member.c.idempotency_key.startswith(MEMBER))
    .where(_leader.c.status == TaskStatus.FAILED)
)
"""Of a merge request: its task is one agent's part of a task that failed, which stands for it."""
UNSETTLED = and_(_RETURNED, _m.dismissed_at.is_(None), ~_REPLACED, ~_OF_FAILED_TASK)
"""Of a merge request: it came back, no newer one of its branch took its place, and nobody dismissed it."""

_deciding = merge_requests.alias("deciding")
_FIRST = (
    select(_deciding.c.seq).where(_deciding.c.task_id == _m.task_id).order_by(*decisive_first(_deciding.c)).limit(1)
)
_DECIDES = and_(
    exists(select(_t.seq).where(_t.task_id == _m.task_id, _t.status == TaskStatus.COMPLETED).correlate(merge_requests)),
    _m.seq == _FIRST.correlate(merge_requests).scalar_subquery(),
)
"""Of a merge request: its task is completed, and this request is the one that counts for it. Asked per request, so that
no database begins with the tasks, of which there are many more."""

OPEN_REQUESTS = or_(_OPEN_MERGE, UNSETTLED)


def tasks_called(words: Iterable[str]) -> ColumnElement[bool]:
    """The condition on tasks that their status or their outcome is one of these words."""
    wanted = {*words}
    return or_(
        _t.status.in_(wanted), *(_tasks_that_came_to(wanted, dismissed=dismissed) for dismissed in (False, True))
    )


def _tasks_that_came_to(wanted: set[str], *, dismissed: bool) -> ColumnElement[bool]:
    came_to = partial(outcomes.of_task, dismissed=dismissed)
    whole, by_merge = [], []
    for status in TaskStatus:
        standings = {state for state in (None, *outcomes.STANDINGS) if came_to(status, state) in wanted}
        if len(standings) > len(outcomes.STANDINGS):
            whole.append(status)
        elif standings:
            has_none = [_MERGE_STATE.is_(None)] if None in standings else []
            by_merge.append(and_(_t.status == status, or_(_MERGE_STATE.in_(standings - {None}), *has_none)))
    is_dismissed = or_(_t.dismissed_at.is_not(None), _MERGE_DISMISSED.is_not(None))
    return and_(or_(_t.status.in_(whole), *by_merge), is_dismissed if dismissed else not_(is_dismissed))


def requests_called(words: Iterable[str]) -> ColumnElement[bool]:
    """The condition on merge requests that their state or their outcome is one of these words.

    A conflict that is settled is none any more: of that word the outcome counts alone.
    """
    wanted = {*words}
    came_to = []
    for dismissed, replaced in product((False, True), repeat=2):
        word = partial(outcomes.of_merge, dismissed=dismissed, replaced=replaced)
        states = [state for state in outcomes.STANDINGS if word(state) in wanted]
        marks = ((_m.dismissed_at, dismissed), (_m.replaced_by, replaced))
        came_to.append(
            and_(standing().in_(states), *(column.is_not(None) if has else column.is_(None) for column, has in marks))
        )
    return or_(_m.state.in_(wanted - {Outcome.CONFLICT}), *came_to)


_NUMBER = func.count().label("number")
_COUNT_TASKS = Prepared[CountedState](
    # Of a task that did not complete the state is the outcome: an index counts those that are under way.
    union_all(
        *(
            select(_t.status.label("state"), _NUMBER).where(has_state).group_by(_t.status)
            for has_state in (one_of(_t.status, OPEN_TASKS), _FAILED)
        )
    )
)
_COUNT_REQUESTS = Prepared[CountedState](
    # Few requests are open or came back: their tasks are found from them, not the other way about.
    union_all(
        *(
            select(_m.state, _NUMBER).where(*which).group_by(_m.state)
            for which in (
                (or_(_OPEN_MERGE, and_(_RETURNED, _m.dismissed_at.is_(None), ~_OF_FAILED_TASK)), _DECIDES),
                (OPEN_REQUESTS, _m.task_id.is_(None)),
            )
        )
    )
)
_CAME_BACK = and_(UNSETTLED, or_(_m.task_id.is_(None), _DECIDES))
_MOST = bindparam("most", type_=Integer)
_EVERY = 2**31 - 1
_AT_ONCE = 500
"""Tasks whose outcome is asked for in one statement."""


def _first(
    by: ColumnElement[Any], order: ColumnElement[Any], seq: ColumnElement[int], condition: ColumnElement[bool]
) -> Any:
    """The numbers of the first ``:most`` rows of each kind."""
    place = func.row_number().over(partition_by=by, order_by=order).label("place")
    ranked = select(seq.label("seq"), place).where(condition).subquery()
    return select(ranked.c.seq).where(ranked.c.place <= _MOST)


_RETURNED_REQUESTS = Prepared[MergeRow](
    select(merge_requests).where(_m.seq.in_(_first(_m.state, _m.seq, _m.seq, _CAME_BACK))).order_by(_m.seq)
)
_FAILED_TASKS = Prepared[FailedTask](
    select(
        *columns_of(tasks, TaskFailure),
        exists(select(loops.c.task_id).where(loops.c.task_id == _t.task_id)).label("is_loop"),
    )
    .where(_t.seq.in_(_first(_t.status, _t.seq.desc(), _t.seq, _FAILED)))
    .order_by(_t.seq.desc())
)
_COUNT_FAILED = Prepared[CountedState](select(_t.status.label("state"), _NUMBER).where(_FAILED).group_by(_t.status))
_COUNT_RETURNED = Prepared[CountedState](select(_m.state, _NUMBER).where(_CAME_BACK).group_by(_m.state))
_STANDING = select(_t.task_id, _t.status, _t.dismissed_at, _MERGE_STATE, _MERGE_DISMISSED).where(
    _t.task_id.in_(bindparam("task_ids", expanding=True))
)


def of_tasks(conn: Connection, task_ids: list[str]) -> dict[str, str]:
    """The outcome of each of these tasks, by id."""
    return {
        task_id: outcomes.of_task(status, merge_state, dismissed=bool(by_task or by_merge))
        for start in range(0, len(task_ids), _AT_ONCE)
        for task_id, status, by_task, merge_state, by_merge in conn.execute(
            _STANDING, {"task_ids": task_ids[start : start + _AT_ONCE]}
        )
    }


def open_tasks(conn: Connection) -> list[str]:
    """The tasks that are under way, or failed without that being settled; the oldest first."""
    return [str(task_id) for task_id in conn.execute(select(_t.task_id).where(_UNSETTLED).order_by(_t.seq)).scalars()]


def open_requests(conn: Connection, *, without_task: bool = False) -> list[MergeRow]:
    """The merge requests of the same kind, whole rows, the oldest first."""
    return _open_requests(without_task).all(conn, {})


@cache
def _open_requests(without_task: bool) -> Prepared[MergeRow]:
    query = select(merge_requests).where(OPEN_REQUESTS).order_by(_m.seq)
    return Prepared(query.where(_m.task_id.is_(None)) if without_task else query)


def failed_tasks(conn: Connection, most: int = _EVERY) -> list[FailedTask]:
    """The tasks that failed without that being settled, the latest first; at most so many of each status."""
    return _FAILED_TASKS.all(conn, {"most": most})


def returned_requests(conn: Connection, most: int = _EVERY) -> list[MergeRow]:
    """Whole rows of the requests that came back and were not settled; no other request counts for their task.

    Args:
        most: Of each state, the oldest first.
    """
    return _RETURNED_REQUESTS.all(conn, {"most": most})


def count_failed(conn: Connection) -> dict[str, int]:
    """How many :func:`failed_tasks` there are, by outcome."""
    return {
        outcomes.of_task(row["state"], None, dismissed=False): row["number"] for row in _COUNT_FAILED.each(conn, {})
    }


def count_returned(conn: Connection) -> dict[str, int]:
    """How many :func:`returned_requests` there are, by outcome."""
    return {outcomes.of_merge(row["state"], dismissed=False): row["number"] for row in _COUNT_RETURNED.each(conn, {})}


def counts(conn: Connection) -> dict[str, int]:
    """How many are open, by outcome: each task once, and each merge request that belongs to none."""
    numbers: Counter[str] = Counter()
    for row in _COUNT_TASKS.each(conn, {}):
        numbers[outcomes.of_task(row["state"], None, dismissed=False)] += row["number"]
    for row in _COUNT_REQUESTS.each(conn, {}):
        numbers[outcomes.of_merge(row["state"], dismissed=False)] += row["number"]
    return dict(sorted(numbers.items()))


def dismiss_merge(conn: Connection, merge_id: str, at: str) -> MergeRow | None:
    """Nothing more is to be done about a request that came back; None if it did not, or was dismissed already."""
    is_returned = (_m.merge_id == merge_id, _m.state.in_(RETURNED_MERGES), _m.dismissed_at.is_(None))
    query = update(merge_requests).where(*is_returned).values(dismissed_at=at).returning(merge_requests)
    return fetch_first(conn, query, MergeRow)


def dismiss_task(conn: Connection, task_id: str, at: str) -> bool:
    """Nothing more is to be done about a task that failed; False if it did not, or was dismissed already."""
    has_failed = (
        _t.task_id == task_id,
        _t.status.in_((TaskStatus.FAILED, TaskStatus.DEAD)),
        _t.dismissed_at.is_(None),
    )
    return conn.execute(update(tasks).where(*has_failed).values(dismissed_at=at)).rowcount > 0
