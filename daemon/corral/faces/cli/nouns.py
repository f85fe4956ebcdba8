"""The module of each command, loaded when the command is used.

Loading all modules takes longer than most commands, so the help page uses the sentences of this table, ``nouns.json``.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

from corral.faces.cli.parsing import Command, Group
from corral.faces.cli.shared_options import with_shared_options

NOUNS: dict[str, tuple[str, str]] = json.loads(Path(__file__).with_name("nouns.json").read_text("utf-8"))
"""Per command: the module in ``corral``, and the first sentence of the command's help.

A module has ``app`` (a noun with commands), or a function with the command's name.
"""


class Nouns(Group):
    """The program itself."""

    def list_commands(self) -> list[str]:
        """List every command, loaded or not."""
        return list(NOUNS)

    def get_command(self, name: str) -> Command | None:
        """Load a command; None if the name is unknown."""
        if name in NOUNS and name not in self.commands:
            module = importlib.import_module(f"corral.{NOUNS[name][0]}")
            function = getattr(module, name, None)
            command = Command(function, **getattr(function, "command", {})) if function else module.app
            self.add(with_shared_options(command), name)
        return super().get_command(name)

    def summaries(self) -> dict[str, str]:
        """The commands with their first sentences, without loading them."""
        return {name: sentence for name, (_module, sentence) in NOUNS.items()}
