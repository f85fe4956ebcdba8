"""The daemon of one project: put together, served, taken apart.

The order matters. Start: database, recovery, jobs, then the sockets; only then is it ``ready``. Stop: no new work, workers
ended and their tasks marked (or, when draining, finished), then the sockets, then the database, last the lock.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
import uvloop

from corral import __version__
from corral.config.watch import ConfigWatcher
from corral.errors import Unsupported
from corral.observe import logs
from corral.server.access import Access
from corral.server.assembly import assemble
from corral.server.door import Door
from corral.server.express import Express
from corral.server.framework import Framework
from corral.server.guard import Guard
from corral.server.instance import Instance
from corral.server.jobs import Job, now
from corral.server.mcp.mount import Mcp
from corral.server.services import Services

STOP_S = 14.0
"""Everything that a stop waits for is over after this many seconds."""

THREADS = 8

log = logs.logger("daemon")


def serve(instance: Instance, ready: Callable[[], None]) -> None:
    """Be the daemon until told to stop.

    Args:
        instance: The right to be it; released at the end.
        ready: Called once when requests are answered.

    Raises:
        CorralError: It cannot start: settings, database or folder are not usable.
    """
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    project = instance.project
    pool = ThreadPoolExecutor(THREADS, thread_name_prefix="work")
    services = assemble(project, pool)
    try:
        uvloop.run(_run(services, ready))
    finally:
        services.db.close()
        pool.shutdown(wait=False, cancel_futures=True)
        project.daemon_json.unlink(missing_ok=True)
        log.info("stopped", pid=os.getpid())
        logs.close()
        instance.release()


async def _run(services: Services, ready: Callable[[], None]) -> None:
    project = services.project
    loop = asyncio.get_running_loop()
    services.bind(loop)
    stop = asyncio.Event()
    how = {"drain": False}

    def request_stop(drain: bool) -> None:
        services.stopping = True
        how["drain"] = drain
        services.changed()
        stop.set()

    def stop_requested(drain: bool) -> None:
        loop.call_soon_threadsafe(request_stop, drain)

    services.stop_requested = stop_requested
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, request_stop, False)

    door = Door(project, services.settings().daemon.tcp_port)
    mcp = Mcp(Express(Framework(services), services), services)
    app = Access(mcp, token=door.token, socket=door.path)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        loop="none",  # it runs in ours
        http="httptools",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = loop.create_task(_without_signals(server, [door.unix, door.tcp]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    watcher = _watch_config(services)

    def reopen() -> None:
        asyncio.run_coroutine_threadsafe(_serve_also(server, door), loop).result()

    guard = Guard(services.db, door, reopen, lambda: watcher is not None and watcher.sees_losses)
    services.jobs["guard"] = Job("guard", guard.step)
    door.announce()
    for job in services.jobs.values():
        job.start()
    log.info("started", pid=os.getpid(), version=__version__)
    ready()
    await stop.wait()
    log.info("stopping", drain=how["drain"])
    if watcher is not None:
        watcher.stop()
    await loop.run_in_executor(None, _end_work, services, how["drain"])
    project.daemon_json.unlink(missing_ok=True)
    server.should_exit = True
    await serving
    await mcp.close()
    door.path.unlink(missing_ok=True)


def _watch_config(services: Services) -> ConfigWatcher | None:
    """Take over changed files soon; on a system that has no watches left, only the next start does."""
    watcher = ConfigWatcher(services.project, services.reloader.ask, on_loss=lambda: services.nudge("guard"))
    try:
        watcher.start()
    except Unsupported as error:
        log.warning("config_not_watched", reason=error.message, remedy=error.remedy)
        return None
    return watcher


async def _without_signals(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Serve; the daemon's own handlers keep the signals."""
    await server._serve(sockets)


async def _serve_also(server: uvicorn.Server, door: Door) -> None:
    """Let clients in again: serve on a new socket like on the first one, if that is gone; put back the files beside it."""
    if not door.has_socket:
        made: Any = server.config.http_protocol_class
        protocol = functools.partial(
            made,
            config=server.config,
            server_state=server.server_state,
            app_state=server.lifespan.state,
        )
        loop = asyncio.get_running_loop()
        server.servers.append(await loop.create_server(protocol, sock=door.listen_again()))
    door.announce()


def _end_work(services: Services, drain: bool) -> None:
    """End the workers and the jobs, in bounded time; with ``drain`` the workers finish first."""
    supervisor = services.supervisor
    supervisor.drain(now())
    services.nudge("supervisor")
    while drain and supervisor.running_count() and not _told_again(services):
        time.sleep(0.1)
    deadline = time.monotonic() + STOP_S
    services.queue.stop(now())
    supervisor.stop_all(now())
    while supervisor.running_count() and time.monotonic() < deadline:
        services.nudge("supervisor")
        time.sleep(0.05)
    for job in services.jobs.values():
        job.stop()
    for job in services.jobs.values():
        if not job.join(max(0.1, deadline - time.monotonic())):
            log.warning("job_still_running", job=job.name)


def _told_again(services: Services) -> bool:
    return not services.stopping
