"""Whose locks a commit may take along."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from sqlalchemy import Connection

from corral.coordination.edits import commits
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.keys import parse_key
from corral.coordination.locks.table import Holder
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("kind", "strangers"),
    [
        ("subagent", {"top": set(), "one": {"two"}, "two": {"one"}}),
        ("mcp", {"top": {"one", "two"}, "one": {"top", "two"}, "two": {"top", "one"}}),
    ],
)
def test_a_commit_takes_along_what_its_own_family_holds_and_no_siblings(
    any_database: Connection, kind: str, strangers: dict[str, set[str]]
) -> None:
    sessions = {"top": ("claude" if kind == "subagent" else kind, None), "one": (kind, "top"), "two": (kind, "top")}
    for session_id, (agent_type, parent) in sessions.items():
        session_registry.register(any_database, Arrival(session_id, agent_type, parent_session_id=parent), NOW)
        lock_table.hold(any_database, [parse_key(session_id)], Holder(session_id), "/r", NOW, ttl_s=600)
    for session_id in sessions:
        held = commits.held_by_others(any_database, [*sessions], "/r", session_id, NOW, fold=False)
        assert {row["session_id"] for row in held} == strangers[session_id], session_id
    assert len(commits.held_by_others(any_database, [*sessions], "/r", "nobody", NOW, fold=False)) == 3
