"""HTTP/1.1 over the daemon's Unix socket, as much of it as the daemon speaks. Standard library only.

For the command line and the bridge: the library's own client takes longer to import than a command may take.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import NamedTuple


class Answer(NamedTuple):
    """Status and body, whether the connection may be used again, and the address where a list goes on (empty: nowhere)."""

    status: int
    body: bytes
    keep: bool
    following: str


def dial(path: str, timeout_s: float | None) -> socket.socket:
    """Open a connection; the caller closes it.

    Raises:
        OSError: Nobody listens there.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(timeout_s)
    try:
        link.connect(path)
    except OSError:
        link.close()
        raise
    return link


def request(method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole request; ``body`` is JSON, a header's value Latin-1 without a line end."""
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    kind = "" if body is None else "Content-Type: application/json\r\n"
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{kind}{more}Content-Length: {len(body or b'')}\r\n\r\n"
    return head.encode("latin-1") + (body or b"")


def exchange(link: socket.socket, sent: bytes, deadline: float) -> Answer:
    """Send a request and read its answer.

    Args:
        link: An open connection.
        sent: What :func:`request` made.
        deadline: On the monotonic clock, seconds.

    Raises:
        ConnectionError: The daemon went away before it had answered.
        TimeoutError: No answer in time.
        ValueError: What came is no answer of the daemon.
    """
    link.settimeout(left(deadline))
    link.sendall(sent)
    data = bytearray()
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _more(link, deadline)
    status, *lines = data[:end].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers["content-length"]) if "content-length" in headers else -1
    if not status.startswith("HTTP/1.1 ") or length < 0:
        raise ValueError(f"not an answer of the daemon: {bytes(data[:200])!r}")
    whole = end + 4 + length
    while len(data) < whole:
        data += _more(link, deadline)
    keep = headers.get("connection", "").lower() != "close"
    following = headers.get("link", "").partition("<")[2].partition(">")[0]
    return Answer(int(status[9:12]), bytes(data[end + 4 : whole]), keep, following)


def _more(link: socket.socket, deadline: float) -> bytes:
    link.settimeout(left(deadline))
    chunk = link.recv(65536)
    if not chunk:
        raise ConnectionResetError("the daemon hung up")
    return chunk


def left(deadline: float) -> float:
    """Seconds until a deadline on the monotonic clock, as a time-out: never 0."""
    return max(0.001, deadline - time.monotonic())
