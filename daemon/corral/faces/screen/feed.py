"""The rows that the screen shows, kept up to date from the daemon's event stream by a thread of its own.

Each event names the rows that changed, and only these are asked for again. Nothing is polled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from textual.message import Message

from corral.client.connection import Client, segment
from corral.client.events import Event, EventStream
from corral.config.paths import Project
from corral.core.errors import CorralError, DaemonUnreachable, NotFound
from corral.faces.screen.text import Row

TOGETHER_S = 0.1
"""Events that come within this time are shown together; longer where it takes longer to ask for the rows."""
AGAIN_S = 0.5
"""Between two tries to reach a daemon that is away."""
ONE_BY_ONE = 20
"""Changed merge requests that are asked for one by one; of more, all are."""
IDS_AT_ONCE = 80
"""Tasks in one request by their ids."""
MOST_SESSIONS, MOST_MAIL = 500, 300
"""The latest, which are shown."""
AWAY = "The daemon is away; shown again when it is back. `corral daemon start` starts it."
TASKS, MERGES, SESSIONS, LOCKS, MAIL = "tasks", "merges", "sessions", "locks", "mail"
_BY_PREFIX = {
    "session": (SESSIONS,),
    "identity": (SESSIONS,),
    "agent": (SESSIONS,),
    "lock": (LOCKS,),
    "edit": (LOCKS,),
    "message": (MAIL,),
}

_SOURCES: dict[str, tuple[str, dict[str, Any], str, int | None]] = {
    TASKS: ("/tasks", {"sort": "newest"}, "task_id", None),
    MERGES: ("/merges", {}, "merge_id", None),
    SESSIONS: ("/sessions", {"limit": MOST_SESSIONS}, "session_id", MOST_SESSIONS),
    LOCKS: ("/locks", {}, "lock_id", None),
    MAIL: ("/messages", {"everyone": True, "limit": MOST_MAIL}, "id", MOST_MAIL),
}
"""Per list: its path, its query, the key of a row, and the maximum number of rows."""


class ViewChanged(Message):
    """The view of this moment (:mod:`corral.observe.view.api`)."""

    def __init__(self, view: Row) -> None:
        super().__init__()
        self.view = view


class RowsChanged(Message):
    """All rows of a list; ``complete``: no more follow."""

    def __init__(self, name: str, rows: list[Row], *, complete: bool = True) -> None:
        super().__init__()
        self.name, self.rows, self.complete = name, rows, complete


class Happened(Message):
    """Events, in order."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        self.events = events


