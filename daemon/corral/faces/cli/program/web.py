"""``corral web``: the project in a browser."""

from __future__ import annotations

import os
import sys
from typing import Annotated

from corral.faces.cli.parsing import Option
from corral.faces.cli.terminal.context import client
from corral.faces.cli.terminal.options import command
from corral.faces.cli.terminal.output import for_programs, report
from corral.faces.cli.terminal.person import refuse_agents


@command(prints="faces.web.api.Link")
def web(no_open: Annotated[bool, Option("--no-open", help="Print the link only; open no browser.")] = False) -> None:
    """Print a link that opens the web view once, within a minute, and open it in a browser."""
    refuse_agents("Opening the web view", "corral web")
    link = client().request("POST", "/web/links")
    report(link, link["url"])
    if not no_open and not for_programs() and _has_browser():
        import webbrowser  # of all commands only this one needs it

        webbrowser.open(link["url"])


def _has_browser() -> bool:
    """Whether a person sits at a screen: no browser is opened for a script, nor one in the terminal itself."""
    has_screen = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return sys.stdout.isatty() and has_screen
