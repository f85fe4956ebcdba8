"""Supervision of the roadmap: submit the next tasks of the file to the queue, and write their outcomes into the file.

The database is the authority on what runs and how it ended, the file on what is wanted. A round reads both, and may be cut
short or repeated anywhere: a queue task carries the id of its roadmap task as its idempotency key, and the file is written
before the queue task remembers that it was.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from corral.config.document import MAX_BYTES, DocumentError
from corral.config.model import Settings
from corral.config.ownership import is_foreign, is_safe
from corral.config.paths import Project
from corral.config.trust import Claim
from corral.coordination.services import Services
from corral.core.errors import RACED, Conflict, CorralError, InvalidInput
from corral.core.logs import logger
from corral.core.states import MergeState, TaskStatus
from corral.core.steps import Step
from corral.store.protocol import Store
from corral.store.rows.tasks import RoadmapTaskRow
from corral.work.evidence.bundle import OF_ROADMAP
from corral.work.merges.store import merges
from corral.work.roadmap import store as rows_of
from corral.work.roadmap import sync
from corral.work.roadmap.api import Supervision
from corral.work.roadmap.checks import KEY, PRIORITY, WORK, read_roadmap, submission_of
from corral.work.roadmap.document import (
    BLOCKED,
    DONE,
    IN_PROGRESS,
    PENDING,
    Problem,
    Roadmap,
    RoadmapTask,
    with_statuses,
)
from corral.work.roadmap.sync import notes
from corral.work.tasks import tasks
from corral.work.tasks.submitting import settle
from corral.work.tasks.wire import TaskSubmission

NAME = "roadmap.yaml"

LOOK_EVERY_S = 2.0
"""Between two checks of the file for changes, seconds, while the roadmap is worked on."""

AT_REST_S = 1.0
"""After somebody's change of the file, how long it must stay as it is before anything is written or withdrawn: an editor
may write it in parts, and a part of it says nothing about the rest."""

SHOWN_NEXT = 5
"""Tasks that a status names as the next ones."""

_NO_ROADMAP = "Write it, or end the supervisor: corral supervisor stop. Tasks that you submit run without it."
_LINE = re.compile(r"line (\d+): ")

Rows = dict[str, RoadmapTaskRow]
Settle = Callable[[Sequence[TaskSubmission]], list[TaskSubmission]]
Unapproved = Callable[[Iterable[Claim]], list[Claim]]

log = logger("roadmap")


class RoadmapSupervision:
    """Brings the roadmap and the queue together, one round at a time.

    Args:
        settle: Says what executes each submission; raises what nobody here could do.
        unapproved: Those of some commands that the user has not approved on this machine.
        nudge: Tells the queue that there is something new.
    """

    def __init__(
        self,
        db: Store,
        project: Project,
        settings: Callable[[], Settings],
        settle: Settle,
        unapproved: Unapproved,
        nudge: Callable[[], None],
    ) -> None:
        self._db = db
        self._project = project
        self._settings = settings
        self._settle = settle
        self._unapproved = unapproved
        self._nudge = nudge
        self._turn = threading.Lock()
        self._parsed: tuple[Stamp, Roadmap] | None = None
        self._error: Problem | None = None
        self._unwritten: Problem | None = None
        self._written: Stamp | None = None
        self._refused: list[Problem] = []

    @property
    def path(self) -> Path:
        """The roadmap's file."""
        return self._project.root / self._settings().supervisor.state_dir / NAME

    def step(self, now: datetime) -> datetime | None:
        """Do a round: while the roadmap is worked on, and until the outcomes of its tasks are in the file."""
        with self._db.reading() as conn:
            is_on, rows = (rows_of.since(conn) is not None, _rows(conn))
        if not is_on and not any(sync.is_unrecorded(row) for row in rows.values()):
            with self._turn:
                self._parsed, self._error, self._unwritten, self._refused = None, None, None, []
            return None
        with self._turn:
            has_changed = self._round(now, picking=is_on)
        return now if has_changed else now + timedelta(seconds=LOOK_EVERY_S)

    def start(self, now: datetime) -> None:
        """Work on the roadmap from now on, through every restart."""
        self._db.write(rows_of.begin, now)

    def stop(self) -> bool:
        """Pick no further tasks; what the queue has goes on. Returns whether the roadmap was worked on."""
        return self._db.write(rows_of.end)

    def once(self, now: datetime) -> None:
        """Plan one round, also while the roadmap is not worked on."""
        with self._turn:
            for _part in range(3):  # what was changed in the file is withdrawn, then submitted
                if not self._round(now, picking=True, at_rest=True):
                    return

    def problems(self) -> list[Problem]:
        """The errors of the last round that keep the roadmap, or tasks of it, from being worked on."""
        of_file = [problem for problem in (self._error, self._unwritten) if problem is not None]
        parsed = self._parsed
        return [*of_file, *(parsed[1].problems if parsed else ()), *self._refused]

    def unapproved(self) -> list[Claim]:
        """Commands and prompts of the roadmap that the user has not approved; empty while it is not worked on."""
        is_on = self._db.read(rows_of.since) is not None
        with self._turn:
            return self._unapproved(self._read().claims.values()) if is_on else []

    def waiting_for_approval(self, conn: Connection) -> list[Claim]:
        """The same of the pending tasks, as of the last round."""
        parsed = self._parsed
        if parsed is None or rows_of.since(conn) is None:
            return []
        pending = (task.task_id for task in parsed[1].sound if task.status == PENDING)
        return self._unapproved(claim for task_id in pending if (claim := parsed[1].claims.get(task_id)) is not None)

    def is_any_pending(self, conn: Connection) -> bool:
        """Whether it is worked on, and has tasks that nobody has picked, as of the last round."""
        parsed = self._parsed
        tasks = parsed[1].sound if parsed is not None and rows_of.since(conn) is not None else ()
        return any(task.status == PENDING for task in tasks)

    def status(self) -> Supervision:
        """Since when it is worked on, its tasks by status, what is next, what waits and why, and what is wrong."""
        with self._turn:
            with self._db.reading() as conn:
                since, rows, held = (rows_of.since(conn), _rows(conn), merges.listing(conn, [MergeState.HELD]))
            roadmap = self._read()
            error, refused = self._error or self._unwritten, list(self._refused)
        unapproved = self._unapproved(roadmap.claims.values())
        tasks_by_status = Counter(task.status for task in roadmap.tasks)
        following = sync.candidates(roadmap, rows)
        return {
            "supervised": since is not None,
            "since_at": since,
            "file": str(self.path),
            "error": error.to_wire() if error else None,
            "problems": [problem.to_wire() for problem in (*roadmap.problems, *refused)],
            "notes": [
                note.to_wire() for note in notes(roadmap, rows, held, unapproved, is_supervised=since is not None)
            ],
            "unapproved": [{"key": claim.key, "value": claim.value, "source": claim.source} for claim in unapproved],
            "tasks": {
                "pending": tasks_by_status[PENDING],
                "in_progress": tasks_by_status[IN_PROGRESS],
                "blocked": tasks_by_status[BLOCKED],
                "done": tasks_by_status[DONE],
            },
            "open": sum(sync.is_open(row) for row in rows.values()),
            "room": max(0, sync.room(rows, self._settings().supervisor.max_agents)),
            "next": [
                {"id": task.task_id, "title": task.title, "priority": task.priority} for task in following[:SHOWN_NEXT]
            ],
        }

    # -- one round -------------------------------------------------------------------------------------------------

    def _round(self, now: datetime, *, picking: bool, at_rest: bool = False) -> bool:
        """Do one round; returns whether it changed something, so that another round may find more to do.

        Args:
            at_rest: Nobody is writing the file just now; if not, that is judged by its age.
        """
        roadmap = self._read()
        if self._error is not None:
            return False
        rows = self._db.read(_rows)
        changes = sync.compare(roadmap, rows, _works(roadmap, rows), picking=picking)
        if not (at_rest or self._is_at_rest(now)):
            _postpone(changes, rows)
        if changes.write:
            roadmap = self._write(changes, rows)
        chosen = self._choose(roadmap, rows) if picking else []
        if not (changes.recorded or changes.withdraw or changes.reprioritize or chosen):
            return False
        refused = self._db.write(self._apply, changes, chosen, now)
        self._refused += refused
        has_more = len(chosen) > len(refused)
        if has_more or changes.withdraw or changes.reprioritize:
            self._nudge()
        return bool(changes.recorded or changes.withdraw or has_more)

    def _read(self) -> Roadmap:
        """The roadmap as the file has it now; ``_error`` says why there is none."""
        try:
            if self._parsed is None or stamp_of(self.path) != self._parsed[0]:
                snapshot = read(self.path)
                self._parsed = (snapshot.stamp, self._roadmap_of(snapshot.data))
        except (OSError, DocumentError) as error:
            self._parsed, self._error = None, self._failure(error, self._error)
            return Roadmap()
        self._error = None
        return self._parsed[1]

    def _is_at_rest(self, now: datetime) -> bool:
        stamp = self._parsed[0] if self._parsed else None
        if stamp is None or stamp == self._written:
            return True
        return not 0 <= now.timestamp() - stamp[1] / 1e9 < AT_REST_S

    def _roadmap_of(self, data: bytes) -> Roadmap:
        return read_roadmap(data, os.path.relpath(self.path, self._project.root))

    def _failure(self, error: OSError | DocumentError, known: Problem | None) -> Problem:
        remedy = None
        if isinstance(error, FileNotFoundError):
            message, remedy = f"There is no roadmap {self.path}", _NO_ROADMAP
        elif isinstance(error, OSError):
            message = f"{self.path} cannot be read or written: {error.strerror or error}"
        else:
            message = f"{self.path}: {error}"
        if known is None or known.message != message:
            log.warning("roadmap_unusable", message=message)
        line = _LINE.match(str(error))
        return Problem(message, int(line[1]) if line else None, remedy=remedy)

    def _write(self, changes: sync.Changes, rows: Rows) -> Roadmap:
        """Write each status whose former one is still in the file; a status that cannot be written has no other effect."""
        writes = changes.write

        def edit(data: bytes) -> bytes:
            now_there = {task.task_id: task.status for task in read_roadmap(data).sound}
            return with_statuses(data, {key: to for key, (was, to) in writes.items() if now_there.get(key) == was})

        try:
            written = change(self.path, edit)
        except (OSError, DocumentError) as error:
            self._unwritten, written = self._failure(error, self._unwritten), None
        if written is None:
            _postpone(changes, rows)
            return self._parsed[1] if self._parsed else Roadmap()
        self._unwritten, self._written = None, written.stamp
        self._parsed = (written.stamp, self._roadmap_of(written.data))
        return self._parsed[1]

    def _choose(self, roadmap: Roadmap, rows: Rows) -> list[tuple[RoadmapTask, TaskSubmission]]:
        """The tasks that go to the queue now, settled; one that nobody here can do is skipped, and shown as an error.

        So is one that would have executed what the user has not approved.
        """
        self._refused = []
        chosen: list[tuple[RoadmapTask, TaskSubmission]] = []
        room = sync.room(rows, self._settings().supervisor.max_agents)
        following = sync.candidates(roadmap, rows)
        unapproved = {claim.key for claim in self._unapproved(roadmap.claims[task.task_id] for task in following)}
        for task in following:
            if len(chosen) >= room:
                break
            if roadmap.claims[task.task_id].key in unapproved:
                continue
            try:
                (submission,) = self._settle([submission_of(task)])
            except CorralError as error:
                self._refused.append(_refusal(task, error))
                continue
            chosen.append((task, submission.model_copy(update={"wait_for": sync.parents(task, rows)})))
        return chosen

    def _apply(
        self,
        conn: Connection,
        changes: sync.Changes,
        chosen: Sequence[tuple[RoadmapTask, TaskSubmission]],
        now: datetime,
    ) -> list[Problem]:
        rows = _rows(conn)
        rules = self._settings().tasks
        for row in rows.values():
            task_id = row["task_id"]
            if (status := changes.recorded.get(task_id)) is not None:
                _remember(conn, row, sync.STATUS, status)
            if not sync.is_waiting(row):
                continue
            if (reason := changes.withdraw.get(task_id)) is not None:
                tasks.cancel(conn, task_id, now, rules, reason=reason)
                rows_of.rename_key(conn, task_id, _former(row))
            elif (priority := changes.reprioritize.get(task_id)) is not None:
                tasks.reprioritize(conn, task_id, priority, now)
                _remember(conn, row, PRIORITY, priority)
        refused: list[Problem] = []
        for task, submission in chosen:
            try:
                with conn.begin_nested():
                    self._queue(conn, rows.get(task.task_id), submission, now)
            except CorralError as error:
                refused.append(_refusal(task, error))
        return refused

    def _queue(self, conn: Connection, row: RoadmapTaskRow | None, submission: TaskSubmission, now: datetime) -> None:
        """Submit a task, or run it again: as it was if the file still says the same, else as a new task in its place."""
        settings = self._settings()
        if row is not None:
            if not sync.can_run_again(row):
                raise Conflict(f"Task {row['task_id']} has moved on.", cause=RACED)
            if sync.status_of(row) != DONE and sync.is_same_work(row, _work(submission)):
                tasks.retry(conn, row["task_id"], now, settings.tasks)
                _remember(conn, row, sync.STATUS, PENDING)
                return
            rows_of.rename_key(conn, row["task_id"], _former(row))
            if row["status"] in (TaskStatus.FAILED, TaskStatus.DEAD) or sync.status_of(row) == "blocked":
                _dismiss(conn, row, now)
        tasks.submit(conn, submission, now, settings.tasks, max_size=settings.queue.max_size)


