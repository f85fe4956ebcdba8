"""Merge requests as rows."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from sqlalchemy import Connection

from corral.core.errors import NotFound
from corral.work.merges.store import merges
from tests.support.steps import only_sqlite, steps

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=timezone.utc)


def submit(conn: Connection, branch: str, head: int) -> str:
    about: dict[str, Any] = {"task_id": None, "session_id": None, "base_sha": None, "title": branch, "priority": 5}
    return merges.submit(conn, **about, branch=branch, target="main", head_sha=f"{head:040}", now=NOW)


def test_a_branch_is_known_by_its_newest_request(any_database: Connection) -> None:
    conn = any_database
    submit(conn, "mine", 1)
    newest = submit(conn, "mine", 2)
    submit(conn, "mine-too", 3)
    assert merges.newest_of(conn, "mine")["merge_id"] == newest
    assert merges.newest_of(conn, "refs/heads/mine")["merge_id"] == newest
    for name in ("mine", "refs/heads/mine"):
        assert [row["merge_id"] for row in merges.listing(conn, branch=name)][1:] == [newest]
    assert merges.listing(conn, branch="min") == []
    for unknown in ("min", "mine%", ""):
        with pytest.raises(NotFound):
            merges.newest_of(conn, unknown)


@only_sqlite
def test_it_is_found_as_quickly_among_many(any_database: Connection) -> None:
    for number in range(200):
        submit(any_database, f"branch-{number}", number)
    assert steps(any_database, lambda: merges.newest_of(any_database, "branch-0")) < 100
