from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from corral.core.errors import Conflict, IdempotencyKeyConflict, InvalidInput, LeaseLost, NotFound
from corral.core.states import MergeState
from corral.work.merges.store import merges
from corral.work.tasks import attempts, tasks, views
from corral.work.tasks.wire import read_submissions
from tests.unit.work.conftest import START, Board, at


@pytest.mark.req("FR-QUEUE-001", "FR-QUEUE-002")
def test_a_list_shows_what_the_contract_says_in_its_order(board: Board) -> None:
    low, high = board.one(priority=1, title="low"), board.one(priority=9, title="high")
    rows = board.db.read(views.listing)
    assert [row["task_id"] for row in rows] == [high, low]
    assert rows[0] == {
        "number": 2,
        "task_id": high,
        "title": "high",
        "status": "pending",
        "priority": 9,
        "agent": None,
        "template": None,
        "created_at": "2026-03-01T12:00:00.000Z",
        "progress": None,
        "parent_task_id": None,
        "step": None,
        "outcome": "pending",
    }


@pytest.mark.req("FR-QUEUE-002")
def test_filters_of_the_list(board: Board) -> None:
    low, high = board.submit({"priority": 1}, {"priority": 9})
    board.cancel(low)

    def ids(**filters: Any) -> list[str]:
        return [row["task_id"] for row in board.db.read(lambda conn: views.listing(conn, **filters))]

    assert ids(statuses=["cancelled"]) == [low] and ids(min_priority=2) == [high]
    assert ids(statuses=["pending", "cancelled"]) == [high, low] and ids(limit=1) == [high]
    with pytest.raises(InvalidInput, match="nonsense"):
        ids(statuses=["nonsense"])
    review = board.one(task_type="review", thread_id="batch-7", template="fix", priority=1)
    for column, value in {"task_type": "review", "thread_id": "batch-7", "template": "fix"}.items():
        assert ids(only={column: value}) == [review], column
    assert ids(only={"task_type": "review", "thread_id": "batch-8"}) == []


@pytest.mark.req("FR-QUEUE-002")
def test_a_list_is_read_in_each_order_page_by_page(board: Board) -> None:
    first, second, third = board.submit({"priority": 1}, {"priority": 9}, {"priority": 1})
    orders = {"priority": [second, first, third], "oldest": [first, second, third], "newest": [third, second, first]}
    for sort, expected in orders.items():
        task_ids: list[str] = []
        after = None
        for _ in range(4):
            page = board.db.read(partial(views.listing, sort=sort, after=after, limit=1))
            task_ids += [row["task_id"] for row in page]
            after = views.cursor(page[-1]) if page else after
        assert task_ids == expected, sort
    with pytest.raises(InvalidInput, match="'title' is not an order"):
        board.db.read(lambda conn: views.listing(conn, sort="title"))


@pytest.mark.req("FR-QUEUE-007")
def test_a_task_is_found_by_its_number_and_a_batch_is_numbered_in_a_row(board: Board) -> None:
    ids = board.submit({}, {}, {})
    for number, task_id in enumerate(ids, 1):
        for named in (str(number), f"#{number}"):
            assert board.db.read(lambda conn, named=named: tasks.find(conn, named))["task_id"] == task_id  # type: ignore[misc]
    with pytest.raises(NotFound):
        board.db.read(lambda conn: tasks.find(conn, "#4"))


@pytest.mark.req("FR-QUEUE-007")
def test_a_task_of_a_batch_waits_for_another_by_its_title(board: Board) -> None:
    first, second = board.submit({"title": "the base"}, {"title": "on top", "wait_for": ["the base"]})
    assert board.detail(second)["wait_for"] == [first]
    with pytest.raises(InvalidInput, match="2 tasks of the batch are called 'twin'"):
        board.submit({"title": "twin"}, {"title": "twin"}, {"wait_for": ["twin"]})
    with pytest.raises(InvalidInput, match="There is no task 'the base'"):
        board.submit({"wait_for": ["the base"]})


