"""The user at the other end of a loopback connection, as the kernel's tables of connections tell it (Linux)."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from corral.config.ownership import is_own

Address = tuple[str, int]
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
"""A client that speaks IPv6 reaches a port of IPv4 by a mapped address, and stands in the second table alone."""
_LOCAL, _REMOTE, _UID, _INODE = 1, 2, 7, 9
"""Columns of a table."""
_CLOSED = "0"
"""The inode where no process holds that end any more; its user is printed as root then, whoever it was."""
_LOOKS = 3
"""A table is read in pieces, between which a row can move out of sight."""


def is_stranger(client: Address | None, own: Address, tables: Sequence[Path] = TABLES) -> bool:
    """Whether another user's process, and not root's, holds the other end. Who is not found is a stranger too.

    On other systems than Linux nobody is one: there the cookie alone protects.

    Args:
        client: The other end: its IPv4 address and its port; None: it hung up before it was asked for.
        own: This end.
    """
    if not sys.platform.startswith("linux"):
        return False
    if client is None:
        return True
    uid = next((uid for _ in range(_LOOKS) for uid in _holders(client, own, tables)), None)
    return uid is None or (uid != 0 and not is_own(uid))


def _holders(client: Address, own: Address, tables: Sequence[Path]) -> Iterator[int]:
    """The users whose processes hold the client's end; at most one, since the kernel gives a pair of addresses once."""
    local, remote = _written(client), _written(own)
    for table in tables:
        try:
            rows = table.read_text(encoding="ascii").splitlines()[1:]
        except (OSError, UnicodeDecodeError):  # a kernel without IPv6 has one table
            continue
        for columns in map(str.split, rows):
            if columns[_LOCAL] in local and columns[_REMOTE] in remote and columns[_INODE] != _CLOSED:
                yield int(columns[_UID])


def _written(address: Address) -> tuple[str, str]:
    """An address as the tables write it, by itself and mapped to IPv6: 32 bits as the machine's number, the port as it is."""
    host, port = address
    (number,) = struct.unpack("=I", socket.inet_aton(host))
    (mark,) = struct.unpack("=I", b"\x00\x00\xff\xff")
    return f"{number:08X}:{port:04X}", f"{0:016X}{mark:08X}{number:08X}:{port:04X}"