def _refusal(task: RoadmapTask, error: CorralError) -> Problem:
    """Why a task did not go to the queue; only what is invalid is a fault of the file."""
    remedy = None if isinstance(error, InvalidInput) else error.remedy
    return Problem(error.message, task.line, task.task_id, remedy)


def _rows(conn: Connection) -> Rows:
    return {str(row["idempotency_key"]).removeprefix(KEY): row for row in rows_of.with_keys(conn, KEY)}


def _postpone(changes: sync.Changes, rows: Rows) -> None:
    """Leave withdrawals and writes to a later round."""
    for task_id in changes.write:
        changes.recorded.pop(rows[task_id]["task_id"], None)
    changes.write.clear()
    changes.withdraw.clear()


def _works(roadmap: Roadmap, rows: Rows) -> dict[str, str]:
    """The work of each task that is in the queue, as the file describes it now."""
    known = (task for task in roadmap.sound if task.task_id in rows and task.status != DONE)
    return {task.task_id: _work(submission_of(task)) for task in known}


def _work(submission: TaskSubmission) -> str:
    return str((submission.metadata or {})[WORK])


def _remember(conn: Connection, row: RoadmapTaskRow, key: str, value: object) -> None:
    rows_of.set_metadata(conn, row["task_id"], {**(row["metadata"] or {}), key: value})


