"""The options that commands have in common, and where they act."""

from __future__ import annotations

from typing import Annotated

import typer

from corral.cli.place import Common, author, client, here, project, session_id

__all__ = ["Common", "Json", "author", "client", "here", "project", "session_id"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
