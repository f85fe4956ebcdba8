"""``corral statusline``; usually it runs before this module is loaded."""

from __future__ import annotations

import os

from corral.faces.cli.parsing import Exit
from corral.faces.cli.terminal.options import here


def statusline() -> None:
    """Print the status line of a Claude Code session, whose status is read from standard input."""
    from corral.client.status_line import main

    os.chdir(here())
    raise Exit(main())
