"""Watch what git writes about its worktrees, and the folder of the client's own worktrees, for the guardian.

One recursive watch on ``<git dir>/worktrees`` and one on ``.claude/worktrees``: with nothing going on no thread wakes up.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

from corral.config.inodes import folder_id
from corral.config.paths import Project
from corral.config.watch import ENDED_CHANGES, LOSSES
from corral.core.logs import logger
from corral.core.needs import Fault

FILES = frozenset({("HEAD",), ("index",), ("locked",), ("logs", "HEAD")})
"""The files of a worktree's folder in the git directory that tell what happens to it."""

REMEDY = (
    "Raise fs.inotify.max_user_watches and max_user_instances; until then a removed worktree, and a HEAD that "
    "somebody moved, are noticed when a turn ends."
)

log = logger("worktree_watch")


class WorktreeWatch(events.FileSystemEventHandler):
    """Calls back when something happens to a worktree.

    Args:
        on_change: Called in the watch's own thread with the name of git's folder for the worktree and that of the file, both
            empty where a folder came or went.
        fault: Where a person is told that the system refuses.
    """

    def __init__(
        self, project: Project, on_change: Callable[[str, str], object], fault: Fault, clock: Callable[[], datetime]
    ) -> None:
        self._on_change, self._fault, self._clock = on_change, fault, clock
        self._entries = project.common_dir / "worktrees"
        self._folders = {self._entries: True, project.root / ".claude" / "worktrees": False}
        self._watched: dict[Path, tuple[str, ObservedWatch]] = {}
        self._lost: deque[Path] = deque()
        self._observer: BaseObserver | None = Observer()
        self._observer.start()

    def follow(self) -> None:
        """Watch a folder that appeared, or that was made anew, since; where the system refuses, only hooks tell."""
        observer, refused = self._observer, list[str]()
        lost = {self._lost.popleft() for _ in range(len(self._lost))}
        for folder, recursive in self._folders.items():
            try:
                now = folder_id(folder)
            except OSError:
                now = ""
            before = self._watched.get(folder)
            if observer is None or ((before[0] if before else "") == now and folder not in lost):
                continue
            try:
                if before is not None:
                    del self._watched[folder]
                    with suppress(KeyError):
                        observer.unschedule(before[1])
                if now:
                    watch = observer.schedule(self, str(folder), recursive=recursive, event_filter=ENDED_CHANGES)
                    self._watched[folder] = now, watch
            except OSError as error:
                refused.append(f"{folder} ({error})")
        if not refused:
            self._fault.end()
        elif self._fault.show(f"Worktrees are not watched: {'; '.join(refused)}", REMEDY, self._clock()):
            log.warning("worktrees_not_watched", folders=refused)

    def stop(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join()

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        """Handle an event of watchdog, in its thread."""
        for name in dict.fromkeys((event.src_path, event.dest_path)):
            path = Path(os.fsdecode(name))
            if path in self._folders:
                if event.event_type in LOSSES:  # its inode may come back with another folder, the watch does not
                    self._lost.append(path)
                    self._on_change("", "")
            elif path.parent in self._folders:
                self._on_change("", "")
            elif path.is_relative_to(self._entries):
                entry, *file = path.relative_to(self._entries).parts or ("",)
                if tuple(file) in FILES:
                    self._on_change(entry, file[-1] if file[0] != "logs" else "log")