def _former(row: RoadmapTaskRow) -> str:
    """The idempotency key of a queue task that another one has replaced."""
    return OF_ROADMAP[1] + row["task_id"]


def _dismiss(conn: Connection, row: RoadmapTaskRow, now: datetime) -> None:
    """Dismiss a failed task, since another one takes its place."""
    try:
        tasks.dismiss(conn, row["task_id"], now)
    except Conflict:  # it was cancelled: nothing failed
        return


def job(services: Services) -> Step:
    """The job of this module."""
    supervision = RoadmapSupervision(
        services.db,
        services.project,
        services.settings,
        partial(settle, services),
        partial(services.settings.answers.missing, services.project.common_dir),
        lambda: services.nudge("supervisor"),
    )
    services.bring(supervision)
    return Step("roadmap", supervision.step, pause_s=0.2)


# -- The roadmap's file: read as a whole, and replaced as a whole, never over a change that somebody else made meanwhile

TRIES = 5
"""Tries of a change while others keep changing the file; the next round tries again."""

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Snapshot:
    """The file as it was read.

    Attributes:
        stamp: Differs after each change: its inode, modification time and size.
    """

    data: bytes
    stamp: Stamp
    mode: int


def read(path: Path) -> Snapshot:
    """Read the file.

    Raises:
        OSError: It cannot be read, or belongs to another user.
        DocumentError: It is no regular file, or too large, or is being written all the time.
    """
    if is_foreign(os.fspath(path)) and not is_safe(*path.parents):  # it names commands that are executed
        raise OSError("belongs to another user")
    for _try in range(TRIES):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode):
                raise DocumentError("is not a regular file")
            with os.fdopen(os.dup(handle), "rb") as file:
                data = file.read(MAX_BYTES + 1)
            if _stamp(os.fstat(handle)) == _stamp(before):
                return Snapshot(data, _stamp(before), stat.S_IMODE(before.st_mode))
        finally:
            os.close(handle)
    raise DocumentError("is being written all the time")


