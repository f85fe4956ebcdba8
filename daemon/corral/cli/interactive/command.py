"""``corral interactive``, also ``corral -i``. Textual is loaded here and nowhere before."""

from __future__ import annotations

import sys

import typer

from corral.cli.terminal.context import client, project
from corral.errors import InvalidInput


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
    from corral.cli.interactive.app import Interactive

    # The command line has detached Python's own stream; Textual asks it for the size of the terminal.
    sys.__stdout__ = sys.stdout  # type: ignore[assignment, misc]
    screen = Interactive(project(), view)
    screen.run()
    if screen.return_code:
        raise typer.Exit(screen.return_code)
