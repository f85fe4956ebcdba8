"""SQL for what agents share about a task: values by key, each with a version that counts its changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, literal_column, select, update

from corral.store.engine.fetch import fetch_all, fetch_first
from corral.store.engine.prepared import Prepared
from corral.store.rows.tasks import SharedValue
from corral.store.schema import task_state

_SHOWN = tuple(task_state.c[name] for name in SharedValue.__annotations__)
_CLEAR = Prepared[None](delete(task_state).where(task_state.c.task_id == bindparam("which")))


def get(conn: Connection, task_id: str, key: str) -> SharedValue | None:
    """The value of a key."""
    query = select(*_SHOWN).where(task_state.c.task_id == task_id, task_state.c.key == key)
    return fetch_first(conn, query, SharedValue)


def of_task(conn: Connection, task_id: str) -> list[SharedValue]:
    """All values of a task, by key."""
    query = select(*_SHOWN).where(task_state.c.task_id == task_id).order_by(task_state.c.key)
    return fetch_all(conn, query, SharedValue)


def count(conn: Connection, task_id: str) -> int:
    """How many keys a task has."""
    query = select(func.count()).select_from(task_state).where(task_state.c.task_id == task_id)
    return int(conn.execute(query).scalar_one())


def create(conn: Connection, task_id: str, key: str, values: Mapping[str, Any]) -> SharedValue:
    """Insert a key's first value, as version 1; a key that is there makes it raise ``IntegrityError``."""
    row = {**values, "task_id": task_id, "key": key, "version": 1}
    conn.execute(insert(task_state), row)
    return SharedValue(
        key=key, value=row["value"], version=1, updated_by=row["updated_by"], updated_at=row["updated_at"]
    )


def change(
    conn: Connection, task_id: str, key: str, values: Mapping[str, Any], *, if_version: int | None = None
) -> SharedValue | None:
    """Set a key's next value; None if the key is not there, or not at this version."""
    query = update(task_state).where(task_state.c.task_id == task_id, task_state.c.key == key)
    if if_version is not None:
        query = query.where(task_state.c.version == if_version)
    following = task_state.c.version + literal_column("1")
    return fetch_first(conn, query.values(**values, version=following).returning(*_SHOWN), SharedValue)


def remove(conn: Connection, task_id: str, key: str, *, if_version: int | None = None) -> bool:
    """Delete a key; False if it is not there, or not at this version."""
    query = delete(task_state).where(task_state.c.task_id == task_id, task_state.c.key == key)
    if if_version is not None:
        query = query.where(task_state.c.version == if_version)
    return conn.execute(query).rowcount > 0


def clear(conn: Connection, task_id: str) -> None:
    """Delete all values of a task."""
    _CLEAR.change(conn, {"which": task_id})
