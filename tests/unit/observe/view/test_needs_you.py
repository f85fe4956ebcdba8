"""What needs a person, from rows as they can stand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection

from corral.observe.view import needs_of_landing, needs_of_work
from corral.work.merges.store import merges
from corral.work.workers.limits import Parked, Throttle

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=timezone.utc)


def test_a_request_that_a_stop_sent_back_after_three_tries_is_named_though_no_reason_is_kept(
    any_database: Connection,
) -> None:
    head, nobody = "1" * 40, {"task_id": None, "session_id": None, "base_sha": None}
    merge_id = merges.submit(
        any_database, **nobody, title="t", priority=5, branch="side", target="main", head_sha=head, now=NOW
    )
    merges.requeue(any_database, merge_id, NOW, reason="Verification could not run (try 3)", tries=3)
    merges.built(any_database, merge_id, candidate_sha=head, candidate_tree=head, tip_sha=head, now=NOW)
    merges.requeue(any_database, merge_id, NOW, tries=3)  # as a stop does with what is being verified
    services: Any = None
    (need,) = needs_of_landing.unverified_merges(services, any_database)
    assert need.what == "'t' cannot be verified: 3 tries ended without a verdict"


@pytest.mark.req("FR-SWARM-008", "FR-CONFIG-006")
def test_only_limits_that_last_are_a_persons_business(any_database: Connection) -> None:
    holds = [
        Throttle("limits.memory_mb", 3900, 4096),
        Throttle("limits.requests_per_minute", 50, 50),
        Throttle("limits.tokens_per_day", 900, 1000),
        Throttle("limits.cost_usd_per_day", 9, 10),
        Parked(NOW + timedelta(minutes=14), "Busy."),
        Parked(NOW + timedelta(minutes=15), "Come back later."),
    ]
    services: Any = SimpleNamespace(of=lambda _part: SimpleNamespace(throttles=holds), now=lambda: NOW)
    needs = list(needs_of_work.limits_reached(services, any_database))
    assert {need.kind for need in needs} == {"limit_reached"}
    tokens, cost, parked = needs
    assert "`limits.tokens_per_day` is used to 90 %" in tokens.what and "raise `limits.tokens_per_day`" in tokens.remedy
    assert "`limits.cost_usd_per_day`" in cost.what and "Come back later." in parked.what
