"""SQL for which task waits for which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection, and_, bindparam, insert, null, or_, select, update

from corral.core.states import OPEN_MERGES, TaskStatus
from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared
from corral.store.rows import columns_of
from corral.store.rows.tasks import ChildTask, ParentResult, ParentTask, StackedTask
from corral.store.schema import attempts, merge_requests, task_dependencies, tasks, worktrees
from corral.work.merges.store.of_tasks import of_decisive, standing

DEPENDENCY_FAILED = "dependency_failed"
"""The ``error_code`` of a task that failed only because one it waited for cannot succeed."""

_UNSETTLED = Prepared[ChildTask](
    select(*columns_of(tasks, ChildTask))
    .join(task_dependencies, task_dependencies.c.task_id == tasks.c.task_id)
    .where(
        task_dependencies.c.depends_on == bindparam("parent"),
        or_(
            tasks.c.status == TaskStatus.WAITING,
            and_(tasks.c.status == TaskStatus.FAILED, tasks.c.error_code == DEPENDENCY_FAILED),
        ),
    )
    .order_by(tasks.c.seq)
)
_NOT_STARTED = Prepared[ChildTask](
    select(*columns_of(tasks, ChildTask))
    .join(task_dependencies, task_dependencies.c.task_id == tasks.c.task_id)
    .where(task_dependencies.c.depends_on == bindparam("parent"), tasks.c.status == TaskStatus.PENDING)
    .order_by(tasks.c.seq)
)
_decisive = merge_requests.alias("decisive")
_PARENTS = Prepared[ParentTask](
    select(
        task_dependencies.c.task_id.label("child_id"),
        tasks.c.task_id,
        tasks.c.title,
        tasks.c.step,
        tasks.c.status,
        tasks.c.error_code,
        tasks.c.error_message,
        standing(_decisive.c).label("merge_state"),
        _decisive.c.head_sha.label("merge_head"),
        _decisive.c.reason.label("merge_reason"),
        task_dependencies.c.clashes_sha,
    )
    .join(tasks, tasks.c.task_id == task_dependencies.c.depends_on)
    .outerjoin(_decisive, _decisive.c.seq == of_decisive(merge_requests.c.seq).correlate(tasks).scalar_subquery())
    .where(task_dependencies.c.task_id == bindparam("child"))
    .order_by(tasks.c.seq)
)
_RESULT = select(tasks.c.task_id, tasks.c.title, tasks.c.step, tasks.c.status, tasks.c.result).join(
    task_dependencies, tasks.c.task_id == task_dependencies.c.depends_on
)
_RESULTS = Prepared[ParentResult](
    _RESULT.where(task_dependencies.c.task_id == bindparam("child")).order_by(tasks.c.seq)
)
_sibling, _edge = tasks.alias("sibling"), task_dependencies.alias("edge")
_AWAITED_AMONG = select(_edge.c.depends_on).where(
    _edge.c.task_id.in_(select(task_dependencies.c.depends_on).where(task_dependencies.c.task_id == bindparam("child")))
)
"""Tasks for which one waits that a task waits for: looked up once, not for each of them."""
_LAST = Prepared[ParentResult](
    _RESULT.where(task_dependencies.c.task_id == bindparam("child"), tasks.c.task_id.not_in(_AWAITED_AMONG)).order_by(
        tasks.c.seq
    )
)


def create(conn: Connection, task_id: str, depends_on: Sequence[str]) -> None:
    """Record that a task waits for others."""
    if depends_on:
        conn.execute(insert(task_dependencies), [{"task_id": task_id, "depends_on": parent} for parent in depends_on])


def clash(conn: Connection, task_id: str, heads: Mapping[str, str]) -> None:
    """Record that a task could not begin on the work of these parents together, each with the head that it had."""
    known = (task_dependencies.c.task_id == task_id, task_dependencies.c.clashes_sha.is_not(None))
    conn.execute(update(task_dependencies).where(*known).values(clashes_sha=None))
    for parent, head_sha in heads.items():
        edge = (task_dependencies.c.task_id == task_id, task_dependencies.c.depends_on == parent)
        conn.execute(update(task_dependencies).where(*edge).values(clashes_sha=head_sha))


def stacked(conn: Connection, parent: str) -> list[StackedTask]:
    """The tasks that were begun on the finished work of another one and have not landed, those at work first."""
    has_any = worktrees.c.stacked_on.is_not(None)
    at_work = (
        select(attempts.c.task_id, attempts.c.session_id, worktrees.c.stacked_on)
        .join(worktrees, worktrees.c.worktree_id == attempts.c.worktree_id)
        .where(has_any, attempts.c.ended_at.is_(None))
    )
    submitted = (
        select(merge_requests.c.task_id, null().label("session_id"), worktrees.c.stacked_on)
        .join(worktrees, worktrees.c.branch == merge_requests.c.branch)
        .where(has_any, merge_requests.c.state.in_(OPEN_MERGES), merge_requests.c.task_id.is_not(None))
    )
    rows = [row for query in (at_work, submitted) for row in fetch_all(conn, query, StackedTask)]
    return [row for row in rows if parent in row["stacked_on"]]


def parents_of(conn: Connection, task_id: str) -> list[str]:
    """The tasks that a task waits for, oldest first."""
    query = (
        select(task_dependencies.c.depends_on)
        .join(tasks, tasks.c.task_id == task_dependencies.c.depends_on)
        .where(task_dependencies.c.task_id == task_id)
        .order_by(tasks.c.seq)
    )
    return [row.depends_on for row in conn.execute(query)]


def children_of(conn: Connection, parents: Sequence[str]) -> list[str]:
    """The tasks that wait, or waited, for any of these, oldest first."""
    edge = task_dependencies.c
    query = select(edge.task_id).join(tasks, tasks.c.task_id == edge.task_id).where(edge.depends_on.in_(parents))
    return [str(task_id) for task_id in conn.execute(query.distinct().order_by(tasks.c.seq)).scalars()]


def results_of_parents(conn: Connection, task_id: str) -> list[ParentResult]:
    """The results of the tasks that a task waits for, oldest first."""
    return _RESULTS.all(conn, {"child": task_id})


def among(conn: Connection, leader: str) -> dict[str, list[str]]:
    """For each task that a task leads those among them that it waits for, the oldest first."""
    query = (
        select(task_dependencies.c.task_id, task_dependencies.c.depends_on)
        .join(tasks, tasks.c.task_id == task_dependencies.c.depends_on)
        .join(_sibling, _sibling.c.task_id == task_dependencies.c.task_id)
        .where(tasks.c.parent_task_id == leader, _sibling.c.parent_task_id == leader)
        .order_by(tasks.c.seq)
    )
    waits_for: dict[str, list[str]] = {}
    for task_id, depends_on in conn.execute(query):
        waits_for.setdefault(task_id, []).append(depends_on)
    return waits_for


def last_of(conn: Connection, leader: str) -> list[ParentResult]:
    """The results of the tasks that a task leads and waits for, without those for which another of them waits."""
    return _LAST.all(conn, {"child": leader})


def unsettled_children(conn: Connection, parents: Iterable[str]) -> list[ChildTask]:
    """Dependents whose state hangs on their parents.

    Those are the waiting ones, and the ones that failed because of a dependency and nothing else.
    """
    rows = (row for parent in parents for row in _UNSETTLED.each(conn, {"parent": parent}))
    return list({row["task_id"]: row for row in rows}.values())


def ready_children(conn: Connection, parents: Iterable[str]) -> list[ChildTask]:
    """Dependents that wait for nothing but their turn."""
    rows = (row for parent in parents for row in _NOT_STARTED.each(conn, {"parent": parent}))
    return list({row["task_id"]: row for row in rows}.values())


def parent_states(conn: Connection, children: Iterable[str]) -> dict[str, list[ParentTask]]:
    """For each child its parents."""
    return {child: parents for child in children if (parents := _PARENTS.all(conn, {"child": child}))}
