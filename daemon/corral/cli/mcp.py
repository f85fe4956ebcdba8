"""``corral mcp`` in the pages of help; the command itself is served before any of this is loaded."""

from __future__ import annotations

import typer


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("mcp")(mcp)


def mcp() -> None:
    """The stdio MCP bridge that Claude Code starts for each session."""
