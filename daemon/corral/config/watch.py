"""Watch the configuration files for changes.

The folders are watched, not the files: editors replace a file instead of writing to it, and a file may appear later.
``.corral/`` also holds the database, so the kernel reports only events that end a change (closed after writing, moved,
created, deleted), not every write to an open file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from corral.config import account
from corral.config.load import config_files, read_file
from corral.config.paths import Project, socket_path
from corral.config.teams import teams_file
from corral.core.errors import Unsupported

ENDED_CHANGES: list[type[events.FileSystemEvent]] = [
    events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent,
    events.FileCreatedEvent, events.FileDeletedEvent, events.FileMovedEvent,
    events.FileClosedEvent if sys.platform == "linux" else events.FileModifiedEvent,
]  # fmt: skip
"""Events that end a change; not every write to an open file."""
LOSSES = ("deleted", "moved")
"""The types of events after which a folder is not watched any more."""


class ConfigWatcher(events.FileSystemEventHandler):
    """Calls back when the content of the configuration files has changed, not if a change was reverted.

    Start it before loading the settings for the first time, so that no change is missed. The callback should load again
    and, on :class:`~corral.core.errors.ConfigInvalid`, keep the settings in force, report the errors, and wait for the next
    call. A file that is being replaced is missing for a moment, and both the gap and its end are reported: load a fifth
    of a second after the last call.

    Args:
        project: Its ``.corral/`` is watched.
        on_change: Called in the watcher's own thread, one call at a time. It must return soon and must not raise.
        home: The user's home folder; None: from the environment. ``~/.corral`` may appear and vanish.
        on_loss: Called like ``on_change`` when something in ``.corral/``, ``.corral/run/`` or the socket's folder was
            deleted or moved.
    """

    def __init__(
        self,
        project: Project,
        on_change: Callable[[], object],
        *,
        home: Path | None = None,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        home = home or account.home()
        self._on_change = on_change
        self._on_loss = on_loss
        self._own_folders = (project.home, project.run_dir, socket_path(project).parent)
        self._files = [*config_files(project, home).values(), teams_file(project)]
        self._folders = list(dict.fromkeys([*self._own_folders, home, home / ".corral"]))
        self._watches: dict[Path, ObservedWatch] = {}
        self._contents: list[bytes | str | None] = []
        self._observer: BaseObserver | None = None

    def start(self) -> None:
        """Start watching.

        Raises:
            Unsupported: The system has no more watches. Everything else works; changes then need a restart.
        """
        try:
            self._observer = Observer()
            for folder in self._missing():
                self._watches[folder] = self._watch(self._observer, folder)
            self._observer.start()
        except OSError as error:
            self.stop()
            raise Unsupported(
                "Cannot watch the configuration for changes.",
                cause=f"The system refuses a file watch: {error.strerror or error}.",
                remedy="Raise fs.inotify.max_user_watches and max_user_instances; until then `corral daemon "
                "restart` loads changes.",
            ) from error
        self._contents = self._read_contents()

    def stop(self) -> None:
        """Stop watching; returns once no call is running and none will follow."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            if observer.is_alive():
                observer.join()
        self._watches.clear()

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        """Handle an event of watchdog, in its thread."""
        observer = self._observer
        if observer is None:
            return
        self._follow(observer, event)
        if event.event_type in LOSSES and self._is_own(Path(os.fsdecode(event.src_path))):
            self._on_loss()
        contents = self._read_contents()
        if contents != self._contents:
            self._contents = contents
            self._on_change()

    def _follow(self, observer: BaseObserver, event: events.FileSystemEvent) -> None:
        """Stop watching a removed folder, and watch a new one."""
        if event.event_type in LOSSES:
            for folder, watch in list(self._watches.items()):
                if os.fsdecode(event.src_path) in (str(folder), watch.path):
                    observer.unschedule(self._watches.pop(folder))
        for folder in self._missing():
            try:
                self._watches[folder] = self._watch(observer, folder)
            except OSError:
                continue  # removed again; its return is another event

    def _is_own(self, path: Path) -> bool:
        return any(place in (folder, folder.resolve()) for folder in self._own_folders for place in (path, path.parent))

    def _missing(self) -> list[Path]:
        return [folder for folder in self._folders if folder not in self._watches and folder.is_dir()]

    def _watch(self, observer: BaseObserver, folder: Path) -> ObservedWatch:
        return observer.schedule(self, str(folder.resolve()), event_filter=ENDED_CHANGES)

    def _read_contents(self) -> list[bytes | str | None]:
        """The current content of the files; for an unreadable file, the reason."""
        contents: list[bytes | str | None] = []
        for file in self._files:
            try:
                contents.append(read_file(file))
            except OSError as error:
                contents.append(str(error))
        return contents
