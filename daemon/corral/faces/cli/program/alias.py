"""``corral alias``: names for whole commands."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from corral.config.custom.aliases import ALIASES, Alias, aliases_of, check
from corral.config.custom.edit import with_value, without_value
from corral.config.paths import Project
from corral.config.trust import of_aliases
from corral.core.errors import InvalidInput, NotFound
from corral.core.visible import one_line
from corral.faces.cli.nouns import NOUNS
from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.program.settings_file import PLACE_HELP, Place, approve_own, change
from corral.faces.cli.terminal.expansion import layers_of, unapproved
from corral.faces.cli.terminal.options import argument, project
from corral.faces.cli.terminal.output import report
from corral.faces.cli.terminal.tables import Column, table

if TYPE_CHECKING:
    from corral.faces.cli.api import AliasListed

app = Group("Aliases: own names for whole commands.")
Name = Annotated[str, argument("Name of the alias.", "NAME")]


@app.command("list", prints="faces.cli.api.AliasListed[]")
def listing() -> None:
    """List the aliases of the configuration files."""
    where = project()
    rows = [_row(where, alias) for _, alias in sorted(aliases_of(layers_of(where)).items())]
    columns: list[Column] = [
        ("NAME", "name", 24), ("COMMAND", "command", 60), ("FROM", "source", 24), ("NOTE", _note, 40),
    ]  # fmt: skip
    table(rows, columns, empty="No aliases. `corral alias set NAME COMMAND` adds one.")


def _row(where: Project, alias: Alias) -> AliasListed:
    return {
        "name": alias.name,
        "command": alias.command,
        "source": alias.source,
        "hidden": alias.name in NOUNS,
        "approved": not unapproved(where, alias),
    }


def _note(row: Mapping[str, Any]) -> str:
    if row["hidden"]:
        return "unused: it is a command"
    return "" if row["approved"] else "not approved: corral trust"


@app.command("set", prints="faces.cli.api.AliasListed")
def set_(
    name: Name,
    command: Annotated[
        list[str], argument("The command, quoted, with $1, $@ or $name for arguments; without `corral`.", "COMMAND")
    ],
    place: Annotated[Place, Option("--file", help=f"{PLACE_HELP}.")] = Place.LOCAL,
) -> None:
    """Add an alias, or replace one. It can hide no command."""
    where = project()
    text = command[0] if len(command) == 1 else shlex.join(command)
    words = check(name, text)
    if name in NOUNS:
        raise InvalidInput(f"{name!r} is a command of Corral's: an alias cannot hide it.", remedy="Use another name.")
    written = Alias(name, text, place.source)
    known = {**aliases_of(layers_of(where)), name: written}
    _require_command(known, name, words[0])
    change(where, place, lambda content: with_value(content, [ALIASES, name], text))
    approve_own(where, of_aliases([written]))
    alias = aliases_of(layers_of(where))[name]
    line = f"corral {name} is now: corral {one_line(alias.command)}  ({alias.source})"
    report(_row(where, alias), line)


def _require_command(known: dict[str, Alias], name: str, first: str) -> None:
    """Refuse an alias that ends in no command."""
    path = [name]
    while first in known and first not in NOUNS:
        path.append(first)
        if first in path[:-1]:
            raise InvalidInput(
                f"The alias {name!r} calls itself: {' -> '.join(path)}.",
                cause="An alias must end in a command of Corral's.",
                remedy="Name another command.",
            )
        first = check(first, known[first].command)[0]
    if first not in NOUNS and not first.startswith("$"):
        near = difflib.get_close_matches(first, [*NOUNS, *(known.keys() - {name})])
        suggestion = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise InvalidInput(f"There is no command {first!r}.{suggestion}", remedy="`corral --help` lists the commands.")


@app.command(prints="faces.cli.api.AliasRemoved")
def remove(
    name: Annotated[str, argument("Name of the alias.", "NAME", of="alias")],
    place: Annotated[
        Place | None, Option("--file", help=f"{PLACE_HELP} (default: the one that counts).", show_default=False)
    ] = None,
) -> None:
    """Remove an alias from its file."""
    where = project()
    known = aliases_of(layers_of(where))
    sources = {place.source: place for place in Place}
    if name not in known:
        near = difflib.get_close_matches(name, known)
        suggestion = f"Did you mean {near[0]!r}? " if near else ""
        raise NotFound(f"There is no alias {name!r}.", remedy=f"{suggestion}`corral alias list` shows all of them.")
    chosen = place or sources[known[name].source]

    def removed(content: bytes) -> bytes:
        try:
            return without_value(content, [ALIASES, name])
        except KeyError as error:
            raise NotFound(
                f"{chosen.source} has no alias {name!r}.",
                cause="It stands in another file.",
                remedy="`corral alias list` names its file.",
            ) from error

    change(where, chosen, removed)
    report({"name": name, "source": chosen.source, "removed": True}, f"removed {name} from {chosen.source}")
