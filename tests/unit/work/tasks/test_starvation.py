"""Nothing in the queue waits for ever: not behind a stream of tasks that claim less, and not behind one that is more urgent."""

from __future__ import annotations

import random
import shutil
from collections import deque
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection, update

from corral.config.model import Settings
from corral.coordination.sessions import registry
from corral.coordination.sessions.registry import Arrival
from corral.store.rows.tasks import TaskRow
from corral.store.schema import tasks as tasks_table
from corral.work.tasks import delays, leases, scheduling
from corral.work.tasks.leases import Claimant
from corral.work.tasks.store import tasks as rows
from tests.support.examples import examples
from tests.unit.work.conftest import Board, Row, at
from tests.unit.work.tasks.queue_machine import Memory

pytestmark = pytest.mark.one_python

ROUNDS = 12


def claim(board: Board, **how: Any) -> TaskRow | None:
    ask: Row = {"session_id": "s", "lease_s": 60, "ageing_s": 0, "now": at(1), **how}
    return board.do(lambda conn: scheduling.claim(conn, **ask))


def started(board: Board) -> list[str]:
    """Claim until nothing more can start."""
    return [row["task_id"] for row in iter(board.claim, None)]


def delay(board: Board, task_id: str, **how: Any) -> str | None:
    def look(conn: Any) -> str | None:
        row = rows.get(conn, task_id)
        assert row is not None
        return delays.reason(conn, row, None, at(1), **how)

    return board.db.read(look)


@pytest.mark.req("FR-QUEUE-006", "FEATURE-2")
@pytest.mark.parametrize(
    ("wide", "streams", "ends"),
    [
        pytest.param(["x", "y"], [["x"], ["y"]], 2, id="each claims one of its paths"),
        pytest.param(["x", "y"], [["db:schema:a", "x"], ["db:schema:b", "y"]], 1, id="each is half of it"),
        pytest.param(["x", "y", "z"], [["x", "p"], ["y", "q"], ["z", "r"]], 2, id="only together they keep it waiting"),
        pytest.param(["w", "x", "y", "z"], [["x", "p"], ["y", "q"]], 1, id="it overlaps with them in part"),
        pytest.param(["src/**"], [["src/a.py"], ["src/b/"], ["src/c*", "docs"]], 3, id="a pattern"),
    ],
)
def test_an_urgent_task_is_not_passed_over_for_ever_by_a_stream_of_tasks_that_claim_less(
    board: Board, wide: list[str], streams: list[list[str]], ends: int
) -> None:
    """Whenever one of the stream ends, the next one of its kind waits already."""
    for claims in streams:
        board.one(claims=claims, priority=5)
    running = deque((board.claim(), claims) for claims in streams)
    urgent = board.one(claims=wide, priority=9)
    ended = 0
    while ended < ROUNDS:
        ended += 1
        row, claims = running.popleft()
        assert row is not None
        board.one(claims=claims, priority=5)
        board.end(row)
        next_row = board.claim()
        if next_row is not None and next_row["task_id"] == urgent:
            break
        if next_row is not None:
            running.append((next_row, claims))
    assert ended == ends


def test_what_does_not_hold_it_up_starts_before_it(board: Board) -> None:
    """No worker is idle where a task can be started beside what runs, and beside what waits for that."""
    board.one(claims=["src/b.py"], priority=9)
    first = board.claim()
    blocked = board.one(claims=["src/b.py", "src/c.py", "src/d.py"], priority=8)
    little = board.one(claims=["src/d.py", "docs/x.md", "docs/y.md"], priority=7)
    too_much = board.one(claims=["src/c.py"], priority=6)
    free = board.one(claims=["docs/z.md"], priority=5)
    bare = board.one(priority=1)
    assert started(board) == [free, bare, little]
    assert first is not None
    board.end(first)
    assert started(board) == [blocked]
    assert board.status(too_much) == "pending"


def test_what_waits_for_a_task_that_does_not_end_keeps_only_its_own_claims(board: Board) -> None:
    board.one(claims=["src/a.py"], priority=9)
    assert board.claim() is not None
    blocked = board.one(claims=["src/a.py", "src/b.py"], priority=8)
    behind = [board.one(claims=["src/b.py"], priority=7) for _ in range(3)]
    others = [board.one(claims=[f"docs/{n}.md"], priority=0) for n in range(5)]
    assert started(board) == others
    board.cancel(blocked)
    assert started(board) == behind[:1], "nothing of a reservation outlasts its task"


def test_what_is_itself_passed_over_for_a_reservation_keeps_nothing_from_starting(board: Board) -> None:
    """It cannot start before the first one has: until then what only it overlaps with may work."""
    board.one(claims=["a"], priority=9)
    first = board.claim()
    second = board.one(claims=["a", "b"], priority=8)
    third = board.one(claims=["b", "c"], priority=7)
    last = board.one(claims=["c"], priority=6)
    alone = board.one(claims=["b"], priority=5)
    assert started(board) == [last]
    assert first is not None
    board.end(first)
    assert started(board) == [second]
    assert [board.status(task) for task in (third, alone)] == ["pending", "pending"]


def test_only_the_first_that_are_blocked_reserve_and_the_first_of_all_always_does(board: Board) -> None:
    board.one(claims=["a"], priority=10)
    assert board.claim() is not None
    blocked = [board.one(claims=["a", f"b{n}"], priority=9) for n in range(20)]
    same = [board.one(claims=[f"b{n}"], priority=1) for n in range(20)]
    assert len(blocked) == 20
    assert started(board) == same[16:]


