"""One queue and one model of it, and whatever may happen to both: the rules, and what must be the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from sqlalchemy import create_engine

from corral.config.model import Settings
from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.sessions import registry
from corral.coordination.sessions.registry import Arrival
from corral.core.errors import Conflict, InvalidInput
from corral.core.outcomes import of_task
from corral.core.states import MergeState, ReceiptStatus, TaskStatus
from corral.store.rows.tasks import TaskRow
from corral.work.merges.store import merges, receipts
from corral.work.tasks import attempts, leases, tasks
from corral.work.tasks.leases import Claimant
from corral.work.tasks.store import tasks as rows
from tests.unit.work.conftest import Board, at
from tests.unit.work.tasks.queue_model import OPEN_MERGE, TERMINAL, ModelTask, QueueModel, Rules

SESSIONS = {"anna": frozenset[str](), "ben": frozenset({"python"}), "cleo": frozenset({"python", "docs"})}
PLACES = ("src/a.py", "src/b.py", "src/c.py", "docs/x.md", "api:GET /users")
CODES = ("command_failed", "api_error", "budget_exceeded")
FINAL = ("budget_exceeded",)

ITEM = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 10),
        "parents": st.lists(st.integers(0, 40), max_size=3),
        "forward": st.booleans(),
        "ignores": st.booleans(),
        "claims": st.sets(st.sampled_from(PLACES), max_size=4),
        "needs": st.sets(st.sampled_from(["Python", "docs"]), max_size=1),
        "offered": st.sampled_from([False, False, True]),
        "retries": st.sampled_from([None, 0, 1]),
    }
)


class Memory:
    """A copy of a database in memory, for one caller: a transaction for each write, as the real one has it."""

    def __init__(self, empty: Path) -> None:
        self._engine = create_engine("sqlite://")
        self._conn = self._engine.connect()
        with closing(sqlite3.connect(empty)) as source:
            source.backup(cast("sqlite3.Connection", self._conn.connection.dbapi_connection))
        self._conn.rollback()

    def write(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._conn.begin():
            return operation(self._conn, *args, **kwargs)

    read = write

    def close(self) -> None:
        self._conn.close()
        self._engine.dispose()


class Queue(RuleBasedStateMachine):
    """One database, one model, and whatever may happen to both."""

    empty: Path

    @initialize(
        ageing_s=st.sampled_from([0, 30]),
        unblock_on=st.sampled_from(["landed", "landed", "completed"]),
        max_retries=st.sampled_from([None, None, 0, 1, 2]),
        items=st.lists(ITEM, min_size=4, max_size=8),
    )
    def begin(self, ageing_s: int, unblock_on: str, max_retries: int | None, items: list[dict[str, Any]]) -> None:
        self.board = Board(cast("Any", Memory(self.empty)))
        known: dict[str, Any] = {
            "ageing_s": ageing_s,
            "unblock_on": unblock_on,
            "max_retries": max_retries,
            "max_crashes": 2,
        }
        self.board.rules = TaskRules(**known, retry_initial_s=10, retry_max_s=40)
        self.settings = Settings(tasks=self.board.rules)
        self.model = QueueModel(Rules(max_retries, 2, 10, 40, ageing_s, unblock_on))
        self.now_s = 0.0
        self.merges = 0
        self.is_same = True
        for who in SESSIONS:
            self.board.do(partial(registry.register, arrival=Arrival(session_id=who), now=at(0)))
        self.submit(items)

    def teardown(self) -> None:
        if hasattr(self, "board"):
            try:
                if self.is_same:
                    self.drain()
            finally:
                self.board.db.close()

    # -- what happens to both

    @rule(items=st.lists(ITEM, min_size=1, max_size=5))
    def submit(self, items: list[dict[str, Any]]) -> None:
        """A batch, whose tasks wait for each other and for what was there before."""
        known = list(self.model.tasks)
        places = [*known, *(f"new{n}" for n in range(len(items)))]
        seen = [places if item["forward"] else places[: len(known) + n] for n, item in enumerate(items)]
        wanted = [
            [before[n % len(before)] for n in item["parents"] if before]
            for before, item in zip(seen, items, strict=True)
        ]
        submissions = []
        for number, item in enumerate(items):
            work = {"command": None, "description": "look"} if item["offered"] else {"command": "true"}
            submissions.append(
                {
                    **work,
                    "name": f"new{number}",
                    "title": f"a task {number}",
                    "priority": item["priority"],
                    "wait_for": wanted[number],
                    "ignore_dependency_failure": item["ignores"],
                    "claims": sorted(item["claims"]),
                    "agent_requirements": {"capabilities": sorted(item["needs"])} if item["offered"] else None,
                    "max_retries": item["retries"],
                }
            )
        if _has_cycle({f"new{n}": parents for n, parents in enumerate(wanted)}):
            with pytest.raises(InvalidInput, match="circular"):
                self.board.submit(*submissions, now=at(self.now_s))
            return
        ids = self.board.submit(*submissions, now=at(self.now_s))
        named = {f"new{n}": task_id for n, task_id in enumerate(ids)}
        first = len(known)
        self.model.add(
            ModelTask(
                task_id,
                first + n,
                self.now_s,
                item["priority"],
                list(dict.fromkeys(named.get(name, name) for name in wanted[n])),
                item["ignores"],
                frozenset(item["claims"]),
                frozenset(need.lower() for need in item["needs"]) if item["offered"] else frozenset(),
                item["offered"],
                item["retries"],
            )
            for n, (task_id, item) in enumerate(zip(ids, items, strict=True))
        )

    @rule(starts=st.booleans())
    def a_runner_claims(self, starts: bool) -> None:
        expected = self.model.next_for_a_runner(self.now_s)
        row = self.board.claim(at(self.now_s), self.board.rules.ageing_s)
        assert (row and row["task_id"]) == expected
        if row is not None:
            self._claimed(row["task_id"], "runner")
            if starts:
                self._start(row["task_id"])

    @rule(who=st.sampled_from(sorted(SESSIONS)))
    def a_session_claims(self, who: str) -> None:
        expected = self.model.next_for_a_session(SESSIONS[who], self.now_s)
        row = self.board.do(
            lambda conn: leases.claim(conn, Claimant(who, lambda: SESSIONS[who]), at(self.now_s), self.settings)
        )
        assert (row and row["task_id"]) == expected
        if row is not None:
            self._claimed(row["task_id"], who)

    @precondition(lambda self: self.running())
    @rule(which=st.integers(0, 40), has_work=st.booleans())
    def one_succeeds(self, which: int, has_work: bool) -> None:
        task = self.running()[which % len(self.running())]
        merge_id = None
        if has_work and not task.is_offered:
            self.merges += 1
            merge_id = f"m{self.merges}"
            self.board.finish_with_work(self._row(task), merge_id, at(self.now_s))
        else:
            self.board.end(self._row(task), at(self.now_s))
        self.model.succeed(task.task_id, merge_id)

    @precondition(lambda self: self.running())
    @rule(which=st.integers(0, 40), code=st.sampled_from(CODES))
    def one_fails(self, which: int, code: str) -> None:
        task = self.running()[which % len(self.running())]
        can_retry = code not in FINAL and not task.is_offered
        self.board.end(
            self._row(task),
            at(self.now_s),
            success=False,
            error_code=code,
            error_message="It broke.",
            retryable=can_retry,
        )
        self.model.fail(task.task_id, code, self.now_s, can_retry=can_retry)

    @precondition(lambda self: self.workers())
    @rule(which=st.integers(0, 40), code=st.sampled_from(["disk_full", "worker_lost", "interrupted", "limit_reached"]))
    def the_machine_ends_one(self, which: int, code: str) -> None:
        task = self.workers()[which % len(self.workers())]
        is_fault = code in ("disk_full", "worker_lost")
        ended = self.board.end(
            self._row(task), at(self.now_s), success=False, error_code=code, error_message="Oh.", is_fault=is_fault
        )
        if is_fault:
            self.model.fault(task.task_id, code, self.now_s)
        else:
            if ended["status"] == TaskStatus.INTERRUPTED:
                self.board.do(lambda conn: attempts.resume(conn, task.task_id, at(self.now_s), self.board.rules))
            self.model.interrupt(task.task_id, code)

    @precondition(lambda self: self.workers())
    @rule()
    def the_daemon_dies_and_the_next_one_starts(self) -> None:
        def restart(conn: Any) -> None:
            for row in rows.in_status(conn, TaskStatus.RUNNING):
                attempts.crash(conn, row, at(self.now_s), self.board.rules)
            for row in rows.in_status(conn, TaskStatus.INTERRUPTED):
                attempts.resume(conn, row["task_id"], at(self.now_s), self.board.rules)

        self.board.do(restart)
        self.model.daemon_died(self.now_s)

    @precondition(lambda self: any(task.is_offered for task in self.running()))
    @rule(who=st.sampled_from(sorted(SESSIONS)))
    def a_session_ends(self, who: str) -> None:
        self.board.do(lambda conn: leases.give_back(conn, who, "ended", at(self.now_s), self.board.rules))
        self.model.session_left(who)

    @precondition(lambda self: self.model.tasks)
    @rule(which=st.integers(0, 40), how=st.sampled_from(["plain", "convention"]))
    def somebody_cancels(self, which: int, how: str) -> None:
        task_id = self._any(which)
        self._both(
            lambda conn: tasks.cancel(conn, task_id, at(self.now_s), self.board.rules, convention=how == "convention"),
            self.model.cancel(task_id, how),
        )

    @precondition(lambda self: self.model.tasks)
    @rule(which=st.integers(0, 40))
    def somebody_retries(self, which: int) -> None:
        ended = [t.task_id for t in self.model.tasks.values() if t.state in TERMINAL]
        task_id = ended[which % len(ended)] if ended else self._any(which)
        accepted = self.model.retry(task_id)
        self._both(lambda conn: tasks.retry(conn, task_id, at(self.now_s), self.board.rules), accepted)

    @precondition(lambda self: self.model.tasks)
    @rule(which=st.integers(0, 40), priority=st.integers(0, 10))
    def somebody_reprioritises(self, which: int, priority: int) -> None:
        task_id = self._any(which)
        accepted = self.model.tasks[task_id].state in ("waiting", "pending")
        if accepted:
            self.model.tasks[task_id].priority = priority
        self._both(lambda conn: tasks.reprioritize(conn, task_id, priority, at(self.now_s)), accepted)

    @precondition(lambda self: self.open_merges())
    @rule(which=st.integers(0, 40), state=st.sampled_from(["landed", "landed", "conflict", "cancelled"]))
    def a_merge_request_ends(self, which: int, state: str) -> None:
        self._end_merge(self.open_merges()[which % len(self.open_merges())], state)

    @rule(seconds=st.sampled_from([1, 10, 35, 100]))
    def time_passes(self, seconds: int) -> None:
        self.now_s += seconds

    # -- what is the same in both, always

    @invariant()
    def every_task_is_what_the_model_says(self) -> None:
        if not hasattr(self, "board"):
            return
        self.is_same = False
        for task in self.model.tasks.values():
            row = self.board.db.read(partial(rows.get, task_id=task.task_id))
            assert row is not None and row["status"] == task.state, (row, task)
            if task.state != "running":
                assert row["error_code"] == task.error_code, (row, task)
            if task.culprit is not None:
                first = self.model.tasks[task.culprit]
                while first.culprit is not None:
                    first = self.model.tasks[first.culprit]
                merge = self.model.merge_of(first)
                how = (
                    f" ended as {of_task(first.state, merge, dismissed=False)}."
                    if first.state == "completed"
                    else f" is {first.state}."
                )
                why = row["error_message"] or ""
                assert f"It waits for {task.culprit} (" in why, (row, task)
                assert first.task_id in why and why.endswith(how), (row, first)
            assert (row["completed_at"] is not None) == (task.state in TERMINAL), row
        self.is_same = True

    def drain(self) -> None:
        """Nothing is stuck: with enough time, and nobody who interferes, every task comes to an end."""
        for _ in range(20 * len(self.model.tasks) + 20):
            self.now_s += 50
            for merge_id in self.open_merges():
                self._end_merge(merge_id, "landed")
            self.a_runner_claims(starts=True)
            self.a_session_claims("cleo")
            for task in self.running():
                self.board.end(self._row(task), at(self.now_s))
                self.model.succeed(task.task_id, None)
            self.every_task_is_what_the_model_says()
            if all(task.state in TERMINAL for task in self.model.tasks.values()) and not self.open_merges():
                return
        raise AssertionError([task for task in self.model.tasks.values() if task.state not in TERMINAL])

    # -- the pieces

    def _claimed(self, task_id: str, holder: str) -> None:
        task = self.model.tasks[task_id]
        for parent in task.parents:
            worth = self.model.worth(self.model.tasks[parent])
            assert worth != "open" or not self._waits_still(task), "claimed before what it waits for has landed"
        self.model.claim(task_id, holder)

    def _waits_still(self, task: ModelTask) -> bool:
        return task.state == "waiting"

    def _start(self, task_id: str) -> None:
        token = self.model.tasks[task_id].token
        self.board.do(
            lambda conn: attempts.started(conn, task_id, token, at(self.now_s), pid=4_000_000, pid_started=1.0)
        )
        self.model.tasks[task_id].has_started = True
        self.model.tasks[task_id].faults = 0

    def _end_merge(self, merge_id: str, state: str) -> None:
        def end(conn: Any) -> None:
            values: dict[str, Any] = {"reason": "because"}
            if state == MergeState.LANDED:
                receipt = receipts.add(
                    conn, tree="t" * 40, fingerprint=merge_id, status=ReceiptStatus.UNVERIFIED, now=at(self.now_s)
                )
                values = {"landed_sha": "c" * 40, "receipt_id": receipt["receipt_id"]}
            row = merges.finish(conn, merge_id, MergeState(state), now=at(self.now_s), **values)
            assert row is not None
            unblock_on = self.board.rules.unblock_on
            tasks.merge_settled(conn, row["task_id"], at(self.now_s), unblock_on=unblock_on)

        self.board.do(end)
        self.model.merge_ended(merge_id, state)

    def _both(self, operation: Callable[[Any], Any], accepted: bool) -> None:
        if accepted:
            self.board.do(operation)
        else:
            with pytest.raises(Conflict):
                self.board.do(operation)

    def _any(self, which: int) -> str:
        return list(self.model.tasks)[which % len(self.model.tasks)]

    def running(self) -> list[ModelTask]:
        return [task for task in self.model.tasks.values() if task.state == "running"]

    def workers(self) -> list[ModelTask]:
        return [task for task in self.running() if not task.is_offered]

    def open_merges(self) -> list[str]:
        return [merge_id for t in self.model.tasks.values() for merge_id, state in t.merges if state == OPEN_MERGE]

    def _row(self, task: ModelTask) -> TaskRow:
        return cast(TaskRow, {"task_id": task.task_id, "fencing_token": task.token})


def _has_cycle(edges: dict[str, list[str]]) -> bool:
    left = {name: {parent for parent in parents if parent in edges} for name, parents in edges.items()}
    while free := [name for name, parents in left.items() if not parents]:
        for name in free:
            del left[name]
        left = {name: parents - set(free) for name, parents in left.items()}
    return bool(left)
