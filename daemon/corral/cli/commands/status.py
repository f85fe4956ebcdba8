"""``corral status``: what is going on, at a glance."""

from __future__ import annotations

import typer

from corral.cli.terminal.glance import glance
from corral.cli.terminal.options import Json


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("status")(status)


def status(as_json: Json = False) -> None:
    """Show tasks, merges, sessions and what happened last."""
    glance(as_json=as_json)
