"""Identifiers: random, or in the order of time."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from corral.core.identifiers import new_id, ordered_id
from corral.core.instants import UTC, iso, parse

NOW = datetime(2026, 11, 22, 8, 30, 0, 123000, tzinfo=UTC)


def test_ordered_ids_are_uuids_that_sort_by_their_time_and_are_never_the_same() -> None:
    made = [ordered_id(NOW + timedelta(milliseconds=later)) for later in range(1000)]
    assert made == sorted(made)
    assert {(uuid.UUID(identifier).version, uuid.UUID(identifier).variant) for identifier in made} == {
        (7, uuid.RFC_4122)
    }
    assert len({ordered_id(NOW) for _ in range(1000)} | {new_id() for _ in range(1000)}) == 2000
    assert int(made[0].replace("-", "")[:12], 16) == NOW.timestamp() * 1000


def test_instants_are_written_in_utc_cut_to_milliseconds_and_read_back() -> None:
    assert iso(NOW) == "2026-11-22T08:30:00.123Z"
    assert iso(NOW.replace(microsecond=999_999)) == "2026-11-22T08:30:00.999Z"
    assert iso(NOW.replace(microsecond=0)) == "2026-11-22T08:30:00.000Z"
    assert parse(iso(NOW)) == NOW
