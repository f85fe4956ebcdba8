"""Noticing that a configuration file has changed, without looking while nothing changes.

The folders are watched, not the files: editors replace a file instead of writing into it, and a file may appear later.
``.corral/`` also holds the database, so only events that end a change are asked of the kernel (closed after writing, moved,
created, deleted): a write to an open file wakes nobody.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from corral.config import account
from corral.config.load import config_files, read_file
from corral.config.paths import Project, socket_path
from corral.config.teams import teams_file
from corral.errors import Unsupported

_EVENTS: list[type[FileSystemEvent]] = [
    DirCreatedEvent, DirDeletedEvent, DirMovedEvent, FileCreatedEvent, FileDeletedEvent, FileMovedEvent,
    FileClosedEvent if sys.platform == "linux" else FileModifiedEvent,
]  # fmt: skip
_LOSSES = ("deleted", "moved")


class ConfigWatcher(FileSystemEventHandler):
    """Calls back when what the configuration files say has changed; a change that is over before it is read is no change.

    Start it before the settings are loaded for the first time; then no change falls in between. What a call means is the
    caller's to decide: load again, and if that raises :class:`~corral.errors.ConfigInvalid`, keep the settings in force,
    report the errors, and wait for the next call. A file that is being replaced is missing for a moment, and both the
    gap and its end are reported, so a caller with a timer does best to load a fifth of a second after the last call.

    Args:
        project: Whose ``.corral/`` is watched.
        on_change: Called in the watcher's own thread, one call at a time. It must return soon and must not raise: it
            nudges whoever reloads.
        home: The user's home folder; None: that of the environment. ``~/.corral`` may appear and vanish.
        on_loss: Called like ``on_change`` when something in ``.corral/``, ``.corral/run/`` or the socket's folder was
            deleted or moved.
    """

    def __init__(
        self,
        project: Project,
        on_change: Callable[[], None],
        *,
        home: Path | None = None,
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        home = home or account.home()
        self._on_change = on_change
        self._on_loss = on_loss
        self._kept = (project.home, project.run_dir, socket_path(project).parent)
        self._files = [*config_files(project, home).values(), teams_file(project)]
        self._folders = list(dict.fromkeys([*self._kept, home, home / ".corral"]))
        self._watches: dict[Path, ObservedWatch] = {}
        self._said: list[bytes | str | None] = []
        self._observer: BaseObserver | None = None

    def start(self) -> None:
        """Begin to watch.

        Raises:
            Unsupported: The system has no more watches to give. Everything works without; changes then need a restart.
        """
        try:
            self._observer = Observer()
            for folder in self._missing():
                self._watches[folder] = self._watch(self._observer, folder)
            self._observer.start()
        except OSError as error:
            self.stop()
            raise Unsupported(
                "Changes of the configuration cannot be watched.",
                cause=f"The system refuses a file watch: {error.strerror or error}.",
                remedy="Raise fs.inotify.max_user_watches and max_user_instances; `corral daemon restart` reads changes.",
            ) from error
        self._said = self._say()

    def stop(self) -> None:
        """Stop watching; returns once no call is running and none will come."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            if observer.is_alive():
                observer.join()
        self._watches.clear()

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Watchdog's entry, in its thread."""
        observer = self._observer
        if observer is None:
            return
        self._follow(observer, event)
        if event.event_type in _LOSSES and self._is_kept(Path(os.fsdecode(event.src_path))):
            self._on_loss()
        said = self._say()
        if said != self._said:
            self._said = said
            self._on_change()

    def _follow(self, observer: BaseObserver, event: FileSystemEvent) -> None:
        """Let go of a folder that went away, and watch one that has come."""
        if event.event_type in _LOSSES:
            for folder, watch in list(self._watches.items()):
                if os.fsdecode(event.src_path) in (str(folder), watch.path):
                    observer.unschedule(self._watches.pop(folder))
        for folder in self._missing():
            try:
                self._watches[folder] = self._watch(observer, folder)
            except OSError:
                continue  # gone again; when it comes back, that is another event

    def _is_kept(self, path: Path) -> bool:
        return any(place in (folder, folder.resolve()) for folder in self._kept for place in (path, path.parent))

    def _missing(self) -> list[Path]:
        return [folder for folder in self._folders if folder not in self._watches and folder.is_dir()]

    def _watch(self, observer: BaseObserver, folder: Path) -> ObservedWatch:
        return observer.schedule(self, str(folder.resolve()), event_filter=_EVENTS)

    def _say(self) -> list[bytes | str | None]:
        """What the files say now; a file that cannot be read says why."""
        said: list[bytes | str | None] = []
        for file in self._files:
            try:
                said.append(read_file(file))
            except OSError as error:
                said.append(str(error))
        return said
