"""Which parts of a task's life end with which event."""

from __future__ import annotations

from itertools import count
from typing import Any

from corral.core.events import EventKind as Kind
from corral.observe.traces.spans import MOST_MARKS, Lifetime, Part
from corral.store.rows.records import EventRow

WHY = {"error_code": "exit", "error_message": "Exit code 3."}


class Story:
    """Events of one task, a second after the other."""

    def __init__(self) -> None:
        self.life, self.ids = Lifetime(), count(1)

    def __call__(self, kind: str, merge_id: str | None = None, **data: Any) -> list[tuple[str, int | None, int | None]]:
        """Feed an event; the parts that end with it: kind, second of its begin, number."""
        return [(part.kind, _second(part.began_at), part.number) for part in self.parts(kind, merge_id, **data)]

    def parts(self, kind: str, merge_id: str | None = None, **data: Any) -> list[Part]:
        number = next(self.ids)
        at = f"2026-11-24T22:{number // 60:02}:{number % 60:02}.000Z"
        event = {"event_id": number, "at": at, "kind": str(kind), "task_id": "t", "session_id": None}
        row: EventRow = {**event, "merge_id": merge_id, "data": data}  # type: ignore[typeddict-item]
        return self.life.feed(row)


def _second(at: str | None) -> int | None:
    return None if at is None else int(at[14:16]) * 60 + int(at[17:19])


def test_a_task_that_is_retried_lands_after_its_merge_was_held() -> None:
    story = Story()
    assert story(Kind.TASK_SUBMITTED) == []  # 1
    assert story(Kind.TASK_UNBLOCKED) == []
    assert story(Kind.TASK_CLAIMED, attempt=1, token=1) == [("wait", 1, 1)]  # 3
    assert story(Kind.TASK_STARTED, pid=5) == []
    assert story(Kind.TASK_RETRIED, attempt=1, delay_s=1, **WHY) == [("attempt", 3, 1)]  # 5
    assert story(Kind.TASK_CLAIMED, attempt=2, token=2) == [("wait", 5, 2)]  # 6
    assert story(Kind.TASK_COMPLETED, attempt=2, head_sha="ab") == [("attempt", 6, 2)], "its commits are to land"
    assert story(Kind.MERGE_QUEUED, "m") == []  # 8
    assert story(Kind.MERGE_HELD, "m", reason="dirty") == []
    assert story(Kind.MERGE_RETRIED, "m") == [], "the same way goes on"
    landing, whole = story.parts(Kind.MERGE_LANDED, "m", reason=None, landed_sha="cd")
    assert (landing.kind, _second(landing.began_at)) == ("landing", 8)
    assert [event["kind"] for event in landing.marks] == ["merge.held", "merge.retried"]
    assert (whole.kind, _second(whole.began_at), whole.life) == ("task", 1, None)


def test_what_happens_within_a_part_is_told_in_it_and_bounded() -> None:
    story = Story()
    story(Kind.TASK_SUBMITTED)
    change: dict[str, Any] = {"from": 1, "to": 2}
    for _ in range(MOST_MARKS + 5):
        story(Kind.TASK_REPRIORITIZED, **change)
    (wait,) = story.parts(Kind.TASK_CLAIMED, attempt=1, token=1)
    assert len(wait.marks) == MOST_MARKS
    story(Kind.TASK_STARTED, pid=5)
    attempt, _whole = story.parts(Kind.TASK_COMPLETED, attempt=1, head_sha=None)
    assert [event["kind"] for event in attempt.marks] == ["task.started"]


def test_a_task_with_nothing_to_merge_ends_with_its_attempt_and_one_that_nobody_claimed_with_its_wait() -> None:
    story = Story()
    story(Kind.TASK_SUBMITTED)
    story(Kind.TASK_CLAIMED, attempt=1, token=1)
    assert story(Kind.TASK_COMPLETED, attempt=1, head_sha=None) == [("attempt", 2, 1), ("task", 1, None)]
    story = Story()
    story(Kind.TASK_SUBMITTED)
    assert story(Kind.TASK_CANCELLED, reason="no", error_code=None) == [("wait", 1, None), ("task", 1, None)]
    assert story(Kind.TASK_DISMISSED) == []


