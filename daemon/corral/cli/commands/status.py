"""``corral status``: a summary of the project."""

from __future__ import annotations

from corral.cli.terminal.options import Json
from corral.cli.terminal.status_summary import show_status


def status(as_json: Json = False) -> None:
    """Show tasks, merges, sessions and recent events."""
    show_status(as_json=as_json)
