"""``corral mcp``: the session's own end of the daemon, an MCP server on standard input and output. Standard library only.

Claude Code keeps one bridge per session and sends the hot hook events through it, as calls of a tool that is hidden from
the model: that costs a session nothing, where a process started for each event costs tens of milliseconds.

A dead bridge opens the gate for the rest of a session without a word, so the bridge is a shim that cannot die: it knows
no rule, catches everything, answers every call within :data:`DEADLINE_S` whatever the daemon does, and finds a restarted
daemon again by itself. Where there is no ``.corral`` it answers, and touches nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from corral import __version__, wire
from corral.config.paths import Project, find_project, find_socket
from corral.errors import NotAProject
from corral.instructions import INSTRUCTIONS, PROFILES

DEADLINE_S = 4.0
"""For one hook event, seconds; below the 5 s after which the client gives up on the bridge."""
SUMMON_EVERY_S = 10.0
"""How often an absent daemon is started anew, at most, seconds."""
TOOL_DEADLINE_S = 120.0
"""For a tool call, seconds: some wait, for a lock for instance."""
AWAKE_S = 20.0
"""How long a tool call waits for a daemon that has to be started first, seconds."""
REDIAL_S = 5.0
"""How often a lost daemon is looked for while no event passes, seconds."""
SPOKEN = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The MCP versions that are echoed, the newest first."""
LONG_TEXT = ("prompt", "last_assistant_message")
TEXT_LIMIT = 4000
"""Characters that are kept of a text which the daemon only shows."""


