"""Totals that never decrease, for Prometheus: each is increased in the transaction that it counts, and survives retention.

A task counts each time that it ends, an attempt with its use once, when it ends, and an event of :data:`EVENTS` when it is
recorded.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, insert, select, update

from corral.core.events import EventKind
from corral.core.states import TaskStatus
from corral.store.engine.prepared import Prepared
from corral.store.rows.metrics import TotalRow, UsedAttempt
from corral.store.schema import attempts, tasks
from corral.store.schema_project import totals

EVENTS = {
    "landings": EventKind.MERGE_LANDED,
    "evictions": EventKind.MERGE_FAILED,
    "conflicts": EventKind.MERGE_CONFLICT,
    "flakes": EventKind.MERGE_FLAKY,
    "retries": EventKind.TASK_RETRIED,
    "edits_denied": EventKind.EDIT_DENIED,
    "lock_waits": EventKind.LOCK_AWAITED,
}
"""The totals that count events, and the kind of each."""
SESSION = "session"
"""The kind of an attempt that no runner executed."""
_NAMES = {str(kind): name for name, kind in EVENTS.items()}
_OUTCOMES = {TaskStatus.COMPLETED: "completed", TaskStatus.CANCELLED: "cancelled"}

_a, _t, _own = attempts.c, tasks.c, totals.c


def _named(by_attempt: ColumnElement[str | None], by_task: ColumnElement[str | None]) -> ColumnElement[str | None]:
    return func.nullif(func.coalesce(by_attempt, by_task), "")


_KIND = func.coalesce(_named(_a.agent, _t.agent), _named(_a.runner, _t.runner), SESSION).label("kind")
_WHO = Prepared[object](
    select(_KIND)
    .outerjoin_from(tasks, attempts, and_(_a.task_id == _t.task_id, _a.number == _t.current_attempt))
    .where(_t.task_id == bindparam("which"))
)
_USED = Prepared[UsedAttempt](
    select(_KIND, _a.usage)
    .join_from(attempts, tasks, _a.task_id == _t.task_id)
    .where(_a.task_id == bindparam("which"), _a.number == bindparam("attempt"))
)
_GROW = Prepared[None](
    update(totals)
    .where(
        _own.name == bindparam("which"), _own.label == bindparam("labelled"), _own.outcome == bindparam("as_outcome")
    )
    .values(number=_own.number + bindparam("more", type_=_own.number.type))
)
_BEGIN = Prepared[None](insert(totals), "name", "label", "outcome", "number")
_ALL = Prepared[TotalRow](select(totals).order_by(_own.name, _own.label, _own.outcome))


def every(conn: Connection) -> list[TotalRow]:
    """All totals, in the order of their names."""
    return _ALL.all(conn, {})


def count_event(conn: Connection, kind: str) -> None:
    """Count an event that is being recorded."""
    if (name := _NAMES.get(kind)) is not None:
        _add(conn, name, 1)


def count_end(conn: Connection, task_id: str, status: str, error_code: str | None, kind: str | None = None) -> None:
    """Count a task that has just become terminal; ``kind`` is what :func:`count_use` said of the attempt that ended it."""
    outcome = _OUTCOMES.get(TaskStatus(status), "failed")
    _add(conn, "tasks_finished", 1, kind or str(_WHO.text(conn, {"which": task_id})), outcome)
    if outcome == "failed":
        _add(conn, "task_failures", 1, error_code or "failed")


def count_use(conn: Connection, task_id: str, number: int) -> str | None:
    """Count the tokens and the cost of an attempt that has just ended; returns its kind, None if there is no such attempt."""
    used = _USED.first(conn, {"which": task_id, "attempt": number})
    if used is None:
        return None
    if usage := used["usage"]:
        tokens = sum(usage.get(name) or 0 for name in ("input_tokens", "output_tokens"))
        _add(conn, "tokens", tokens, used["kind"])
        _add(conn, "cost_usd", usage.get("cost_usd") or 0, used["kind"])
    return used["kind"]


def _add(conn: Connection, name: str, more: float, label: str = "", outcome: str = "") -> None:
    which = {"which": name, "labelled": label, "as_outcome": outcome}
    if not _GROW.change(conn, {**which, "more": more}):
        _BEGIN.change(conn, {"name": name, "label": label, "outcome": outcome, "number": more})
