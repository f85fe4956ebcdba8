"""Mail that no hook brings is told to a worker once, and to none that does not take it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from corral.coordination.mail import mailing, messages
from corral.coordination.mail.addresses import Identity
from corral.coordination.mail.messages import Letter
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.core.states import MailWay
from corral.runners.protocol import Observation, Usage
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.rows.tasks import TaskRow, WorktreeRow
from corral.work.workers.execution import Started
from corral.work.workers.in_flight import PATIENCE_S, Attempt, bring_mail

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
LATER = NOW + timedelta(seconds=PATIENCE_S)


@dataclass
class Worker:
    """A worker that notes what it is told: a process that stops listening at a chosen moment cannot be had."""

    listens: bool = True
    takes: bool = True
    heard: list[str] = field(default_factory=list)
    pid: int = 1
    pid_started: float = 0.0

    def tell(self, text: str) -> bool:
        self.heard += [text] if self.takes else []
        return self.takes

    def await_exit(self) -> None: ...

    def observe(self, now: datetime) -> Observation:
        return Observation(None, Usage(), None, False)

    def stop(self, now: datetime, reason_code: str, message: str) -> None:
        raise AssertionError("nobody stops it")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    open_schema(tmp_path / "db")
    database = Database(tmp_path / "db")
    for name in ("ann", "ben", "cid"):
        database.write(partial(session_registry.register, arrival=Arrival(name, agent_name=name.title()), now=NOW))
    yield database
    database.close()


def send(db: Database, to: str, body: str) -> None:
    letter = Letter(subject="Hello", body=body, to=(to,))
    db.write(lambda conn: messages.send(conn, Identity("ann", "Ann"), letter, NOW))


def at_work(session_id: str, worker: Worker, **state: Any) -> Attempt:
    task = cast(TaskRow, {"task_id": session_id, "fencing_token": 1, "session_id": session_id})
    return Attempt(task, Started(worker, task, cast(WorktreeRow, {}), NOW), **state)


def test_mail_is_told_to_its_reader_once_after_its_hooks_had_their_time(db: Database) -> None:
    ben, cid = Worker(), Worker()
    attempts = [at_work("ben", ben), at_work("cid", cid)]
    send(db, "Ben", "Which file?")
    bring_mail(db, attempts, NOW + timedelta(seconds=PATIENCE_S - 0.1))
    assert ben.heard == []
    for seconds in range(3):
        bring_mail(db, attempts, LATER + timedelta(seconds=seconds))
    assert [text.count("| Which file?") for text in ben.heard] == [1] and cid.heard == []
    assert [row["way"] for row in db.read(lambda conn: message_rows.recipients(conn, 1))] == ["runner"]


@pytest.mark.parametrize(
    ("worker", "state"),
    [
        (Worker(takes=False), {}),
        (Worker(listens=False), {}),
        (Worker(), {"stopping": True}),
        (Worker(), {"finishing": True}),
    ],
)
def test_what_a_worker_does_not_take_waits(db: Database, worker: Worker, state: dict[str, Any]) -> None:
    send(db, "Ben", "Which file?")
    bring_mail(db, [at_work("ben", worker, **state)], LATER)
    assert worker.heard == []
    assert "| Which file?" in str(db.write(lambda conn: mailing.deliver(conn, "ben", MailWay.HOOK, LATER)))
