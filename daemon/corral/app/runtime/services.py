"""The services that operations use: one object, built once by :mod:`corral.server.process.assembly`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from corral.app.audit.trail import AuditTrail
from corral.app.metrics.latencies import Latencies
from corral.app.runtime import clock
from corral.app.runtime.api_key import ApiKeyHolder
from corral.app.runtime.changes import Changes
from corral.app.runtime.needs import Need
from corral.app.runtime.nudges import Nudgeable, Nudges
from corral.app.runtime.settings import SettingsHolder
from corral.app.runtime.store_access import StoreAccess
from corral.app.runtime.teams import TeamsHolder
from corral.app.runtime.unannounced_files import Unannounced
from corral.app.runtime.waking import Waiters
from corral.config.paths import Project
from corral.config.roster import Roster
from corral.coordination.edits.runtime_state import RuntimeState
from corral.errors import Unsupported
from corral.git.process.command import Git
from corral.landing.queue import Queue
from corral.landing.verify.verification_run import RunContext
from corral.models.payload import Payload
from corral.store.engine.database import Database
from corral.work.roadmap.supervision import RoadmapSupervision
from corral.work.workers.supervisor import Supervisor
from corral.work.worktrees.worktrees import Worktrees

T = TypeVar("T")


class Collect(Protocol):
    """Deletes old data when a person asks for it."""

    def __call__(self, now: datetime, *, dry_run: bool, forget: Sequence[str] = ()) -> Payload:
        """Delete it, or only say what would go."""


async def _no_web_view() -> Payload:
    raise Unsupported("This daemon has no web view yet.", remedy="Try again in a moment.")


@dataclass
class Services:
    """The daemon's parts.

    Attributes:
        db: The database, for what runs in a thread; what runs in the event loop uses ``store``.
        pool: Threads for what touches disk or git.
        fold: Whether the repository's file system ignores case.
        jobs: The background jobs by name; they come after the services that they use.
        reload: Asks for the settings to be read again, and returns what is set once they were; callable from any thread.
        open_web: Makes a link to the web view: ``url`` and ``expires_at``.
    """

    project: Project
    db: Database
    git: Git
    settings: SettingsHolder
    teams: TeamsHolder
    supervisor: Supervisor
    queue: Queue
    room: RunContext
    worktrees: Worktrees
    pool: ThreadPoolExecutor
    started_at: datetime
    fold: bool
    unannounced: Unannounced
    api_key: ApiKeyHolder
    jobs: Mapping[str, Nudgeable]
    reload: Callable[[], threading.Event]
    witness: RuntimeState = field(default_factory=RuntimeState)
    faults: dict[str, Need] = field(default_factory=dict)
    """Conditions that need a person and are in no row, each under a key of the part that noticed it, which also removes it."""
    stop_requested: Callable[[bool], None] = lambda _drain: None
    open_web: Callable[[], Awaitable[Payload]] = _no_web_view
    test_notification: Callable[[datetime], Mapping[str, str | None]] = lambda _now: {}
    """Tells a person that this is a test; set by the assembly (:meth:`corral.server.alerts.watch.AlertWatch.test`)."""
    stopping: bool = False
    unwatched: bool = True
    """Whether nobody looks at the sessions' processes, since there is no live session; who brings one asks for a look."""
    creation_locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Worktrees that are being made, by session and name: one request at a time for each."""
    hook_latencies: Latencies = field(default_factory=Latencies)
    audit: AuditTrail = field(default_factory=AuditTrail)
    changes: Changes = field(default_factory=Changes)
    store: StoreAccess = field(init=False)
    nudges: Nudges = field(init=False)
    waiters: Waiters = field(init=False)
    collect: Collect = field(init=False)
    """Deletes old data at once; set by the assembly."""
    roadmap: RoadmapSupervision = field(init=False)
    """Set by the assembly: it settles its tasks with these services."""

    def __post_init__(self) -> None:
        self.store = StoreAccess(self.db, self.changes)
        self.nudges = Nudges(self.jobs, self.changes)
        self.waiters = Waiters(self)

    def now(self) -> datetime:
        """The daemon's clock."""
        return clock.now()

    def nudge(self, name: str) -> None:
        """Ask a job to look now, and wake the requests that wait for a change."""
        self.nudges.now(name)

    def roster(self) -> Roster:
        """The agents that a task can name at this moment: the team and the definitions; what is asked of it reads files."""
        return Roster(self.project, self.teams().agents)

    async def work(self, function: Callable[[], T]) -> T:
        """Run something that touches disk or git off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, function)
