"""The job that writes the audit: what the edges noted and what the event record says, into the chain, then into its export.

Nobody waits for it. A deed that an edge noted is in memory until the next step, at most :data:`PAUSE_S` seconds later, unless
there are more than a thousand a second: a daemon that is killed loses that much of it, and no event. The place in the event
record is stored in the transaction that appends its lines, so each event gives one line wherever the daemon dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.paths import Project
from corral.coordination.services import Services
from corral.core.crash import crash_point
from corral.core.errors import FolderLinked
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.steps import Step
from corral.observe.audit import reading, trail
from corral.observe.audit import store as audit_rows
from corral.observe.audit.tool_calls import note_worker
from corral.observe.audit.trail import AuditTrail
from corral.observe.exports.exports import top_of
from corral.observe.exports.state_files import Lines, reason_of
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows.records import AuditDraft, AuditRow
from corral.work.workers.supervisor import Supervisor

PAUSE_S = 0.25
"""Least time between two steps, seconds."""
AT_ONCE = 128
"""Deeds, and events, of one step: the interpreter and the database's writer are free again after a few milliseconds."""
NEXT = timedelta(milliseconds=80)
"""Between two steps while more waits, for the requests that came meanwhile."""
SOON = timedelta(milliseconds=5)
"""The same while more than :data:`MANY` deeds wait, which a daemon that is killed would lose."""
MANY = 5000
EXPORTED = 200
"""Lines that are appended to the export at once."""
FAR_BEHIND = 200
"""Events without a line after which the place in the record is stored all the same."""
AGAIN = timedelta(seconds=5)
"""Until the next try to write the export after one that failed."""
FILE = Path("analytics") / "audit.jsonl"
"""The export, in the folder of the exports."""
_NEWS = events.others_than(trail.REPEATED)

log = logger("audit")


