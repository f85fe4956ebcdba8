"""Who is given up for dead, and who is not: with the rows, the clock and the daemon's own look at it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from corral.config.model import Settings
from corral.coordination.edits.runtime_state import RuntimeState
from corral.coordination.handoffs import store as handoff_rows
from corral.coordination.locks.keys import parse_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.mail import mailing, messages
from corral.coordination.mail.addresses import Identity
from corral.coordination.mail.messages import Letter
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import session_end
from corral.coordination.sessions.api import Cleanup
from corral.coordination.sessions.operations import cleanup
from corral.coordination.sessions.registry import Arrival, Cleaned
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.sessions.sweep import end_silent
from corral.coordination.sessions.tools import cleanup_dead_agents
from corral.core.errors import Conflict
from corral.core.instants import iso
from corral.core.states import MailWay
from corral.faces.mcp.calls import Call, current
from corral.faces.mcp.replays import Replays
from corral.observe.audit.trail import AuditTrail
from corral.store import events
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.work.tasks import leases, tasks
from corral.work.tasks.store import tasks as task_rows
from corral.work.tasks.wire import read_submissions
from tests.support.locking import acquire

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


@dataclass
class Fleet:
    """What cleaning up uses of the daemon; ``time`` is its clock."""

    db: Database
    time: datetime = NOW
    started_at: datetime = NOW
    runtime: RuntimeState = field(default_factory=RuntimeState)
    audit: AuditTrail = field(default_factory=AuditTrail)
    settings: Callable[[], Settings] = Settings

    def now(self) -> datetime:
        return self.time

    def of(self, kind: type[AuditTrail]) -> AuditTrail:
        assert kind is AuditTrail
        return self.audit

    def offer_again(self, conn: Connection, session_id: str, reason: str, now: datetime) -> None:
        leases.give_back(conn, session_id, reason, now, Settings().tasks)

    def nudge(self, _name: str) -> None: ...

    async def work(self, function: Callable[[], Cleaned]) -> Cleaned:
        return function()

    def passes(self, time: timedelta) -> None:
        """Time goes by, with somebody looking all the while."""
        end = self.time + time
        while self.time < end:
            self.runtime.looks(self.time)
            self.time = min(end, self.time + MINUTE)

    def arrive(self, *names: str, **more: Any) -> None:
        for name in names:
            self.db.write(lambda conn, name=name: session_registry.register(conn, Arrival(name, **more), self.time))  # type: ignore[misc]
            self.db.write(
                lambda conn, name=name: acquire(  # type: ignore[misc]
                    conn, [parse_key(f"{name}.py")], Holder(name), self.time, ttl_s=86_400
                )
            )

    def beat(self, *names: str) -> None:
        for name in names:
            self.db.write(lambda conn, name=name: session_registry.alive(conn, Arrival(name), self.time))  # type: ignore[misc]

    def alive(self) -> set[str]:
        return {row["session_id"] for row in self.db.read(session_rows.live)}

    def held(self) -> set[str]:
        return {row["session_id"] for row in self.db.read(lambda conn: lock_rows.listing(conn, iso(self.time)))}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    open_schema(tmp_path / "corral.db")
    db = Database(tmp_path / "corral.db")
    yield Fleet(db)
    db.close()


def clean(fleet: Fleet, minutes: float = 15) -> Cleaned:
    return end_silent(fleet, minutes * 60)  # type: ignore[arg-type]


@pytest.mark.req("HEARTBEAT-2", "HEARTBEAT-3")
def test_who_was_silent_past_the_threshold_is_ended_and_nobody_else(fleet: Fleet) -> None:
    fleet.arrive("dead", "alive")
    fleet.passes(10 * MINUTE)
    fleet.beat("alive")
    assert clean(fleet) == Cleaned(0, 0)
    fleet.passes(6 * MINUTE)
    assert clean(fleet) == Cleaned(agents=1, locks=1)
    assert (fleet.alive(), fleet.held()) == ({"alive"}, {"alive"})
    dead = fleet.db.read(lambda conn: session_rows.get(conn, "dead"))
    assert dead is not None and (dead["status"], dead["end_reason"]) == ("disconnected", "silent")
    left = fleet.db.read(lambda conn: handoff_rows.listing(conn, None, 5))
    assert [(row["session_id"], row["relevant_files"]) for row in left] == [("dead", ["dead.py"])]
    assert clean(fleet) == Cleaned(0, 0)
    assert clean(fleet, minutes=5) == Cleaned(1, 1), "the threshold is the caller's"


@pytest.mark.req("HEARTBEAT-2", "HEARTBEAT-3")
@pytest.mark.parametrize("by", ["mcp", "http"])
def test_whoever_asks_and_names_no_threshold_means_fifteen_minutes(fleet: Fleet, by: str) -> None:
    services: Any = fleet
    current.set(Call(services=services, replays=Replays(), connection="boss"))

    def ask() -> tuple[bool, int, int]:
        async def clean_up() -> dict[str, Any]:
            return await (cleanup_dead_agents() if by == "mcp" else cleanup(services, Cleanup.model_validate({})))

        answer = asyncio.run(clean_up())
        return answer["success"], answer["agents_cleaned"], answer["locks_released"]

    fleet.arrive("dead")
    fleet.passes(14 * MINUTE)
    fleet.arrive("alive")
    assert ask() == (True, 0, 0)
    fleet.passes(2 * MINUTE)
    assert ask() == (True, 1, 1)
    assert fleet.alive() == fleet.held() == {"alive"}


@pytest.mark.req("HEARTBEAT-2", "HEARTBEAT-3")
def test_a_connection_is_no_sign_of_its_agent(fleet: Fleet) -> None:
    fleet.arrive("hung", "alive")
    fleet.arrive("rests", client_pid=os.getpid())
    for name in ("hung", "alive", "rests"):
        fleet.runtime.bridge_opened(f"bridge of {name}", name)
    fleet.db.write(lambda conn: session_rows.change(conn, "rests", {"status": "idle"}))
    fleet.passes(14 * MINUTE)
    fleet.beat("alive")
    fleet.passes(2 * MINUTE)
    assert clean(fleet) == Cleaned(1, 1)
    assert fleet.alive() == fleet.held() == {"alive", "rests"}


def test_a_machine_that_slept_took_nobody_with_it(fleet: Fleet) -> None:
    fleet.arrive("one", "two")
    fleet.passes(5 * MINUTE)
    fleet.time += timedelta(hours=9)
    assert clean(fleet) == Cleaned(0, 0)
    fleet.passes(14 * MINUTE)
    assert clean(fleet) == Cleaned(0, 0)
    fleet.passes(2 * MINUTE)
    assert clean(fleet) == Cleaned(2, 2), "who stays silent after that is dead"


def test_a_lock_outlives_the_machines_sleep(fleet: Fleet) -> None:
    fleet.arrive("one")
    fleet.passes(5 * MINUTE)
    fleet.time += timedelta(days=3)
    clean(fleet)
    assert fleet.held() == {"one"}


@pytest.mark.parametrize(("size", "silent", "goes"), [(8, 5, False), (8, 4, True), (7, 7, True), (20, 11, False)])
def test_most_of_a_large_fleet_is_not_dead_at_once(fleet: Fleet, size: int, silent: int, goes: bool) -> None:
    names = [f"s{number}" for number in range(size)]
    fleet.arrive(*names)
    fleet.passes(16 * MINUTE)
    fleet.beat(*names[silent:])
    if goes:
        assert clean(fleet).agents == silent
        return
    with pytest.raises(Conflict) as caught:
        clean(fleet)
    assert f"{silent} of {size}" in str(caught.value) and caught.value.remedy
    assert len(fleet.alive()) == size


def test_a_process_that_is_gone_proves_a_death_in_whatever_number(fleet: Fleet) -> None:
    for number in range(9):
        fleet.arrive(f"s{number}", client_pid=2**22 - 1 - number, client_started=1.0)
    assert clean(fleet) == Cleaned(9, 9)


@pytest.mark.faults
def test_mail_that_the_model_of_a_killed_client_never_answered_after_waits_again(fleet: Fleet, tmp_path: Path) -> None:
    transcript = tmp_path / "killed.jsonl"
    fleet.arrive("ann")
    fleet.arrive("killed", client_pid=2**22 - 1, client_started=1.0, transcript_path=str(transcript))
    name = fleet.db.read(lambda conn: session_rows.get(conn, "killed"))["agent_name"]  # type: ignore[index]

    def deliver(number: int, way: MailWay, at: datetime) -> None:
        def write(conn: Connection) -> None:
            messages.send(conn, Identity("ann", "Ann"), Letter(subject="Hello", body="?", to=(name,)), NOW)
            mailing.brought(conn, "killed", [number], way, at)

        fleet.db.write(write)

    deliver(1, MailWay.HOOK, NOW)
    answer = {"type": "assistant", "timestamp": iso(NOW + MINUTE), "message": {"id": "m"}}
    transcript.write_text(json.dumps(answer))
    for number, way in ((2, MailWay.HOOK), (3, MailWay.WAKE), (4, MailWay.TURN), (5, MailWay.PROMPT)):
        deliver(number, way, NOW + 2 * MINUTE)
    fleet.passes(3 * MINUTE)
    assert clean(fleet).agents == 1
    states = fleet.db.read(lambda conn: [message_rows.recipients(conn, number)[0]["state"] for number in range(1, 6)])
    assert states == ["injected", "queued", "queued", "injected", "injected"]


def test_a_crowd_that_dies_beside_those_who_claim_leaves_every_task_to_one(fleet: Fleet) -> None:
    crowd, rules = 120, Settings().tasks

    def arrive(conn: Connection) -> None:
        tasks.submit_batch(conn, read_submissions([{"description": f"t{n}"} for n in range(crowd)]), NOW, rules)
        for number in range(crowd):
            session_end.arrive(
                conn,
                Arrival(f"s{number}", client_pid=2**22 - 1 - number, client_started=1.0),
                NOW,
                leases.offering(rules),
            )
            assert leases.claim(conn, leases.Claimant(f"s{number}"), NOW, Settings()) is not None

    fleet.db.write(arrive)
    fleet.arrive("alive-0", "alive-1", "alive-2")
    claimed: dict[str, str] = {}
    until = time.monotonic() + 60

    def claim(who: str) -> None:
        while len(claimed) < crowd and time.monotonic() < until:
            row = fleet.db.write(lambda conn: leases.claim(conn, leases.Claimant(who), NOW, Settings()))
            if row is not None:
                assert claimed.setdefault(row["task_id"], who) == who and row["fencing_token"] == 2

    with ThreadPoolExecutor(5) as pool:
        claimers = [pool.submit(claim, f"alive-{number}") for number in range(3)]
        sweeps = [pool.submit(clean, fleet) for _twice in range(2)]
        assert sum(sweep.result().agents for sweep in sweeps) == crowd
        for claimer in claimers:
            claimer.result()
    held = fleet.db.read(lambda conn: task_rows.held_by(conn, [f"alive-{number}" for number in range(3)]))
    assert {row["task_id"]: row["session_id"] for row in held} == claimed and len(claimed) == crowd
    counts = Counter(
        (row["kind"], row["session_id"]) for row in fleet.db.read(lambda conn: events.listing(conn, limit=10_000))
    )
    for number in range(crowd):
        assert counts["session.ended", f"s{number}"] == counts["task.requeued", f"s{number}"] == 1


def test_one_session_whose_end_fails_does_not_keep_the_others_from_theirs(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = session_end.end

    def fails_for_one(conn: Connection, session_id: str, *rest: Any, **more: Any) -> Any:
        if session_id == "broken":
            raise ValueError("its row cannot be read")
        return end(conn, session_id, *rest, **more)

    fleet.arrive("broken", "dead", "gone")
    fleet.passes(16 * MINUTE)
    with monkeypatch.context() as patched:
        patched.setattr(session_end, "end", fails_for_one)
        assert clean(fleet) == Cleaned(agents=2, locks=2)
    assert fleet.alive() == {"broken"}
    assert clean(fleet) == Cleaned(agents=1, locks=1)
