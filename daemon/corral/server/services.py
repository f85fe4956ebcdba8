"""What a request may use: one object, built once by :mod:`corral.server.process.daemon`."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from corral.config.paths import Project
from corral.coordination.edits.witness import Witness
from corral.git.process.command import Git
from corral.landing.queue import Queue
from corral.landing.verify.trial import Room
from corral.server.hooks.unannounced_files import Unannounced
from corral.server.http.turns import Turns
from corral.server.notify.needs_you import Need
from corral.server.notify.waking import Waiters
from corral.server.process.binding import Bound
from corral.server.process.jobs import Job, now
from corral.server.upkeep.event_log import EventLog
from corral.server.upkeep.reload import Reloader
from corral.server.upkeep.settings import SettingsHolder
from corral.server.upkeep.teams import TeamsHolder
from corral.store.engine import search
from corral.store.engine.database import Database, TooLong
from corral.store.engine.writes import Write
from corral.work.workers.supervisor import Supervisor
from corral.work.worktrees.worktrees import Worktrees

T = TypeVar("T")

SOON_S = 0.5
"""What is asked for without hurry is done after so many seconds at most."""


@dataclass
class Services:
    """The daemon's parts.

    Attributes:
        fold: Whether the repository's file system ignores case.
        target: The full ref name where work lands unless a request says otherwise.
    """

    project: Project
    bound: Bound
    db: Database
    git: Git
    settings: SettingsHolder
    teams: TeamsHolder
    supervisor: Supervisor
    queue: Queue
    room: Room
    worktrees: Worktrees
    pool: ThreadPoolExecutor
    started_at: datetime
    fold: bool
    reloader: Reloader
    event_log: EventLog
    unannounced: Unannounced
    witness: Witness = field(default_factory=Witness)
    jobs: dict[str, Job] = field(default_factory=dict)
    faults: dict[str, Need] = field(default_factory=dict)
    """What needs a person and no row knows, by a name of the noticing part's own; who notices its end takes it out."""
    stop_requested: Callable[[bool], None] = lambda _drain: None
    stopping: bool = False
    handed_over: bool = False
    """Whether another daemon, of the version that was installed meanwhile, is to follow this one."""
    unwatched: bool = True
    """Whether nobody looks at the sessions' processes, since there is no live session; who brings one asks for a look."""
    waiters: Waiters = field(init=False)
    making: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(default_factory=WeakValueDictionary)
    """Worktrees that are being made, by session and name: one request at a time for each."""
    _asked: list[tuple[Write[Any], asyncio.Future[None]]] = field(default_factory=list)
    # More of them would spend their time waiting for the interpreter, which SQLite gives back after every row.
    _readers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="read"))
    _glances: Turns = field(default_factory=Turns)
    _nudged: set[str] = field(default_factory=set)
    _changed: set[asyncio.Event] = field(default_factory=set)
    _written: set[asyncio.Event] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop | None = None
    _loop_thread: int | None = None

    def __post_init__(self) -> None:
        self.waiters = Waiters(self)

    def now(self) -> datetime:
        """The daemon's clock."""
        return now()

    async def write(self, operation: Callable[[Connection], T]) -> T:
        """Run a write; the answer comes when it is durable."""
        loop = asyncio.get_running_loop()
        write, waiter = Write(operation), loop.create_future()
        if not self._asked:
            loop.call_soon(self._submit)
        self._asked.append((write, waiter))
        try:
            await waiter
        except asyncio.CancelledError:
            write.unwanted = True
            raise
        return write.outcome()

    def _submit(self) -> None:
        """Hand the writer at once what was asked for in one turn of the loop: it shares a commit, and both do not take turns
        at the interpreter meanwhile.
        """
        asked, self._asked = self._asked, []
        waiters = [waiter for _write, waiter in asked]
        self.db.submit(
            [write for write, _waiter in asked], partial(self._from_thread, partial(self._wake_durable, waiters))
        )

    def _wake_durable(self, waiters: Sequence[asyncio.Future[None]]) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for event in self._written:
            event.set()

    def _from_thread(self, function: Callable[[], None]) -> None:
        """Have the loop call something; at the end, when nobody waits any more, nothing."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(function)

    async def read(self, operation: Callable[[Connection], T]) -> T:
        """Run a query off the event loop, and never behind something slow."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self.db.read, operation)

    async def glance(self, operation: Callable[[Connection], T]) -> T:
        """Run a query that as a rule finds little by an index: here and now, since a thread and back takes longer than it does.

        One that is not short is broken off, and made again in a thread.
        """
        await self._glances.take()
        try:
            return self.db.glance(operation)
        except TooLong:
            return await self.read(operation)

    async def searched(self, table: str, operation: Callable[[Connection], T]) -> T:
        """Run a query that searches a table by words, once its index has learned all that was there when it was asked for."""
        for _part in range(0, await self.glance(partial(search.behind, table=table)), search.AT_ONCE):
            await self.write(partial(search.learn, table=table))
        return await self.read(operation)

    async def work(self, function: Callable[[], T]) -> T:
        """Run something that touches disk or git off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.pool, function)

    def nudge(self, name: str) -> None:
        """Ask a job to look soon, and wake whoever waits for a change."""
        for job in (self.jobs.get(name), self.jobs.get("announcements")):
            if job is not None:
                job.nudge()
        self.changed()

    def nudge_soon(self, name: str) -> None:
        """Ask a job to look within :data:`SOON_S`, for what many ask all the time and nobody waits for; in the event loop."""
        if name not in self._nudged and self._loop is not None:
            self._nudged.add(name)
            self._loop.call_later(SOON_S, self._nudge_now, name)

    def _nudge_now(self, name: str) -> None:
        self._nudged.discard(name)
        self.nudge(name)

    # -- waiting requests

    def changed(self) -> None:
        """Something was stored that a waiting request may be waiting for. Callable from any thread."""
        if threading.get_ident() == self._loop_thread:
            self._wake()
        else:
            self._from_thread(self._wake)

    def _wake(self) -> None:
        for event in (*self._changed, *self._written):
            event.set()

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say which event loop serves requests; called in its thread."""
        self._loop, self._loop_thread = loop, threading.get_ident()

    async def next_change(self, timeout_s: float) -> bool:
        """Wait for a change, at most so long; False when none came."""
        return await self._next(self._changed, timeout_s)

    async def next_write(self, timeout_s: float) -> bool:
        """The same, for any write of a request's too: for the few who want to know of everything."""
        return await self._next(self._written, timeout_s)

    @staticmethod
    async def _next(waiting: set[asyncio.Event], timeout_s: float) -> bool:
        event = asyncio.Event()
        waiting.add(event)
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except (asyncio.TimeoutError, TimeoutError):
            return False
        finally:
            waiting.discard(event)
        return True
