"""The services that operations use: one object, built once by :mod:`corral.daemon.wiring`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from corral.config.paths import Project
from corral.config.roster import Roster
from corral.coordination.edits.last_seen import LastSeen
from corral.coordination.edits.runtime_state import RuntimeState
from corral.coordination.edits.unannounced import Unannounced
from corral.coordination.sessions.mods import Mods
from corral.coordination.sessions.session_end import Offer
from corral.coordination.sessions.waking import Waiters
from corral.coordination.settings import SettingsHolder
from corral.coordination.teams.holder import TeamsHolder
from corral.core import clock
from corral.core.changes import Changes
from corral.core.needs import Need
from corral.git.process.command import Git
from corral.runners.api_key import ApiKeyHolder
from corral.store.access import StoreAccess
from corral.store.engine.database import Database

# -- Waking the background jobs: an operation says which job has something to do

SOON_S = 0.5
"""Longest delay of a step that is not urgent, seconds."""


class Nudgeable(Protocol):
    """A background job, as far as an operation knows it."""

    def nudge(self) -> None:
        """Ask for a step soon. Cheap; any number of nudges before the step are one."""


class Nudges:
    """Wakes jobs, and with them the requests that wait for a change.

    Args:
        jobs: By name; more may come later.
        changes: Announced with each nudge.
    """

    def __init__(self, jobs: Mapping[str, Nudgeable], changes: Changes) -> None:
        self._jobs = jobs
        self._changes = changes
        self._soon: set[str] = set()

    def now(self, name: str) -> None:
        """Ask a job for a step now. Callable from any thread."""
        for job in (self._jobs.get(name), self._jobs.get("announcements"), self._jobs.get("roadmap")):
            if job is not None:
                job.nudge()
        self._changes.announce()

    def soon(self, name: str) -> None:
        """Ask a job for a step within :data:`SOON_S`, for frequent requests that nobody waits for; in the event loop."""
        if name not in self._soon and self._changes.loop is not None:
            self._soon.add(name)
            self._changes.loop.call_later(SOON_S, self._late, name)

    def _late(self, name: str) -> None:
        self._soon.discard(name)
        self.now(name)


T = TypeVar("T")


@dataclass
class Services:
    """The services of every operation. Parts that higher layers add are looked up by their class (:meth:`of`).

    Attributes:
        project_id: Of this database: all that its daemons start carries it.
        db: The database, for what runs in a thread; what runs in the event loop uses ``store``.
        pool: Threads for what touches disk or git.
        fold: Whether the repository's file system ignores case.
        jobs: The background jobs by name; they come after the services that they use.
        reload: Asks for the settings to be read again, and returns what is set once they were; callable from any thread.
        offer_again: Takes its tasks from a session that ends, and has its worktree saved where no event told of that.
    """

    project: Project
    project_id: str
    db: Database
    git: Git
    settings: SettingsHolder
    teams: TeamsHolder
    pool: ThreadPoolExecutor
    started_at: datetime
    fold: bool
    unannounced: Unannounced
    api_key: ApiKeyHolder
    jobs: Mapping[str, Nudgeable]
    reload: Callable[[], threading.Event]
    offer_again: Offer
    runtime: RuntimeState = field(default_factory=RuntimeState)
    mods: Mods = field(default_factory=Mods)
    last_seen: LastSeen = field(default_factory=LastSeen)
    faults: dict[str, Need] = field(default_factory=dict)
    """Conditions that need a person and are in no row, by a key of the part that adds and removes them."""
    stop_requested: Callable[[bool, bool], None] = lambda _drain, _leaves_workers: None
    """Ends this daemon: whether running tasks finish first, else whether their workers go on for the next daemon."""
    stopping: bool = False
    unwatched: bool = True
    """Whether the sessions' processes are not watched, since no session is live; a new session asks for a look."""
    creation_locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Worktrees that are being made, by session and name: one request at a time for each."""
    changes: Changes = field(default_factory=Changes)
    store: StoreAccess = field(init=False)
    nudges: Nudges = field(init=False)
    waiters: Waiters = field(init=False)
    _parts: dict[type, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = StoreAccess(self.db, self.changes)
        self.nudges = Nudges(self.jobs, self.changes)
        self.waiters = Waiters(self)

    def bring(self, *parts: object) -> None:
        """Add parts, each to be found by its class."""
        self._parts.update({type(part): part for part in parts})

    def of(self, kind: type[T]) -> T:
        """The part of a class.

        Raises:
            KeyError: The wiring did not bring one.
        """
        part = self._parts[kind]
        assert isinstance(part, kind)
        return part

    def state_dir(self) -> Path:
        """The folder of the supervisor's files, as the settings have it now."""
        return self.project.state_dir(self.settings().supervisor.state_dir)

    def now(self) -> datetime:
        """The daemon's clock."""
        return clock.now()

    def nudge(self, name: str) -> None:
        """Ask a job to look now, and wake the requests that wait for a change."""
        self.nudges.now(name)

    def roster(self) -> Roster:
        """The agents that a task can name now: the team and the definitions. Its methods read files."""
        return Roster(self.project, self.teams().agents)

    async def work(self, function: Callable[[], T]) -> T:
        """Run something that touches disk or git off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, function)
