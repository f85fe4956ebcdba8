"""``docs/commands.md``, made from the commands' own help: ``python -m tests.commands_page`` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from corral.faces.cli.app import app
from corral.faces.cli.help import CATEGORIES
from corral.faces.cli.parsing import Command, Group

FILE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# Commands

Generated from the commands' own help. `corral COMMAND --help` explains each, with examples; `corral man COMMAND` shows its
manual page. `--output human|json|table` (`--json`), `--quiet`, `--verbose` and `--debug` work with every command;
`corral -C PATH …` runs in another folder.
"""


def leaves(group: Group, path: str) -> Iterator[tuple[str, Command]]:
    """The commands below a group, with their whole names."""
    for name in group.list_commands():
        command = group.get_command(name)
        assert command is not None
        if isinstance(command, Group):
            yield from leaves(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


def with_json() -> set[str]:
    """The commands that have ``--json``."""
    return {name for name, command in leaves(app, "") if command.prints}


def page() -> str:
    """The document."""
    known = dict(leaves(app, ""))
    parts = [HEAD]
    for heading, nouns in CATEGORIES.items():
        rows = [
            f"| `corral {name}` | {command.summary} |"
            for noun in nouns
            for name, command in known.items()
            if name.split()[0] == noun
        ]
        parts.append("\n".join([f"## {heading}", "", "| command | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
