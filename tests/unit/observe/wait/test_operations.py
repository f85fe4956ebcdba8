"""Which open work goes on only once a person has done something."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from sqlalchemy import Connection

from corral.core.errors import NotTrusted
from corral.core.instants import iso
from corral.core.needs import Need
from corral.core.outcomes import NEEDS_APPROVAL
from corral.core.states import MergeState
from corral.git.land.landing import OVERLAP
from corral.observe.view import needs_you
from corral.observe.wait import operations
from corral.observe.wait.operations import GIT_RESTS, LOOKED_AGAIN, LOOKS, PersonalWaits
from corral.store.schema import merge_requests
from corral.work.merges.store import merges, pauses
from corral.work.merges.wire import TARGET_RED
from corral.work.tasks.store import dependencies, work_pause
from corral.work.tasks.store import tasks as task_rows
from tests.unit.work.merges.store.test_of_tasks import AT, NOW, claimed, session, submit, task

LATER = NOW + timedelta(minutes=10)
APPROVAL, RED = f"{NEEDS_APPROVAL}: it changes CLAUDE.md.", f"{TARGET_RED}: main at 1."


def waits(
    conn: Connection,
    now: datetime = LATER,
    *,
    gate: str | None = None,
    watched: timedelta = LOOKS,
    for_target: Callable[[str], None] = lambda _target: None,
    max_agents: int = 4,
) -> PersonalWaits:
    settings = Mock(return_value=SimpleNamespace(supervisor=SimpleNamespace(max_agents=max_agents)))
    settings.for_target = for_target
    services: Any = SimpleNamespace(
        of=lambda _part: SimpleNamespace(gate=SimpleNamespace(reason=lambda _row: gate)), settings=settings
    )
    return PersonalWaits(services, conn, now, watched)


def held(conn: Connection, branch: str, reason: str, task_id: str | None = None, number: int = 0) -> str:
    merge_id = submit(conn, branch, number, task_id)
    merges.hold(conn, merge_id, reason, NOW)
    return merge_id


@pytest.mark.parametrize(
    ("reason", "after"),
    [
        (APPROVAL, timedelta(0)),
        (f"uncommitted changes in a.txt {OVERLAP}", LOOKED_AGAIN),
        (RED, LOOKED_AGAIN),
        ("git works in the checkout", GIT_RESTS),
    ],
)
def test_a_held_request_waits_for_a_person_once_that_is_certain(
    any_database: Connection, reason: str, after: timedelta
) -> None:
    row = merges.get(any_database, held(any_database, "side", reason))
    assert waits(any_database, NOW + after).has_request(row)
    if after:
        assert not waits(any_database, NOW + after - timedelta(milliseconds=1)).has_request(row)
        assert not waits(any_database, watched=timedelta(seconds=1)).has_request(row), (
            "the queue has not looked again yet"
        )


def test_whatever_lands_on_a_target_whose_commands_nobody_approved_waits_for_a_person(any_database: Connection) -> None:
    def for_target(target: str) -> None:
        if target == "refs/heads/main":
            raise NotTrusted("The commands were not approved.")

    first, behind = held(any_database, "side", "The commands were not approved."), submit(any_database, "behind", 2)
    for row in (merges.get(any_database, first), merges.get(any_database, behind)):
        assert waits(any_database, NOW, for_target=for_target).has_request(row)
        assert not waits(any_database, NOW).has_request(row)
        assert not waits(any_database, NOW, for_target=for_target, watched=timedelta(seconds=1)).has_request(row), (
            "an approval of this moment may not be read yet"
        )


def test_what_lands_by_itself_is_waited_for(any_database: Connection) -> None:
    merge_id = submit(any_database, "side", 1)
    assert not waits(any_database).has_request(merges.get(any_database, merge_id)), "it is queued"
    held(any_database, "other", RED, number=2)
    assert waits(any_database).has_request(merges.get(any_database, merge_id)), "its target is red"
    repair = submit(any_database, "repair", 3)
    any_database.execute(
        merge_requests.update().where(merge_requests.c.merge_id == repair).values(created_at=iso(LATER))
    )
    assert not waits(any_database).has_request(merges.get(any_database, repair)), "it may repair the target"
    merges.finish(any_database, merge_id, MergeState.CANCELLED, now=NOW, reason="Cancelled.")
    assert not waits(any_database).has_request(merges.get(any_database, merge_id)), "it has ended"


def test_a_task_waits_for_a_person_where_all_that_it_waits_for_does(any_database: Connection) -> None:
    for name in ("held", "busy", "done"):
        task(any_database, name, status="pending" if name == "busy" else "completed", runner="command",
             completed_at=None if name == "busy" else AT)  # fmt: skip
    merge_id = held(any_database, "side", APPROVAL, "held")
    for name, parents in {"after": ["held", "done"], "last": ["after"], "free": ["busy", "done"]}.items():
        task(any_database, name, status="waiting", runner="command")
        dependencies.create(any_database, name, parents)
    now = waits(any_database)
    assert [now.has_task(name) for name in ("held", "busy", "done", "after", "last", "free")] == [
        True, False, False, True, True, False,
    ]  # fmt: skip
    assert {"held", "after", "last", merge_id} <= now.behind
    assert waits(any_database, max_agents=0).has_task("free"), "where no worker may start"
    task(any_database, "asking", runner="command")
    session(any_database, "s1", task_id="asking", waiting_for="permission for Bash", waiting_since_at=AT)
    claimed(any_database, "asked", "s2", runner="command")
    session(any_database, "s2", task_id="asked", waiting_for="permission for Bash", waiting_since_at=AT)
    assert not waits(any_database).has_task("asking") and waits(any_database).has_task("asked")
    assert waits(any_database, gate="Nobody approved it.").has_task("busy")
    assert not waits(any_database, gate="Nobody approved it.", watched=timedelta(seconds=1)).has_task("busy")
    task(any_database, "by hand", runner=None)
    assert not waits(any_database).has_task("by hand"), "a session may take it"
    work_pause.begin(any_database, None, NOW)
    assert waits(any_database).has_task("busy") and not waits(any_database).has_task("done")


def test_what_a_person_has_taken_or_alone_can_take_waits_for_one(any_database: Connection) -> None:
    session(any_database, "person-me", agent_type="person")
    task(any_database, "free", runner=None)
    claimed(any_database, "taken", "person-me", runner=None)
    now = waits(any_database)
    assert now.has_task("free") and now.has_task("taken")
    session(any_database, "s1")
    assert not waits(any_database).has_task("free"), "that one may take it"


def test_only_what_stops_the_awaited_targets_is_told(any_database: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def source(_services: Any, _conn: Connection) -> Sequence[Need]:
        return [
            Need("red_target", "release is red", "Fix it.", ids={"target": "release"}),
            Need("red_target", "main is red", "Fix it.", ids={"target": "main"}),
            Need("paused_work", "All work is paused", "corral resume"),
            Need("failed_task", "another failed", "Retry it.", ids={"task_id": "other"}),
        ]

    monkeypatch.setattr(needs_you, "SOURCES", (source,))
    services: Any = None
    needs = needs_you.needs_you_for(services, any_database, {"t"}, {"main"})
    assert [need["what"] for need in needs] == ["main is red", "All work is paused"]
    submit(any_database, "side", 1, task(any_database, "t"))
    for target in ("main", "release"):
        submit(any_database, f"to-{target}", 2, target=target)
        pauses.count(any_database, target, number=9, reason="no disk", look_at=AT, now=NOW)
    shown = operations.snapshot(any_database, task_rows.standing(any_database, ["t"]), [], "main")
    assert [row["target"] for row in shown["paused"]] == ["main"]
    assert [(row["number"], row["title"]) for row in shown["tasks"]] == [(1, "t")]


def test_a_look_reads_no_more_than_that_something_goes_on(any_database: Connection) -> None:
    session(any_database, "s1")
    claimed(any_database, "taken", "s1")
    services: Any = SimpleNamespace(now=lambda: NOW, settings=Mock())  # an answer would ask for more of them
    assert operations.look(services, any_database, ["taken"], [], 9.0, is_last=False) is None
    with pytest.raises(AttributeError):
        operations.look(services, any_database, ["taken"], [], 9.0, is_last=True)
