"""Work that no other load on the machine can change: the instructions that SQLite runs, the lines that Python does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
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


def statements(conn: Connection, action: Callable[[], object]) -> int:
    """How many SQLite is given."""
    asked: list[str] = []
    raw: Any = conn.connection.dbapi_connection
    raw.set_trace_callback(asked.append)
    try:
        action()
    finally:
        raw.set_trace_callback(None)
    return sum(not statement.startswith("--") for statement in asked)  # those of triggers are comments


def lines_run(module: ModuleType, action: Callable[[], object]) -> int:
    """How many lines of a module are executed."""
    count = 0

    def local(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return local

    def called(frame: FrameType, event: str, arg: object) -> Any:
        return local if frame.f_code.co_filename == module.__file__ else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        action()
    finally:
        sys.settrace(before)
    return count
