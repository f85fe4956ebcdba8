"""The store takes no event of a kind that is not in the list."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from sqlalchemy import Connection

from corral.models.events import EventKind
from corral.store import events

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)


def test_a_kind_that_nobody_knows_is_refused(any_database: Connection) -> None:
    events.record(any_database, NOW, EventKind.TASK_CLAIMED)
    events.record(any_database, NOW, "task.claimed")
    with pytest.raises(ValueError, match=r"task\.vanished"):
        events.record(any_database, NOW, "task.vanished")
    assert [row["kind"] for row in events.listing(any_database)] == ["task.claimed"] * 2


@pytest.mark.parametrize("kind", EventKind)
def test_a_kind_is_a_noun_and_what_happened_to_it(kind: EventKind) -> None:
    noun, _, verb = kind.value.partition(".")
    assert noun and verb and len(kind.value) <= 64 and kind.name == f"{noun}_{verb}".upper()
