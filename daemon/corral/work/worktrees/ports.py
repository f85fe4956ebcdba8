"""Ports: every worktree owns a block of them, so that two worktrees can serve at once without a clash.

Blocks are allocated and recorded, never derived from a hash of the name: two names can share a hash.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from corral.core.errors import Conflict

LAST_PORT = 65535

_ADDRESSES = (
    (socket.AF_INET, "0.0.0.0"),
    (socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET6, "::"),
    (socket.AF_INET6, "::1"),
)
"""A server may sit on every address or on one; some systems let the two share a port, so each is asked."""


def choose_block(taken: set[int], first: int, each: int, is_free: Callable[[int], bool]) -> int:
    """The first port of the lowest block that nobody owns and nobody uses.

    Args:
        taken: First ports of the blocks that live worktrees own.
        first: Where the blocks begin.
        each: Ports in a block.
        is_free: Whether a server could be started on a port now.

    Raises:
        Conflict: No block is left below 65536.
    """
    for base in range(first, LAST_PORT - each + 2, each):
        # Not mere equality: blocks recorded under another `first` or `each` can lie across this one.
        if any(abs(base - other) < each for other in taken):
            continue
        if all(is_free(port) for port in range(base, base + each)):
            return base
    raise Conflict(
        f"No block of {each} free ports is left from {first} upwards.",
        cause=f"{len(taken)} worktrees own a block each, or other programs use the rest.",
        remedy="Remove worktrees that are done with, or lower worktrees.port_first or worktrees.ports_each.",
    )


def bindable(port: int) -> bool:
    """Whether a server could listen on ``port`` of this machine now, on every address family there is."""
    return all(_binds(family, address, port) for family, address in _ADDRESSES)


def _binds(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return True  # The machine has no such family: nobody can be in the way on it.
    with probe:
        # As servers do: connections that are closing do not keep a port from its next server.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return family == socket.AF_INET6 and error.errno == errno.EADDRNOTAVAIL
    return True
