"""A task as it goes on: events and output in their order, whenever one looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.work.tasks.following import Place, _Reader, _Snapshot


def look(*kinds: str, status: str = "running", started_at: str | None = None) -> _Snapshot:
    """What the database has of a task at its first attempt."""
    row: Any = {"status": status, "fencing_token": 1, "started_at": started_at}
    data = {"task.claimed": {"attempt": 1, "token": 1}}
    news: Any = [
        {"event_id": number, "kind": kind, "at": "", "data": data.get(kind, {})} for number, kind in enumerate(kinds, 1)
    ]
    return _Snapshot(row=row, outcome="", settled=False, news=news, runners={1: "command"})


@pytest.mark.req("FR-QUEUE-004")
def test_what_a_worker_prints_before_its_start_is_recorded_comes_after_its_start(tmp_path: Path) -> None:
    (tmp_path / "1.log").write_text("one\n")
    early = _Reader(tmp_path, Place(), look("task.claimed"))
    assert [entry["kind"] for entry in early.entries()] == ["task.claimed"], "its process runs, and nobody has said so"
    late = look("task.assigned", "task.started", started_at="2026-03-01T12:00:00.000Z")
    assert [entry["kind"] for entry in _Reader(tmp_path, early.place, late).entries()] == [
        "task.assigned", "task.started", "output",
    ]  # fmt: skip
    never = look("task.requeued", status="pending")
    assert [entry["kind"] for entry in _Reader(tmp_path, early.place, never).entries()] == ["output"], "it has ended"
