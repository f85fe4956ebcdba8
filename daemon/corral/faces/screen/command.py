"""``corral interactive``, also ``corral -i``. Textual is loaded here and nowhere before."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading

from corral.core.errors import InvalidInput
from corral.faces.cli.parsing import Exit
from corral.faces.cli.terminal.context import client, guarded_project

STANDARD_INPUT = 0


def interactive() -> None:
    """Show tasks, sessions, merges, locks and mail live, and act on them."""
    if not all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.stdout, sys.__stderr__)):
        raise InvalidInput(
            "`corral interactive` needs a terminal.",
            cause="Standard input, output or error is not one.",
            remedy="Run it in a terminal; scripts use `corral status --json`.",
        )
    speaker = client()
    view = speaker.request("GET", "/status")  # without a daemon or a project, this fails before the screen is taken
    speaker.close()
    from corral.faces.screen.screen import Interactive

    # The command line has detached Python's own stream; Textual asks it for the size of the terminal.
    sys.__stdout__ = sys.stdout  # type: ignore[assignment, misc]
    screen = Interactive(guarded_project(), view)
    _end_with(STANDARD_INPUT)
    screen.run()
    if screen.return_code:
        raise Exit(screen.return_code)


def _end_with(terminal: int) -> None:
    """End this process at once when its terminal is gone, whatever its other threads wait for.

    No signal tells of it while a shell has the terminal. There is nothing to give back then, and a thread that writes
    to it may wait for ever.
    """

    def wait() -> None:
        watched = select.poll()
        watched.register(terminal, 0)  # nothing but the hangup: what is typed is for others
        if any(event & (select.POLLHUP | select.POLLERR) for _, event in watched.poll()):
            os._exit(128 + signal.SIGHUP)

    threading.Thread(target=wait, name="hangup", daemon=True).start()
