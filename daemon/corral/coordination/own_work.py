"""Work that speaks to its own daemon: what it may not do there."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import psutil
from starlette.requests import Request

from corral.client.wire import peer_pid
from corral.config.paths import Project
from corral.core.errors import OwnDaemon
from corral.core.marks import started_by_work_of
from corral.core.routing import TRANSPORT


def refuse_own_work(project: Project, request: Request) -> None:
    """Refuse what only somebody outside of the daemon's own work may ask for; reads the processes behind the connection.

    Over TCP nobody is known: there the token is all that counts.

    Raises:
        OwnDaemon: The caller, or what it was started by, is a worker or a verification of this daemon.
    """
    if who := own_work(project, request):
        raise OwnDaemon(f"{who} may not stop the daemon that runs it.")


def own_work(project: Project, request: Request) -> str | None:
    """The worker or verification of this daemon that a request comes from; None: from none, or over TCP.

    A process that has ended may have been one: nobody can look at it any more.
    """
    pid = _peer(request)
    if pid is not None and not psutil.pid_exists(pid):
        return "A process that has ended"
    found = (started_by_work_of(environ, str(project.root)) for environ in _environments(pid))
    return next((who for who in found if who), None)


def _peer(request: Request) -> int | None:
    transport = request.scope.get(TRANSPORT)
    link = transport.get_extra_info("socket") if transport is not None else None
    if link is None or link.family != socket.AF_UNIX:
        return None
    with suppress(OSError), socket.socket(fileno=os.dup(link.fileno())) as copy:
        return peer_pid(copy)
    return None


def _environments(pid: int | None) -> Iterator[dict[str, str]]:
    """The environments of a process and of those that it descends from, as far as they can be read."""
    process = None
    with suppress(psutil.Error):
        process = psutil.Process(pid) if pid else None
    while process is not None and process.pid not in (0, 1, os.getpid()):
        with suppress(psutil.Error, OSError):
            yield process.environ()
        try:
            process = process.parent()
        except psutil.Error:
            return
