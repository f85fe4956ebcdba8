"""The caller of a request, by the process at the other end of its connection; refuses what only a person may do."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from sqlalchemy import Connection

from corral.client.wire import peer_pid
from corral.config.paths import Project
from corral.coordination.sessions import clients
from corral.coordination.sessions.processes import upwards
from corral.core.asgi import Scope
from corral.core.errors import NotPermitted, OwnDaemon
from corral.core.marks import of_a_session, sessions_of, started_by_work_of
from corral.core.routing import PEER, Caller
from corral.runners.tags import PROJECT_MARK, is_tagged

if TYPE_CHECKING:
    from corral.coordination.services import Services


_NEAR = 3
"""The hook, a shell, the client."""


class CallerProcess(NamedTuple):
    """The caller of a request.

    Attributes:
        name: For a message.
        sessions: The ids of the sessions that its environment names, the nearest first; of a caller that is
            :func:`identified`, those that it may speak for.
        lineage: The ids of its process and of those above it, the nearest first; empty where they are unknown.
    """

    kind: Caller
    name: str
    sessions: tuple[str, ...] = ()
    lineage: tuple[int, ...] = ()


class Peer:
    """The process at the other end of a connection. It is looked at once: every request of the connection is from it.

    Attributes:
        identified: The caller that it was last found to be, and the ``Database.clients_version`` at which that was found.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.seen: CallerProcess | None = None
        self.identified: tuple[int, CallerProcess] | None = None

    @cached_property
    def pid(self) -> int | None:
        """Its id; None over TCP, and where the connection is closed already."""
        link = self._transport.get_extra_info("socket")
        if link is None or link.family != socket.AF_UNIX:
            return None
        with suppress(OSError), socket.socket(fileno=os.dup(link.fileno())) as copy:
            return peer_pid(copy)
        return None

    @cached_property
    def near(self) -> tuple[int, ...]:
        """The first ids of :attr:`lineage`, read in half the time; the client of a hook is nearly always among them."""
        return tuple(islice(upwards(self.pid), _NEAR)) if self.pid else ()

    @cached_property
    def lineage(self) -> tuple[int, ...]:
        """The ids of the process and of those above it, the nearest first; empty where they are unknown."""
        return tuple(upwards(self.pid)) if self.pid else ()

    def here(self, named: int | None) -> int | None:
        """The id by which this daemon knows a process that the peer names; None if it is unknown.

        In a container or a sandbox processes have ids of their own; here the same number is another process.
        """
        if named is None or not self._is_elsewhere:
            return named
        return next((pid for pid in self.lineage if _innermost(pid) == named), None)

    @cached_property
    def _is_elsewhere(self) -> bool:
        """Whether the peer is in another namespace of process ids; outside of the daemon's namespace a process has no id here."""
        try:
            return self.pid == 0 or os.readlink(f"/proc/{self.pid}/ns/pid") != os.readlink("/proc/self/ns/pid")  # noqa: PTH115
        except OSError:  # the system has no such namespaces, or the peer has ended
            return False

    def look(self, project: Project, project_id: str) -> CallerProcess:
        """Read the tag of the process, and the environments of all of them."""
        if self.seen is None:
            self.seen = _look(self.lineage, project, project_id)
        return self.seen


def require(callers: frozenset[Caller], operation: str, services: Services, scope: Scope) -> None:
    """Refuse a caller that may not do an operation; reads the processes behind the connection, and where need be the database.

    Args:
        operation: The operation, for the message.

    Raises:
        NotPermitted: The caller is none of them; ``details['caller']`` names it.
    """
    seen = process_of(services.project, services.project_id, scope)
    if {
        seen.kind,
        Caller.SESSION,
    } <= callers:  # whose it is makes no difference: a damaged database keeps nobody from a stop
        return
    caller, name, *_ = services.db.read(identified, seen)
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


def process_of(project: Project, project_id: str, scope: Scope) -> CallerProcess:
    """The caller of a request, by its processes alone.

    A process that has ended, or that cannot be looked at, counts as a worker: nothing proves the contrary.
    """
    if is_tcp(scope):
        return _PROGRAM
    peer: Peer | None = scope.get(PEER)
    return _PERSON if peer is None else peer.look(project, project_id)


def identified(conn: Connection, seen: CallerProcess) -> CallerProcess:
    """A caller with the sessions that its processes prove, in place of those that its environment names.

    A process that a session's client started acts for that session, even with an empty environment. The client's own process
    acts for its person: it connects when they press a button, and no tool of an agent makes it connect.
    """
    if not seen.lineage:
        return seen
    own = clients.sessions_of(conn, seen.lineage)
    named = [name for name in seen.sessions if clients.may_speak(conn, name, own, seen.lineage)]
    sessions = tuple(dict.fromkeys((*named, *own)))
    if own and seen.kind is Caller.PERSON and seen.lineage[0] not in own.values():
        return CallerProcess(Caller.SESSION, "an agent session (its client runs this)", sessions, seen.lineage)
    return seen._replace(sessions=sessions)


_PERSON = CallerProcess(Caller.PERSON, "a person")
_PROGRAM = CallerProcess(Caller.PROGRAM, Caller.PROGRAM.value)


def _look(lineage: tuple[int, ...], project: Project, project_id: str) -> CallerProcess:
    try:
        own = psutil.Process(lineage[0]).environ() if lineage else None
    except psutil.NoSuchProcess:
        own = None
    except (psutil.Error, OSError):
        return CallerProcess(Caller.WORK, "a process that cannot be looked at")
    if own is None:
        return CallerProcess(Caller.WORK, "a process that has ended")
    for environ in (own, *map(_environment, lineage[1:])):
        if owner := started_by_work_of(environ, str(project.root)):
            return CallerProcess(Caller.WORK, owner, sessions_of(own), lineage)
    if is_tagged(lineage[0], {PROJECT_MARK: project_id}):  # it has left its parents and cleared its environment
        return CallerProcess(Caller.WORK, "a process that a task or a verification started", sessions_of(own), lineage)
    if mark := of_a_session(own):
        return CallerProcess(Caller.SESSION, f"an agent session ({mark} is set)", sessions_of(own), lineage)
    return _PERSON._replace(lineage=lineage)


def _innermost(pid: int) -> int | None:
    """The id of a process in its own namespace."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def _environment(pid: int) -> dict[str, str]:
    """The environment of a process; empty where it cannot be read."""
    with suppress(psutil.Error, OSError):
        return psutil.Process(pid).environ()
    return {}
