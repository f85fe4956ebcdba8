"""The options that commands share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from corral.cli.terminal.context import Common, author, client, here, project, session_id
from corral.errors import InvalidInput

__all__ = ["Common", "Json", "author", "client", "here", "json_object", "project", "session_id"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def json_object(option: str, text: str | None) -> dict[str, Any] | None:
    """Parse an option as a JSON object; None if it was not given.

    Raises:
        InvalidInput: It is not a JSON object.
    """
    if text is None:
        return None
    remedy = f"Write {option} '{{\"key\": 1}}'."
    try:
        value = json.loads(text)
    except ValueError as mistake:
        raise InvalidInput(f"{option} is not JSON.", cause=str(mistake), remedy=remedy) from mistake
    if not isinstance(value, dict):
        raise InvalidInput(f"{option} is not a JSON object.", remedy=remedy)
    return value
