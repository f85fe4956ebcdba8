"""``corral mcp``: a session's bridge, an MCP server on standard input and output. Standard library only.

Claude Code keeps one bridge per session and sends the hot hook events through it, as calls of a tool that is hidden
from the model: almost free, where starting a process per event costs tens of milliseconds.

If the bridge dies, the session's edits are silently unchecked. So it holds no logic, catches every exception, answers
every event in time whatever the daemon does (:mod:`corral.client.gate`), and reconnects to a restarted daemon. Without
``.corral`` it answers, and touches nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from corral import __version__
from corral.client import last_look
from corral.client.gate import AWAKE_S, LIST_AWAKE_S, Gate, Refused
from corral.config.paths import Project, find_guarded
from corral.core.errors import DatabaseUnavailable, NotAProject
from corral.core.instructions import INSTRUCTIONS, PROFILES

SPOKEN = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The accepted MCP versions, newest first."""


class Bridge:
    """An MCP server: one JSON-RPC message per line.

    Args:
        gate: Handles hook events.
        output: File descriptor for the answers.
        profile: The set of tools to offer.
    """

    def __init__(self, gate: Gate, output: int, profile: str = "core") -> None:
        self._gate = gate
        self._profile = profile
        self._output = output
        self._lock = threading.Lock()
        self._unlisted = False
        gate.on_daemon = self._list_again

    def serve(self, lines: Iterable[bytes]) -> None:
        """Answer until the input ends; tool calls run in parallel, and the process waits for those in flight."""
        for line in lines:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                self._send({"id": None, "error": {"code": -32700, "message": "not JSON"}})
                continue
            if not isinstance(message, dict) or "method" not in message:
                continue
            if message["method"] == "notifications/cancelled":
                self._cancel(message.get("params"))
            if "id" not in message:
                continue
            if message["method"] not in _SLOW:
                self._answer(message)
                continue
            try:
                threading.Thread(target=self._answer, args=(message,)).start()
            except RuntimeError:  # no more threads: a late answer is better than none
                self._answer(message)

    def _cancel(self, params: Any) -> None:
        request = params.get("requestId") if isinstance(params, dict) else None
        if isinstance(request, str | int):
            self._gate.cancel(request)

    def _answer(self, message: dict[str, Any]) -> None:
        try:
            outcome = self._outcome(message)
        except DatabaseUnavailable as error:
            outcome = _unavailable(error, is_tool=message["method"] == "tools/call")
        except Refused as refusal:
            outcome = {"error": {"code": refusal.args[0], "message": refusal.args[1]}}
        except Exception as error:  # noqa: BLE001 - the edge: a call that fails is answered like any other
            outcome = {"error": {"code": -32603, "message": repr(error)}}
        self._send({"id": message["id"], **outcome})
        if _is_event(message):
            self._gate.answered(message["params"].get("arguments") or {})

    def _outcome(self, message: dict[str, Any]) -> dict[str, Any]:
        name, params = message["method"], message.get("params") or {}
        if _is_event(message):
            return {"result": {"content": [{"type": "text", "text": self._gate.ask(params.get("arguments") or {})}]}}
        if name in _LISTS and self._gate.is_open:
            # To the client, a failing list is a failing server; it would drop the server, and the hooks with it.
            with contextlib.suppress(Refused, DatabaseUnavailable):
                return self._forward(message, LIST_AWAKE_S)
            self._unlisted = True
        elif name in _SLOW and self._gate.is_open:
            return self._forward(message, AWAKE_S)
        method = _METHODS.get(name)
        if method is None:
            raise Refused(-32601, f"unknown method {name!r}")
        return {"result": method(self, params)}

    def _forward(self, message: dict[str, Any], awake_s: float) -> dict[str, Any]:
        answer = self._gate.forward(message, self._profile, awake_s)
        return {key: answer[key] for key in ("result", "error") if key in answer}

    def _list_again(self) -> None:
        """Tell the client that the list changed: the daemon was away when it listed the tools."""
        if self._unlisted:
            self._unlisted = False
            for what in ("tools", "resources"):
                self._send({"method": f"notifications/{what}/list_changed"})

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        # A client that has left reads no answer; the end of the input follows.
        with self._lock, contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._output, data) :]

    def initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        """Negotiate the protocol version."""
        requested = params.get("protocolVersion")
        self._gate.client_version = str((params.get("clientInfo") or {}).get("version", ""))
        return {
            "protocolVersion": requested if requested in SPOKEN else SPOKEN[0],
            "capabilities": {"tools": {"listChanged": True}, "resources": {"listChanged": True}},
            "serverInfo": {"name": "corral", "version": __version__},
            **({"instructions": INSTRUCTIONS} if self._gate.is_open else {}),
        }

    def unknown(self, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a tool or resource call in a repository that is not coordinated."""
        raise Refused(
            -32602, f"no {params.get('name') or params.get('uri')!r} here: this repository is not coordinated by Corral"
        )


def _is_event(message: dict[str, Any]) -> bool:
    """Whether a message carries a hook event."""
    return message["method"] == "tools/call" and (message.get("params") or {}).get("name") == HOOK


def _unavailable(error: DatabaseUnavailable, *, is_tool: bool) -> dict[str, Any]:
    """The daemon's answer for an unavailable database, which also keeps the daemon from starting."""
    wire: dict[str, Any] = error.to_wire()["error"]
    if not is_tool:
        return {"error": {"code": -32603, "message": f"{error.message} {error.cause} {error.remedy}"}}
    answer = {"success": False, "error": wire["name"], **{key: wire[key] for key in ("message", "cause", "remedy")}}
    content = [{"type": "text", "text": json.dumps(answer)}]
    return {"result": {"content": content, "structuredContent": answer, "isError": False}}


HOOK = "hook"
"""The tool that carries the hook events; not listed, so that no model sees or pays for it."""
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
"""The methods that the bridge itself answers, without a daemon."""
_LISTS = ("tools/list", "resources/list", "resources/templates/list")
_SLOW = (*_LISTS, "tools/call", "resources/read")
"""The methods that the daemon answers, each in its own thread."""


def main() -> int:
    """Serve the profile named on the command line."""
    return serve(_requested_profile(sys.argv[1:]))


def serve(profile: str) -> int:
    """Serve a profile (the default if the name is unknown) on standard input and output until the client leaves."""
    project: Project | None = None
    client, cwd = os.getppid(), ""

    def leave() -> None:
        if project is not None:
            last_look.leave(os.fspath(project.home), client)

    def end(*_signal: object) -> None:
        leave()
        os._exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    with contextlib.suppress(NotAProject, OSError):
        cwd = os.fspath(Path.cwd())
        project = find_guarded(Path(cwd))
    known_profile = profile if profile in PROFILES else PROFILES[0]  # a bridge never refuses to start
    Bridge(Gate(project, cwd), sys.stdout.fileno(), known_profile).serve(sys.stdin.buffer)
    leave()
    return 0


def _requested_profile(arguments: list[str]) -> str:
    """The value of ``--profile NAME`` or ``--profile=NAME``, else of the environment."""
    options = dict(itertools.pairwise(part for argument in arguments for part in argument.split("=", 1)))
    return options.get("--profile") or os.environ.get("CORRAL_MCP_PROFILE", "")


if __name__ == "__main__":
    sys.exit(main())
