"""Working off the roadmap: what is next in the file goes to the queue, and what became of it goes back into the file.

The database is the authority on what runs and how it ended, the file on what is wanted. A round reads both, and may be cut
short or repeated anywhere: a queue task carries the id of its roadmap task as its idempotency key, and the file is written
before the queue task remembers that it was.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection

from corral.config.document import DocumentError
from corral.config.model import Settings
from corral.config.paths import Project
from corral.errors import Conflict, CorralError
from corral.models.payload import Payload
from corral.models.states import TaskStatus
from corral.models.tasks import TaskSubmission
from corral.observe.logs import logger
from corral.store.protocol import Store
from corral.store.rows.tasks import RoadmapTaskRow
from corral.store.tasks import roadmap as rows_of
from corral.work.roadmap import file, sync
from corral.work.roadmap.checks import KEY, read_roadmap, submission_of
from corral.work.roadmap.document import PENDING, STATUSES, Problem, Roadmap, RoadmapTask, with_statuses
from corral.work.tasks import dismissal, tasks

NAME = "roadmap.yaml"

LOOK_EVERY_S = 2.0
"""How often the file is asked whether it has changed, while it is worked on."""

SHOWN_NEXT = 5
"""Tasks that a status names as the next ones."""

_LINE = re.compile(r"line (\d+): ")

Rows = dict[str, RoadmapTaskRow]
Settle = Callable[[Sequence[TaskSubmission]], list[TaskSubmission]]

log = logger("roadmap")


class RoadmapSupervision:
    """Brings the roadmap and the queue together, one round at a time.

    Args:
        settle: Says what executes each submission; raises what nobody here could do.
        nudge: Tells the queue that there is something new.
    """

    def __init__(
        self, db: Store, project: Project, settings: Callable[[], Settings], settle: Settle, nudge: Callable[[], None]
    ) -> None:
        self._db = db
        self._project = project
        self._settings = settings
        self._settle = settle
        self._nudge = nudge
        self._turn = threading.Lock()
        self._parsed: tuple[file.Stamp, Roadmap] | None = None
        self._error: Problem | None = None
        self._unwritten: Problem | None = None
        self._refused: list[Problem] = []

    @property
    def path(self) -> Path:
        """The roadmap's file."""
        return self._project.root / self._settings().supervisor.state_dir / NAME

    def step(self, now: datetime) -> datetime | None:
        """A round of the daemon's own: while the roadmap is worked on, and until the file knows what became of its tasks."""
        is_on, rows = self._db.read(lambda conn: (rows_of.since(conn) is not None, _rows(conn)))
        if not is_on and not any(sync.is_untold(row) for row in rows.values()):
            with self._turn:
                self._parsed, self._error, self._unwritten, self._refused = None, None, None, []
            return None
        with self._turn:
            has_changed = self._round(now, picking=is_on)
        return now if has_changed else now + timedelta(seconds=LOOK_EVERY_S)

    def start(self, now: datetime) -> None:
        """Work on the roadmap from now on, through every restart."""
        self._db.write(lambda conn: rows_of.begin(conn, now))

    def stop(self) -> bool:
        """Pick no further tasks; what the queue has goes on. Returns whether the roadmap was worked on."""
        return self._db.write(rows_of.end)

    def once(self, now: datetime) -> None:
        """Plan one round, also while the roadmap is not worked on."""
        with self._turn:
            for _part in range(3):  # what was changed in the file is withdrawn, then submitted
                if not self._round(now, picking=True):
                    return

    def problems(self) -> list[Problem]:
        """The errors that keep the roadmap, or tasks of it, from being worked on, as the last round found them."""
        of_file = [problem for problem in (self._error, self._unwritten) if problem is not None]
        parsed = self._parsed
        return [*of_file, *(parsed[1].problems if parsed else ()), *self._refused]

    def status(self) -> Payload:
        """Since when it is worked on, its tasks by status, what is next, and what is wrong."""
        with self._turn:
            since, rows = self._db.read(lambda conn: (rows_of.since(conn), _rows(conn)))
            roadmap = self._read()
            error, refused = self._error or self._unwritten, list(self._refused)
        tasks_by_status = Counter(task.status for task in roadmap.tasks)
        following = sync.candidates(roadmap, rows)
        return {
            "supervised": since is not None,
            "since_at": since,
            "file": str(self.path),
            "error": error.to_wire() if error else None,
            "problems": [problem.to_wire() for problem in (*roadmap.problems, *refused)],
            "tasks": {status: tasks_by_status[status] for status in STATUSES},
            "open": sum(sync.is_open(row) for row in rows.values()),
            "room": max(0, sync.room(rows, self._settings().supervisor.max_agents)),
            "next": [
                {"id": task.task_id, "title": task.title, "priority": task.priority} for task in following[:SHOWN_NEXT]
            ],
        }

    # -- one round -------------------------------------------------------------------------------------------------

    def _round(self, now: datetime, *, picking: bool) -> bool:
        """Returns whether something was changed, so that another round may find more to do."""
        roadmap = self._read()
        if self._error is not None:
            return False
        rows = self._db.read(_rows)
        wanted = _wanted(roadmap, rows)
        changes = sync.compare(roadmap, rows, wanted, picking=picking)
        told = dict(changes.told)
        if changes.write:
            roadmap = self._write(changes.write, told, rows)
        chosen = self._choose(roadmap, rows) if picking else []
        if not (told or changes.withdraw or chosen):
            return False
        refused = self._db.write(lambda conn: self._apply(conn, changes, told, chosen, now))
        self._refused += refused
        if len(chosen) > len(refused) or changes.withdraw:
            self._nudge()
        return bool(told or changes.withdraw or len(chosen) > len(refused))

    def _read(self) -> Roadmap:
        """The roadmap as the file has it now; ``_error`` says why there is none."""
        try:
            if self._parsed is None or file.stamp_of(self.path) != self._parsed[0]:
                found = file.read(self.path)
                self._parsed = (found.stamp, read_roadmap(found.data))
        except (OSError, DocumentError) as error:
            self._parsed, self._error = None, self._failure(error, self._error)
            return Roadmap()
        self._error = None
        return self._parsed[1]

    def _failure(self, error: OSError | DocumentError, known: Problem | None) -> Problem:
        if isinstance(error, FileNotFoundError):
            message = f"There is no roadmap {self.path}"
        elif isinstance(error, OSError):
            message = f"{self.path} cannot be read or written: {error.strerror or error}"
        else:
            message = f"{self.path}: {error}"
        if known is None or known.message != message:
            log.warning("roadmap_unusable", message=message)
        line = _LINE.match(str(error))
        return Problem(message, int(line[1]) if line else None)

    def _write(self, writes: Mapping[str, tuple[str, str]], told: dict[str, str], rows: Rows) -> Roadmap:
        """Write statuses where the file still has the former one; what could not be written is not told."""

        def edit(data: bytes) -> bytes:
            now_there = {task.task_id: task.status for task in read_roadmap(data).sound}
            return with_statuses(data, {key: to for key, (was, to) in writes.items() if now_there.get(key) == was})

        try:
            written = file.change(self.path, edit)
        except (OSError, DocumentError) as error:
            self._unwritten, written = self._failure(error, self._unwritten), None
        if written is None:
            for task_id in writes:
                told.pop(rows[task_id]["task_id"], None)
            return self._parsed[1] if self._parsed else Roadmap()
        self._unwritten = None
        self._parsed = (written.stamp, read_roadmap(written.data))
        return self._parsed[1]

    def _choose(self, roadmap: Roadmap, rows: Rows) -> list[tuple[RoadmapTask, TaskSubmission]]:
        """The tasks that go to the queue now, settled; one that nobody here can do is skipped, and shown as an error."""
        self._refused = []
        chosen: list[tuple[RoadmapTask, TaskSubmission]] = []
        left = sync.room(rows, self._settings().supervisor.max_agents)
        for task in sync.candidates(roadmap, rows):
            if len(chosen) >= left:
                break
            try:
                (submission,) = self._settle([submission_of(task)])
            except CorralError as error:
                self._refused.append(Problem(error.message, task.line, task.task_id))
                continue
            chosen.append((task, submission.model_copy(update={"wait_for": sync.parents(task, rows)})))
        return chosen

    def _apply(
        self,
        conn: Connection,
        changes: sync.Changes,
        told: Mapping[str, str],
        chosen: Sequence[tuple[RoadmapTask, TaskSubmission]],
        now: datetime,
    ) -> list[Problem]:
        rows = _rows(conn)
        rules = self._settings().tasks
        for row in rows.values():
            if (status := told.get(row["task_id"])) is not None:
                _tell(conn, row, status)
            reason = changes.withdraw.get(row["task_id"])
            if reason is not None and sync.is_not_begun(row):
                tasks.cancel(conn, row["task_id"], now, rules, reason=reason)
                rows_of.rename_key(conn, row["task_id"], _former(row))
        refused: list[Problem] = []
        for task, submission in chosen:
            try:
                with conn.begin_nested():
                    self._queue(conn, rows.get(task.task_id), submission, now)
            except CorralError as error:
                refused.append(Problem(error.message, task.line, task.task_id))
        return refused

    def _queue(self, conn: Connection, row: RoadmapTaskRow | None, submission: TaskSubmission, now: datetime) -> None:
        """Submit a task, or run it again: as it was if the file still says the same, else as a new task in its place."""
        settings = self._settings()
        if row is not None:
            if not sync.can_run_again(row):
                raise Conflict(f"Task {row['task_id']} has moved on.")
            if sync.status_of(row) != "done" and sync.is_same_work(row, submission):
                tasks.retry(conn, row["task_id"], now, settings.tasks)
                _tell(conn, row, PENDING)
                return
            rows_of.rename_key(conn, row["task_id"], _former(row))
            if row["status"] in (TaskStatus.FAILED, TaskStatus.DEAD) or sync.status_of(row) == "blocked":
                _dismiss(conn, row, now)
        tasks.submit(conn, submission, now, settings.tasks, max_size=settings.queue.max_size)


def _rows(conn: Connection) -> Rows:
    return {str(row["idempotency_key"]).removeprefix(KEY): row for row in rows_of.with_keys(conn, KEY)}


def _wanted(roadmap: Roadmap, rows: Rows) -> dict[str, TaskSubmission]:
    """The submissions that the tasks which have not begun would be now."""
    begun = {task_id for task_id, row in rows.items() if not sync.is_not_begun(row)}
    return {
        task.task_id: submission_of(task)
        for task in roadmap.sound
        if task.task_id in rows and task.task_id not in begun
    }


def _tell(conn: Connection, row: RoadmapTaskRow, status: str) -> None:
    rows_of.set_metadata(conn, row["task_id"], {**(row["metadata"] or {}), sync.TOLD: status})


def _former(row: RoadmapTaskRow) -> str:
    """The key of a queue task that another one has taken the place of."""
    return f"roadmap-was:{row['task_id']}"


def _dismiss(conn: Connection, row: RoadmapTaskRow, now: datetime) -> None:
    """Another task takes the place of one that failed, which is settled with that."""
    try:
        dismissal.dismiss(conn, row["task_id"], now)
    except Conflict:  # it was cancelled: nothing failed
        return
