"""A session's connection to its daemon: hook events, tool calls, and a connection held for life. Standard library only.

A hook event never raises: whatever the daemon does, the session continues.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from corral.client import elsewhere, last_look, wire
from corral.client.elsewhere import Elsewhere
from corral.config import crashes
from corral.config.paths import Project, find_checkout, find_socket
from corral.core.errors import CorralError, DaemonUnreachable, DatabaseUnavailable, from_wire
from corral.core.log_files import append_line

DEADLINE_S = 4.0
"""Time limit for a hook event, seconds; the client gives up on the bridge after 5 s."""
GUARD_S = 3.0
"""The same for the event before an edit or a shell command, which also waits for a daemon that starts; the last look follows.
Also for the daemon of another project in which a command is run."""
START_S = 25.0
"""Time limit for the start of a daemon, seconds."""
TOOL_DEADLINE_S = 120.0
"""Time limit for a tool call, seconds: some wait, for example for a lock."""
AWAKE_S = 20.0
"""Seconds that a tool call waits for the daemon to start."""
LIST_AWAKE_S = 8.0
"""Seconds that a list waits for the daemon to start, and then to answer; the client needs it before a session begins."""
JITTER_S = (0.3, 2.0)
"""A lost daemon is looked for after a time between these, seconds: many sessions lose one daemon at the same moment."""
REVIVE_MOST_S = 30.0
"""Longest time between two starts of a daemon that died, seconds."""
REDIAL_S = 5.0
"""Interval between attempts to reach a lost daemon, seconds."""
MOST_ANSWERED = 16
"""Calls of edits that are remembered as answered; a client asks about as many at once."""
MOST_SETTLED = 4096
"""Calls that are remembered as asked about by the client's mod."""
HANGS_S = 30.0
"""Seconds for which a daemon that let a time limit pass counts as hung: nobody is to wait for it with every call."""
HUNG_S = 1.0
"""Time limit for a hook event meanwhile, seconds."""
LEFT_ALONE = ("PostToolUse", "PostToolUseFailure", "PostToolBatch")
"""Events that it is not asked about meanwhile: nothing is guarded by them."""
LONG_TEXT = ("prompt", "last_assistant_message")
TEXT_LIMIT = 4000
"""Maximum length of a text that the daemon only displays, characters."""


class Refused(Exception):
    """A request that cannot be served, with a JSON-RPC error code and a message."""


