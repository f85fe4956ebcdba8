"""Lines of lifecycle and leases are a pure function of a task's events."""

from __future__ import annotations

from typing import Any, cast

import pytest

from corral.core.events import EventKind
from corral.store.rows.records import EventRow
from corral.store.rows.tasks import ExportedTask
from corral.work.evidence import lines

TASK: ExportedTask = {
    "task_id": "q1",
    "idempotency_key": None,
    "title": "t",
    "status": "running",
    "priority": 7,
    "metadata": None,
}


def event(event_id: int, kind: str, **data: Any) -> EventRow:
    about = {"task_id": "q1", "session_id": "s1", "merge_id": None}
    row = {"event_id": event_id, "at": f"2026-03-01T12:00:{event_id:02d}.000Z", "kind": kind, "data": data, **about}
    return cast(EventRow, row)


def claimed(event_id: int, token: int = 1, name: str = "GreenLake") -> EventRow:
    expires_at = "2026-03-01T16:00:00.000Z"
    return event(event_id, EventKind.TASK_CLAIMED, attempt=token, token=token, agent_name=name, expires_at=expires_at)


GOOD = [
    claimed(1),
    event(3, EventKind.TASK_ASSIGNED, agent=None, runner="command", model=None),
    event(5, EventKind.TASK_STARTED, pid=1),
    event(9, EventKind.TASK_COMPLETED, attempt=1, head_sha=None),
]


def of(*events: EventRow, **task: Any) -> list[lines.Exported]:
    return lines.of_task({**TASK, **task}, events)  # type: ignore[typeddict-item]


@pytest.mark.req("SUP-FR3", "SUP-AC3")
def test_the_events_of_a_good_attempt_are_the_four_lines() -> None:
    lines = of(*GOOD)
    assert [line.lifecycle["event"] for line in lines] == ["selected", "assigned", "started", "completed"]
    assert lines[0].lifecycle == {
        "event": "selected",
        "task_id": "q1",
        "queue_task_id": "q1",
        "agent_id": "GreenLake",
        "attempt": 1,
        "priority": 7,
        "metadata": {},
        "timestamp": "2026-03-01T12:00:01.000Z",
        "event_id": 1,
    }
    assert {line.lifecycle["agent_id"] for line in lines} == {"GreenLake"}


@pytest.mark.req("SUP-AC4", "SUP-FR2")
def test_a_lease_is_active_from_the_claim_to_the_end() -> None:
    leases = [line.lease for line in of(*GOOD) if line.lease]
    assert [lease["status"] for lease in leases] == ["active", "released"]
    assert leases[1] == {
        **leases[0],
        "status": "released",
        "timestamp": "2026-03-01T12:00:09.000Z",
        "event_id": 9,
    }
    assert leases[0]["acquired_at"] == "2026-03-01T12:00:01.000Z" < leases[0]["expires_at"]


@pytest.mark.req("SUP-AC4")
@pytest.mark.parametrize("code", ["daemon_died", "worker_lost", "killed", "crashed", "agent_killed"])
def test_a_lease_that_nobody_gave_back_has_expired_once(code: str) -> None:
    lost = event(2, EventKind.TASK_INTERRUPTED, error_code=code)
    dead = event(4, EventKind.TASK_DEAD, error_code=code)
    assert [line.lease and line.lease["status"] for line in of(claimed(1), lost, dead)] == ["active", "expired", None]


@pytest.mark.parametrize(
    ("kind", "data", "name", "reason"),
    [
        (EventKind.TASK_RETRIED, {"error_code": "x", "error_message": "why"}, "failed", "x: why"),
        (EventKind.TASK_RETRIED, {"error_code": "x", "is_counted": False}, "blocked", "x"),
        (EventKind.TASK_DEAD, {"error_code": "x", "is_counted": False}, "failed", "x"),
        (EventKind.TASK_FAILED, {"error_code": "dependency_failed"}, "blocked", "dependency_failed"),
        (EventKind.TASK_INTERRUPTED, {"error_code": "interrupted"}, "blocked", "interrupted"),
        (EventKind.TASK_CANCELLED, {"error_code": None, "reason": "no need"}, "failed", "cancelled: no need"),
        (
            EventKind.TASK_FAILED,
            {"error_code": "x", "error_message": "sk-ant-abcdefghij1234"},
            "failed",
            "x: [redacted]",
        ),
    ],
)
def test_a_setback_says_whose_fault_it_is_and_why(kind: str, data: dict[str, Any], name: str, reason: str) -> None:
    [line] = [line.lifecycle for line in of(event(1, kind, **data))]
    assert (line["event"], line["reason"]) == (name, reason)
    assert (line["agent_id"], line["attempt"]) == (lines.SUPERVISOR, 0)


def test_the_roadmaps_id_is_the_tasks_and_secrets_stay_out() -> None:
    metadata = {"roadmap_id": "W0.M1", "token": "abcdefgh", "notes": ["Bearer abcdef123456"]}
    [line] = [line.lifecycle for line in of(claimed(1), metadata=metadata)]
    assert (line["task_id"], line["queue_task_id"]) == ("W0.M1", "q1")
    assert line["metadata"] == {"roadmap_id": "W0.M1", "token": "[redacted]", "notes": ["Bearer [redacted]"]}
    assert of(claimed(1), metadata={"roadmap_id": 7})[0].lifecycle["task_id"] == "q1"


def test_a_part_of_the_history_gives_a_part_of_the_lines() -> None:
    again = [*GOOD[:3], event(6, EventKind.TASK_RETRIED, error_code="x"), claimed(7, 2, "RedFox")]
    whole = of(*again)
    assert [of(*again[:number]) for number in range(6)] == [whole[:number] for number in range(6)]
    assert (whole[-1].lifecycle["attempt"], whole[-1].lifecycle["agent_id"]) == (2, "RedFox")


def test_an_event_of_an_earlier_version_has_the_session_for_its_agent() -> None:
    [line] = of(event(1, EventKind.TASK_CLAIMED, attempt=1, token=3))
    assert (line.lifecycle["agent_id"], line.lifecycle["attempt"]) == ("s1", 3)
    assert line.lease is not None and line.lease["expires_at"] is None
