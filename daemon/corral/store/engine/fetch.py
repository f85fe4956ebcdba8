"""Run a statement and type its rows: no type checker sees the columns of a select, so the caller names the rows' type here.

:class:`corral.store.engine.prepared.Prepared` does the same for its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Executable, Select

R = TypeVar("R")


def fetch_all(conn: Connection, query: Executable, kind: type[R]) -> list[R]:
    """Run a statement and return all its rows.

    Args:
        kind: The type of its rows (:mod:`corral.store.rows`).
    """
    return list(fetch_each(conn, query, kind))


def fetch_first(conn: Connection, query: Executable, kind: type[R]) -> R | None:
    """Run a statement and return its first row, or None."""
    row = conn.execute(query).mappings().first()
    return cast("R", dict(row)) if row else None


def fetch_one(conn: Connection, query: Executable, kind: type[R]) -> R:
    """Run a statement and return its only row."""
    return cast("R", dict(conn.execute(query).mappings().one()))


def has_any(conn: Connection, query: Select[Any]) -> bool:
    """Whether a select returns a row."""
    return conn.execute(query.limit(1)).first() is not None


def fetch_each(conn: Connection, query: Executable, kind: type[R]) -> Iterator[R]:
    """Run a statement and yield its rows one by one."""
    rows: Iterator[Any] = map(dict, conn.execute(query).mappings())
    return rows
