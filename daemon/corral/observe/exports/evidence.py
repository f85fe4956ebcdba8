"""The evidence of each task that is over, in its own folder, written once its merge is over too.

A folder is written whole, and again when the task is retried, so it does no harm to write it twice: the reader's place is stored
once everything up to it is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Connection

from corral.config.links import make_own_folder
from corral.config.paths import Project
from corral.config.sections.work import Supervisor
from corral.core.crash import crash_point
from corral.core.errors import CorralError, FolderLinked
from corral.core.events import MERGE_ENDS, EventKind
from corral.core.logs import logger
from corral.core.redaction import redact
from corral.core.run_heading import run_heading
from corral.core.states import PHASES, TaskStatus
from corral.git import history, refs
from corral.git.process.command import Git
from corral.landing import runs
from corral.observe.announcements import store as announcements
from corral.observe.exports import store as exports
from corral.observe.exports.state_files import replace
from corral.store import events
from corral.store.protocol import Store
from corral.work.evidence import bundle, lines
from corral.work.evidence.bundle import Record
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.merges.store import receipts
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import outcomes, tasks

PAGE = 100
"""Events that one step looks at."""
AT_ONCE = 5
"""Folders that one step writes."""
MOST_OF_A_FILE = 64 << 10
"""Bytes that are copied of a file that the agent wrote."""
MOST_OF_A_BLOB = 4 << 20
"""Bytes of a file from which on none of it is copied."""
MOST_OF_A_LOG = 256 << 10
"""Bytes that are copied of the end of a verification's log."""
FAR_BEHIND = 100
"""Events of other kinds after which the place is stored all the same: the next start does not look at them again."""
LONGEST_SECRET = 8 << 10
"""Bytes that are read before a cut, so that no half of a secret stands behind it."""
_READER = "evidence"
_NEWS = exports.of_executed(
    (
        EventKind.TASK_COMPLETED,
        EventKind.TASK_FAILED,
        EventKind.TASK_DEAD,
        EventKind.TASK_CANCELLED,
        EventKind.WORKTREE_SALVAGED,
        *MERGE_ENDS.values(),
    )
)

log = logger("exports")


