"""A terminal that is gone: no signal tells of it to a program whose terminal was lent to another one, a shell for example."""

from __future__ import annotations

import os
import select
import signal
import threading

GONE = select.POLLHUP | select.POLLERR
ENDED = 128 + signal.SIGHUP


def end_with(terminal: int) -> None:
    """End this process at once when a terminal is gone, whatever its other threads wait for.

    There is nothing to give back then, and whoever writes to it may wait for ever.

    Args:
        terminal: Its file descriptor, open for as long as the process lives.
    """

    def wait() -> None:
        watched = select.poll()
        watched.register(terminal, 0)  # nothing but the hangup: what is typed is for others
        if any(event & GONE for _, event in watched.poll()):
            os._exit(ENDED)

    threading.Thread(target=wait, name="hangup", daemon=True).start()
