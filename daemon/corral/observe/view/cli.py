"""``corral status``: a summary of the project."""

from __future__ import annotations

from typing import Annotated

from corral.faces.cli.parsing import Option
from corral.faces.cli.terminal.options import command
from corral.faces.cli.terminal.status_summary import show_status


@command(prints="observe.view.api.View")
def status(
    watch: Annotated[bool, Option("--watch", "-w", help="Show it again at each change, until Ctrl-C.")] = False,
) -> None:
    """Show tasks, merges, sessions and recent events."""
    if watch:
        from corral.faces.cli.terminal.watch import watch_status

        watch_status()
    else:
        show_status()
