"""The module of each command, loaded when the command is used.

Loading all modules takes longer than most commands, so the help page uses the sentences of this table, ``nouns.json``.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import typer

from corral.faces.cli.help import Grouped
from corral.faces.cli.shared_options import Command, with_shared_options
from corral.faces.cli.terminal.candidates import completer

NOUNS: dict[str, tuple[str, str]] = json.loads(Path(__file__).with_name("nouns.json").read_text("utf-8"))
"""Per command: the module in ``corral``, and the first sentence of the command's help.

A module has ``app`` (a noun with commands), or a function with the command's name.
"""


class Item(NamedTuple):
    """A completed word, as the framework passes it to a shell."""

    value: str
    help: str
    type: str = "plain"


class Nouns(Grouped):
    """The program itself."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List every command, loaded or not."""
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; None if the name is unknown: then all are loaded, to suggest a similar one."""
        for name in [cmd_name] if cmd_name in NOUNS else NOUNS:
            if name not in self.commands:
                self.commands.update(_load(name))
        return super().get_command(ctx, cmd_name)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete a command, an option, or an alias of the configuration."""
        own = [Item(name, about) for name, about in completer("alias")(ctx, incomplete)]
        return [*super().shell_complete(ctx, incomplete), *own]

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return the commands with their first sentences."""
        return {name: sentence for name, (_module, sentence) in NOUNS.items()}


def _load(name: str) -> dict[str, Any]:
    """Load the commands of a command's module."""
    module = importlib.import_module(f"corral.{NOUNS[name][0]}")
    made = typer.Typer(rich_markup_mode=None)
    if hasattr(module, "app"):
        made.add_typer(with_shared_options(module.app), name=name)
    else:
        made.command(name, cls=Command)(getattr(module, name))
    return dict(typer.main.get_group(made).commands)
