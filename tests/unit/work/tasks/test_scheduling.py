from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from sqlalchemy import Connection

from corral.store.rows.tasks import ReadyTask, TaskRow
from corral.work.tasks import scheduling
from corral.work.tasks.scheduling import lifted
from corral.work.tasks.store import tasks as rows
from tests.unit.work.conftest import Board, Row, at


def order(board: Board, ageing_s: float = 0, now_s: float = 0) -> list[str]:
    """Claim and finish until nothing is left."""
    ids = []
    while (row := board.claim(at(now_s), ageing_s)) is not None:
        ids.append(row["task_id"])
        board.end(row, at(now_s))
    return ids


@pytest.mark.req("FR-QUEUE-006")
def test_highest_priority_first_then_oldest(board: Board) -> None:
    rng = random.Random(6)
    priorities = [rng.randint(0, 10) for _ in range(150)]
    ids = board.submit(*({"priority": priority} for priority in priorities))
    expected = [ids[n] for n in sorted(range(150), key=lambda n: (-priorities[n], n))]
    assert order(board) == expected


@pytest.mark.req("FR-QUEUE-006")
def test_a_new_priority_changes_the_order_of_what_waits(board: Board) -> None:
    from corral.work.tasks import tasks

    first, second = board.submit({"priority": 5}, {"priority": 5})
    board.do(lambda conn: tasks.reprioritize(conn, second, 6, at(0)))
    assert order(board) == [second, first]


def test_ageing_lifts_by_one_step_per_interval_and_no_further_than_ten(board: Board) -> None:
    task_id = board.one(priority=3)
    row = cast(ReadyTask, board.detail(task_id))
    assert [lifted(row, at(seconds), 60) for seconds in (0, 59, 60, 119, 120, 10**6)] == [3, 3, 4, 4, 5, 10]


def test_an_old_task_overtakes_a_newer_one_only_after_enough_intervals(board: Board) -> None:
    old = board.one(now=at(0), priority=2)
    new = board.one(now=at(100), priority=4)
    assert order(board, ageing_s=60, now_s=119)[0] == new
    old, new = board.one(now=at(200), priority=2), board.one(now=at(319), priority=4)
    assert order(board, ageing_s=60, now_s=320)[0] == old


@pytest.mark.req("FR-QUEUE-006", "D16")
def test_with_ageing_nobody_waits_for_ever(board: Board) -> None:
    """A stream of urgent tasks, one served per second: the one of lowest priority is served in bounded time."""
    lowest = board.one(now=at(0), priority=0)
    for second in range(1, 200):
        board.one(now=at(second), priority=10)
        row = board.claimed(at(second), ageing_s=10)
        board.end(row, at(second))
        if row["task_id"] == lowest:
            break
    assert second <= 101


@pytest.mark.parametrize("ageing_s", [0, 30])
def test_a_task_waits_out_its_backoff(board: Board, ageing_s: float) -> None:
    row = board.claim() if board.one() else None
    assert row is not None
    board.fail(row, at(0))
    assert board.claim(at(9.9), ageing_s) is None
    again = board.claim(at(11), ageing_s)
    assert again is not None and again["attempts"] == 2 and again["fencing_token"] == 2


