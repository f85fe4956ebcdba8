"""``corral status``: a summary of the project."""

from __future__ import annotations

import typer

from corral.cli.terminal.glance import glance
from corral.cli.terminal.options import Json


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("status")(status)


def status(as_json: Json = False) -> None:
    """Show tasks, merges, sessions and recent events."""
    glance(as_json=as_json)
