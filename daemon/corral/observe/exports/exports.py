"""The supervisor's files: lifecycle, leases and evidence, written from the event log in the background.

The database is the authority. The job reads what others have committed, so nobody waits for it; a file that cannot be written
stops nothing, is shown (``status``, ``doctor``), and is caught up with as soon as it can be. A line is appended before the
reader's place is stored, and what a file holds is read from its end: no line is lost or written twice wherever the daemon dies.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from corral.config.paths import Project
from corral.config.sections.work import Supervisor
from corral.coordination.services import Services
from corral.core.crash import crash_point
from corral.core.errors import FolderLinked
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.steps import Step
from corral.git.process.command import Git
from corral.observe.exports import store as exports
from corral.observe.exports.evidence import Evidence
from corral.observe.exports.state_files import Lines, reason_of
from corral.store import events
from corral.store.protocol import Store
from corral.work.evidence import lines

PAGE = 200
"""Events that one step exports at most."""
PAUSE_S = 0.2
"""Least time between two steps, seconds."""
AGAIN = timedelta(seconds=5)
"""Until the next try after one that failed."""
FAR_BEHIND = 100
"""Events without a line after which the place is stored all the same: old events are kept until every reader is past them."""
_READER = "exports"
_NEWS = exports.of_executed(lines.KINDS)

log = logger("exports")


def top_of(folder: Path, project: Project) -> Path:
    """The folder below which nothing on the way to the files may be a link."""
    return project.root if folder.is_relative_to(project.root) else folder.parent


class Exports:
    """Step: append the lines of the events that the files do not have yet, then the evidence of what has ended.

    Args:
        git: The repository, for what agents committed.
        folder: The supervisor's folder, as it is configured at the moment.
        rules: The settings of the supervisor.
        faults: Where a person is told that something cannot be written.
    """

    def __init__(
        self,
        db: Store,
        project: Project,
        git: Git,
        folder: Callable[[], Path],
        faults: dict[str, Need],
        rules: Callable[[], Supervisor] = Supervisor,
    ) -> None:
        self._db = db
        self._evidence = Evidence(db, project, git, rules)
        self._project = project
        self._folder = folder
        self._fault = Fault(faults, "exports", "exports")
        self._files: tuple[Path, Lines, Lines] | None = None
        self._seen = (0, 0, 0)
        self._stored: int | None = None

    def step(self, now: datetime) -> datetime | None:
        """Write one page; look again at once if there may be more."""
        try:
            is_more = self._write_lines()
            if not is_more:
                folder = self._folder()
                is_more = self._evidence.write(folder / "evidence", top_of(folder, self._project))
        except (OSError, FolderLinked) as error:
            self._failed(error, now)
            return now + AGAIN
        if self._fault.end():
            log.info("exports_go_on")
        return now if is_more else None

    def finish(self, now: datetime, pages: int) -> None:
        """Write what is left, at the end, when nobody else steps: at most so many pages; the next start writes the rest."""
        for _page in range(pages):
            if self.step(now) != now:
                return

    def _write_lines(self) -> bool:
        lifecycle, leases = self._lines()
        newest = self._db.read(events.newest)
        places = lifecycle.position(newest), leases.position(newest)
        after, *known = self._seen
        if places != tuple(known):  # the first look, or somebody has changed a file
            after = min(places)
        with self._db.reading() as conn:
            page, reached = events.following(conn, _NEWS, after, PAGE)
        is_more = len(page) == PAGE
        if page:
            exported = self._exported([str(event["task_id"]) for event in page], after, page[-1]["event_id"])
            lifecycle.append(line.lifecycle for line in exported if line.event_id > places[0])
            crash_point("exports.lifecycle_written")
            leases.append(line.lease for line in exported if line.lease is not None and line.event_id > places[1])
            crash_point("exports.leases_written")
        if page or reached - (self._stored or 0) > FAR_BEHIND:
            self._db.write(events.move_position, _READER, reached)
            self._stored = reached
        self._seen = (reached, lifecycle.position(reached), leases.position(reached))
        return is_more

    def _exported(self, task_ids: list[str], after: int, until: int) -> list[lines.Exported]:
        """The lines of these tasks for the events after ``after`` up to ``until``, in order."""
        ids = list(dict.fromkeys(task_ids))
        with self._db.reading() as conn:
            tasks, histories = (exports.named(conn, ids), exports.histories(conn, lines.KINDS, ids, until))
        lines_of_tasks = [line for task_id in ids for line in lines.of_task(tasks[task_id], histories[task_id])]
        return sorted((line for line in lines_of_tasks if line.event_id > after), key=lambda line: line.event_id)

    def _lines(self) -> tuple[Lines, Lines]:
        folder = self._folder()
        if self._files is None or self._files[0] != folder:
            top = top_of(folder, self._project)
            lifecycle = Lines(folder / "analytics" / "supervisor_lifecycle.jsonl", top)
            self._files = folder, lifecycle, Lines(folder / "supervisor_leases.jsonl", top)
            self._seen = (0, 0, 0)
        return self._files[1:]

    def _failed(self, error: OSError | FolderLinked, now: datetime) -> None:
        reason, remedy = reason_of(error, self._folder())
        if self._fault.show(
            f"The supervisor's files cannot be written; what is missing follows by itself once they can. {reason}",
            remedy,
            now,
        ):
            log.warning("exports_not_written", reason=reason)


def job(services: Services) -> Step:
    """The job of this module."""

    def rules() -> Supervisor:
        return services.settings().supervisor

    exports = Exports(services.db, services.project, services.git, services.state_dir, services.faults, rules)
    services.bring(exports)
    return Step("exports", exports.step, pause_s=PAUSE_S, reads_events=True)
