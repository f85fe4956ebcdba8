"""HTTP/1.1 over the daemon's Unix socket, as much of it as the daemon speaks. Standard library only.

For the command line and the bridge: the library's own client takes longer to import than a command may take.
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
    """Status and body, whether the connection may be used again, and the address where a list goes on (empty: nowhere)."""

    status: int
    body: bytes
    keep: bool
    following: str


def dial(path: str, timeout_s: float | None) -> socket.socket:
    """Open a connection to a daemon of this user's; the caller closes it.

    Raises:
        PermissionError: The socket, or the process that listens on it, is another user's.
        OSError: Nobody listens there, or only the daemon of the repository that this one was copied from by hard links.
    """
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(timeout_s)
    try:
        link.connect(path)
        found = os.lstat(path)
        if found.st_nlink > 1 and link.getpeername() != path:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"it is a hard link to {link.getpeername()}", path)
        for uid in (found.st_uid, peer_uid(link)):
            if not is_own(uid):
                raise PermissionError(errno.EACCES, f"uid {uid} serves it, another user", path)
    except OSError:
        link.close()
        raise
    return link


def peer_uid(link: socket.socket) -> int:
    """Whose process is at the other end of a Unix socket connection, as the kernel recorded it.

    Raises:
        OSError: The connection is none of a Unix socket, or the kernel does not say.
    """
    # Linux has `struct ucred {pid, uid, gid}`, macOS and the BSDs `struct xucred {version, uid, ...}`: the uid comes second.
    if sys.platform == "linux":
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    else:
        credentials = link.getsockopt(0, 1, 76)  # SOL_LOCAL, LOCAL_PEERCRED
    return int.from_bytes(credentials[4:8], sys.byteorder)


def peer_pid(link: socket.socket) -> int:
    """Which process is at the other end of a Unix socket connection, as the kernel recorded it.

    Raises:
        OSError: The connection is none of a Unix socket, or the kernel does not say.
    """
    option = (socket.SOL_SOCKET, socket.SO_PEERCRED, 12) if sys.platform == "linux" else (0, 2, 4)  # LOCAL_PEERPID
    return int.from_bytes(link.getsockopt(*option)[:4], sys.byteorder)


def request(method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
    """A whole request; ``body`` is JSON. Characters that a header cannot carry (controls, beyond Latin-1) are left out."""
    more = "".join(f"{name}: {_carried(value)}\r\n" for name, value in (headers or {}).items())
    kind = "" if body is None else "Content-Type: application/json\r\n"
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\n{kind}{more}Content-Length: {len(body or b'')}\r\n\r\n"
    return head.encode("latin-1") + (body or b"")


def _carried(text: str) -> str:
    return "".join(one for one in text if " " <= one <= "\xff" and one != "\x7f")


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
