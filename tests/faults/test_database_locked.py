"""Another program holds the database, or has damaged it: agents are told soon, by the name that their document has, and truly."""

from __future__ import annotations

import contextlib
import sqlite3
import time

import pytest

from corral.core.errors import DatabaseUnavailable
from tests.support.coordinated import Coordinated

pytestmark = pytest.mark.faults


@pytest.mark.req("HANDOFF-4")
def test_a_locked_database_is_said_within_two_seconds_with_what_ends_it(house: Coordinated) -> None:
    house.run("status")
    with contextlib.closing(sqlite3.connect(house.root / ".corral" / "corral.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _time in range(3):
            began = time.monotonic()
            with pytest.raises(DatabaseUnavailable) as refused:
                house.ask("POST", "/sessions/mine/heartbeat")
            assert time.monotonic() - began < 2 + 5  # the rest is a busy machine's
            assert "Another program has locked" in refused.value.cause and "`sqlite3`" in refused.value.remedy
        other.execute("ROLLBACK")
    house.ask("POST", "/sessions/mine/heartbeat")