class Daemon:
    """HTTP/1.1 over the daemon's socket, on pooled connections. Thread-safe."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._idle: list[socket.socket] = []

    @property
    def path(self) -> str:
        """The path of its socket."""
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
        """A pooled connection, or a new one."""
        with contextlib.suppress(IndexError):
            while True:
                link = self._idle.pop()
                if _is_open(link):
                    return link
                link.close()
        return wire.dial(self.path, wire.remaining_s(deadline))


def _is_open(link: socket.socket) -> bool:
    """Whether the daemon still holds its end: it sends nothing unasked, so a readable connection is a closed one."""
    link.settimeout(0)
    try:
        link.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class Gate:
    """A session's connection to its daemon. It never raises.

    Args:
        project: The project; None if nothing is coordinated.
        cwd: The folder in which the session was started; empty if it no longer exists.
    """

    def __init__(self, project: Project | None, cwd: str = "") -> None:
        self._project = project
        self.on_daemon: Callable[[], None] = lambda: None
        """Called in its own thread whenever a daemon was found."""
        self.client_version = ""
        """The version of the client, once it has said so."""
        self._settled: OrderedDict[str, None] = OrderedDict()
        """``EVENT CALL`` of the calls that the client's mod has asked about: they need no second answer."""
        self._hung_until = 0.0
        """Until when, on the monotonic clock, the daemon counts as hung."""
        self._unheard: dict[str, tuple[float, float]] = {}
        """Unix times between which answers to a session or a subagent were lost."""
        self._starter: threading.Thread | None = None
        self._calls: dict[str | int, socket.socket] = {}
        self._lock = threading.Lock()
        self._elsewhere = Elsewhere(project, lambda other, folder: Gate(other, folder)._ask, _visit)
        self._announced: int | None = None
        self._answered = deque[str](maxlen=MOST_ANSWERED)
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
            if project.is_guarded and (checkout := find_checkout(Path(cwd or project.root))) is not None:
                folder = os.path.realpath(checkout.top)
                self._announced = last_look.enter(os.fspath(project.home), os.getppid(), folder)
            threading.Thread(target=self._hold, name="hold", daemon=True).start()

    @property
    def is_open(self) -> bool:
        """Whether a daemon can be reached."""
        return self._project is not None

    def ask(self, arguments: dict[str, Any]) -> str:
        """The JSON answer to a hook event: the daemon's, or ``{}`` without one; with those of other projects that it concerns.

        Args:
            arguments: The event's fields as the hook's ``input`` gives them: text, empty if missing.
        """
        if self._announced is not None:
            last_look.heard(self._announced)
        event, fields = str(arguments.get("hook_event_name")), reduced(arguments)
        answer = self._ask(event, fields) if self._project is not None else f"{{{elsewhere.MARK}: true}}"
        return self._elsewhere.ask(event, fields, answer)

    def answered(self, arguments: dict[str, Any]) -> None:
        """Note that the answer to an event was sent: before an edit the hook in the settings waits for that."""
        is_edit = (
            arguments.get("hook_event_name") == "PreToolUse" and arguments.get("tool_name") in last_look.EDIT_TOOLS
        )
        if is_edit and self._announced is not None and (call := str(arguments.get("tool_use_id") or "")):
            with self._lock:
                self._answered.appendleft(call)
                last_look.answered(self._announced, self._answered)

    def _ask(self, event: str, fields: dict[str, Any]) -> str:
        is_guarded = event == "PreToolUse" and (last_look.is_edit(fields) or fields.get("tool_name") == "Bash")
        try:
            if not event.isalpha():
                raise ValueError("no event named")
            if self._is_settled(event, fields):
                return "{}"
            is_hung = time.monotonic() < self._hung_until
            if is_hung and event in LEFT_ALONE:
                return "{}"
            limit_s = HUNG_S if is_hung else GUARD_S if is_guarded else DEADLINE_S
            deadline = time.monotonic() + limit_s
            try:
                answer = self._send_event(event, fields, deadline)
            except (ConnectionResetError, BrokenPipeError):  # the daemon ended; another one may run
                answer = self._send_event(event, fields, deadline)
        except (FileNotFoundError, ConnectionError) as error:
            self._log(f"{event}: no daemon: {error!r}")
            self._summon()
            waited = self._await_daemon(event, fields, deadline) if is_guarded else ""
            return waited or self._last_look(event, fields, was_away=True)
        except Exception as error:  # noqa: BLE001 - the edge: whatever it is, the session goes on
            if isinstance(error, TimeoutError):
                self._hung_until = time.monotonic() + HANGS_S
            self._log(f"{event}: {error!r}")
            return self._last_look(event, fields, was_away=False)
        self._hung_until = 0.0
        self._seen.set()
        return answer

    def _is_settled(self, event: str, fields: dict[str, Any]) -> bool:
        """Whether the client's mod has asked about all of an event, or will tell it."""
        if event != "PostToolBatch":
            return f"{event} {last_look.call_of(fields)}" in self._settled
        of = {"session_id": fields.get("session_id")}
        calls = [reduced(call) for call in fields.get("tool_calls", []) if call.get("tool_use_id")]
        is_whole = str(len(calls)) == fields.get("calls")  # the hook lists the first ones
        return is_whole and all(f"{event} {last_look.call_of({**call, **of})}" in self._settled for call in calls)

    def _await_daemon(self, event: str, fields: dict[str, Any], deadline: float) -> str:
        """The answer of the daemon that is being started; empty if it cannot be, or not in time."""
        assert self._project is not None
        while time.monotonic() < deadline:
            is_starting = (self._starter and self._starter.is_alive()) or crashes.is_starting(self._project)
            with contextlib.suppress(OSError, ValueError):
                return self._send_event(event, fields, deadline)
            if not is_starting:
                break
            time.sleep(0.05)
        return ""

    def _last_look(self, event: str, fields: dict[str, Any], *, was_away: bool) -> str:
        """The answer without a daemon: to an edit, what the last state of the database says; to anything else ``{}``.

        Args:
            was_away: Whether no daemon was there. One that is there by now may have answered another session since the look; it
                takes over what the look marked, and answers.
        """
        if self._project is None or not self._project.is_guarded or not last_look.is_edit(fields):
            return "{}"
        answer = last_look.decide(os.fspath(self._project.home), fields, os.fspath(self._project.database))
        self._log(f"{event}: {json.dumps(answer)}")
        with contextlib.suppress(OSError, ValueError):
            if was_away and not last_look.denies(answer):
                return self._send_event(event, fields, time.monotonic() + 1)
        return json.dumps(answer)

    def _send_event(self, event: str, fields: dict[str, Any], deadline: float) -> str:
        """Send an event once, with the time since which answers were lost, so that the daemon repeats their content."""
        actor, began = str(fields.get("agent_id") or fields.get("session_id")), time.time()
        unheard = self._unheard.pop(actor, None)
        origin = {
            "bridge": str(os.getpid()),
            "pid": os.getppid(),
            "source": "bridge",
            "sent": began,
            "client_version": self.client_version,
        }
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
        """Forward a JSON-RPC request to the daemon, starting it if needed, and return its answer.

        After ``corral daemon stop`` only a tool call starts it: a list or a resource is read-only.

        A request is sent once. If the daemon dies meanwhile, the outcome is unknown, and the caller gets an error.

        Raises:
            Refused: There is no daemon, or the answer was lost.
        """
        meta = (message.get("params") or {}).get("_meta") or {}
        headers = {**self._origin, "X-Corral-Use": str(meta.get("claudecode/toolUseId", ""))}
        sent = wire.request("POST", f"/mcp?profile={profile}", json.dumps(message).encode(), headers)
        try:
            with self._connect(awake_s, ends_stop=message.get("method") == "tools/call") as link:
                self._calls[message["id"]] = link
                try:
                    limit_s = awake_s if awake_s == LIST_AWAKE_S else TOOL_DEADLINE_S
                    status, body, *_ = wire.exchange(link, sent, time.monotonic() + limit_s)
                finally:
                    del self._calls[message["id"]]
            answer = json.loads(body) if status == 200 else {}
        except ConnectionRefusedError as error:
            raise Refused(
                -32603, f"Cannot reach Corral's daemon: {error}. Try again; `corral doctor` helps."
            ) from error
        except (OSError, ValueError) as error:
            self._log(f"{message.get('method')}: {error!r}")
            raise Refused(
                -32603,
                f"Corral's daemon ended before it answered ({error}). Check whether the request took effect; then "
                "try again.",
            ) from error
        self._seen.set()
        if status != 200 or not isinstance(answer, dict) or not ("result" in answer or "error" in answer):
            text = body[:500].decode("utf-8", "replace")
            raise Refused(
                -32600, f"Corral refuses the request (HTTP {status}{', too large' if status == 413 else ''}): {text}"
            )
        return answer

    def cancel(self, request: str | int) -> None:
        """Close the connection of a cancelled request; the daemon then stops waiting for it."""
        if (link := self._calls.get(request)) is not None:
            with contextlib.suppress(OSError):  # it ended meanwhile
                link.shutdown(socket.SHUT_RDWR)

    def _connect(self, awake_s: float, *, ends_stop: bool) -> socket.socket:
        """A new connection to the daemon, which is started if it does not run.

        Args:
            ends_stop: Also if a person has stopped it.
        """
        deadline = time.monotonic() + awake_s
        while True:
            try:
                return wire.dial(self._daemon.path, 5)
            except OSError as error:
                if time.monotonic() > deadline or not (self._project and self._project.initialised):
                    raise ConnectionRefusedError(str(error)) from error
                if not ends_stop and self._project.stopped_file.exists():
                    raise ConnectionRefusedError("it was stopped with `corral daemon stop`") from error
            self._summon()
            if isinstance(failure := crashes.failed_lately(self._project), DatabaseUnavailable):
                raise failure
            time.sleep(0.1)

    def _hold(self) -> None:
        """Keep one request open for life, so that the daemon notices at once when this process ends."""
        about = {
            "pid": os.getpid(),
            "client": os.getppid(),
            "session": os.environ.get("CLAUDE_CODE_SESSION_ID") or self._origin["X-Corral-Connection"],
        }
        request = f"GET /api/v1/bridge?{urlencode(about)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        had_one, tries = False, 0
        while True:
            connected = False
            with contextlib.suppress(OSError), wire.dial(self._daemon.path, None) as link:
                connected = had_one = True  # it listened, even if it dies before it is asked
                link.sendall(request)
                self.on_daemon()
                rest = b""
                while data := link.recv(4096):
                    tries, rest = 0, self._hear(rest + data)
            self._seen.clear()
            if connected:  # lost; perhaps this connection alone
                self._seen.wait(random.uniform(*JITTER_S))
            elif had_one and self._project is not None and (dead := crashes.to_revive(self._project, time.time())):
                tries += 1
                if self._start_daemon() is False:
                    crashes.note_failed_start(self._project, dead)
                self._seen.wait(min(2.0**tries, REVIVE_MOST_S) * random.uniform(0.5, 1))
            else:
                self._seen.wait(REDIAL_S)

    def _hear(self, data: bytes) -> bytes:
        """Note what the daemon says on the held connection: ``settled EVENT CALL``; returns the unfinished line."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            word, _, call = line.decode("utf-8", "replace").strip().partition(" ")
            if word == "settled":
                self._settled[call] = None
                while len(self._settled) > MOST_SETTLED:
                    self._settled.popitem(last=False)
        return rest

    def _summon(self) -> None:
        """Start the daemon in the background; none where Corral was uninstalled."""
        if self._project is None or not self._project.initialised:
            return
        with self._lock, contextlib.suppress(RuntimeError):
            if self._starter is None or not self._starter.is_alive():
                self._starter = threading.Thread(target=self._start_daemon, name="summon", daemon=True)
                self._starter.start()

    def _start_daemon(self) -> bool | None:
        """Start the daemon with the present installation: this process, and its imported modules, may be older.

        Returns:
            Whether it runs; None: another session starts it, or a start has just failed.
        """
        import subprocess  # only a session that lost its daemon needs it

        assert self._project is not None
        if (turn := crashes.take_turn(self._project)) is None:
            return None
        argv = [sys.executable, "-m", "corral.client.start", str(self._project.root)]
        try:
            done = subprocess.run(argv, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=START_S)
            if done.returncode != 0:
                raise from_wire(json.loads(done.stdout))
        except CorralError as error:  # it noted that itself
            self._log(f"starting the daemon: {error!r}")
            return False
        except Exception as error:  # noqa: BLE001 - the edge: the next event tries again
            crashes.note_start(self._project, DaemonUnreachable("The daemon could not be started.", cause=repr(error)))
            self._log(f"starting the daemon: {error!r}")
            return False
        finally:
            os.close(turn)
        crashes.note_start(self._project, None)
        return True

    def _log(self, line: str) -> None:
        assert self._project is not None
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        # A folder that cannot be written must not fail an edit.
        with contextlib.suppress(OSError):
            if self._project.home.is_symlink() or self._project.logs_dir.is_symlink():
                return  # the daemon reports it
            if not self._project.is_guarded:
                return  # Corral was uninstalled during the session
            self._project.logs_dir.mkdir(parents=True, exist_ok=True)
            append_line(self._project.logs_dir / "bridge.log", f"{stamp} pid={os.getpid()} {line}")


def _visit(project: Project) -> elsewhere.Ask:
    """The way to ask another project's daemon about a shell command, if it runs: as a guest, who has no bridge there."""
    daemon, hung_until = Daemon(project), 0.0

    def ask(event: str, fields: dict[str, Any]) -> str:
        nonlocal hung_until
        if time.monotonic() < hung_until:
            return "{}"
        origin = {"pid": os.getppid(), "source": "guest", "sent": time.time()}
        body = json.dumps({**fields, "_hook": origin}).encode()
        try:
            answer = daemon.post(f"/api/v1/hooks/{event}", body, time.monotonic() + GUARD_S).decode()
            return answer if isinstance(json.loads(answer), dict) else "{}"
        except TimeoutError:
            hung_until = time.monotonic() + HANGS_S
        except (OSError, ValueError):
            pass
        return "{}"

    return ask


def reduced(arguments: dict[str, Any]) -> dict[str, Any]:
    """The event as the client's own payload has it: without empty fields, flags as booleans, long texts cut."""
    fields: dict[str, Any] = {}
    for name, value in arguments.items():
        short = reduced(value) if isinstance(value, dict) else value
        if name in LONG_TEXT and isinstance(short, str):
            short = short[:TEXT_LIMIT]
        elif short in ("true", "false") and name == "stop_hook_active":
            short = short == "true"
        if short not in ("", {}):
            fields[name] = short
    return fields
