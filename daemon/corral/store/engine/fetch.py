"""From a statement to rows of a type: the one place that promises what a row holds, since no checker sees what a select names.

:class:`corral.store.engine.prepared.Prepared` promises the same of its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Executable, Select

R = TypeVar("R")


def fetch_all(conn: Connection, query: Executable, kind: type[R]) -> list[R]:
    """Run a statement; every row that it returns.

    Args:
        kind: The type of its rows (:mod:`corral.store.rows`).
    """
    return list(fetch_each(conn, query, kind))


def fetch_first(conn: Connection, query: Executable, kind: type[R]) -> R | None:
    """Run a statement; the first of its rows, or None."""
    row = conn.execute(query).mappings().first()
    return cast("R", dict(row)) if row else None


def fetch_one(conn: Connection, query: Executable, kind: type[R]) -> R:
    """Run a statement; its only row."""
    return cast("R", dict(conn.execute(query).mappings().one()))


def has_any(conn: Connection, query: Select[Any]) -> bool:
    """Run a select; whether it finds anything."""
    return conn.execute(query.limit(1)).first() is not None


def fetch_each(conn: Connection, query: Executable, kind: type[R]) -> Iterator[R]:
    """Run a statement; its rows as they are asked for."""
    found: Iterator[Any] = map(dict, conn.execute(query).mappings())
    return found
