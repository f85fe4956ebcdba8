"""Another program holds the database, or has damaged it: agents are told soon, by the name that their document has, and truly."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time

import pytest

from corral.core.errors import DatabaseUnavailable
from tests.integration.mcp.client import Agent, play
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


@pytest.mark.req("HANDOFF-4")
def test_an_agent_is_told_that_a_damaged_database_is_unavailable(house: Coordinated) -> None:
    async def scene(one: Agent) -> None:
        await one.call("register_session")
        file = house.root / ".corral" / "corral.db"
        with file.open("r+b") as raw:
            raw.seek(4096)
            raw.write(os.urandom(file.stat().st_size - 4096))
        for _attempt in range(100):  # until a page that it has not in memory is read
            answer = await one.call("write_handoff", summary="The login works.")
            if not answer["success"]:
                break
        assert (answer["success"], answer["error"]) == (False, "database_unavailable")
        assert "damaged" in answer["message"]

    play(house, scene)
