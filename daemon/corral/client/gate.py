"""The way from one session to its daemon: hook events, tool calls, and a connection that is held for life. Standard library only.

It never raises for a hook event: whatever the daemon does, the session goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from corral.client import wire
from corral.config.paths import Project, find_socket
from corral.errors import CorralError, DatabaseUnavailable
from corral.log_files import append_line

DEADLINE_S = 4.0
"""For one hook event, seconds; below the 5 s after which the client gives up on the bridge."""
SUMMON_EVERY_S = 10.0
"""How often an absent daemon is started anew, at most, seconds."""
TOOL_DEADLINE_S = 120.0
"""For a tool call, seconds: some wait, for a lock for instance."""
AWAKE_S = 20.0
"""How long a tool call waits for a daemon that has to be started first, seconds."""
LIST_AWAKE_S = 8.0
"""The same for a list, which the client wants before a session begins."""
REDIAL_S = 5.0
"""How often a lost daemon is looked for while no event passes, seconds."""
LONG_TEXT = ("prompt", "last_assistant_message")
TEXT_LIMIT = 4000
"""Characters that are kept of a text which the daemon only shows."""


class Refused(Exception):
    """A request that cannot be served: a JSON-RPC error code and a message."""


class Daemon:
    """HTTP/1.1 over the daemon's socket, on kept connections. Any number of threads may use it."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._idle: list[socket.socket] = []

    @property
    def is_wanted(self) -> bool:
        """Whether the repository is still coordinated."""
        return self._project.initialised

    @property
    def path(self) -> str:
        """Where it listens now."""
        return os.fspath(find_socket(self._project))

    def post(self, target: str, body: bytes, deadline: float) -> bytes:
        """Send a request and return the body of the answer.

        Args:
            target: The request's path.
            body: JSON.
            deadline: On the monotonic clock, seconds.

        Raises:
            OSError: No daemon, or no answer in time.
            ValueError: The answer is not a success.
        """
        link = self._take(deadline)
        try:
            status, answer, keep, _ = wire.exchange(link, wire.request("POST", target, body), deadline)
        except (OSError, ValueError):
            link.close()
            raise
        if keep:
            self._idle.append(link)
        else:
            link.close()
        if status != 200:
            raise ValueError(f"the daemon answered {status}: {answer[:200]!r}")
        return answer

    def _take(self, deadline: float) -> socket.socket:
        """A kept connection, or a new one."""
        with contextlib.suppress(IndexError):
            while True:
                link = self._idle.pop()
                if _is_open(link):
                    return link
                link.close()
        return wire.dial(self.path, wire.left(deadline))