class ConnectionLost(Message):
    """The rows are out of date, and why; the feed retries until the daemon answers."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


class Feed(threading.Thread):
    """Follows one project's daemon until :meth:`stop`; starts none.

    Args:
        project: The daemon's project.
        seq: The ``event_id`` of the last event that is shown.
        tell: Called in this thread with each message.
    """

    def __init__(self, project: Project, seq: int, tell: Callable[[Message], Any]) -> None:
        super().__init__(name="feed", daemon=True)
        self._client = Client(project, autostart=False)
        self._stream = EventStream(project, seq)
        self._tell = tell
        self._over = threading.Event()
        self._rows: dict[str, dict[str, Row]] = {}

    def stop(self) -> None:
        """End; callable from any thread."""
        self._over.set()
        self._stream.interrupt()

    def run(self) -> None:
        """Load everything, then follow the events; start over after the daemon was away."""
        while not self._over.is_set():
            try:
                self._stream.open()
                self._load()
                while not self._over.is_set():
                    self._round()
            except (OSError, CorralError) as error:
                self._stream.close()
                self._client.close()
                if not self._over.is_set():
                    is_away = not isinstance(error, CorralError) or isinstance(error, DaemonUnreachable)
                    self._tell(ConnectionLost(AWAY if is_away else str(error)))
                    self._over.wait(AGAIN_S)
            except Exception as error:  # noqa: BLE001 - the edge of the thread: the screen must not look live without it
                reason = f"{type(error).__name__}: {error}"
                self._tell(
                    ConnectionLost(f"This screen lost track of the daemon ({reason}); leave it and start it again.")
                )
                break
        self._stream.close()
        self._client.close()

    # -- everything ---------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """All that is shown: the view first, the tasks last because they are the most."""
        self._show_view()
        for name in (SESSIONS, LOCKS, MAIL, MERGES, TASKS):
            self._reload(name)

    def _show_view(self) -> None:
        self._tell(ViewChanged(self._client.request("GET", "/status")))

    def _reload(self, name: str) -> None:
        """All rows of a list, page by page; those of the first pages are shown at once."""
        path, query, key, most = _SOURCES[name]
        rows: dict[str, Row] = {}
        told_at = time.monotonic()
        first = name not in self._rows
        for part in self._client.parts(path, query):
            rows.update((str(row[key]), row) for row in part)
            if self._over.is_set() or (most is not None and len(rows) >= most):
                break
            if first and (len(rows) == len(part) or time.monotonic() - told_at > TOGETHER_S * 3):
                self._tell(RowsChanged(name, [*rows.values()], complete=False))
                told_at = time.monotonic()
        self._rows[name] = rows
        self._tell(RowsChanged(name, [*rows.values()]))

    # -- changes ------------------------------------------------------------------------------------------------

    def _round(self) -> None:
        """Wait for events, and show what they changed; the daemon's heartbeat refreshes the figures of running work."""
        events = self._stream.read() or []
        began = time.monotonic()
        until = began + TOGETHER_S
        while events and (left := until - time.monotonic()) > 0:
            if (more := self._stream.read(left)) is None:
                break
            events += more
        if self._over.is_set():
            return
        if events:
            self._tell(Happened(events))
        self._show_view()
        self._refresh(events)
        if events:  # a flood of events leaves the daemon half of the time
            self._over.wait(min(2.0, time.monotonic() - began - TOGETHER_S))

    def _refresh(self, events: list[Event]) -> None:
        kinds = {event["kind"].partition(".")[0] for event in events}
        for name in dict.fromkeys(name for kind in sorted(kinds) for name in _BY_PREFIX.get(kind, ())):
            self._reload(name)
        merges = {event["merge_id"] for event in events if event["merge_id"]}
        if merges:
            self._refresh_merges(merges)
        of_merges = {self._rows[MERGES][merge_id]["task_id"] for merge_id in merges if merge_id in self._rows[MERGES]}
        tasks = {event["task_id"] for event in events if event["task_id"]} | (of_merges - {None})
        if tasks:
            self._refresh_tasks(sorted(tasks))

    def _refresh_merges(self, ids: set[str]) -> None:
        if len(ids) > ONE_BY_ONE:
            self._reload(MERGES)
            return
        rows = self._rows[MERGES]
        for merge_id in ids:
            try:
                rows[merge_id] = self._client.request("GET", f"/merges/{segment(merge_id)}")
            except NotFound:  # removed meanwhile
                rows.pop(merge_id, None)
        self._tell(RowsChanged(MERGES, [*rows.values()]))

    def _refresh_tasks(self, ids: list[str]) -> None:
        known, fresh = self._rows[TASKS], dict[str, Row]()
        for start in range(0, len(ids), IDS_AT_ONCE):
            query = {"task_id": ids[start : start + IDS_AT_ONCE], "sort": "newest"}
            for part in self._client.parts("/tasks", query):
                fresh.update((row["task_id"], row) for row in part)
        new = {task_id: row for task_id, row in fresh.items() if task_id not in known}
        known.update(fresh)
        if new:  # the newest first, as the list has them
            self._rows[TASKS] = known = {**new, **known}
        self._tell(RowsChanged(TASKS, [*known.values()]))


def describe(error: BaseException) -> str:
    """An error of a request in a sentence or two: what happened, and what to do."""
    if isinstance(error, CorralError):
        return " ".join(filter(None, (error.message, error.remedy)))
    return f"{DaemonUnreachable('The daemon did not answer.').message} {error}"
