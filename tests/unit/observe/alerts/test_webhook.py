"""The job of the webhook, step by step, against a real server: signed, tried again, given up, never waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from corral.config.sections.alerts import Notifications
from corral.core.errors import ApiKeyUnavailable
from corral.core.instants import iso
from corral.core.needs import Need
from corral.observe.alerts import store as alerts
from corral.observe.alerts.webhook import Webhook, pause_s
from corral.store.engine.database import Database
from tests.support.coordinated import eventually
from tests.support.receiver import SECRET, Receiver, receiver

NOW = datetime(2031, 3, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def far() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


class World:
    """A job with its parts, and a clock that a test moves.

    Attributes:
        tried: Counts the tries that ended.
    """

    def __init__(self, db: Database, url: str | None, secret: Callable[[], str | None], **settings: Any) -> None:
        self.db, self.url, self.faults = db, url, dict[str, Need]()
        self.now, self.ended = NOW, threading.Semaphore(0)
        chosen = Notifications.model_validate(settings)
        self.job = Webhook(db, lambda: chosen, lambda: self.url, secret, self.ended.release, lambda: None, self.faults)

    def queue(self, delivery_id: str = "d-1", at: datetime = NOW, most: int = 100) -> int:
        body = {"delivery_id": delivery_id, "text": "grüße"}
        return self.db.write(lambda conn: alerts.enqueue(conn, delivery_id, body, at, most))

    def look(self, delivery_id: str = "d-1") -> tuple[str, int, str | None]:
        row = self.db.read(lambda conn: alerts.delivery(conn, delivery_id))
        assert row is not None
        return row["state"], row["tries"], row["error"]

    def try_once(self) -> datetime | None:
        """Begin a try, wait for its end, settle it; returns when the next step is due."""
        self.job.step(self.now)
        assert self.ended.acquire(timeout=20)
        return self.job.step(self.now)


@pytest.mark.req("FR-MONITOR-005")
def test_it_fails_twice_and_then_works_with_a_right_signature_and_one_id(db: Database, far: Receiver) -> None:
    world = World(db, far.url, lambda: SECRET)
    far.answers = [500, 503]
    world.queue()
    assert world.try_once() == NOW + timedelta(seconds=1)
    assert world.look() == ("waiting", 1, "it answered 500")
    assert world.job.step(NOW + timedelta(seconds=0.9)) == NOW + timedelta(seconds=1), "not before its time"
    assert len(far.received) == 1
    assert world.faults["webhook"].what == "Notifications do not reach the webhook: it answered 500."
    world.now += timedelta(seconds=1)
    assert world.try_once() == world.now + timedelta(seconds=4)
    world.now += timedelta(seconds=4)
    assert world.try_once() is None
    assert world.look() == ("delivered", 3, None) and world.faults == {}
    assert [request.is_signed for request in far.received] == [True] * 3
    assert {request.headers["X-Corral-Delivery"] for request in far.received} == {"d-1"}
    assert [int(request.headers["X-Corral-Timestamp"]) - int(NOW.timestamp()) for request in far.received] == [0, 1, 5]
    assert far.received[0].path == "/hook?room=4" and far.received[0].body["text"] == "grüße"
    assert world.job.step(world.now + timedelta(days=1)) is None and len(far.received) == 3


@pytest.mark.req("FR-MONITOR-005")
@pytest.mark.parametrize("how", ["hang", "drip"])
def test_one_that_hangs_keeps_nobody_waiting_and_the_next_goes_on(db: Database, far: Receiver, how: str) -> None:
    world = World(db, far.url, lambda: SECRET, webhook_timeout_s=5, webhook_tries=2)
    far.answers = [how]
    world.queue()
    began = time.monotonic()
    assert world.job.step(NOW) == NOW + timedelta(seconds=5), "the step does not wait"
    eventually(lambda: far.received)
    assert world.job.step(NOW + timedelta(seconds=4.9)) == NOW + timedelta(seconds=5)
    world.now = NOW + timedelta(seconds=5)
    world.job.step(world.now)
    assert time.monotonic() - began < 4.5, "nothing waited for the server"
    assert world.look() == ("waiting", 1, "it did not answer within 5 s")
    assert world.ended.acquire(timeout=20), "the abandoned try ends, since its connection is closed"
    world.now += timedelta(seconds=1)
    world.try_once()
    assert world.look() == ("delivered", 2, None)


@pytest.mark.parametrize("answer", [302, 404, 410])
def test_an_answer_that_will_not_change_and_the_last_try_are_the_end(db: Database, far: Receiver, answer: int) -> None:
    world = World(db, far.url, lambda: SECRET, webhook_tries=2)
    far.answers = [answer, 429, 500]
    for name in ("d-1", "d-2"):
        world.queue(name)
    world.try_once()
    assert world.look("d-1") == ("failed", 1, f"it answered {answer}")
    assert world.ended.acquire(timeout=20)
    world.job.step(NOW)
    assert world.look("d-2") == ("waiting", 1, "it answered 429")
    world.now += timedelta(seconds=1)
    world.try_once()
    assert world.look("d-2") == ("failed", 2, "it answered 500")
    assert len(far.received) == 3, "a redirect is not followed: only one address was approved"


def test_nothing_leaves_without_a_secret_or_an_approved_address(db: Database, far: Receiver) -> None:
    def locked() -> str | None:
        raise ApiKeyUnavailable("The system's keychain is locked.")

    secrets: list[Callable[[], str | None]] = [lambda: None, locked, lambda: SECRET]
    world = World(db, None, lambda: secrets[0](), webhook_tries=2)
    world.queue()
    assert world.job.step(NOW) is None and world.look() == ("waiting", 0, None)
    world.url = far.url
    assert world.try_once() == NOW + timedelta(seconds=60)
    assert world.look() == ("waiting", 0, "there is no secret to sign with"), "no try was used"
    assert "set-key --webhook" in world.faults["webhook"].remedy
    del secrets[0]
    world.now += timedelta(seconds=60)
    world.try_once()
    assert world.look() == ("waiting", 1, "The system's keychain is locked.")
    del secrets[0]
    assert far.received == []
    world.now += timedelta(seconds=1)
    world.try_once()
    assert world.look() == ("delivered", 2, None)


def test_the_queue_is_bounded_and_drops_the_oldest(db: Database) -> None:
    world = World(db, None, lambda: SECRET)
    dropped = [world.queue(f"d-{n}", NOW + timedelta(seconds=n), most=3) for n in range(5)]
    assert dropped == [0, 0, 0, 1, 1]
    assert [world.look(f"d-{n}")[0] for n in range(5)] == ["dropped", "dropped", "waiting", "waiting", "waiting"]


def test_a_server_that_is_not_there_is_an_error_and_the_pauses_grow(db: Database, far: Receiver) -> None:
    world = World(db, "http://127.0.0.1:1/", lambda: SECRET)
    world.queue()
    assert world.try_once() == NOW + timedelta(seconds=1)
    assert world.look()[2] == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert [pause_s(n) for n in (1, 2, 3, 4, 5, 6, 7, 20)] == [1, 4, 16, 64, 256, 1024, 3600, 3600]
    assert iso(NOW)


@pytest.mark.req("FR-MONITOR-005")
def test_a_clock_that_was_set_back_delays_neither_a_try_nor_the_end_of_one(db: Database, far: Receiver) -> None:
    world = World(db, far.url, lambda: SECRET, webhook_timeout_s=5, webhook_tries=2)
    far.answers = ["hang"]
    world.queue(at=NOW + timedelta(days=365))
    world.job.step(NOW)
    eventually(lambda: far.received)
    world.now = NOW - timedelta(days=365)
    world.job.step(world.now)
    assert world.look() == ("waiting", 1, "it did not answer within 5 s")
    assert world.ended.acquire(timeout=20)