class Daemon:
    """HTTP/1.1 over the daemon's socket, on kept connections. Any number of threads may use it."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._idle: list[socket.socket] = []

    @property
    def path(self) -> str:
        """Where it listens now."""
        return os.fspath(find_socket(self._project))

    def post(self, target: str, body: bytes, deadline: float) -> bytes:
        """Send a request and return the body of the answer.

        A kept connection may belong to a daemon that is gone, so a broken one is replaced and the request sent once more:
        what goes this way is idempotent.

        Args:
            target: The request's path.
            body: JSON.
            deadline: On the monotonic clock, seconds.

        Raises:
            OSError: No daemon, or no answer in time.
            ValueError: The answer is not a success.
        """
        sent = wire.request("POST", target, body)
        for attempt in (1, 2):
            link = self._take(deadline)
            try:
                status, answer, keep = wire.exchange(link, sent, deadline)
            except ConnectionError:
                link.close()
                self._drop_idle()
                if attempt == 2:
                    raise
                continue
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
        raise AssertionError("unreachable")

    def _take(self, deadline: float) -> socket.socket:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        return wire.dial(self.path, wire.left(deadline))

    def _drop_idle(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()


class Gate:
    """The way from one session's events to the daemon. It never raises.

    Args:
        project: Whose daemon; None where nothing is coordinated.
        cwd: Where the session was started; empty where that folder is gone.
    """

    def __init__(self, project: Project | None, cwd: str = "") -> None:
        self._project = project
        self._next_summons = 0.0
        self._lock = threading.Lock()
        self._seen = threading.Event()
        self._origin = {
            "X-Corral-Bridge": str(os.getpid()),
            "X-Corral-Client": str(os.getppid()),
            "X-Corral-Session": os.environ.get("CLAUDE_CODE_SESSION_ID", ""),
            "X-Corral-Connection": f"mcp-{os.getpid()}-{time.time_ns():x}",
            "X-Corral-Cwd": _header(cwd),
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
            origin = {"bridge": str(os.getpid()), "pid": os.getppid(), "source": "bridge"}
            body = json.dumps({**reduced(arguments), "_hook": origin})
            answer = self._daemon.post(f"/api/v1/hooks/{event}", body.encode(), time.monotonic() + DEADLINE_S).decode()
            if not isinstance(json.loads(answer), dict):
                raise ValueError(f"not a JSON object: {answer[:200]!r}")
        except (FileNotFoundError, ConnectionError) as error:
            self._log(f"{event}: the daemon is away: {error!r}")
            self._summon()
            return "{}"
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is, the session goes on
            self._log(f"{event}: {error!r}")
            return "{}"
        self._seen.set()
        return answer

    def forward(self, message: dict[str, Any], profile: str) -> dict[str, Any]:
        """Hand a JSON-RPC request on to the daemon, started if need be, and return its answer.

        A request is sent once. If the daemon dies over it, nobody knows what it did: whoever asked is told so.

        Raises:
            Refused: There is no daemon to be had, or the answer was lost.
        """
        meta = (message.get("params") or {}).get("_meta") or {}
        headers = {**self._origin, "X-Corral-Use": str(meta.get("claudecode/toolUseId", ""))}
        sent = wire.request("POST", f"/mcp?profile={profile}", json.dumps(message).encode(), headers)
        try:
            with self._reached() as link:
                status, body, _ = wire.exchange(link, sent, time.monotonic() + TOOL_DEADLINE_S)
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
        if status != 200 or not isinstance(answer, dict):  # it was never begun
            said = body[:500].decode("utf-8", "replace")
            raise Refused(
                -32600, f"Corral refuses the request (HTTP {status}{', too large' if status == 413 else ''}): {said}"
            )
        return answer

    def _reached(self) -> socket.socket:
        """A new connection to the daemon, which is started if it is away."""
        deadline = time.monotonic() + AWAKE_S
        while True:
            try:
                return wire.dial(self._daemon.path, 5)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ConnectionRefusedError(str(error)) from error
            self._summon()
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
                while link.recv(4096):
                    pass
            self._seen.clear()
            self._seen.wait(REDIAL_S)

    def _summon(self) -> None:
        """Start the daemon beside the running call, which does not wait for it."""
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
            from corral.client import Client

            assert self._project is not None
            Client(self._project).ensure_daemon()
        except Exception as error:  # noqa: BLE001 - the edge: the next event tries again
            self._log(f"starting the daemon: {error!r}")

    def _log(self, line: str) -> None:
        assert self._project is not None
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        # A folder that cannot be written is no reason to fail an edit.
        with contextlib.suppress(OSError):
            self._project.logs_dir.mkdir(parents=True, exist_ok=True)
            with (self._project.logs_dir / "bridge.log").open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"{stamp} pid={os.getpid()} {line}\n")


def _header(text: str) -> str:
    """Text that a header can carry: bytes as they are, one character each, no line end."""
    return os.fsencode(text).decode("latin-1").replace("\r", "").replace("\n", "")


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


class Refused(Exception):
    """A request that cannot be served: a JSON-RPC error code and a message."""


class Bridge:
    """An MCP server: one JSON-RPC message a line.

    Args:
        gate: Where hook events go.
        output: File descriptor for the answers.
        profile: The set of tools that is offered.
    """

    def __init__(self, gate: Gate, output: int, profile: str = "core") -> None:
        self._gate = gate
        self._profile = profile
        self._output = output
        self._lock = threading.Lock()

    def serve(self, lines: Iterable[bytes]) -> None:
        """Answer until the input ends; calls of tools run side by side, and the process outlives those in flight."""
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                self._send({"id": None, "error": {"code": -32700, "message": "not JSON"}})
                continue
            if not isinstance(message, dict) or "id" not in message or "method" not in message:
                continue
            if message["method"] not in _SLOW:
                self._answer(message)
                continue
            try:
                threading.Thread(target=self._answer, args=(message,)).start()
            except RuntimeError:  # no more threads: late is better than dead
                self._answer(message)

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            outcome = self._outcome(message)
        except Refused as refusal:
            outcome = {"error": {"code": refusal.args[0], "message": refusal.args[1]}}
        except Exception as error:  # noqa: BLE001 - the edge: a call that fails is answered like any other
            outcome = {"error": {"code": -32603, "message": repr(error)}}
        self._send({"id": message["id"], **outcome})

    def _outcome(self, message: dict[str, Any]) -> dict[str, Any]:
        name, params = message["method"], message.get("params") or {}
        if name == "tools/call" and params.get("name") == HOOK:
            return {"result": {"content": [{"type": "text", "text": self._gate.ask(params.get("arguments") or {})}]}}
        if name in _SLOW and self._gate.is_open:
            answer = self._gate.forward(message, self._profile)
            return {key: answer[key] for key in ("result", "error") if key in answer}
        method = _METHODS.get(name)
        if method is None:
            raise Refused(-32601, f"no method {name!r}")
        return {"result": method(self, params)}

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        # A client that is gone reads no answer; the end of the input follows.
        with self._lock, contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._output, data) :]

    def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        """Agree on a version of the protocol."""
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in SPOKEN else SPOKEN[0],
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "corral", "version": __version__},
            **({"instructions": INSTRUCTIONS} if self._gate.is_open else {}),
        }

    def unknown(self, params: dict[str, Any]) -> dict[str, Any]:
        """A tool or a resource where nothing is coordinated."""
        raise Refused(-32602, f"no {params.get('name') or params.get('uri')!r} here: this is no coordinated repository")


HOOK = "hook"
"""The tool that carries the hook events; it is not listed, so that no model sees or pays for it."""
_METHODS: dict[str, Callable[[Bridge, dict[str, Any]], dict[str, Any]]] = {
    "initialize": Bridge.initialize,
    "ping": lambda _bridge, _params: {},
    "tools/list": lambda _bridge, _params: {"tools": []},
    "tools/call": Bridge.unknown,
    "resources/list": lambda _bridge, _params: {"resources": []},
    "resources/templates/list": lambda _bridge, _params: {"resourceTemplates": []},
    "resources/read": Bridge.unknown,
    "prompts/list": lambda _bridge, _params: {"prompts": []},
}
"""What is answered here, where there is no daemon to ask."""
_SLOW = ("tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read")
"""What the daemon answers, each in a thread of its own."""


def main() -> int:
    """Serve on standard input and output until the client goes away."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    project, cwd = None, ""
    with contextlib.suppress(NotAProject, OSError):
        cwd = os.fspath(Path.cwd())
        project = find_project(Path(cwd))
    Bridge(Gate(project, cwd), sys.stdout.fileno(), _profile(sys.argv[1:])).serve(sys.stdin.buffer)
    return 0


def _profile(arguments: list[str]) -> str:
    """The profile that ``--profile NAME`` asks for; a name that is none is the usual one: a bridge never refuses to start."""
    given = dict(itertools.pairwise(arguments))
    named = given.get("--profile") or os.environ.get("CORRAL_MCP_PROFILE", "")
    return named if named in PROFILES else PROFILES[0]


if __name__ == "__main__":
    sys.exit(main())
