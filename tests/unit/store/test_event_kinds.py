"""The store takes events whose kind is in the list, with the payload that belongs to it, and nothing else."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from sqlalchemy import Connection

from corral.core.events import EventKind, payload
from corral.store import events

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)


def test_an_event_is_read_back_as_it_was_recorded(any_database: Connection) -> None:
    events.record(any_database, NOW, EventKind.TASK_CLAIMED({"attempt": 1, "token": 7}), task_id="t")
    events.record(any_database, NOW, EventKind.TASK_UNBLOCKED, task_id="t")
    claimed, unblocked = events.listing(any_database, task_id="t")
    assert (claimed["kind"], claimed["data"]) == ("task.claimed", {"attempt": 1, "token": 7})
    assert (unblocked["kind"], unblocked["data"]) == ("task.unblocked", {})
    assert payload(claimed, EventKind.TASK_CLAIMED) == {"attempt": 1, "token": 7}
    assert payload(claimed, EventKind.TASK_STARTED) is None


def test_a_text_is_no_event(any_database: Connection) -> None:
    with pytest.raises(TypeError):
        events.record(any_database, NOW, "task.claimed")  # type: ignore[arg-type]
    assert events.listing(any_database) == []
