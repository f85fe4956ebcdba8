"""Merge requests as rows."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from sqlalchemy import Connection, select

from corral.core.errors import NotFound
from corral.core.states import MergeState
from corral.store.schema import merge_requests
from corral.work.merges.store import merges
from corral.work.merges.wire import outcome_of
from corral.work.tasks.store.outcomes import requests_called
from tests.support.steps import only_sqlite, steps

_m = merge_requests.c
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


def test_a_request_that_came_back_is_no_conflict_any_more_once_its_branch_is_queued_again(
    any_database: Connection,
) -> None:
    conn = any_database
    old = submit(conn, "mine", 1)
    merges.finish(conn, old, MergeState.CONFLICT, now=NOW, reason="It conflicts with main.")
    new = submit(conn, "mine", 2)

    def called(word: str) -> list[str]:
        return [
            str(merge_id) for merge_id in conn.execute(select(_m.merge_id).where(requests_called([word]))).scalars()
        ]

    row = merges.get(conn, old)
    assert (outcome_of(row), row["state"], row["reason"]) == ("not landed", "conflict", "It conflicts with main.")
    assert (called("conflict"), called("not landed"), called("queued")) == ([], [old], [new])
    merges.finish(conn, new, MergeState.CANCELLED, now=NOW)
    merges.reopen(conn, old, "3" * 40, NOW)
    assert outcome_of(merges.get(conn, old)) == "queued" and called("queued") == [old]
