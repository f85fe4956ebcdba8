"""A task as it goes on: its events and its worker's output, in the order in which they happened, part by part.

The place up to which a client has read is with the client alone, so that it goes on after a restart of the daemon.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.errors import InvalidInput
from corral.core.events import EventKind, payload
from corral.core.payload import Payload
from corral.core.runners import traits
from corral.core.states import OPEN_MERGES, TERMINAL_TASKS, TaskStatus
from corral.runners.stream import readable
from corral.store import events
from corral.store.rows.records import EventRow
from corral.store.rows.tasks import TaskRow
from corral.work.logtail import POLL_S, read_part
from corral.work.tasks import tasks
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import outcomes
from corral.work.tasks.store import tasks as task_rows

OUTPUT = "output"
"""The kind of an entry with text of a worker; all others are kinds of events."""
QUIET_S = 1.0
"""Between two looks at a task without a worker, seconds, where no change is announced."""
_STARTING = (EventKind.TASK_ASSIGNED, EventKind.TASK_STARTED)
"""Events of an attempt that its output comes after."""
_PLACE = re.compile(r"(\d{1,18})\.(\d{1,9})\.(\d{1,15})")


@dataclass(frozen=True)
class Place:
    """How far a client has read: the last event, the attempt whose output is next (0: none yet), and its next byte."""

    event_id: int = 0
    attempt: int = 0
    offset: int = 0

    @classmethod
    def read(cls, text: str | None) -> Place:
        """Parse the place that a client sends; none is the beginning.

        Raises:
            InvalidInput: The text is no place.
        """
        match = _PLACE.fullmatch(text) if text else None
        if text and match is None:
            raise InvalidInput(f"Invalid place {text[:80]!r}.", remedy="Send `next` of the part before, or nothing.")
        return cls(*map(int, match.groups())) if match else cls()

    def __str__(self) -> str:
        """As it is sent."""
        return f"{self.event_id}.{self.attempt}.{self.offset}"


@dataclass(frozen=True)
class _Snapshot:
    row: TaskRow
    outcome: str
    settled: bool
    news: list[EventRow]
    runners: dict[int, str | None]


def _take_snapshot(conn: Connection, task_id: str, place: Place) -> _Snapshot:
    row = tasks.find(conn, task_id)
    (standing,) = task_rows.standing(conn, [row["task_id"]])
    return _Snapshot(
        row=row,
        outcome=outcomes.of_tasks(conn, [row["task_id"]])[row["task_id"]],
        settled=row["status"] in TERMINAL_TASKS and standing["merge_state"] not in OPEN_MERGES,
        news=events.listing(conn, task_id=row["task_id"], after_id=place.event_id),
        runners={attempt["number"]: attempt["runner"] for attempt in attempt_rows.of_task(conn, row["task_id"])},
    )


class _Reader:
    """Merges the events of a snapshot with the output of the attempts, in order; reads files."""

    def __init__(self, folder: Path, place: Place, snapshot: _Snapshot) -> None:
        self.place = place
        self._folder = folder
        self._snapshot = snapshot

    def entries(self) -> list[Payload]:
        """The next entries; at most one part of output, as the last."""
        entries: list[Payload] = []
        for event in self._snapshot.news:
            if event["kind"] not in _STARTING and (part := self._output()) is not None:
                return [*entries, part]
            entries.append({"kind": event["kind"], "at": event["at"], "data": event["data"]})
            claimed = payload(event, EventKind.TASK_CLAIMED)
            attempt, offset = (claimed["token"], 0) if claimed else (self.place.attempt, self.place.offset)
            self.place = Place(event["event_id"], attempt, offset)
        part = self._output()
        return entries if part is None else [*entries, part]

    def _output(self) -> Payload | None:
        """The next part of the attempt's output, as a person reads it; None: there is none yet."""
        row, number = self._snapshot.row, self.place.attempt
        runs = row["status"] == TaskStatus.RUNNING and row["fencing_token"] == number
        if runs and row["started_at"] is None:  # it may print before its start is recorded: that event comes first
            return None
        while number:
            text, offset = read_part(self._folder / f"{number}.log", self.place.offset, growing=runs)
            if not text:
                return None
            self.place = Place(self.place.event_id, number, offset)
            if traits(self._snapshot.runners.get(number)).streams:
                text = readable(text)
            if text:
                return {"kind": OUTPUT, "attempt": number, "text": text}
        return None


async def follow(services: Services, task_id: str, place: Place, wait_s: float) -> Payload:
    """Return the next part; wait up to ``wait_s`` seconds for an entry.

    Raises:
        NotFound: No such task.
    """
    deadline = time.monotonic() + wait_s
    while True:
        snapshot = await services.store.read(_take_snapshot, task_id, place)
        reader = _Reader(services.project.logs_dir / "tasks" / snapshot.row["task_id"], place, snapshot)
        entries = await services.work(reader.entries)
        left_s = deadline - time.monotonic()
        complete = snapshot.settled and not entries
        if entries or complete or left_s <= 0 or services.stopping:
            return {
                "task_id": snapshot.row["task_id"],
                "status": snapshot.row["status"],
                "outcome": snapshot.outcome,
                "entries": entries,
                "next": str(reader.place),
                "complete": complete,
            }
        place = reader.place
        runs = snapshot.row["status"] == TaskStatus.RUNNING
        await services.changes.next(min(left_s, POLL_S if runs else QUIET_S))