@pytest.mark.req("FR-QUEUE-004", "GETTASK-1")
def test_the_detail_has_every_field_of_the_contract_and_reading_changes_nothing(board: Board) -> None:
    task_id = board.one(input_data={"x": [1]}, claims=["src/**"], limits={"max_turns": 3})
    before = board.detail(task_id)
    contract = {
        "task_id", "title", "status", "priority", "created_at", "error_code", "error_message", "attempts", "result",
        "worktree", "branch", "usage", "merge", "task_type", "input_data", "completed_at",
    }  # fmt: skip
    assert contract <= set(before)
    assert before["usage"] == {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "turns": 0}
    assert before["merge"] is None and before["input_data"] == {"x": [1]} and before["claims"] == ["src/**"]
    assert before["limits"] == {"max_turns": 3} and before["runner"] == "command"
    assert [event["kind"] for event in before["history"]] == ["task.submitted"]
    assert board.detail(task_id) == before


def test_the_detail_of_a_task_with_a_long_story_tells_its_end(board: Board) -> None:
    task_id = board.one()
    for number in range(250):
        board.do(partial(tasks.reprioritize, task_id=task_id, priority=number % 10, now=at(0)))
    row = board.claimed()
    board.end(row)
    kinds = board.kinds(task_id)
    assert kinds[-3:] == ["task.reprioritized", "task.claimed", "task.completed"]


