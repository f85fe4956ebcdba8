"""SQL for tasks. Every change of a state goes through :func:`transition`: it names the states it may come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    String,
    bindparam,
    cast,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    union_all,
    update,
)

from corral.core.states import OPEN_MERGES, OPEN_TASKS, TERMINAL_TASKS, TaskStatus
from corral.store import totals
from corral.store.engine.fetch import fetch_first
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows import columns_of
from corral.store.rows.tasks import (
    ClaimedTask,
    ClaimRow,
    CountedState,
    OfferedTask,
    ReadyTask,
    StateCount,
    StoredTask,
    TaskRow,
    TaskStanding,
)
from corral.store.schema import SETBACKS, merge_requests, task_claims, task_dependencies, tasks
from corral.store.schema import attempts as attempts_table
from corral.work.merges.store.of_tasks import of_decisive
from corral.work.merges.store.of_tasks import standing as merge_standing
from corral.work.state import store as shared_state
from corral.work.tasks.store import attempts

SUSPECTED = 2
"""Deaths in a row (``crashes``) from which on a task is suspected of them."""

HIGHEST = 10
"""The highest priority; 0 is the lowest."""

_FIRST_PAGE, _PAGE = 4, 64
"""Rows that are read at once: as a rule one of the first is taken."""

_BY_ID = Prepared[TaskRow](attempts.TASK_ROWS.where(tasks.c.task_id == bindparam("which")))
_STANDING = select(
    tasks.c.task_id,
    tasks.c.status,
    of_decisive(merge_standing()).scalar_subquery().label("merge_state"),
    of_decisive(merge_requests.c.merge_id).scalar_subquery().label("merge_id"),
    tasks.c.seq,
    tasks.c.title,
    tasks.c.target,
).order_by(tasks.c.seq)
_AMONG = tasks.c.task_id.in_(bindparam("task_ids", expanding=True))
_STANDING_OF = _STANDING.where(_AMONG)
_UNDER_WAY = select(tasks.c.task_id).where(
    _AMONG,
    or_(
        tasks.c.status.in_(OPEN_TASKS),
        of_decisive(merge_standing()).correlate(tasks).scalar_subquery().in_(OPEN_MERGES),
    ),
)
_PENDING = tasks.c.status == TaskStatus.PENDING
_EXECUTED = tasks.c.runner.is_not(None)
"""Of a task: a runner executes it; the others are offered to sessions."""
_FIRST, _LAST = (select(end(tasks.c.seq)).scalar_subquery() for end in (func.min, func.max))
_SPAN = Prepared[StateCount](select((_LAST - _FIRST + 1).label("number")))
_IN_STATE = Prepared[StateCount](
    select(func.count().label("number")).select_from(tasks).where(tasks.c.status == bindparam("status"))
)
_COUNTS = Prepared[CountedState](
    select(tasks.c.status.label("state"), func.count().label("number")).group_by(tasks.c.status)
)
_SETBACKS = tasks.c.faults + tasks.c.crashes
_HELD_BACK = Prepared[TaskRow](
    attempts.TASK_ROWS.where(_PENDING, _EXECUTED, SETBACKS)
    .order_by(_SETBACKS.desc(), tasks.c.seq)
    .limit(bindparam("most", type_=Integer))
)
_CANNOT_START = Prepared[TaskRow](
    attempts.TASK_ROWS.where(_PENDING, _EXECUTED, tasks.c.faults >= bindparam("least", type_=Integer)).order_by(
        _SETBACKS.desc(), tasks.c.seq
    )
)
_REQUIRING = Prepared[TaskRow](
    attempts.TASK_ROWS.where(_PENDING, tasks.c.agent.is_(None))
    .where(
        cast(tasks.c.agent_requirements, String) != literal_column("'null'")
    )  # where there are none, it is JSON's null
    .order_by(tasks.c.seq)
    .limit(literal_column(str(_PAGE)))
)
_PENDING_OF = Prepared[object](select(tasks.c.seq).where(_PENDING, tasks.c.runner == bindparam("runner")).limit(1))
_NEXT_DUE = Prepared[object](
    select(func.min(tasks.c.not_before_at)).where(_PENDING, _EXECUTED, tasks.c.not_before_at > bindparam("now"))
)
_LATEST_BACKOFF = Prepared[object](select(func.max(tasks.c.not_before_at)).where(_PENDING))
_SUSPECT = Prepared[object](
    select(tasks.c.task_id)
    .where(
        one_of(tasks.c.status, (TaskStatus.RUNNING, TaskStatus.INTERRUPTED)),
        _EXECUTED,
        tasks.c.crashes >= SUSPECTED,
        SETBACKS,  # follows from it, and has an index
    )
    .limit(1)
)
_leader = tasks.alias("leader")
_OF_RUNNING_LEADER = exists().where(_leader.c.task_id == tasks.c.parent_task_id, _leader.c.status == TaskStatus.RUNNING)
_FREES = Prepared[object](
    union_all(
        *(
            select(column).where(column == bindparam("which"))
            for column in (task_claims.c.task_id, task_dependencies.c.depends_on)
        )
    ).limit(1)
)
READY_TASKS = select(
    *columns_of(tasks, OfferedTask),
    exists(select(task_claims.c.claim).where(task_claims.c.task_id == tasks.c.task_id)).label("has_claims"),
)
"""Rows of tasks that could start: :class:`corral.store.rows.tasks.ReadyTask`."""
_ARE_HELD = (
    # An expression has no index: by their state SQLite would look at every claimed task, and not at the session's attempts.
    tasks.c.status.concat("") == TaskStatus.RUNNING,
    tasks.c.runner.is_(None),
    attempts_table.c.session_id == bindparam("session_id"),
    attempts_table.c.ended_at.is_(None),
)
_HELD_BY = Prepared[TaskRow](attempts.TASK_ROWS.where(*_ARE_HELD).order_by(tasks.c.seq))
_ALSO_HELD = Prepared[ClaimedTask](
    select(tasks.c.task_id, tasks.c.title, attempts_table.c.lease_expires_at)
    .join(attempts_table, attempts.CURRENT)
    .where(*_ARE_HELD, tasks.c.task_id != bindparam("besides"))
    .order_by(tasks.c.seq)
)
_CLAIMS_IN = Prepared[ClaimRow](
    select(task_claims.c.task_id, task_claims.c.claim)
    .join(tasks, tasks.c.task_id == task_claims.c.task_id)
    .where(tasks.c.status == bindparam("status"))
)
_LEASE = Prepared[StoredTask](
    update(tasks)
    .where(
        tasks.c.task_id == bindparam("which"),
        tasks.c.status == bindparam("pending", TaskStatus.PENDING),
        or_(tasks.c.not_before_at.is_(None), tasks.c.not_before_at <= bindparam("now")),
    )
    .values(
        status=TaskStatus.RUNNING,
        attempts=tasks.c.attempts + literal_column("1"),
        fencing_token=tasks.c.fencing_token + literal_column("1"),
        current_attempt=tasks.c.fencing_token + literal_column("1"),
        not_before_at=None,
        error_code=None,
        error_message=None,
    )
    .returning(tasks)
)


def create(conn: Connection, values: Mapping[str, Any], claims: Sequence[str]) -> TaskRow:
    """Insert a task and its claims (canonical lock keys)."""
    row = _creation(tuple(values)).one(conn, values)
    if claims:
        conn.execute(insert(task_claims), [{"task_id": row["task_id"], "claim": claim} for claim in claims])
    return attempts.join(conn, row)


def get(conn: Connection, task_id: str) -> TaskRow | None:
    """One task by its whole id."""
    return _BY_ID.first(conn, {"which": task_id})


def with_prefix(conn: Connection, prefix: str) -> list[str]:
    """Up to three ids that start with ``prefix`` (which holds no wildcard)."""
    query = select(tasks.c.task_id).where(tasks.c.task_id.between(prefix, prefix + "g")).limit(3)
    return [row.task_id for row in conn.execute(query)]


def with_number(conn: Connection, number: int) -> list[str]:
    """The id of the task with this number, if there is one."""
    return list(conn.execute(select(tasks.c.task_id).where(tasks.c.seq == number)).scalars())


def by_idempotency_key(conn: Connection, key: str) -> TaskRow | None:
    """The task that was submitted with this key."""
    return fetch_first(conn, attempts.TASK_ROWS.where(tasks.c.idempotency_key == key), TaskRow)


def in_status(conn: Connection, *statuses: str) -> list[TaskRow]:
    """Whole rows of the tasks in these states that a runner executes, oldest first."""
    return _in_status(statuses).all(conn, {})


@lru_cache(maxsize=16)
def _in_status(statuses: tuple[str, ...]) -> Prepared[TaskRow]:
    is_there = or_(*(tasks.c.status == bindparam(f"status_{status}", status) for status in statuses))
    return Prepared(attempts.TASK_ROWS.where(is_there, _EXECUTED).order_by(tasks.c.seq))


def held_by(conn: Connection, session_ids: Sequence[str]) -> list[TaskRow]:
    """Whole rows of the tasks that these sessions have claimed and not completed, oldest first."""
    rows = [row for session_id in session_ids for row in _HELD_BY.all(conn, {"session_id": session_id})]
    return sorted(rows, key=lambda row: row["seq"])


def also_held(conn: Connection, session_id: str, besides: str) -> list[ClaimedTask]:
    """The tasks that a session has claimed and not completed but this one, oldest first."""
    return _ALSO_HELD.all(conn, {"session_id": session_id, "besides": besides})


def claimed_with(conn: Connection, session_id: str, key: str) -> TaskRow | None:
    """The task that a session claimed with this key, and still holds by that very claim."""
    mine = (attempts_table.c.session_id == session_id, attempts_table.c.claim_key == key)
    query = attempts.TASK_ROWS.where(*mine, attempts_table.c.ended_at.is_(None))
    return fetch_first(conn, query, TaskRow)


def counts(conn: Connection) -> dict[str, int]:
    """How many tasks are in each state that occurs."""
    return {row["state"]: row["number"] for row in _COUNTS.each(conn, {})}


def at_most(conn: Connection) -> int:
    """An upper bound of the number of tasks, from their sequence numbers: no row is counted."""
    return _SPAN.one(conn, {})["number"] or 0


def count_open(conn: Connection) -> int:
    """How many tasks are not terminal."""
    return sum(_IN_STATE.one(conn, {"status": status})["number"] for status in OPEN_TASKS)


def count_queued(conn: Connection) -> int:
    """How many tasks have not started."""
    return sum(_IN_STATE.one(conn, {"status": status})["number"] for status in (TaskStatus.WAITING, TaskStatus.PENDING))


def ready(
    conn: Connection,
    now: str,
    *,
    priority: int | None = None,
    offered: bool = False,
    task_types: Sequence[str] = (),
    unsuspected: bool = False,
    without: Iterable[str] = (),
) -> Iterator[ReadyTask]:
    """Tasks that could start now.

    Highest priority first, then oldest first; read a page at a time, so that a caller that wants one pays for one.

    Args:
        now: Tasks that wait out a backoff beyond this instant are left out.
        priority: Only this level.
        offered: Those that sessions claim, instead of those that a runner executes.
        task_types: Only these.
        unsuspected: Only those that are under no suspicion, or that are led by one that runs, and waits for them.
        without: None of these runners.
    """
    what = (offered, tuple(task_types), unsuspected, tuple(sorted(without)))
    of_level, downwards = (_readiness(*what, one_level=one_level) for one_level in (True, False))

    def level_from(level: int, last: int, size: int) -> Iterator[ReadyTask]:
        while page := of_level.all(conn, {"now": now, "page": size, "level": level, "last": last}):
            yield from page
            if len(page) < size:
                return
            last, size = page[-1]["seq"], _PAGE

    if priority is not None:
        yield from level_from(priority, -1, _FIRST_PAGE)
        return
    level, size = HIGHEST, _FIRST_PAGE
    while page := downwards.all(conn, {"now": now, "page": size, "level": level}):
        yield from page
        if len(page) < size:
            return
        yield from level_from(page[-1]["priority"], page[-1]["seq"], _PAGE)
        level, size = page[-1]["priority"] - 1, _PAGE


def requiring(conn: Connection) -> list[TaskRow]:
    """Whole rows of pending tasks that require capabilities and name no agent, the oldest first; no more than a page."""
    return _REQUIRING.all(conn, {})


def is_any_pending(conn: Connection, runner: str) -> bool:
    """Whether a task of this runner waits for its turn."""
    return _PENDING_OF.first(conn, {"runner": runner}) is not None


@lru_cache(maxsize=64)
def _readiness(
    offered: bool, task_types: tuple[str, ...], unsuspected: bool, without: tuple[str, ...], *, one_level: bool
) -> Prepared[ReadyTask]:
    query = READY_TASKS.where(
        _PENDING,
        ~_EXECUTED if offered else _EXECUTED,
        or_(tasks.c.not_before_at.is_(None), tasks.c.not_before_at <= bindparam("now")),
    )
    if task_types:
        query = query.where(or_(*(tasks.c.task_type == task_type for task_type in task_types)))
    if unsuspected:
        query = query.where(or_(tasks.c.crashes < SUSPECTED, _OF_RUNNING_LEADER))
    query = query.where(*(tasks.c.runner != bindparam(f"without_{runner}", runner) for runner in without))
    if one_level:
        in_order = query.where(tasks.c.priority == bindparam("level"), tasks.c.seq > bindparam("last"))
        in_order = in_order.order_by(tasks.c.seq)
    else:
        in_order = query.where(tasks.c.priority <= bindparam("level")).order_by(tasks.c.priority.desc(), tasks.c.seq)
    return Prepared(in_order.limit(bindparam("page", type_=Integer)))


def next_due(conn: Connection, now: str) -> str | None:
    """When the next backoff ends."""
    return _NEXT_DUE.text(conn, {"now": now})


def suspect_in_flight(conn: Connection) -> str | None:
    """The task under suspicion (:data:`SUSPECTED`) that is running or being ended; None if there is none."""
    return _SUSPECT.text(conn, {})


def held_back(conn: Connection, limit: int) -> list[TaskRow]:
    """Whole rows of pending tasks that the machine kept from starting, or that are under suspicion; the worst off first."""
    return _HELD_BACK.all(conn, {"most": limit})


def cannot_start(conn: Connection, least: int) -> list[TaskRow]:
    """Whole rows of pending tasks that the machine kept from starting at least so often in a row; the worst off first."""
    return _CANNOT_START.all(conn, {"least": least})


def end_fault_backoffs(conn: Connection) -> int:
    """Let every task that the machine kept from starting be tried now; returns how many there are."""
    return conn.execute(
        update(tasks).where(_PENDING, _EXECUTED, tasks.c.faults > 0).values(not_before_at=None)
    ).rowcount


def bound_backoffs(conn: Connection, latest: str) -> None:
    """Let no task wait for longer than until ``latest``: the clock was set back after its backoff began."""
    conn.execute(update(tasks).where(_PENDING, tasks.c.not_before_at > latest).values(not_before_at=latest))


def latest_backoff(conn: Connection) -> str | None:
    """When the last backoff ends."""
    return _LATEST_BACKOFF.text(conn, {})


def claims_of(conn: Connection, *task_ids: str) -> dict[str, list[str]]:
    """The lock keys that tasks claim, by task; every id is there, at most a few hundred of them."""
    claims: dict[str, list[str]] = {task_id: [] for task_id in task_ids}
    parameters = {f"task{place}": task_id for place, task_id in enumerate(task_ids)}
    for row in _claims_of(len(task_ids)).each(conn, parameters) if task_ids else ():
        claims[row["task_id"]].append(row["claim"])
    return claims


@lru_cache(maxsize=128)
def _claims_of(number: int) -> Prepared[ClaimRow]:
    among = task_claims.c.task_id.in_([bindparam(f"task{place}") for place in range(number)])
    return Prepared(select(task_claims).where(among).order_by(task_claims.c.claim))


def may_free_others(conn: Connection, task_id: str) -> bool:
    """Whether another task may be able to start once this one has ended: it claims something, or is waited for."""
    return _FREES.any(conn, {"which": task_id})


def claims_in(conn: Connection, status: str) -> dict[str, list[str]]:
    """The claims of all tasks in a state, by task; tasks without claims are left out."""
    claims: dict[str, list[str]] = {}
    for row in _CLAIMS_IN.each(conn, {"status": status}):
        claims.setdefault(row["task_id"], []).append(row["claim"])
    return claims


def transition(
    conn: Connection,
    task_id: str,
    from_states: Sequence[str],
    values: Mapping[str, Any],
    *,
    token: int | None = None,
    cancelled: bool | None = None,
    attempt: Mapping[str, Any] | None = None,
) -> TaskRow | None:
    """The guarded update: set columns if the task is in one of these states.

    Args:
        from_states: The states it may be in. Where it becomes terminal, it is counted, and what its agents shared is deleted.
        token: If given, the fencing token it must have.
        cancelled: If given, whether a cancellation must have been asked for.
        attempt: Columns of its newest attempt to set with it. One that leaves ``running`` ends its attempt here; that is counted.

    Returns:
        The row as it is now; None if the guard did not hold, and nothing was changed.
    """
    change = _transition(tuple(values), tuple(from_states), token is not None, cancelled)
    row = change.first(conn, {**values, "which": task_id, **({} if token is None else {"token": token})})
    if row is None:
        return None
    joined = attempts.join(conn, row, attempt)
    ends = attempt is not None and attempt.get("ended_at") is not None
    kind = totals.count_use(conn, task_id, row["fencing_token"]) if ends else None
    if (status := values.get("status")) in TERMINAL_TASKS:
        shared_state.clear(conn, task_id)
        if status not in from_states:
            totals.count_end(conn, task_id, row["status"], row["error_code"], kind)
    return joined


@lru_cache(maxsize=256)
def _transition(
    columns: tuple[str, ...], from_states: tuple[str, ...], by_token: bool, cancelled: bool | None
) -> Prepared[StoredTask]:
    states = or_(*(tasks.c.status == state for state in from_states))
    query = update(tasks).where(tasks.c.task_id == bindparam("which"), states)
    if by_token:
        query = query.where(tasks.c.fencing_token == bindparam("token"))
    if cancelled is not None:
        reason = tasks.c.cancel_reason
        query = query.where(reason.is_not(None) if cancelled else reason.is_(None))
    return Prepared(query.returning(tasks), *columns)


@lru_cache(maxsize=64)
def _creation(columns: tuple[str, ...]) -> Prepared[StoredTask]:
    return Prepared(insert(tasks).returning(tasks), *columns)


def lease(
    conn: Connection,
    task_id: str,
    *,
    session_id: str,
    now: str,
    lease_expires_at: str,
    started_at: str | None = None,
    key: str | None = None,
) -> TaskRow | None:
    """Give a pending task to a session: the attempt is counted and the fencing token raised in one statement.

    Args:
        started_at: When its work began; None: when a worker's process runs.
        key: The claim's idempotency key (:func:`claimed_with`).

    Returns:
        The leased row; None if somebody was first, or its time has not come.
    """
    row = _LEASE.first(conn, {"which": task_id, "now": now})
    if row is None:
        return None
    claim = {"session_id": session_id, "claim_key": key, "claimed_at": now}
    return attempts.create(conn, row, {**claim, "lease_expires_at": lease_expires_at, "started_at": started_at})


def under_way(conn: Connection, task_ids: Sequence[str]) -> Iterator[str]:
    """Those of some tasks that have not ended, or whose request may still land; further ones are not read."""
    return iter(conn.execute(_UNDER_WAY, {"task_ids": [*task_ids]}).scalars()) if task_ids else iter(())


def standing(conn: Connection, task_ids: Sequence[str] = (), *, only_open: bool = False) -> list[TaskStanding]:
    """Where tasks stand, oldest first.

    Args:
        task_ids: Only these; all if empty.
        only_open: Only tasks that are not terminal.
    """
    query = _STANDING_OF if task_ids else _STANDING
    if only_open:
        query = query.where(tasks.c.status.in_(OPEN_TASKS))
    rows: Iterator[Any] = map(dict, conn.execute(query, {"task_ids": [*task_ids]}).mappings())
    return list(rows)