def _is_open(link: socket.socket) -> bool:
    """Whether the daemon still holds its end: as it says nothing unasked, all that can be there to read is the end."""
    link.settimeout(0)
    try:
        link.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class Gate:
    """The way from one session's events to the daemon. It never raises.

    Args:
        project: Whose daemon; None where nothing is coordinated.
        cwd: Where the session was started; empty where that folder is gone.
    """

    def __init__(self, project: Project | None, cwd: str = "") -> None:
        self._project = project
        self.on_daemon: Callable[[], None] = lambda: None
        """Called whenever a daemon was found, in a thread of its own."""
        self._unheard: dict[str, tuple[float, float]] = {}
        """When an answer to a session or a subagent got lost: from and to, Unix time."""
        self._next_summons = 0.0
        self._no_database: CorralError | None = None
        """Why the last start of a daemon failed, where that was its database."""
        self._calls: dict[str | int, socket.socket] = {}
        self._lock = threading.Lock()
        self._seen = threading.Event()
        self._origin = {
            "X-Corral-Bridge": str(os.getpid()),
            "X-Corral-Client": str(os.getppid()),
            "X-Corral-Session": os.environ.get("CLAUDE_CODE_SESSION_ID", ""),
            "X-Corral-Connection": str(uuid.uuid4()),
            "X-Corral-Cwd": os.fsencode(cwd).decode("latin-1"),
            "Accept": "application/json, text/event-stream",
        }
        if project is not None:
            self._daemon = Daemon(project)
            threading.Thread(target=self._hold, name="hold", daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Whether there is a daemon to ask."""
        return self._project is not None

    def ask(self, arguments: dict[str, Any]) -> str:
        """The JSON that answers a hook event: the daemon's, or ``{}`` where there is none.

        Args:
            arguments: The event's fields as the hook's ``input`` gives them: text, empty where the event has none.
        """
        if self._project is None:
            return "{}"
        event = str(arguments.get("hook_event_name"))
        try:
            if not event.isalpha():
                raise ValueError("no event is named")
            deadline = time.monotonic() + DEADLINE_S
            try:
                answer = self._tell(event, reduced(arguments), deadline)
            except (ConnectionResetError, BrokenPipeError):  # the daemon went; another one may be there
                answer = self._tell(event, reduced(arguments), deadline)
        except (FileNotFoundError, ConnectionError) as error:
            self._log(f"{event}: the daemon is away: {error!r}")
            self._summon()
            return "{}"
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is, the session goes on
            self._log(f"{event}: {error!r}")
            return "{}"
        self._seen.set()
        return answer

    def _tell(self, event: str, fields: dict[str, Any], deadline: float) -> str:
        """Send an event, once. It says since when the daemon's answers were not heard: what they brought is still to be told."""
        actor, began = str(fields.get("agent_id") or fields.get("session_id")), time.time()
        unheard = self._unheard.pop(actor, None)
        origin = {"bridge": str(os.getpid()), "pid": os.getppid(), "source": "bridge", "sent": began}
        body = json.dumps({**fields, "_hook": {**origin, **({"unheard": unheard} if unheard else {})}})
        try:
            answer = self._daemon.post(f"/api/v1/hooks/{event}", body.encode(), deadline).decode()
            if not isinstance(json.loads(answer), dict):
                raise ValueError(f"not a JSON object: {answer[:200]!r}")
        except (OSError, ValueError) as error:
            reached = not isinstance(error, (FileNotFoundError, ConnectionRefusedError))
            lost = (unheard[0] if unheard else began, time.time()) if reached else unheard
            if lost:
                self._unheard[actor] = lost
            raise
        return answer

    def forward(self, message: dict[str, Any], profile: str, awake_s: float = AWAKE_S) -> dict[str, Any]:
        """Hand a JSON-RPC request on to the daemon, started if need be, and return its answer.

        A request is sent once. If the daemon dies over it, nobody knows what it did: whoever asked is told so.

        Raises:
            Refused: There is no daemon to be had, or the answer was lost.
        """
        meta = (message.get("params") or {}).get("_meta") or {}
        headers = {**self._origin, "X-Corral-Use": str(meta.get("claudecode/toolUseId", ""))}
        sent = wire.request("POST", f"/mcp?profile={profile}", json.dumps(message).encode(), headers)
        try:
            with self._reached(awake_s) as link:
                self._calls[message["id"]] = link
                try:
                    status, body, *_ = wire.exchange(link, sent, time.monotonic() + TOOL_DEADLINE_S)
                finally:
                    del self._calls[message["id"]]
            answer = json.loads(body) if status == 200 else {}
        except ConnectionRefusedError as error:
            raise Refused(
                -32603, f"Corral's daemon cannot be reached: {error}. Try again; `corral doctor` helps."
            ) from error
        except (OSError, ValueError) as error:
            self._log(f"{message.get('method')}: {error!r}")
            raise Refused(
                -32603,
                f"Corral's daemon went away before it answered ({error}). Look whether it was done; then try again.",
            ) from error
        self._seen.set()
        if status != 200 or not isinstance(answer, dict) or not ("result" in answer or "error" in answer):
            said = body[:500].decode("utf-8", "replace")
            raise Refused(
                -32600, f"Corral refuses the request (HTTP {status}{', too large' if status == 413 else ''}): {said}"
            )
        return answer

    def cancel(self, request: str | int) -> None:
        """Hang up on a request that nobody waits for any more: whatever it waits for, the daemon gives up for it."""
        if (link := self._calls.get(request)) is not None:
            with contextlib.suppress(OSError):  # it ended meanwhile
                link.shutdown(socket.SHUT_RDWR)

    def _reached(self, awake_s: float) -> socket.socket:
        """A new connection to the daemon, which is started if it is away."""
        deadline = time.monotonic() + awake_s
        while True:
            try:
                link = wire.dial(self._daemon.path, 5)
                self._no_database = None
                return link
            except OSError as error:
                if time.monotonic() > deadline or not self._daemon.is_wanted:
                    raise ConnectionRefusedError(str(error)) from error
            self._summon()
            if self._no_database is not None:
                raise self._no_database
            time.sleep(0.1)

    def _hold(self) -> None:
        """Keep one request open for life, so that the daemon notices at once when this process ends."""
        about = {
            "pid": os.getpid(),
            "client": os.getppid(),
            "session": os.environ.get("CLAUDE_CODE_SESSION_ID") or self._origin["X-Corral-Connection"],
        }
        request = f"GET /api/v1/bridge?{urlencode(about)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        while True:
            with contextlib.suppress(OSError), wire.dial(self._daemon.path, None) as link:
                link.sendall(request)
                self.on_daemon()
                while link.recv(4096):
                    pass
            self._seen.clear()
            self._seen.wait(REDIAL_S)

    def _summon(self) -> None:
        """Start the daemon beside the running call, which does not wait for it; none where Corral was uninstalled."""
        if self._project is None or not self._project.initialised:
            return
        with self._lock:
            now = time.monotonic()
            if now < self._next_summons:
                return
            self._next_summons = now + SUMMON_EVERY_S
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._start_daemon, name="summon", daemon=True).start()

    def _start_daemon(self) -> None:
        # The client costs several megabytes, which only a session that lost its daemon pays.
        try:
            from corral.client.connection import Client

            assert self._project is not None
            Client(self._project).ensure_daemon()
            self._no_database = None
        except DatabaseUnavailable as error:
            self._no_database = error
            self._log(f"starting the daemon: {error!r}")
        except Exception as error:  # noqa: BLE001 - the edge: the next event tries again
            self._log(f"starting the daemon: {error!r}")

    def _log(self, line: str) -> None:
        assert self._project is not None
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        # A folder that cannot be written is no reason to fail an edit.
        with contextlib.suppress(OSError):
            if self._project.home.is_symlink() or self._project.logs_dir.is_symlink():
                return  # the daemon says so
            if not self._project.initialised:
                return  # it was uninstalled under a session that goes on
            self._project.logs_dir.mkdir(parents=True, exist_ok=True)
            append_line(self._project.logs_dir / "bridge.log", f"{stamp} pid={os.getpid()} {line}")


def reduced(arguments: dict[str, Any]) -> dict[str, Any]:
    """The event as the client's own payload has it: without what is empty, flags as booleans, long texts cut."""
    fields: dict[str, Any] = {}
    for name, value in arguments.items():
        kept = reduced(value) if isinstance(value, dict) else value
        if name in LONG_TEXT and isinstance(kept, str):
            kept = kept[:TEXT_LIMIT]
        elif kept in ("true", "false") and name == "stop_hook_active":
            kept = kept == "true"
        if kept not in ("", {}):
            fields[name] = kept
    return fields
