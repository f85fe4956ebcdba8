"""Work that no other load on the machine can change: the instructions that SQLite runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

only_sqlite = pytest.mark.parametrize("any_database", ["sqlite"], indirect=True)
"""A test that counts steps, or looks at what only SQLite has."""


def steps(conn: Connection, action: Callable[[], object]) -> int:
    """How many it takes."""
    count = 0

    def one() -> int:
        nonlocal count
        count += 1
        return 0

    raw: Any = conn.connection.dbapi_connection
    raw.set_progress_handler(one, 1)
    try:
        action()
    finally:
        raw.set_progress_handler(None, 1)
    return count
