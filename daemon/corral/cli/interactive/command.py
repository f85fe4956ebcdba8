"""``corral interactive``, also ``corral -i``. Textual is loaded here and nowhere before."""

from __future__ import annotations

import sys

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

    Interactive(project(), view).run()
