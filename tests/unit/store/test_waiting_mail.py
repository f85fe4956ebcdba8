"""Mail that waits is found without looking at what came before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from corral.coordination import mailing, messages, sessions
from corral.coordination.addresses import Identity
from corral.coordination.messages import Letter
from corral.coordination.sessions import Arrival
from corral.store import messages as rows
from corral.store.engine import Database
from corral.store.migrate import open_schema

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    open_schema(tmp_path / "corral.db")
    database = Database(tmp_path / "corral.db")
    yield database
    database.close()


def _steps(conn: Connection, ask: Callable[[Connection], object]) -> int:
    """How many steps SQLite's machine takes, in tens."""
    taken = 0

    def step() -> int:
        nonlocal taken
        taken += 1
        return 0

    raw: Any = conn.connection.dbapi_connection
    raw.set_progress_handler(step, 10)
    ask(conn)
    raw.set_progress_handler(None, 0)
    return taken


def test_what_was_brought_is_not_looked_at_again(db: Database) -> None:
    def look(conn: Connection) -> int:
        asked = (rows.anything_waits, rows.waiting, rows.how_many_wait)
        return sum(_steps(conn, lambda conn, ask=ask: ask(conn, "b")) for ask in asked)  # type: ignore[misc]

    def live(conn: Connection) -> tuple[int, int]:
        for session_id, name in (("a", "Ann"), ("b", "Ben")):
            sessions.register(conn, Arrival(session_id=session_id, agent_name=name), NOW)
        few = look(conn)
        for number in range(200):
            messages.send(conn, Identity("a", "Ann"), Letter(f"Part {number}", "x", to=("Ben",)), NOW)
        while mailing.deliver(conn, "b", NOW):
            pass
        return few, look(conn)

    few, many = db.write(live)
    assert many <= 2 * few
