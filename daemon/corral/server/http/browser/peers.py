"""The user at the other end of a loopback connection, as the kernel's table of connections tells it (Linux)."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from corral.config.ownership import is_own

TABLE = Path("/proc/net/tcp")
_LOCAL, _REMOTE, _UID = 1, 2, 7
"""Columns of the table."""


def is_stranger(client_port: int, own_port: int, table: Path = TABLE) -> bool:
    """Whether another user's process, and not root's, holds the other end. Unknown users are none: they need the cookie as well.

    Args:
        client_port: Of the other end, on 127.0.0.1.
        own_port: Of this end.
    """
    wanted = (_address(client_port), _address(own_port))
    try:
        rows = table.read_text(encoding="ascii").splitlines()[1:]
    except (OSError, UnicodeDecodeError):
        return False
    for row in rows:
        columns = row.split()
        if len(columns) > _UID and (columns[_LOCAL], columns[_REMOTE]) == wanted:
            return columns[_UID] != "0" and not is_own(int(columns[_UID]))
    return False


def _address(port: int) -> str:
    """A port of 127.0.0.1 as the table writes it: the address as the machine's number, the port as it is."""
    (host,) = struct.unpack("=I", socket.inet_aton("127.0.0.1"))
    return f"{host:08X}:{port:04X}"
