from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, cast

import pytest
from sqlalchemy import Connection

from corral.config.model import Settings
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import session_end
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import Conflict, LeaseLost
from corral.core.instants import iso
from corral.store.engine.database import Database
from corral.store.protocol import Store
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import attempts, leases, tasks, views
from corral.work.tasks.leases import Claimant, LeaseWatch
from tests.support.steps import statements, steps
from tests.unit.work.conftest import START, Board, at

T = TypeVar("T")
SETTINGS = Settings()


class Yard(Board):
    """The queue, and sessions that claim from it."""

    def offer(self, description: str = "look at it", now: Any = START, **item: Any) -> str:
        return self.submit({"title": None, "command": None, "description": description, **item}, now=now)[0]

    def arrive(self, who: str, now: Any = START, **about: Any) -> None:
        self.do(lambda conn: session_registry.register(conn, Arrival(session_id=who, **about), now))

    def get(self, who: str, now: Any = START, *types: str) -> TaskRow | None:
        return self.do(lambda conn: leases.claim(conn, leases.claimant(conn, who), now, SETTINGS, task_types=types))

    def complete(self, task_id: str, who: str, success: bool = True, **how: Any) -> TaskRow:
        return self.do(
            lambda conn: leases.complete(
                conn, tasks.find(conn, task_id), (who,), START, self.rules, success=success, **how
            )
        )

    def keep(self, now: Any) -> list[str]:
        return [row["task_id"] for row in self.do(lambda conn: leases.keep(conn, now, SETTINGS))]

    def call_off(self, task_id: str, reason: str = "It is not wanted.") -> TaskRow:
        return self.do(lambda conn: tasks.cancel(conn, task_id, START, self.rules, reason=reason, convention=True))


