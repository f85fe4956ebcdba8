"""The caller of a request, by the process at the other end of its connection; refuses what only a person may do."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import psutil

from corral.client.wire import peer_pid
from corral.config.paths import Project
from corral.core.asgi import Scope
from corral.core.errors import NotPermitted, OwnDaemon
from corral.core.marks import of_a_session, sessions_of, started_by_work_of
from corral.core.routing import PEER, Caller


class CallerProcess(NamedTuple):
    """The caller of a request.

    Attributes:
        name: For a message.
        sessions: The ids of the sessions that its process runs in, the nearest first; empty for a person.
    """

    kind: Caller
    name: str
    sessions: tuple[str, ...] = ()


class Peer:
    """The process at the other end of a connection. It is looked at once: every request of the connection is from it."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.seen: CallerProcess | None = None

    @cached_property
    def pid(self) -> int | None:
        """Its id; None over TCP, and where the connection is closed already."""
        link = self._transport.get_extra_info("socket")
        if link is None or link.family != socket.AF_UNIX:
            return None
        with suppress(OSError), socket.socket(fileno=os.dup(link.fileno())) as copy:
            return peer_pid(copy)
        return None

    def look(self, project: Project) -> CallerProcess:
        """Read the environments of the process and of those above it; over TCP it is unknown."""
        if self.seen is None:
            self.seen = _look(self.pid, project)
        return self.seen


def require(callers: frozenset[Caller], operation: str, project: Project, scope: Scope) -> None:
    """Refuse a caller that may not do an operation; reads the processes behind the connection.

    Args:
        operation: The operation, for the message.

    Raises:
        NotPermitted: The caller is none of them; ``details['caller']`` names it.
    """
    caller, name, _sessions = caller_of(project, scope)
    if caller in callers:
        return
    message = f"{name[0].upper()}{name[1:]} may not do this: {operation}."
    remedy, details = "A person does it, in a terminal of their own.", {"caller": name}
    if callers == {Caller.PERSON}:
        raise NotPermitted(message, cause="It is left to a person.", remedy=remedy, details=details)
    cause = "It would end, or wait for, the work that asks for it."
    raise OwnDaemon(message, cause=cause, remedy=remedy, details=details)


def is_tcp(scope: Scope) -> bool:
    """Whether a request came over TCP, where nothing shows the process at the other end."""
    return (scope.get("server") or ("", None))[1] is not None


def caller_of(project: Project, scope: Scope) -> CallerProcess:
    """The caller of a request. Over TCP it is unknown, and counts as a person: there only the token counts.

    A process that has ended, or that cannot be looked at, counts as a worker: nothing proves the contrary.
    """
    peer: Peer | None = scope.get(PEER)
    return _UNKNOWN if peer is None else peer.look(project)


_UNKNOWN = CallerProcess(Caller.PERSON, "a person")


def _look(pid: int | None, project: Project) -> CallerProcess:
    if pid is None:
        return _UNKNOWN
    try:
        own = psutil.Process(pid).environ()
    except psutil.NoSuchProcess:
        return CallerProcess(Caller.WORK, "a process that has ended")
    except (psutil.Error, OSError):
        return CallerProcess(Caller.WORK, "a process that cannot be looked at")
    owners = (started_by_work_of(environ, str(project.root)) for environ in (own, *_environments_above(pid)))
    if owner := next(filter(None, owners), None):
        return CallerProcess(Caller.WORK, owner, sessions_of(own))
    if mark := of_a_session(own):
        return CallerProcess(Caller.SESSION, f"an agent session ({mark} is set)", sessions_of(own))
    return _UNKNOWN


def _environments_above(pid: int) -> Iterator[dict[str, str]]:
    """The environments of the processes that a process descends from, as far as they can be read."""
    with suppress(psutil.Error):
        for process in psutil.Process(pid).parents():
            if process.pid in (1, os.getpid()):
                return
            with suppress(psutil.Error, OSError):
                yield process.environ()