def test_the_detail_shows_the_merge_request_and_its_receipt(board: Board) -> None:
    task_id = board.one()
    row = board.claimed()
    board.finish_with_work(row)
    merge = board.detail(task_id)["merge"]
    assert (merge["merge_id"], merge["state"], merge["landed_sha"], merge["receipt"]) == ("m1", "queued", None, None)


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({"title": ""}, "title"),
        ({"title": " \n\t "}, "title"),
        ({"title": "x" * 501}, "title"),
        ({"title": "half \ud800"}, "title"),
        ({"priority": 11}, "priority"),
        ({"priority": -1}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"priority": True}, "priority"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": float("inf")}, "timeout_s"),
        ({"command": "a\0b"}, "command"),
        ({"prompt": "too"}, ""),
        ({"command": None, "runner": "command"}, ""),
        ({"thread_id": "no spaces"}, "thread_id"),
        ({"agent_requirements": {"capabilities": "all"}}, "agent_requirements.capabilities"),
        ({"deadline_at": "tomorrow"}, "deadline_at"),
        ({"runner": "claude"}, ""),
        ({"runner": "perl"}, "runner"),
        ({"limits": {"max_turns": 0}}, "limits.max_turns"),
        ({"surprise": 1}, "surprise"),
        ({"wait_for": ["ffffffff-0000-4000-8000-000000000000"]}, "wait_for"),
        ({"claims": ["../out"]}, "claims"),
        ({"claims": ["invalid:prefix:key\n"]}, "claims"),
    ],
)
@pytest.mark.req("FR-QUEUE-001", "FR-QUEUE-006")
def test_what_is_wrong_is_named_by_its_field_and_nothing_is_queued(
    board: Board, item: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        board.submit({}, item)
    (error,) = refused.value.details["errors"]
    assert (error["index"], error["field"]) == (1, field)
    assert board.db.read(views.listing) == []


@pytest.mark.parametrize("title", ["--output=x", "$(rm -rf /)", "'; DROP TABLE tasks; --", "ünï → 日本"])
def test_a_hostile_title_is_only_text(board: Board, title: str) -> None:
    assert board.detail(board.one(title=title))["title"] == title


def test_a_title_is_one_line(board: Board) -> None:
    assert board.detail(board.one(title=" a\nb\r\n\tc\x07 "))["title"] == "a b c"


@pytest.mark.req("FR-QUEUE-007")
def test_a_batch_names_its_own_tasks_in_any_order(board: Board) -> None:
    last, first = board.submit({"name": "last", "wait_for": ["first"]}, {"name": "first"})
    assert board.detail(last)["wait_for"] == [first]
    assert (board.status(last), board.status(first)) == ("waiting", "pending")


@pytest.mark.req("FR-QUEUE-007")
def test_every_error_of_a_batch_is_reported_at_once() -> None:
    items: list[Any] = [{"title": "ok", "command": "true"}, {"title": "", "command": "true"}, "text", {"command": "c"}]
    with pytest.raises(InvalidInput) as refused:
        read_submissions(items)
    assert [error["index"] for error in refused.value.details["errors"]] == [1, 2, 3]
    assert refused.value.message.startswith("Not submitted: task 2 of 4: title:")


def test_two_tasks_of_one_name_are_refused(board: Board) -> None:
    with pytest.raises(InvalidInput, match="given twice"):
        board.submit({"name": "a"}, {"name": "a"})


def test_a_repeated_submission_has_one_effect_and_the_same_answer(board: Board) -> None:
    first = board.one(idempotency_key="k", priority=7, claims=["src/**"])
    board.do(lambda conn: tasks.reprioritize(conn, first, 1, START))
    assert board.submit({"idempotency_key": "k", "priority": 7, "submitted_by": "another session"}, {})[0] == first
    assert len(board.db.read(views.listing)) == 2 and board.detail(first)["priority"] == 1


def test_a_key_that_another_task_has_is_refused_and_nothing_is_queued(board: Board) -> None:
    first = board.one(idempotency_key="k", title="first")
    for other in ({"title": "other"}, {"title": "first", "command": "false"}, {"title": "first", "input_data": {}}):
        with pytest.raises(IdempotencyKeyConflict) as refused:
            board.submit({}, {"idempotency_key": "k", **other})
        assert refused.value.details["task_id"] == first
    assert len(board.db.read(views.listing)) == 1


def test_a_full_queue_refuses_and_a_repeated_submission_still_gets_its_answer(board: Board) -> None:
    board.max_size = 2
    first, second = board.submit({"idempotency_key": "k"}, {})
    with pytest.raises(Conflict, match="full"):
        board.one()
    assert board.one(idempotency_key="k") == first
    board.cancel(first)
    board.one()
    with pytest.raises(Conflict, match="full"):
        board.one()
    row = board.claim()
    assert row is not None and row["task_id"] == second, "what runs is no longer queued"
    board.one()


def test_ids_may_be_shortened_as_long_as_they_are_unique(board: Board) -> None:
    from corral.work.tasks.store import tasks as task_rows

    task_id = board.one()

    def find(text: str) -> str:
        return str(board.db.read(lambda conn: tasks.find(conn, text))["task_id"])

    assert find(task_id[:4]) == find(task_id.upper()[:9]) == find(task_id) == task_id
    for wrong in (task_id[:3], "%%%%", "zzzz", "", f"{task_id}0"):
        with pytest.raises(NotFound):
            find(wrong)
    twin = task_id[:8] + "-0000-4000-8000-000000000000"
    original = board.do(lambda conn: task_rows.get(conn, task_id))
    assert original is not None
    copy = {key: value for key, value in original.items() if key != "seq"}
    board.do(lambda conn: task_rows.create(conn, {**copy, "task_id": twin}, []))
    with pytest.raises(InvalidInput, match="several"):
        find(task_id[:8])
    assert find(twin) == twin


@pytest.mark.req("FR-QUEUE-003")
def test_cancelling_what_does_not_run_ends_it_at_once(board: Board) -> None:
    pending = board.one()
    waiting = board.one(wait_for=[pending])
    assert board.cancel(waiting)["status"] == "cancelled" == board.cancel(pending)["status"]
    with pytest.raises(Conflict, match="cancelled already"):
        board.cancel(pending)


@pytest.mark.req("FR-QUEUE-003")
def test_cancelling_what_runs_asks_once_and_counts_whatever_the_worker_says(board: Board) -> None:
    task_id = board.one()
    row = board.claimed()
    assert board.cancel(task_id)["status"] == "running"
    assert board.cancel(task_id)["cancel_reason"] == "Cancelled."
    assert board.kinds(task_id).count("task.cancel_requested") == 1
    ended = board.finish_with_work(row)
    assert ended["status"] == "cancelled" and board.detail(task_id)["merge"] is None


def test_an_old_token_changes_nothing_and_is_told_who_owns_the_task(board: Board) -> None:
    task_id = board.one()
    old = board.claimed()
    board.do(lambda conn: attempts.interrupt(conn, old, "the daemon died", at(1)))
    board.do(lambda conn: attempts.resume(conn, task_id, at(1), board.rules))
    new = board.claim(at(2))
    assert new is not None and new["fencing_token"] == 2
    for late in (board.end, board.fail, board.finish_with_work):
        with pytest.raises(LeaseLost) as lost:
            late(old)
        assert lost.value.details["owner"]["session_id"] == new["session_id"]
    with pytest.raises(LeaseLost):
        board.do(lambda conn: attempts.started(conn, task_id, 1, at(2), pid=1, pid_started=1.0))
    assert board.status(task_id) == "running"
    assert board.end(new)["status"] == "completed"


@pytest.mark.req("FR-QUEUE-005")
def test_an_interruption_is_no_attempt_and_no_pause(board: Board) -> None:
    board.rules = board.rules.model_copy(update={"max_retries": 0})
    task_id = board.one()
    for n in range(3):
        row = board.claim(at(n))
        assert row is not None and row["attempts"] == 1
        stopped = board.end(row, at(n), success=False, error_code="interrupted", error_message="stopped")
        assert (stopped["status"], stopped["attempts"]) == ("interrupted", 0)
        board.do(lambda conn: attempts.resume(conn, task_id, at(0), board.rules))
        assert board.detail(task_id)["not_before_at"] is None


@pytest.mark.req("FR-QUEUE-010")
def test_a_retry_gives_all_attempts_back_and_forgets_the_error(board: Board) -> None:
    board.rules = board.rules.model_copy(update={"max_retries": 0})
    task_id = board.one()
    row = board.claimed()
    assert board.fail(row)["status"] == "dead"
    again = board.retry(task_id)
    assert (again["status"], again["attempts"], again["error_code"], again["completed_at"]) == (
        "pending",
        0,
        None,
        None,
    )
    second = board.claim()
    assert second is not None and second["fencing_token"] == 2
    with pytest.raises(Conflict, match="nothing to retry"):
        board.retry(task_id)


def test_only_a_merge_that_came_back_lets_a_completed_task_run_again(board: Board) -> None:
    task_id = board.one()
    row = board.claimed()
    board.finish_with_work(row)
    with pytest.raises(Conflict):
        board.retry(task_id)
    board.do(lambda conn: merges.finish(conn, "m1", MergeState.CONFLICT, now=at(1), reason="x"))
    assert board.retry(task_id)["status"] == "pending"


@pytest.mark.req("FR-QUEUE-006")
@pytest.mark.parametrize("priority", [-1, 11, True])
def test_a_priority_out_of_range_is_refused(board: Board, priority: int) -> None:
    task_id = board.one()
    with pytest.raises(InvalidInput):
        board.do(lambda conn: tasks.reprioritize(conn, task_id, priority, at(0)))
    with pytest.raises(InvalidInput):
        board.one(priority=priority)


def test_what_runs_keeps_its_priority(board: Board) -> None:
    task_id = board.one()
    board.claim()
    with pytest.raises(Conflict, match="running") as refused:
        board.do(lambda conn: tasks.reprioritize(conn, task_id, 3, at(0)))
    assert "not started" in refused.value.cause, "nobody was faster"


def test_usage_of_all_attempts_adds_up(board: Board) -> None:
    task_id = board.one()
    row = board.claimed()
    board.end(row, usage={"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.5, "turns": 1})
    assert board.detail(task_id)["usage"] == {"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.5, "turns": 1}