class Evidence:
    """Writes what is due, a few folders at a time.

    Args:
        git: The repository, for what the agent committed.
        rules: The settings of the supervisor, for the phases that a task is asked for.
    """

    def __init__(self, db: Store, project: Project, git: Git, rules: Callable[[], Supervisor]) -> None:
        self._db = db
        self._rules = rules
        self._project = project
        self._git = git
        self._folder: Path | None = None
        self._seen = 0
        self._stored = 0
        self._due: dict[str, None] = {}

    def write(self, folder: Path, top: Path) -> bool:
        """Write the folders of tasks that have ended since; returns whether there is more to do at once.

        Args:
            folder: Of all tasks' folders.
            top: Below it no part of a path may be a link.

        Raises:
            FolderLinked: A link stands in the place of a folder; the others are written.
            OSError: One cannot be written; the same.
        """
        if self._folder != folder:
            self._begin(folder)
        with self._db.reading() as conn:
            page, self._seen = events.following(conn, _NEWS, self._seen, PAGE)
        self._due.update(dict.fromkeys(str(event["task_id"]) for event in page))
        had_due = bool(self._due)
        problem: OSError | FolderLinked | None = None
        for task_id in list(self._due)[:AT_ONCE]:
            del self._due[task_id]
            try:
                self._write_one(task_id, folder, top)
            except (OSError, FolderLinked) as error:
                self._due[task_id] = None  # behind the others
                problem = error
        if problem is not None:
            raise problem
        if not self._due and (had_due or self._seen > self._stored + FAR_BEHIND):
            self._db.write(events.move_position, _READER, self._seen)
            self._stored = self._seen
        return bool(self._due) or len(page) == PAGE

    def _begin(self, folder: Path) -> None:
        """Mark as due every ended task without a folder, and every task that has ended since the last run."""

        def look(conn: Connection) -> tuple[int, int | None, list[str]]:
            newest, stored = events.newest(conn), events.position(conn, _READER)
            over = exports.ended(conn)
            return (
                newest,
                stored,
                [task["task_id"] for task in over if not _is_there(folder / bundle.folder_name(task))],
            )

        newest, stored, missing = self._db.read(look)
        self._seen = self._stored = newest if stored is None else stored
        if stored is None:
            self._stored = -1 - FAR_BEHIND  # to be stored, with nothing written before
        self._due = dict.fromkeys(missing)
        self._folder = folder

    def _write_one(self, task_id: str, folder: Path, top: Path) -> None:
        with self._db.reading() as conn:
            record = _record(conn, task_id)
        if record is None or not record.is_settled:  # its end, or that of its merge, is an event of its own
            return
        place = folder / bundle.folder_name(record.exported)
        head = self._commit(record)
        content = self._produced(record, head)
        asked = bundle.of_task(record.task, self._rules())
        missing = asked.missing(content.keys())
        verification = self._verification_log(record)
        if verification is not None:
            content[bundle.LOG] = verification
        changes = self._changes(record, head)
        others = sorted(content)
        content[bundle.LIFECYCLE] = bundle.lifecycle(record, asked.phases, missing)
        content[bundle.SUMMARY] = bundle.summary(record, changes, others, asked.phases, missing)
        former = {bundle.LOG, *(f"{phase}.md" for phase in PHASES)} - content.keys()
        make_own_folder(place, top)
        for name in former:
            (place / name).unlink(missing_ok=True)
        for name, text in content.items():  # the summary last: it names the others
            replace(place / name, text, top)
            crash_point("exports.evidence_file_written")

    def _commit(self, record: Record) -> str | None:
        """The commit with the agent's work: that of its merge request, else the saved one, else its branch."""
        if record.merge is not None:
            return record.merge["head_sha"]
        head, branch = record.task["head_sha"], record.task["branch"]
        if head is not None or (record.task["status"] == TaskStatus.COMPLETED and record.saved is None):
            return head  # without one, it has made nothing
        names = [record.saved, refs.branch_ref(branch) if branch else None]
        try:
            commits = (refs.read(self._git, name) for name in names if name)
            return next((sha for sha in commits if sha), None)
        except CorralError as error:
            log.info("evidence_without_commit", task_id=record.task["task_id"], reason=error.message)
            return None

    def _changes(self, record: Record, head: str | None) -> str | None:
        try:
            base = record.base_sha
            return history.diff_stat(self._git, base, head) if head and base and head != base else None
        except CorralError as error:  # a pruned commit must not hide the task
            log.info("evidence_without_changes", task_id=record.task["task_id"], reason=error.message)
            return None

    def _produced(self, record: Record, head: str | None) -> dict[str, bytes]:
        """The files that the agent wrote of its phases, by name; one in the folder for them counts before one at the top."""
        try:
            base = record.base_sha
            if head is None or head == base:
                return {}
            return self._phases(base or refs.empty_tree(head), head)
        except CorralError as error:
            log.info("evidence_without_files", task_id=record.task["task_id"], reason=error.message)
            return {}

    def _phases(self, base: str, head: str) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for name, change in bundle.files(self._git, base, head).items():
            if int(self._git.must("cat-file", "-s", change.new_blob)) > MOST_OF_A_BLOB:
                continue
            content = _without_secrets(refs.show_file(self._git, head, change.path) or b"")
            cut = f"\n\n(Cut: {change.path} of {head[:12]} has {len(content)} bytes.)\n".encode(errors="replace")
            files[name] = content if len(content) <= MOST_OF_A_FILE else content[:MOST_OF_A_FILE] + cut
        return files

    def _verification_log(self, record: Record) -> bytes | None:
        merge = record.merge
        if merge is None or record.receipt is None:
            return None
        with self._db.reading() as conn:
            listed = runs.listing(conn, self._project, merge)
        run = next((run for run in listed if run.decided), None)
        log_file = runs.log_of(self._project, run) if run is not None else None
        tail = end_of_log(log_file, runs.begins_at(log_file)) if log_file is not None else None
        return run_heading(run.model_dump()).encode() + tail if run is not None and tail is not None else None


def end_of_log(log: Path, first: int = 0) -> bytes | None:
    """The end of a log, without its secrets, which may not be overwritten yet; None where there is none any more.

    Args:
        first: The offset of its first byte that counts.
    """
    try:
        handle = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        begin = max(first, size - MOST_OF_A_LOG)
        file.seek(max(first, begin - LONGEST_SECRET))
        content = _without_secrets(file.read(MOST_OF_A_LOG + LONGEST_SECRET))
        cut = f"(Cut: the last {MOST_OF_A_LOG} of {size} bytes.)\n".encode()
        return cut + content[-MOST_OF_A_LOG:] if begin > first else content


def _without_secrets(content: bytes) -> bytes:
    """Redact the whole file that an agent wrote: half of a secret would not be recognised."""
    return redact(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _is_there(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (bundle.LIFECYCLE, bundle.SUMMARY))


def _record(conn: Connection, task_id: str) -> Record | None:
    row = tasks.get(conn, task_id)
    if row is None:
        return None
    merge = merge_tasks.decisive(conn, task_id)
    saved: Sequence[str] = [state["ref"] for state in announcements.saved(conn, task_id, 1)] if merge is None else []
    return Record(
        task=row,
        outcome=outcomes.of_tasks(conn, [task_id])[task_id],
        attempts=attempt_rows.of_task(conn, task_id),
        history=exports.histories(conn, lines.KINDS, [task_id])[task_id],
        merge=merge,
        receipt=receipts.get(conn, merge["receipt_id"]) if merge is not None else None,
        saved=next(iter(saved), None),
    )