@pytest.mark.parametrize(
    ("running", "waiting", "clash"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/**", "src/a.py", True),
        ("src", "src/deep/a.py", True),
        ("src/a.py", "src/b.py", False),
        ("api:GET /v1/users", "api:GET /v1/users", True),
        ("api:GET /v1/users", "src/a.py", False),
    ],
)
def test_overlapping_claims_wait_and_others_do_not(board: Board, running: str, waiting: str, clash: bool) -> None:
    board.one(claims=[running], priority=9)
    blocked = board.one(claims=["docs/x.md", waiting], priority=8)
    free = board.one(priority=1)
    first = board.claimed()
    second = board.claim()
    assert second is not None and second["task_id"] == (free if clash else blocked)
    board.end(first)
    third = board.claim()
    assert third is not None and third["task_id"] == (blocked if clash else free)


@pytest.mark.req("FEATURE-2")
def test_what_overlaps_in_part_starts_only_when_nothing_else_could(board: Board) -> None:
    """The judgement is that of features: a shared file among others is no reason to leave a worker without work."""
    board.one(claims=["src/a.py", "src/b.py", "src/c.py"], priority=9)
    half = board.one(claims=["src/a.py", "docs/x.md"], priority=8)
    most = board.one(claims=["src/a.py", "src/b*", "docs/y.md"], priority=7)
    sole = board.one(claims=["db:schema:users", "api:GET /users", "web"], priority=6)
    free = board.one(claims=["other", "db:schema:users"], priority=1)
    first = board.claim()
    order = [row["task_id"] for row in iter(board.claim, None)]
    assert order == [sole, half]
    assert first is not None
    board.end(first)
    assert [row["task_id"] for row in iter(board.claim, None)] == [most]
    assert board.status(free) == "pending"


@pytest.mark.req("FR-SWARM-006")
def test_a_follower_starts_beside_its_leader_whatever_both_claim(board: Board) -> None:
    """The leader waits for it: it must wait neither for its leader, nor for a stranger that waits for that one."""
    leader = board.one(claims=["src/**"])
    leads = board.claim()
    stranger = board.one(claims=["src/**"])
    follower = board.one(claims=["src/a.py"], parent_task_id=leader)
    other = board.one(claims=["src/a.py"], parent_task_id=leader)
    assert leads is not None and why_not(board, follower) is None
    follows = board.claim()
    assert follows is not None and follows["task_id"] == follower
    assert board.claim() is None, "followers do not go beside each other, nor the stranger beside any of them"
    assert (why_not(board, other), why_not(board, stranger)) == (follower, leader)
    board.end(follows)
    last = board.claim()
    assert last is not None and last["task_id"] == other


def why_not(board: Board, task_id: str) -> str | None:
    """The task that is named as the one that keeps another from starting."""
    blocker = board.db.read(
        lambda conn: scheduling.blocker(conn, task_id, at(0), ageing_s=0, ready=scheduling.startable)
    )
    return blocker.task_id if blocker else None


def test_a_task_without_a_runner_is_left_to_sessions(board: Board) -> None:
    from corral.work.tasks.store import tasks as rows

    task_id = board.one()
    board.do(lambda conn: rows.transition(conn, task_id, ("pending",), {"runner": None}))
    assert board.claim() is None


def test_claiming_at_once_never_gives_one_task_to_two(board: Board) -> None:
    ids = board.submit(*({} for _ in range(40)))
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda n: board.claim(at(n / 1000)), range(60)))
    won = [row["task_id"] for row in claimed if row is not None]
    assert sorted(won) == sorted(ids)


def test_the_statement_that_picks_uses_the_index(board: Board) -> None:
    """Ten thousand rows must cost what ten do: no scan, no sort."""
    seen: list[str] = []
    board.one()

    def plan(conn: Connection) -> list[str]:
        raw: Any = conn.connection.dbapi_connection
        raw.set_trace_callback(seen.append)
        next(rows.ready(conn, "2026"), None)
        raw.set_trace_callback(None)
        plan_rows = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {seen[-1]}")
        return [row.detail for row in plan_rows]

    steps = board.db.read(plan)
    assert any("ix_tasks_status_priority_seq" in step for step in steps)
    assert not any("TEMP B-TREE" in step or step.startswith("SCAN") for step in steps)


def test_claims_are_stored_in_one_spelling_and_compared_with_the_file_systems_case_rule(board: Board) -> None:
    first = board.one(claims=["./src//a.py", "src/a.py"])
    assert board.detail(first)["claims"] == ["src/a.py"]
    board.one(claims=["SRC/A.PY"])
    assert board.claim() is not None

    def next_one(fold: bool) -> TaskRow | None:
        ask: Row = {"session_id": "s", "lease_s": 60, "ageing_s": 0, "now": at(1)}
        return board.do(lambda conn: scheduling.claim(conn, **ask, fold=fold))

    assert next_one(fold=True) is None, "it is the same file there"
    assert next_one(fold=False) is not None