def test_a_merge_of_its_own_that_landed_before_it_was_done_does_not_end_a_task() -> None:
    story = Story()
    story(Kind.TASK_SUBMITTED)
    story(Kind.TASK_CLAIMED, attempt=1, token=1)
    story(Kind.MERGE_QUEUED, "m")
    assert story(Kind.MERGE_LANDED, "m", reason=None, landed_sha="cd") == [("landing", 3, None)]
    assert story(Kind.TASK_COMPLETED, attempt=1, head_sha=None) == [("attempt", 2, 1), ("task", 1, None)]


def test_a_newer_request_of_the_branch_replaces_one_and_ends_nothing() -> None:
    story = Story()
    story(Kind.TASK_SUBMITTED)
    story(Kind.TASK_CLAIMED, attempt=1, token=1)
    story(Kind.TASK_COMPLETED, attempt=1, head_sha="ab")
    story(Kind.MERGE_QUEUED, "m")
    assert story(Kind.MERGE_SUPERSEDED, "m", reason=None, landed_sha=None) == [("landing", 4, None)]
    story(Kind.MERGE_QUEUED, "n")
    assert story(Kind.MERGE_LANDED, "n", reason=None, landed_sha="cd") == [("landing", 6, None), ("task", 1, None)]


def test_a_task_that_goes_on_after_its_end_lives_again() -> None:
    story = Story()
    story(Kind.TASK_SUBMITTED)
    story(Kind.TASK_CLAIMED, attempt=1, token=1)
    story(Kind.TASK_COMPLETED, attempt=1, head_sha="ab")
    story(Kind.MERGE_QUEUED, "m")
    assert story(Kind.MERGE_CONFLICT, "m", reason="a.txt", landed_sha=None) == [("landing", 4, None), ("task", 1, None)]
    story(Kind.TASK_RETRY_REQUESTED, was="completed")  # 6
    (wait,) = story.parts(Kind.TASK_CLAIMED, attempt=1, token=2)
    assert (wait.life, _second(wait.began_at)) == (6, 6)
    attempt, whole = story.parts(Kind.TASK_COMPLETED, attempt=1, head_sha=None)
    assert (attempt.life, whole.life, _second(whole.began_at)) == (6, 6, 6)
    assert story(Kind.MERGE_CANCELLED, "m", reason="given up", landed_sha=None) == [], "it had ended before"
    story(Kind.MERGE_RETRIED, "m")  # 10
    assert story(Kind.MERGE_LANDED, "m", reason=None, landed_sha="cd") == [("landing", 10, None), ("task", 10, None)]


def test_an_interrupted_task_waits_again_and_dies_without_another_attempt() -> None:
    story = Story()
    story(Kind.TASK_SUBMITTED)
    story(Kind.TASK_CLAIMED, attempt=1, token=1)
    assert story(Kind.TASK_INTERRUPTED, **WHY) == [("attempt", 2, 1)]
    assert story(Kind.TASK_RESUMED) == []
    assert story(Kind.TASK_CLAIMED, attempt=1, token=2) == [("wait", 3, 2)]
    assert story(Kind.TASK_INTERRUPTED, **WHY) == [("attempt", 5, 2)]
    assert story(Kind.TASK_DEAD, **WHY) == [("wait", 6, None), ("task", 1, None)]


def test_a_history_without_its_beginning_still_gives_every_end() -> None:
    story = Story()
    assert story(Kind.TASK_RETRIED, attempt=4, delay_s=1, **WHY) == [], "when that began is not known any more"
    assert story(Kind.TASK_CLAIMED, attempt=5, token=5) == [("wait", 1, 5)]
    assert story(Kind.TASK_DEAD, **WHY) == [("attempt", 2, 5), ("task", None, None)]
