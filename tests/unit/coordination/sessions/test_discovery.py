"""Discovery: a session is found by what it says of itself, and by what the team says of any of its names."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from sqlalchemy import Connection

from corral.coordination.mail import addresses
from corral.coordination.sessions import discovery
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
TEAM = {"Boulder": ["python", "review"], "Sisyphus": ["planning"]}


@pytest.fixture
def conn(any_database: Connection) -> Connection:
    for session_id, name in (("a", "Ann"), ("b", "Ben"), ("s", "Sisyphus")):
        arrival = Arrival(session_id=session_id, agent_name=name, capabilities=("talk",))
        session_registry.register(any_database, arrival, NOW)
    return any_database


def found(conn: Connection, capability: str) -> list[str]:
    rows = discovery.discover(conn, capability, None, lambda name: TEAM.get(name, ()))
    return sorted(row["agent_name"] for row in rows)


def test_what_the_team_says_of_a_further_name_counts_too(conn: Connection) -> None:
    assert found(conn, "python") == [] and found(conn, "planning") == ["Sisyphus"]
    addresses.bind(conn, "b", "Boulder", NOW)
    assert found(conn, "Python") == found(conn, "review") == ["Ben"]
    (ben,) = (row for row in discovery.discover(conn, None, None, lambda name: TEAM.get(name, ())) if row["names"])
    assert (ben["agent_name"], ben["names"]) == ("Ben", ["Boulder"])
    assert ben["capabilities"] == ["talk", "python", "review"]