def test_of_many_that_overlap_in_part_one_is_started_without_a_look_at_all_of_them(board: Board) -> None:
    """Where each task claims one file that all share, a claim does not get slower with the length of the queue."""
    read: list[int] = []
    board.submit(*({"claims": [f"src/{n}.py", f"docs/{n}.md", "CHANGELOG.md"]} for n in range(400)))
    assert board.claim() is not None

    def ready(conn: Any, now: str, *, priority: int | None = None) -> Any:
        for row in scheduling.startable(conn, now, priority=priority):
            read.append(row["seq"])
            yield row

    row = claim(board, ready=ready)
    assert row is not None and row["seq"] == read[0]
    assert len(read) <= 200


def test_a_session_is_given_nothing_that_would_hold_up_a_task_which_it_could_do_first(board: Board) -> None:
    for who in ("anna", "ben"):
        board.do(partial(registry.register, arrival=Arrival(session_id=who), now=at(0)))
    offered: Row = {"command": None, "description": "look"}
    settings = Settings(tasks=board.rules)

    def take(who: str, *able: str) -> str | None:
        row = board.do(lambda conn: leases.claim(conn, Claimant(who, lambda: able), at(1), settings))
        return row and row["task_id"]

    board.one(claims=["a"], priority=9, **offered)
    assert take("anna", "python") is not None
    needs = {"capabilities": ["Python"]}
    blocked = board.one(claims=["a", "b"], priority=8, agent_requirements=needs, **offered)
    behind = board.one(claims=["b"], priority=7, **offered)
    assert take("ben", "python") is None
    reason = delay(board, board.one(claims=["b"], priority=7, agent_requirements=needs, **offered))
    assert reason is not None and f"until task {blocked[:8]} has started" in reason and "`corral task claim`" in reason
    assert "has started" not in (delay(board, behind) or ""), "a session that could not do the first may have it"
    assert take("ben") == behind


def test_reservations_follow_the_file_systems_case_rule(board: Board) -> None:
    board.one(claims=["src/a.py"], priority=9)
    assert board.claim() is not None
    blocked = board.one(claims=["SRC/A.py", "Docs/X.md"], priority=8)
    behind = board.one(claims=["docs/x.md"], priority=7)
    assert claim(board, fold=True) is None
    reason = delay(board, behind, fold=True)
    assert reason is not None and blocked[:8] in reason and "Docs/X.md" in reason
    assert delay(board, behind, fold=False) is None
    exact = claim(board, fold=False)
    assert exact is not None and exact["task_id"] == blocked


def test_a_task_that_is_passed_over_says_which_goes_first_and_what_that_one_waits_for(board: Board) -> None:
    board.one(claims=["src/a.py"], priority=9)
    running = board.claimed()
    blocked = board.one(claims=["src/a.py", "src/b.py"], priority=8)
    behind = board.one(claims=["src/b.py"], priority=7)
    free = board.one(claims=["docs/"], priority=1)
    first = running["task_id"][:8]
    assert delay(board, blocked) == f"It waits until task {first} has ended, which claims src/a.py too."
    assert delay(board, behind) == (
        f"It waits until task {blocked[:8]} has started, which is before it in the queue and claims src/b.py too; "
        f"that one waits until task {first} has ended."
    )
    assert delay(board, free) is None
    older = board.one(claims=["src/b.py"], priority=9)
    assert delay(board, older) is None, "it is before the one that waits"


QUEUED, AGENTS, AGEING_S = examples(10_000, usual=1_500), 20, 90


@pytest.mark.req("FR-QUEUE-006", "D16")
def test_with_ageing_each_of_many_tasks_is_claimed_in_its_time(tmp_path: Path, empty_database: Path) -> None:
    """Every 20 s twenty tasks are claimed, and as many come in with priority 10: they do not go first for ever.

    A task of priority p has priority 10 after (10 - p) intervals, and from then on only older tasks go before it: it is claimed
    within that time and the time that those take.
    """
    board = Board(cast("Any", Memory(Path(shutil.copy(empty_database, tmp_path / "corral.db")))))
    rng = random.Random(16)
    priorities = [rng.randint(0, 10) for _ in range(QUEUED)]
    ids = board.submit(*({"priority": priority} for priority in priorities))
    place = {task_id: n for n, task_id in enumerate(ids)}
    claimed_at: dict[str, int] = {}
    last = QUEUED + 10 * AGEING_S + AGENTS
    for second in range(0, last, AGENTS):
        board.submit(*({"priority": 10} for _ in range(AGENTS)), now=at(second))
        claimed_at |= dict.fromkeys(_claim_and_complete(board, second), second)
    limits = {task_id: (10 - priorities[n]) * AGEING_S + n + AGENTS for task_id, n in place.items()}
    assert {
        place[task_id]: claimed_at.get(task_id) for task_id in ids if claimed_at.get(task_id, last) > limits[task_id]
    } == {}
    board.db.close()


def _claim_and_complete(board: Board, second: int) -> list[str]:
    """What all agents claim at once: the first by a claim, the others in the order that claims follow; completed in one step."""

    def first(conn: Connection) -> list[str]:
        order = islice(scheduling.in_order(conn, at(second), AGEING_S), AGENTS)
        return [row["task_id"] for row in order]

    task_ids = board.db.read(first)
    row = board.claim(at(second), AGEING_S)
    assert row is not None and row["task_id"] == task_ids[0]
    done = update(tasks_table).where(tasks_table.c.task_id.in_(task_ids))
    board.do(lambda conn: conn.execute(done.values(status="completed", completed_at="2026")))
    return task_ids
