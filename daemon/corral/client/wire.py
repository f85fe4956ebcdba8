"""A minimal HTTP/1.1 client for the daemon's Unix socket. Standard library only.

The library's own client takes too long to import for the command line and the bridge.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

from corral.config.ownership import is_own


class Answer(NamedTuple):
    """Status and body, whether the connection can be reused, and the next page's address (empty: none)."""

    status: int
    body: bytes
    keep: bool
    following: str


def dial(path: str, timeout_s: float | None) -> socket.socket:
    """Connect to this user's daemon; the caller closes the connection.

    Raises:
        PermissionError: Another user owns the socket, or the process that listens on it.
        OSError: Nobody listens, or only the daemon of the repository that this one is a hard-linked copy of.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(timeout_s)
    try:
        link.connect(path)
        status = os.lstat(path)
        if status.st_nlink > 1 and link.getpeername() != path:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"it is a hard link to {link.getpeername()}", path)
        for uid in (status.st_uid, peer_uid(link)):
            if not is_own(uid):
                raise PermissionError(errno.EACCES, f"it is served by another user, uid {uid}", path)
    except OSError:
        link.close()
        raise
    return link


def peer_uid(link: socket.socket) -> int:
    """The user id of the peer of a Unix socket connection, from the kernel.

    Raises:
        OSError: It is no Unix socket connection, or the kernel does not tell.
    """
    # Linux has `struct ucred {pid, uid, gid}`, macOS and the BSDs `struct xucred {version, uid, ...}`: the uid comes second.
    if sys.platform == "linux":
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    else:
        credentials = link.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED
    return int.from_bytes(credentials[4:8], sys.byteorder)


def peer_pid(link: socket.socket) -> int:
    """The process id of the peer of a Unix socket connection, from the kernel.

    Raises:
        OSError: It is no Unix socket connection, or the kernel does not tell.
    """
    option = (socket.SOL_SOCKET, socket.SO_PEERCRED, 12) if sys.platform == "linux" else (0, 2, 4)  # LOCAL_PEERPID
    return int.from_bytes(link.getsockopt(*option)[:4], sys.byteorder)


def request(method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
    """Build a request; ``body`` is JSON. Characters that a header cannot carry (controls, beyond Latin-1) are left out."""
    more = "".join(f"{name}: {_header_text(value)}\r\n" for name, value in (headers or {}).items())
    kind = "" if body is None else "Content-Type: application/json\r\n"
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{kind}{more}Content-Length: {len(body or b'')}\r\n\r\n"
    return head.encode("latin-1") + (body or b"")


def _header_text(text: str) -> str:
    return "".join(character for character in text if " " <= character <= "\xff" and character != "\x7f")


def exchange(link: socket.socket, sent: bytes, deadline: float) -> Answer:
    """Send a request and read its answer.

    Args:
        link: An open connection.
        sent: A request from :func:`request`.
        deadline: On the monotonic clock, seconds.

    Raises:
        ConnectionError: The daemon closed the connection before it answered.
        TimeoutError: No answer in time.
        ValueError: The answer is not the daemon's.
    """
    link.settimeout(remaining_s(deadline))
    link.sendall(sent)
    data = bytearray()
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _receive(link, deadline)
    status, *lines = data[:end].decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers["content-length"]) if "content-length" in headers else -1
    if not status.startswith("HTTP/1.1 ") or length < 0:
        raise ValueError(f"not an answer of the daemon: {bytes(data[:200])!r}")
    whole = end + 4 + length
    while len(data) < whole:
        data += _receive(link, deadline)
    keep = headers.get("connection", "").lower() != "close"
    following = headers.get("link", "").partition("<")[2].partition(">")[0]
    return Answer(int(status[9:12]), bytes(data[end + 4 : whole]), keep, following)


def _receive(link: socket.socket, deadline: float) -> bytes:
    link.settimeout(remaining_s(deadline))
    chunk = link.recv(65536)
    if not chunk:
        raise ConnectionResetError("the daemon closed the connection")
    return chunk


def remaining_s(deadline: float) -> float:
    """Seconds until a deadline on the monotonic clock, as a time-out: never 0."""
    return max(0.001, deadline - time.monotonic())
