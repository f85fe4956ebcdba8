"""SQL for the leases of what sessions have claimed: which of them need something now, and when the next one ends."""

from __future__ import annotations

from sqlalchemy import Connection, and_, bindparam, func, or_, select

from corral.core.states import SessionStatus, TaskStatus
from corral.store.engine.prepared import Prepared
from corral.store.rows.tasks import TaskRow
from corral.store.schema import agent_sessions, tasks
from corral.store.schema import attempts as attempts_table
from corral.work.tasks.store import attempts

_CLAIMED = (tasks.c.status == TaskStatus.RUNNING, tasks.c.runner.is_(None))
"""Of a task: a session has claimed it."""
_holder, _ends_at = agent_sessions.c, attempts_table.c.lease_expires_at
_IS_PERSON = _holder.agent_type == bindparam("person")
_IS_GONE = or_(
    _holder.session_id.is_(None),
    and_(
        _holder.status == SessionStatus.DISCONNECTED,
        or_(~_IS_PERSON, _holder.end_reason.is_distinct_from(bindparam("silent"))),
    ),
)
_DUE = Prepared[TaskRow](
    attempts.TASK_ROWS.outerjoin(agent_sessions, _holder.session_id == attempts_table.c.session_id)
    .where(*_CLAIMED)
    .where(
        or_(
            _IS_GONE,
            and_(_IS_PERSON, _ends_at <= bindparam("now")),
            and_(~_IS_PERSON, _ends_at < bindparam("renewed_below")),
        )
    )
    .order_by(tasks.c.seq)
)
_FIRST_END = Prepared[object](
    select(func.min(_ends_at).label("at")).join_from(tasks, attempts_table, attempts.CURRENT).where(*_CLAIMED)
)


def due(conn: Connection, now: str, renewed_below: str, *, person: str, silent: str) -> list[TaskRow]:
    """Whole rows of the claimed tasks whose holder is gone, or whose lease has ended or is to be renewed; the oldest first.

    Args:
        renewed_below: Leases of others than persons that end before this instant are to be renewed.
        person: The type of a person's session: its lease lasts for its time.
        silent: The reason for which a person's session ends without its leases.
    """
    parameters = {"now": now, "renewed_below": renewed_below, "person": person, "silent": silent}
    return _DUE.all(conn, parameters)


def first_end(conn: Connection) -> str | None:
    """When the first of all leases ends; None: nothing is claimed."""
    return _FIRST_END.text(conn, {})
