"""``corral statusline``: the status line of a Claude Code session. It runs at every message, so it loads next to nothing.

It asks with the plugin's hook client, which finds the daemon without the package. It starts no daemon, is no heartbeat,
always ends with exit code 0, and never prints a fault: outside of a coordinated repository it prints nothing.
"""

from __future__ import annotations

import os
import sys
import time

PATIENCE_S = 1.0
"""Seconds to wait for the daemon's answer; Claude Code shows the former line meanwhile."""
LARGEST = 1 << 20
"""Bytes of the client's status that are read."""
AWAY = "corral: the daemon is not running"
SILENT = "corral: the daemon does not answer"


def main() -> int:
    """Print the line for the status on standard input; returns 0."""
    status = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(LARGEST)
    try:
        line = _line(status)
    except ConnectionError:
        line = AWAY
    except Exception:  # noqa: BLE001 - the edge: a status line is no place for a fault, and `corral status` tells it
        line = SILENT
    if line:
        sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
    return 0


def _line(status: bytes) -> str:
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib is slow to load
    packed = os.path.join(package, "_bundle")  # noqa: PTH118
    bundle = packed if os.path.isdir(packed) else os.path.dirname(os.path.dirname(package))  # noqa: PTH112, PTH120
    sys.path.insert(0, os.path.join(bundle, "hooks"))  # noqa: PTH118
    hook = __import__("hook")
    home = hook.locate(os.getcwd())[1]  # noqa: PTH109
    if not home:
        import json

        payload = json.loads(status or b"{}")
        folder = payload.get("cwd") if isinstance(payload, dict) else None
        home = hook.locate(folder)[1] if isinstance(folder, str) and folder.startswith("/") else ""
    return _ask(hook, home, status.strip() or b"{}") if home else ""


def _ask(hook, home: str, status: bytes) -> str:  # type: ignore[no-untyped-def] # a module that no checker finds
    until, reply = time.monotonic() + PATIENCE_S, b""
    try:
        link = hook.connect(home, False, PATIENCE_S)
    except FileNotFoundError as error:
        raise ConnectionError from error
    head = (
        "POST /api/v1/statusline HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(status)}\r\n\r\n"
    )
    link.sendall(head.encode() + status)
    while chunk := link.recv(65536):
        reply += chunk
        link.settimeout(max(0.001, until - time.monotonic()))
    if reply[9:12] != b"200":
        raise ValueError(reply[:200])
    import json

    return str(json.loads(reply.partition(b"\r\n\r\n")[2])["line"])