class Counted:
    """A database that counts the statements of its reads, and takes no write."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._asked: list[str] = []

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self._db.reading() as conn:
            raw: Any = conn.connection.dbapi_connection
            raw.set_trace_callback(self._asked.append)
            try:
                yield conn
            finally:
                raw.set_trace_callback(None)

    def write(self, operation: Callable[[Connection], T]) -> T:
        raise AssertionError(f"nothing is due, and {operation} writes")

    def during(self, action: Callable[[], object]) -> int:
        """How many statements an action reads with."""
        self._asked.clear()
        action()
        return sum(statement.startswith("SELECT") for statement in self._asked)


@pytest.fixture
def yard(board: Board) -> Yard:
    yard = Yard(board.db)
    for who in ("a", "b"):
        yard.arrive(who)
    return yard


def test_work_without_command_or_prompt_is_for_sessions_and_other_work_is_not(yard: Yard) -> None:
    offered, executed = yard.offer(), yard.one()
    assert yard.detail(offered)["runner"] is None
    taken = yard.claim()
    assert taken is not None and taken["task_id"] == executed
    assert yard.claim() is None
    got = yard.get("a")
    assert got is not None and got["task_id"] == offered and yard.get("b") is None


def test_the_title_is_the_descriptions_first_line_and_the_whole_of_it_is_kept(yard: Yard) -> None:
    detail = yard.detail(yard.offer("\n  Mend it. \nHere is how."))
    assert (detail["title"], detail["description"]) == ("Mend it.", "\n  Mend it. \nHere is how.")
    assert len(yard.detail(yard.offer("x" * 600))["title"]) == 500


def test_the_highest_priority_is_first_then_the_oldest(yard: Yard) -> None:
    low, first, second = yard.offer(priority=1), yard.offer(priority=9), yard.offer(priority=9)
    assert [row["task_id"] for row in iter(lambda: yard.get("a"), None)] == [first, second, low]


def test_a_claim_passes_none_of_the_tasks_that_wait_for_a_runner(yard: Yard) -> None:
    def claim_costs() -> int:
        yard.offer()
        return yard.do(
            lambda conn: steps(conn, lambda: leases.claim(conn, leases.claimant(conn, "a"), START, SETTINGS))
        )

    claim_costs()  # the statements are prepared by the first one
    alone = claim_costs()
    yard.submit(*({} for _ in range(300)))
    assert claim_costs() < 1.2 * alone


def test_a_claim_and_a_completion_run_few_statements(yard: Yard) -> None:
    def claim_and_complete(conn: Connection) -> tuple[int, int]:
        mine: list[TaskRow | None] = []
        claims = statements(conn, lambda: mine.append(leases.claim(conn, leases.claimant(conn, "a"), START, SETTINGS)))
        (row,) = mine
        assert row is not None
        end = partial(leases.complete, conn, row, ("a",), START, yard.rules, success=True)
        return claims, statements(conn, end)

    for _task in range(2):
        yard.offer(priority=1)
        claimed, completed = yard.do(claim_and_complete)
    assert claimed <= 7 and completed <= 9


def test_only_the_types_asked_for_and_only_what_one_is_able_to(yard: Yard) -> None:
    review = yard.offer(task_type="review")
    rust = yard.offer(task_type="build", priority=9, agent_requirements={"capabilities": ["rust"], "archetype": "x"})
    yard.arrive("c", capabilities=("rust", "go"))
    assert yard.get("a", START, "build") is None
    (got, other) = (yard.get("a"), yard.get("c"))
    assert got is not None and got["task_id"] == review
    assert other is not None and other["task_id"] == rust
    assert (other["agent_requirements"] or {})["archetype"] == "x"


def test_claims_that_overlap_are_not_worked_on_at_the_same_time(yard: Yard) -> None:
    first, second = yard.offer(claims=["src/**"]), yard.offer(claims=["src/a.py"])
    assert yard.get("a") is not None
    assert yard.get("b") is None
    yard.complete(first, "a")
    got = yard.get("b")
    assert got is not None and got["task_id"] == second


@pytest.mark.req("D12")
def test_only_the_holder_completes_and_only_once(yard: Yard) -> None:
    task_id = yard.offer()
    with pytest.raises(LeaseLost):
        yard.complete(task_id, "a")
    yard.get("a")
    with pytest.raises(LeaseLost) as refused:
        yard.complete(task_id, "b")
    assert refused.value.details["owner"]["session_id"] == "a"
    done = yard.complete(task_id, "a", result={"files": ["x"]})
    assert (done["status"], done["result"]) == ("completed", {"files": ["x"]})
    with pytest.raises(LeaseLost):
        yard.complete(task_id, "a")


def test_the_holder_cannot_complete_what_a_worker_does(yard: Yard) -> None:
    task_id = yard.one()
    row = yard.claim()
    assert row is not None and row["session_id"] is not None
    with pytest.raises(LeaseLost):
        yard.complete(task_id, row["session_id"])


def test_what_its_holder_says_has_failed_has_failed_and_its_dependents_with_it(yard: Yard) -> None:
    task_id = yard.offer()
    child = yard.offer(wait_for=[task_id])
    yard.get("a")
    failed = yard.complete(task_id, "a", success=False, result={"error_code": "no_such_api", "tried": 2})
    assert (failed["status"], failed["error_code"]) == ("failed", "no_such_api")
    assert failed["result"] == {"error_code": "no_such_api", "tried": 2}
    assert yard.status(child) == "failed"
    again = yard.offer()
    yard.get("a")
    assert yard.complete(again, "a", success=False, error_message="No.")["error_message"] == "No."


def test_a_lease_lasts_while_its_session_lives_however_long_the_machine_slept(yard: Yard) -> None:
    task_id = yard.offer()
    yard.get("a")
    lease_s = SETTINGS.sessions.lease_s
    for moment in (lease_s - 5, 30 * lease_s, 3 * lease_s):  # asleep for days, and a clock that is set back
        assert yard.keep(at(moment)) == []
        assert yard.detail(task_id)["status"] == "running"
    row = yard.db.read(lambda conn: attempts.held(conn, task_id, 1))
    assert row["lease_expires_at"] == iso(at(31 * lease_s))
    yard.do(lambda conn: session_registry.end(conn, "a", "silent", at(31 * lease_s)))
    assert yard.keep(at(31 * lease_s)) == [task_id]
    with pytest.raises(LeaseLost):
        yard.complete(task_id, "a")


def test_the_end_of_a_session_puts_its_work_on_offer_again_at_once(yard: Yard) -> None:
    task_id = yard.offer()
    yard.get("a")
    yard.do(lambda conn: session_registry.end(conn, "a", "process_gone", at(1)))
    assert yard.keep(at(1)) == [task_id]
    got = yard.get("b", at(1))
    assert got is not None and (got["attempts"], got["fencing_token"]) == (2, 2)
    assert "task.requeued" in yard.kinds(task_id)


@pytest.mark.req("SUP-AC4")
@pytest.mark.parametrize("is_silent", [True, False])
def test_a_person_keeps_what_they_hold_until_the_lease_is_over(yard: Yard, is_silent: bool) -> None:
    yard.arrive("p", agent_type="person")
    task_id = yard.offer()
    claimed = yard.get("p")
    assert claimed is not None
    if is_silent:
        yard.do(lambda conn: session_registry.end(conn, "p", "silent", at(1000)))
    assert yard.keep(at(1000)) == []
    last = SETTINGS.sessions.lease_s - 1
    assert yard.keep(at(last)) == []
    due = yard.do(lambda conn: leases.next_end(conn, at(last), at(last + 15)))
    assert due is not None and iso(due) == claimed["lease_expires_at"] == iso(at(SETTINGS.sessions.lease_s))
    assert yard.keep(at(SETTINGS.sessions.lease_s)) == [task_id]
    assert "expired" in yard.detail(task_id)["attempt_history"][0]["error_message"]
    with pytest.raises(LeaseLost):
        yard.complete(task_id, "p")


def test_a_look_at_leases_costs_the_same_however_many_there_are_and_between_two_nothing(yard: Yard) -> None:
    counted = Counted(yard.db)
    watch = LeaseWatch(cast(Store, counted), lambda: SETTINGS)
    counts: list[tuple[int, int]] = []
    for more in (10, 990):
        yard.submit(*({"title": None, "command": None, "description": "look"} for _ in range(more)))
        assert all(yard.get("a") for _ in range(more))
        look = partial(watch.look, at(60 * len(counts)))
        counts.append((counted.during(look), counted.during(look)))
    assert counts == [(2, 0), (2, 0)]
    assert watch.look_at is not None and watch.look_at > at(60)
    assert counted.during(lambda: watch.look(at(0))) == 2, "the clock was set back"


def test_a_persons_lease_that_was_claimed_between_two_looks_ends_in_time(yard: Yard) -> None:
    settings = Settings.model_validate({"sessions": {"lease_s": 2}})
    watch = LeaseWatch(yard.db, lambda: settings)
    yard.offer()
    yard.get("a")
    assert not watch.look(at(0))
    yard.arrive("p", agent_type="person")
    task_id = yard.offer()
    yard.do(lambda conn: leases.claim(conn, leases.claimant(conn, "p"), at(1), settings))
    assert not watch.look(at(1))
    while watch.look_at is not None and watch.look_at < at(3):
        assert not watch.look(watch.look_at)
    assert watch.look_at == at(3) and watch.look(at(3)), "as soon as it is over, and not with the next look of many"
    assert yard.detail(task_id)["status"] == "pending"


def test_work_that_all_its_holders_left_is_dead_and_its_dependents_fail(yard: Yard) -> None:
    task_id = yard.offer(max_retries=1)
    child = yard.offer(wait_for=[task_id])
    for who in ("a", "b"):
        assert yard.get(who) is not None
        yard.do(lambda conn, who=who: session_registry.end(conn, who, "closed", at(1)))  # type: ignore[misc]
        yard.keep(at(1))
    detail = yard.detail(task_id)
    assert (detail["status"], detail["error_code"]) == ("dead", "holder_gone")
    assert yard.status(child) == "failed"


@pytest.mark.req("CANCEL-1", "CANCEL-2")
def test_the_convention_ends_a_task_as_failed_with_code_and_reason(yard: Yard) -> None:
    package = yard.offer()
    dependents = [yard.offer(wait_for=[package]), yard.one(wait_for=[package])]
    yard.get("a")
    yard.complete(package, "a", success=False)
    for task_id in [*dependents, yard.offer(), yard.one()]:
        yard.call_off(task_id, "The package failed.")
        shown = yard.detail(task_id)
        assert shown["status"] == "failed"
        assert shown["result"] == {"error_code": "cancelled_by_orchestrator", "reason": "The package failed."}
        assert (yard.call_off(task_id)["result"] or {})["reason"] == "The package failed."
    yard.retry(package)
    assert [yard.status(task_id) for task_id in dependents] == ["failed", "failed"]


def test_the_convention_takes_work_from_its_holder_and_tells_him(yard: Yard) -> None:
    task_id = yard.offer("tidy up")
    yard.get("a")
    assert yard.call_off(task_id)["status"] == "failed"
    (transcript,) = yard.do(lambda conn: session_rows.take_notices(conn, "a", iso(START)))
    assert task_id in transcript and "It is not wanted." in transcript
    with pytest.raises(LeaseLost):
        yard.complete(task_id, "a")


def test_the_convention_does_not_touch_what_has_ended(yard: Yard) -> None:
    task_id = yard.offer()
    yard.get("a")
    yard.complete(task_id, "a", result={"x": 1})
    with pytest.raises(Conflict):
        yard.call_off(task_id)
    assert yard.detail(task_id)["result"] == {"x": 1}


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_running_workers_task_ends_as_the_convention_says_once_it_is_stopped(yard: Yard, interrupted: bool) -> None:
    yard.one()
    row = yard.claim()
    assert row is not None
    assert yard.call_off(row["task_id"])["status"] == "running"
    if interrupted:
        held = yard.db.read(lambda conn: attempts.held(conn, row["task_id"], 1))
        yard.do(lambda conn: attempts.interrupt(conn, held, "The daemon died.", START))
        ended = yard.do(lambda conn: attempts.resume(conn, row["task_id"], START, yard.rules))
    else:
        ended = yard.fail(row)
    assert ended is not None
    assert (ended["status"], ended["error_code"]) == ("failed", "cancelled_by_orchestrator")
    assert ended["result"] == {"error_code": "cancelled_by_orchestrator", "reason": "It is not wanted."}


@pytest.mark.req("GETTASK-1")
def test_what_is_read_is_exactly_what_the_document_names_and_reading_changes_nothing(yard: Yard) -> None:
    task_id = yard.offer(input_data={"x": [1]}, task_type="review", priority=7)
    yard.get("a")
    yard.complete(task_id, "a", result={"answer": {"deep": [1, None]}})
    read = yard.db.read(lambda conn: views.read(conn, task_id))
    assert read | {"completed_at": None} == {
        "task_id": task_id, "task_type": "review", "status": "completed", "input_data": {"x": [1]}, "priority": 7,
        "result": {"answer": {"deep": [1, None]}}, "error_message": None, "created_at": iso(START), "completed_at": None,
    }  # fmt: skip
    assert read["completed_at"] == iso(START)
    assert yard.db.read(lambda conn: views.read(conn, task_id)) == read


def test_a_batch_is_spoken_of_in_its_thread(yard: Yard) -> None:
    assert yard.detail(yard.offer(thread_id="batch-7"))["thread_id"] == "batch-7"
    assert yard.detail(yard.one())["thread_id"] is None
    assert Claimant("x").capabilities == frozenset()


def test_a_claim_whose_answer_was_lost_is_answered_again_and_a_new_one_is_another(yard: Yard) -> None:
    def ask(who: str, key: str) -> str | None:
        row = yard.do(lambda conn: leases.claim(conn, leases.claimant(conn, who), START, SETTINGS, key=key))
        return str(row["task_id"]) if row else None

    first, second, third = (yard.offer() for _ in range(3))
    assert [ask("a", "k"), ask("a", "k"), ask("b", "k"), ask("a", "l")] == [first, first, second, third]
    yard.complete(first, "a")
    assert ask("a", "k") is None, "what is over is not handed out again"
    yard.do(lambda conn: session_end.end(conn, "a", "closed", at(1), leases.offering(yard.rules)))
    yard.arrive("a", at(2))
    assert [ask("b", "m"), ask("a", "l")] == [third, None], "another's by now"


def test_what_a_session_holds_beside_what_it_is_given_is_said(yard: Yard) -> None:
    def also(besides: TaskRow | None) -> list[str]:
        return [row["task_id"] for row in yard.do(lambda conn: leases.also_held(conn, "a", besides))]

    first = yard.offer()
    assert also(yard.get("a")) == []
    yard.offer()
    assert also(yard.get("a")) == [first]
    yard.get("b")
    assert len(also(None)) == 2
    yard.complete(first, "a")
    assert first not in also(None)


@pytest.mark.parametrize("success", [True, False])
def test_a_completion_whose_answer_was_lost_is_answered_again(yard: Yard, success: bool) -> None:
    task_id = yard.offer()
    yard.get("a")
    done = yard.complete(task_id, "a", success, result={"x": 1})
    assert yard.complete(task_id, "a", success, result={"x": 1}) == done
    for who, is_success, result in (("a", not success, {"x": 1}), ("a", success, {"x": 2}), ("b", success, {"x": 1})):
        with pytest.raises(LeaseLost):
            yard.complete(task_id, who, is_success, result=result)
    assert [kind for kind in yard.kinds(task_id) if kind in ("task.completed", "task.failed")] == [
        f"task.{done['status']}"
    ]