def change(path: Path, edit: Callable[[bytes], bytes]) -> Snapshot | None:
    """Replace the file by what ``edit`` makes of it; where somebody wrote it meanwhile, of that.

    It is replaced in one step: a reader finds the former content or the new one, also after a crash.

    Returns:
        The file as it is then; None if others kept changing it, and nothing was written.

    Raises:
        OSError: It cannot be read or replaced.
        DocumentError: Of ``edit``, or as :func:`read`.
    """
    target = Path(os.path.realpath(path))
    for _try in range(TRIES):
        snapshot = read(target)
        data = edit(snapshot.data)
        if data == snapshot.data:
            return snapshot
        handle, name = tempfile.mkstemp(prefix=".roadmap-", suffix=".tmp", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), snapshot.mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                stamp = _stamp(os.fstat(file.fileno()))
            if stamp_of(target) == snapshot.stamp:
                Path(name).replace(target)
                return Snapshot(data, stamp, snapshot.mode)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
    return None


def stamp_of(path: Path) -> Stamp | None:
    """The stamp of the file now; None where it cannot be asked for."""
    try:
        return _stamp(path.stat())
    except OSError:
        return None


def _stamp(status: os.stat_result) -> Stamp:
    return (status.st_ino, status.st_mtime_ns, status.st_size)
