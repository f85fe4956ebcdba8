"""The daemon of one project: put together, served, taken apart.

The order matters. Start: database, recovery, jobs, then the sockets; only then is it ``ready``. Stop: no new work, workers
ended and their tasks marked (or, when draining, finished), then the sockets, then the database, last the lock.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn

from corral import PROTOCOL, __version__
from corral.config.paths import Project, socket_path
from corral.config.watch import ConfigWatcher
from corral.errors import Unsupported
from corral.models.instants import iso
from corral.observe import logs
from corral.server.access import Access, make_token, write_private
from corral.server.app import build
from corral.server.assembly import assemble
from corral.server.express import Express
from corral.server.instance import Instance
from corral.server.jobs import now
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
        asyncio.run(_run(services, ready))
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

    unix = _unix_socket(socket_path(project))
    tcp = _loopback(services.settings().daemon.tcp_port)
    served = Express(build(services), services)
    app = Access(served, token=make_token(project.token_file), socket=socket_path(project))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http="httptools",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    serving = loop.create_task(_without_signals(server, [unix, tcp]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    watcher = _watch_config(services)
    for job in services.jobs.values():
        job.start()
    _announce(project, tcp)
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
    socket_path(project).unlink(missing_ok=True)


def _watch_config(services: Services) -> ConfigWatcher | None:
    """Take over changed files soon; on a system that has no watches left, only the next start does."""
    watcher = ConfigWatcher(services.project, services.reloader.ask)
    try:
        watcher.start()
    except Unsupported as error:
        log.warning("config_not_watched", reason=error.message, remedy=error.remedy)
        return None
    return watcher


async def _without_signals(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
    """Serve; the daemon's own handlers keep the signals."""
    await server._serve(sockets)


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


def _unix_socket(path: Path) -> socket.socket:
    """Listen on the project's socket. A file that is there is a dead daemon's: the lock is ours."""
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    path.chmod(0o600)
    listening.listen(512)
    listening.setblocking(False)
    return listening


def _loopback(port: int) -> socket.socket:
    """Listen on loopback TCP; any free port if the one that was configured is taken."""
    for candidate in dict.fromkeys((port, 0)):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", candidate))
        except OSError as error:
            listening.close()
            log.warning("port_taken", port=candidate, error=str(error))
            continue
        listening.listen(512)
        listening.setblocking(False)
        return listening
    raise OSError("no loopback port is free")


def _announce(project: Project, tcp: socket.socket) -> None:
    """Tell clients where the daemon is: written aside and moved in, so that nobody reads half of it."""
    host, port = tcp.getsockname()[:2]
    said = {
        "pid": os.getpid(),
        "socket": str(socket_path(project)),
        "host": host,
        "port": port,
        "address": f"http://{host}:{port}",
        "version": __version__,
        "protocol": PROTOCOL,
        "started_at": iso(now()),
    }
    write_private(project.daemon_json, json.dumps(said) + "\n")
    # For workers and hooks, whatever their PATH: the plugin starts its bridge as `corral mcp`.
    command = project.run_dir / "bin" / "corral"
    command.parent.mkdir(exist_ok=True)
    write_private(command, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m corral "$@"\n')
    command.chmod(0o700)
