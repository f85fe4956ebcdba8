"""Changes while no daemon ran: whose locks an author uses as its own."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from sqlalchemy import Connection

from corral.coordination.edits import unannounced
from corral.coordination.edits.unannounced import EDIT_TOOL, Claim
from corral.coordination.edits.verdicts import Policy, Target
from corral.coordination.locks.keys import parse_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.core.instants import iso
from tests.support.locking import acquire

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(("agent_type", "holders"), [("claude", {"a", "child"}), ("mcp", {"a"})])
def test_only_a_subagent_wrote_what_its_parent_holds(
    any_database: Connection, agent_type: str, holders: set[str]
) -> None:
    session_registry.register(any_database, Arrival(session_id="a"), NOW)
    child = Arrival(session_id="child", agent_type=agent_type, parent_session_id="a")
    session_registry.register(any_database, child, NOW)
    key = parse_key("x")
    acquire(any_database, [key], Holder("a"), NOW, ttl_s=600)
    written = Claim("child", Target(key, "/r"), EDIT_TOOL)
    unannounced.settle(any_database, [written], Policy("enforce", 600), NOW)
    assert {row["session_id"] for row in lock_rows.listing(any_database, iso(NOW))} == holders
