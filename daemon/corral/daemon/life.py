"""The daemon of one project: its start, its service and its stop.

The order matters. Start: database, recovery, jobs, then the sockets; only then is it ``ready``. Stop: no new work, workers
and verifications ended and their tasks marked (or, when draining, workers finished; or both left to the next daemon), then the
sockets, then the database, last the lock.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import uvicorn
import uvloop

from corral import __version__
from corral.config import account, crashes
from corral.config.paths import Project
from corral.config.service import installed, manager, words
from corral.config.watch import ConfigWatcher
from corral.core import logs
from corral.core.clock import now
from corral.core.errors import CorralError, Unsupported
from corral.core.needs import Fault, Need
from corral.core.steps import Step
from corral.daemon import nouns
from corral.daemon.instance import Instance
from corral.daemon.jobs import Job
from corral.daemon.leaving import Reason, leave
from corral.daemon.listeners import Listeners
from corral.daemon.self_heal import SelfHeal
from corral.daemon.upgrade import Upgrade, is_idle
from corral.daemon.wiring import Assembly, assemble
from corral.daemon.worktree_watch import REMEDY, WorktreeWatch
from corral.faces.http.access import Access
from corral.faces.http.connections import BoundedBodies, LimitedConnection
from corral.faces.http.router import Router
from corral.faces.mcp.mount import Mcp
from corral.faces.web.listening import WebView
from corral.landing.queue import Queue
from corral.observe.audit.writing import AuditWriter
from corral.observe.events.log import EventLog
from corral.observe.exports.exports import Exports
from corral.runners.environment import take_recorded
from corral.work.workers.supervisor import Supervisor
from corral.work.worktrees.guardian.guardian import Guardian

# -- What a SIGTERM means: a service manager that restarts the unit leaves what runs to the next daemon, any other
# ends it

ANSWER_S = 2.0
"""Time limit for the answer of the service manager, seconds; after that the workers are ended."""


def is_restart(project: Project) -> bool:
    """Whether the service manager is restarting the project's unit, as `systemctl --user restart` does."""
    service, chosen = installed(project, os.environ, account.home()), manager()
    if service is None or not chosen.jobs:
        return False
    try:
        answer = subprocess.run(
            words(chosen.jobs, service), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("service_manager_not_asked", reason=str(error))
        return False
    return any(line.split()[1:3] == [service.file.name, "restart"] for line in answer.stdout.splitlines())


STOP_S = 14.0
"""Maximum seconds that a stop waits for workers and jobs."""

THREADS = 8

LAST_PAGES = 10
"""Maximum number of pages of events that are written to the log when the daemon ends."""

_CRASHES = (
    f"The daemon died {crashes.MOST} times within {crashes.WITHIN_S:g} s, without having been asked to end; after that, open "
    "sessions started it no more by themselves."
)

log = logs.logger("daemon")


@dataclass
class HowToStop:
    """The latest stop request: whether running tasks finish first, else whether their workers go on for the next daemon."""

    drain: bool = False
    leaves_workers: bool = False


def serve(instance: Instance, ready: Callable[[], None]) -> bool:
    """Be the daemon until a stop is requested; returns whether a version that was installed meanwhile must be started.

    Args:
        instance: The right to be it; released at the end.
        ready: Called once when requests are answered.

    Raises:
        CorralError: It cannot start: settings, database or folder are not usable.
    """
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    project = instance.project
    if (service := installed(project, os.environ, account.home())) is not None:
        take_recorded(os.environ, service.environment)  # a verification is the same, whoever started the daemon
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="work")
    parts = assemble(project, pool)
    try:
        return uvloop.run(_run(instance, parts, ready))
    finally:
        parts.services.db.close()
        pool.shutdown(wait=False, cancel_futures=True)
        log.info("stopped", pid=os.getpid())
        logs.close()
        instance.release()