class AuditWriter:
    """Step: append what was noted and what happened; export what was appended.

    Args:
        folder: The folder of the exports, as it is configured at the moment.
        faults: Where a person is told that the export cannot be written.
    """

    def __init__(
        self, db: Store, deeds: AuditTrail, project: Project, folder: Callable[[], Path], faults: dict[str, Need]
    ) -> None:
        self._db = db
        self._deeds = deeds
        self._project = project
        self._folder = folder
        self._fault = Fault(faults, "audit_export", "exports")
        self._position: int | None = None
        self._stored = 0
        self._lines: tuple[Path, Lines] | None = None
        self._fresh: list[AuditRow] | None = None
        """The lines that were appended since the last export; None: the database has others that the file lacks, too."""
        self._again: datetime | None = None

    def step(self, now: datetime) -> datetime | None:
        """Write a bounded part; look again soon if there may be more."""
        is_more = self._append(now)
        if self._again is None or now >= self._again:
            is_more |= self._export(now, only_whole=is_more)
        return now + (SOON if self._deeds.waiting > MANY else NEXT) if is_more else self._again

    def finish(self, now: datetime) -> None:
        """Write the noted deeds at shutdown; other events and the export follow after the next start."""
        self._append(now)
        while self._deeds.waiting:
            self._append(now)

    def _append(self, now: datetime) -> bool:
        """Append the next deeds and the next page of events, in one transaction; returns whether there may be more."""
        if self._position is None:
            self._position = self._stored = self._db.read(events.position, audit_rows.READER) or 0
        deeds = self._deeds.take(AT_ONCE, now)
        try:
            with self._db.reading() as conn:
                page, last = events.following(conn, _NEWS, self._position, AT_ONCE)
                acting = {deed.session_id for deed in deeds} | {event["session_id"] for event in page}
                work = audit_rows.work_of(conn, {session_id for session_id in acting if session_id})
            drafts = [trail.draft(deed, work) for deed in deeds] + [trail.draft_of_event(event, work) for event in page]
            if drafts or last - self._stored > FAR_BEHIND:
                self._write(drafts, last)
        except BaseException:
            self._deeds.put_back(deeds)
            raise
        self._position = last
        return len(deeds) >= AT_ONCE or len(page) == AT_ONCE

    def _write(self, drafts: Sequence[AuditDraft], last: int) -> None:
        """Append lines, and store the place in the event record."""

        def write(conn: Connection) -> list[AuditRow]:
            lines = trail.append(conn, drafts)
            if lines or audit_rows.ends(conn) is not None:  # a position without a line would read as lost lines
                events.move_position(conn, audit_rows.READER, last)
            return lines

        lines = self._db.write(write)
        crash_point("audit.appended")
        self._stored = last
        if self._fresh is not None:
            self._fresh += lines

    # -- the export ------------------------------------------------------------------------------------------------

    def _export(self, now: datetime, *, only_whole: bool) -> bool:
        """Append the next lines to the file; returns whether there may be more.

        Args:
            only_whole: More lines follow soon: wait for a whole page of them.
        """
        if self._fresh is not None and len(self._fresh) < (EXPORTED if only_whole else 1):
            return False
        fresh, self._fresh = self._fresh, None  # whatever fails, the database has them
        try:
            is_more = self._write_file(fresh)
        except (OSError, FolderLinked) as error:
            self._failed(error, now)
            return False
        self._again, self._fresh = None, None if is_more else []
        if self._fault.end():
            log.info("audit_export_goes_on")
        return is_more

    def _write_file(self, page: list[AuditRow] | None) -> bool:
        ends = self._db.read(audit_rows.ends)
        if ends is None:
            return False
        file = self._file()
        after = max(file.position(ends["last_seq"]), ends["removed_seq"])
        if page and page[0]["seq"] == after + 1:
            is_more = False
        else:
            with self._db.reading() as conn:
                page = audit_rows.following(conn, after, EXPORTED)
            is_more = len(page) == EXPORTED
        file.append(page, reading.wire_text)
        return is_more

    def _file(self) -> Lines:
        folder = self._folder()
        if self._lines is None or self._lines[0] != folder:
            self._lines = folder, Lines(folder / FILE, top_of(folder, self._project), key="seq")
        return self._lines[1]

    def _failed(self, error: OSError | FolderLinked, now: datetime) -> None:
        self._again = now + AGAIN
        reason, remedy = reason_of(error, self._folder())
        if self._fault.show(
            f"The audit's file cannot be written; the database has all lines, and the file follows. {reason}",
            remedy,
            now,
        ):
            log.warning("audit_not_exported", reason=reason)


def job(services: Services) -> Step:
    """The job of this module; from now on settings and workers are noted, too."""
    trail = AuditTrail()
    writer = AuditWriter(services.db, trail, services.project, services.state_dir, services.faults)
    services.bring(trail, writer)
    trail.on_note = lambda: services.jobs["audit"].nudge()
    services.settings.on_change.append(settings_changes(services))
    services.of(Supervisor).on_tool_calls = partial(note_worker, trail)
    return Step("audit", writer.step, pause_s=PAUSE_S, reads_events=True)


# -- Changes of the configuration, for the audit: which settings, from what to what

UNKNOWN = "unknown"
"""The agent of a change in a file: anybody may have written it."""


def settings_changes(services: Services) -> Callable[[Settings], None]:
    """A listener that notes the differences whenever the settings are read again."""
    before = services.settings().model_dump(mode="json")

    def note(new: Settings) -> None:
        nonlocal before
        after = new.model_dump(mode="json")
        changed = dict(_changes(before, after))
        before = after
        if changed:
            services.of(AuditTrail).note(
                services.now(), "config.change", session_id=None, agent_id=UNKNOWN, parameters=changed
            )

    return note


def _changes(before: Any, after: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted names of the settings that differ, each with what it was and what it is."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _changes(before.get(key), after.get(key), f"{name}.{key}" if name else str(key))
    elif before != after:
        yield name, {"from": before, "to": after}
