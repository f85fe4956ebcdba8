"""``corral schema``: the JSON Schema of what commands print."""

from __future__ import annotations

import difflib
from typing import Annotated

from corral.core.errors import NotFound
from corral.faces.cli.schemas import error_schema, schemas
from corral.faces.cli.terminal.options import argument, command
from corral.faces.cli.terminal.output import emit


@command(prints="faces.cli.api.Schema")
def schema(
    command: Annotated[
        list[str] | None, argument("A command, such as `task list` (default: all).", "COMMAND", of="command")
    ] = None,
) -> None:
    """Print the JSON Schema of a command's JSON output. Needs no repository.

    Fields may be added in later versions; none is removed or gets another type.
    """
    known, name = schemas(), " ".join(command or ())
    if not name:
        emit({"commands": known, "error": error_schema()})
        return
    if name not in known:
        below = [command_name for command_name in known if command_name.startswith(f"{name} ")]
        near = below or difflib.get_close_matches(name, known)
        suggestion = f"Did you mean {' or '.join(near)}? " if near else ""
        raise NotFound(
            f"No command {name!r} prints JSON.",
            cause="There is no such command, or it has no --json.",
            remedy=f"{suggestion}`corral schema` prints the schemas of all commands.",
        )
    emit(known[name])