async def _run(instance: Instance, parts: Assembly, ready: Callable[[], None]) -> bool:
    """Serve until the end; returns whether a version that was installed meanwhile must be started."""
    services, jobs = parts.services, parts.jobs
    project = services.project
    loop = asyncio.get_running_loop()
    services.changes.bind(loop)
    stop = asyncio.Event()
    how = HowToStop()
    reasons: list[Reason] = []
    handed_over = False

    def request_stop(drain: bool, leaves_workers: bool) -> None:
        services.stopping = True
        how.drain, how.leaves_workers = drain, leaves_workers
        services.changes.announce()
        stop.set()

    def stop_requested(drain: bool, leaves_workers: bool) -> None:
        loop.call_soon_threadsafe(request_stop, drain, leaves_workers)

    def hand_over() -> None:
        nonlocal handed_over
        handed_over = True
        stop_requested(False, True)

    def request_leave(reason: Reason) -> None:
        reasons.append(reason)
        loop.call_soon_threadsafe(request_stop, False, False)

    def terminated() -> None:
        """Stop once it is known whether the service manager restarts the unit."""
        loop.run_in_executor(None, lambda: stop_requested(False, is_restart(project)))

    services.stop_requested = stop_requested
    loop.add_signal_handler(signal.SIGTERM, terminated)
    loop.add_signal_handler(signal.SIGINT, request_stop, False, False)

    crashes.note(project)
    crashes.note_start(project, None)
    if crashes.given_up(project):
        services.faults["crashes"] = Need(
            "crashing_daemon", _CRASHES, "corral daemon logs; then: corral daemon restart"
        )
    listeners = Listeners(project, services.settings().daemon.port)
    mcp = Mcp(Router(services, nouns.HOT, nouns.every), services)
    web = WebView(Access(BoundedBodies(mcp), token=listeners.token, socket=listeners.path), services)
    config = uvicorn.Config(
        web.entry,
        log_config=None,
        access_log=False,
        lifespan="off",
        interface="asgi3",
        loop="none",  # it runs in ours
        http=LimitedConnection,
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    serving = loop.create_task(server._serve(listeners.sockets))  # the daemon's own handlers keep the signals
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    await web.attach(server)
    watcher = _watch_config(parts)
    worktree_watch = _watch_worktrees(parts)

    def reopen() -> None:
        asyncio.run_coroutine_threadsafe(_serve_again(server, listeners), loop).result()

    self_heal = SelfHeal(instance, services.db, listeners, reopen, parts.bound.has_left, request_leave)
    jobs["guard"] = Job(Step("guard", self_heal.step), services.faults)
    upgrade = Upgrade(services.faults, lambda: is_idle(services), hand_over)
    jobs["upgrade"] = Job(Step("upgrade", upgrade.step), services.faults)
    listeners.announce()
    for job in jobs.values():
        job.start()
    log.info("started", pid=os.getpid(), version=__version__)
    ready()
    await stop.wait()
    log.info("stopping", drain=how.drain, leaves_workers=how.leaves_workers)
    if watcher is not None:
        watcher.stop()
    if worktree_watch is not None:
        worktree_watch.stop()
    if reasons:
        await loop.run_in_executor(None, leave, services, jobs, parts.bound.project_id, reasons[0])
    else:
        await loop.run_in_executor(None, _end_work, parts, how)
        project.daemon_json.unlink(missing_ok=True)
    server.should_exit = True
    await serving
    await mcp.close()
    if listeners.has_socket:
        listeners.path.unlink(missing_ok=True)
    return handed_over


def _left_to_end(supervisor: Supervisor, how: HowToStop) -> int:
    """Ask that everything ends, by the latest request; how many attempts have not."""
    supervisor.stop_all(leaves_workers=how.leaves_workers)
    return supervisor.unsettled_count() if how.leaves_workers else supervisor.running_count()


def _watch_config(parts: Assembly) -> ConfigWatcher | None:
    """Watch for changed files; on a system without free watches, only the next start loads changes."""
    watcher = ConfigWatcher(parts.services.project, parts.reloader.ask, on_loss=lambda: parts.services.nudge("guard"))
    try:
        watcher.start()
    except Unsupported as error:
        log.warning("config_not_watched", reason=error.message, remedy=error.remedy)
        return None
    return watcher


def _watch_worktrees(parts: Assembly) -> WorktreeWatch | None:
    """Let the guardian see what git writes about worktrees; without watches it sees that when a turn ends."""
    services, guardian = parts.services, parts.services.of(Guardian)
    fault = Fault(services.faults, "worktree watch", "unwatched_worktrees")
    try:
        watch = WorktreeWatch(services.project, guardian.changed, fault, services.now)
    except OSError as error:
        fault.show(f"Worktrees are not watched: {error}", REMEDY, services.now())
        log.warning("worktrees_not_watched", error=str(error))
        return None
    guardian.watch = watch.follow
    return watch


async def _serve_again(server: uvicorn.Server, listeners: Listeners) -> None:
    """Make the daemon reachable again: serve on a new socket if the first one is gone, and restore the files beside it."""
    if not listeners.has_socket:
        protocol_class: Any = server.config.http_protocol_class
        protocol = functools.partial(
            protocol_class,
            config=server.config,
            server_state=server.server_state,
            app_state=server.lifespan.state,
        )
        loop = asyncio.get_running_loop()
        server.servers.append(await loop.create_server(protocol, sock=listeners.listen_again()))
    listeners.announce()


def _end_work(parts: Assembly, how: HowToStop) -> None:
    """End the workers, or leave them, and end the jobs, in bounded time; while ``how`` says so, the workers finish first."""
    services = parts.services
    supervisor = services.of(Supervisor)
    supervisor.drain()
    services.nudge("supervisor")
    while how.drain and supervisor.running_count():
        time.sleep(0.1)
    deadline = time.monotonic() + STOP_S
    try:
        services.of(Queue).stop(now(), leaves_runs=how.leaves_workers)
    except (
        CorralError
    ) as error:  # its verification has ended, or goes on; the next start requeues the request, if a row is left
        log.warning("landing_not_put_back", reason=f"{error.message} {error.cause}")
    while _left_to_end(supervisor, how) and time.monotonic() < deadline:
        services.nudge("supervisor")
        time.sleep(0.05)
    for job in parts.jobs.values():
        job.stop()
    for job in parts.jobs.values():
        if not job.join(max(0.1, deadline - time.monotonic())):
            log.warning("job_still_running", job=job.name)
    try:
        supervisor.abandon(now())
    except CorralError as error:  # the next start finds them, and treats them as left by a dead daemon
        log.warning("tasks_not_marked", reason=error.message)
    try:
        services.of(AuditWriter).finish(now())
        services.of(EventLog).finish(now(), LAST_PAGES)
        services.of(Exports).finish(now(), LAST_PAGES)
    except CorralError as error:  # the next start writes them
        log.warning("events_not_logged", reason=error.message)
