"""Values that agents share about a task."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from corral.core.errors import Conflict, InvalidInput, NotFound
from corral.core.instants import iso
from corral.work.state import state as shared_state
from tests.unit.work.conftest import START, Board, at


def put(board: Board, task_id: str, key: str, value: Any, seconds: float = 0, **how: Any) -> Any:
    return board.do(lambda conn: shared_state.write(conn, task_id, key, value, at(seconds), **how))


def get(board: Board, task_id: str, key: str) -> Any:
    return board.db.read(lambda conn: shared_state.read(conn, task_id, key))


@pytest.mark.req("FR-SWARM-007")
def test_a_value_is_read_by_everybody_and_belongs_to_its_task(board: Board) -> None:
    one, other = board.submit({}, {})
    put(board, one, "plan", {"steps": [1, 2]}, by="s1")
    assert get(board, one[:8], "plan") == {
        "key": "plan",
        "value": {"steps": [1, 2]},
        "version": 1,
        "updated_by": "s1",
        "updated_at": iso(START),
    }
    put(board, one, "a", None, 5)
    assert [row["key"] for row in board.db.read(lambda conn: shared_state.listing(conn, one))] == ["a", "plan"]
    with pytest.raises(NotFound, match="has no key 'plan'") as refused:
        get(board, other, "plan")
    assert refused.value.cause.startswith("Nobody has set it")
    with pytest.raises(NotFound):
        put(board, "ffffffff", "plan", 1)


@pytest.mark.req("FR-SWARM-007")
def test_of_two_that_count_from_the_same_version_one_is_refused_and_told_the_present_value(board: Board) -> None:
    task_id = board.one()
    assert put(board, task_id, "count", 1, if_version=0)["version"] == 1
    with pytest.raises(Conflict, match="at version 1, not at version 0"):
        put(board, task_id, "count", 1, if_version=0)
    assert put(board, task_id, "count", 2, if_version=1, by="first")["version"] == 2
    with pytest.raises(Conflict) as refused:
        put(board, task_id, "count", 2, if_version=1, by="second")
    assert refused.value.details["current"]["value"] == 2 and refused.value.details["current"]["updated_by"] == "first"
    with pytest.raises(Conflict, match="not there, not at version 4"):
        put(board, task_id, "new", 1, if_version=4)
    assert put(board, task_id, "count", 9)["version"] == 3, "who names no version sets it anyway"


@pytest.mark.req("FR-SWARM-007")
def test_a_key_is_deleted_and_only_at_its_version(board: Board) -> None:
    task_id = board.one()
    put(board, task_id, "k", 1)

    def delete(version: int | None) -> None:
        board.do(lambda conn: shared_state.remove(conn, task_id, "k", if_version=version))

    with pytest.raises(Conflict, match="at version 1, not at version 2"):
        delete(2)
    delete(1)
    with pytest.raises(NotFound):
        delete(None)
    assert put(board, task_id, "k", 2)["version"] == 1


@pytest.mark.req("FR-SWARM-007")
@pytest.mark.parametrize("end", ["completed", "dead", "cancelled"])
def test_when_a_task_has_ended_its_state_is_gone_and_no_more_is_taken(board: Board, end: str) -> None:
    task_id, other = board.submit({}, {})
    put(board, task_id, "k", 1)
    put(board, other, "k", 2)
    if end == "cancelled":
        board.cancel(task_id)
    else:
        row = board.claim()
        assert row is not None and row["task_id"] == task_id
        board.end(row) if end == "completed" else board.fail(row, retryable=False)
    assert board.db.read(lambda conn: shared_state.listing(conn, task_id)) == []
    assert get(board, other, "k")["value"] == 2
    with pytest.raises(Conflict, match="its shared state is gone"):
        put(board, task_id, "k", 1)


@pytest.mark.req("FR-SWARM-007")
def test_state_outlasts_a_retry(board: Board) -> None:
    task_id = board.one(max_retries=1)
    put(board, task_id, "k", 1)
    row = board.claimed()
    board.fail(row, START + timedelta(seconds=1))
    assert board.status(task_id) == "pending" and get(board, task_id, "k")["value"] == 1


def test_a_value_that_is_too_large_and_a_key_too_many_are_refused(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = board.one()
    with pytest.raises(InvalidInput, match="larger than 64 KiB"):
        put(board, task_id, "k", "ü" * 40_000)
    monkeypatch.setattr(shared_state, "MOST_KEYS", 2)
    put(board, task_id, "a", 1)
    put(board, task_id, "b", 1)
    with pytest.raises(InvalidInput, match="2 keys already"):
        put(board, task_id, "c", 1)
    assert put(board, task_id, "b", 2)["version"] == 2
