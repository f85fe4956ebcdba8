"""What needs a person, from rows as they can stand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection

from corral.core.instants import iso
from corral.core.needs import MOST_OF_A_KIND, Need, count
from corral.core.states import MergeState
from corral.observe.alerts import store as alerts
from corral.observe.view import needs_of_alerts, needs_of_landing, needs_you
from corral.store.rows.records import AlertRow
from corral.work.merges.store import merges
from corral.work.workers.limits import Parked, Throttle
from tests.unit.work.merges.store.test_of_tasks import submit, task

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
    needs = list(needs_you.limits_reached(services, any_database))
    assert {need.kind for need in needs} == {"limit_reached"}
    tokens, cost, parked = needs
    assert "`limits.tokens_per_day` is used to 90 %" in tokens.what and "raise `limits.tokens_per_day`" in tokens.remedy
    assert "`limits.cost_usd_per_day`" in cost.what and "Come back later." in parked.what


def test_an_alert_about_what_is_listed_already_is_no_further_thing(any_database: Connection) -> None:
    for rule in ("error_rate", "free_disk"):
        fields: Any = {**dict.fromkeys(AlertRow.__annotations__), "alert_id": rule, "rule": rule, "subject": rule}
        fields |= {"reason": rule, "remedy": "Look.", "times": 1, "first_raised_at": iso(NOW), "raised_at": iso(NOW)}
        alerts.create(any_database, fields)
    services: Any = None
    assert [need.what for need in needs_of_alerts.open_alerts(services, any_database)] == ["free_disk"]


def test_each_thing_is_counted_once_also_beyond_twenty_of_a_kind(
    any_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs_you, "SOURCES", (needs_you.tasks_that_cannot_start,))
    broken = {"error_code": "broken", "error_message": "It broke: no", "completed_at": iso(NOW)}
    dead, red, stuck = MOST_OF_A_KIND + 5, MOST_OF_A_KIND + 2, MOST_OF_A_KIND + 3
    for number in range(dead):
        task(any_database, f"dead-{number:02}", status="dead", **broken)
        task(any_database, f"copy-{number:02}", status="failed", idempotency_key=f"member:dead-01:{number}", **broken)
    for number in range(red):
        merge_id = submit(any_database, f"branch-{number:02}", number)
        merges.finish(any_database, merge_id, MergeState.FAILED, now=NOW, reason="2 tests failed: a, b")
    for number in range(stuck):
        task(any_database, f"stuck-{number:02}", runner="command", faults=3, error_message="No room")
    services: Any = SimpleNamespace(of=lambda _part: SimpleNamespace(pause=None))
    built = list[str]()

    def build(kind: str, *rest: Any) -> Need:
        built.append(kind)
        return Need(kind, *rest)

    monkeypatch.setattr(needs_of_landing, "Need", build)
    needs = needs_you.needs_you(any_database, services)
    assert len(built) == 2 * MOST_OF_A_KIND, "thousands may have failed: the others are counted, not built"
    assert count(needs) == dead + red + stuck, "an agent's part of a task is that task's business"
    rest = [need for need in needs if not need["ids"]]
    assert [(need["name"], need["number"]) for need in rest] == [("no start", 3), ("dead", 5), ("red", 2)]
    assert "corral task list --status dead" in rest[1]["remedy"] and "--status red" in rest[2]["remedy"]
    assert len(needs) == 3 * (MOST_OF_A_KIND + 1)
    (last,) = needs_you.needs_you_for(services, any_database, {"dead-00"}, set())
    assert (last["title"], last["reason"]) == ("dead-00", "It broke: no"), "the oldest of many is found by its id"
    assert needs_you.needs_you_for(services, any_database, {"copy-00"}, set()) == []
