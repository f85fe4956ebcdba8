"""Help pages: examples and related commands per command, and the commands by category."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.core import TyperGroup

CATEGORIES = {
    "Every day": (
        *("status", "task", "wait", "merge", "interactive", "web", "attach"),
        *("session", "lock", "message", "pause", "resume"),
    ),
    "Set up": ("init", "trust", "doctor", "guard", "demo", "uninstall"),
    "Have more done": ("loop", "template", "supervisor", "agent", "team", "swarm", "feature", "state"),
    "Look back": ("metrics", "audit", "alert", "handoff", "memory", "worktree"),
    "Corral itself": ("config", "alias", "daemon", "gc", "schema", "man", "plugin", "statusline", "mcp"),
}
"""The commands by what one wants to do, in the order of the help page and of docs/commands.md."""


@functools.cache
def pages() -> dict[str, dict[str, list[str]]]:
    """Per command: examples and related commands; both without the leading ``corral``."""
    found: dict[str, dict[str, list[str]]] = json.loads(Path(__file__).with_name("help.json").read_text("utf-8"))
    return found


def epilog(command: str) -> str:
    """The end of a command's help page; a leading backspace makes the framework keep the line breaks of a paragraph."""
    page = pages().get(command, {"examples": [], "related": []})
    lines = page["examples"] or _of_its_commands(command)
    examples = "".join(f"\n  corral {line}" for line in lines)
    related = ", ".join(f"corral {name}" for name in page["related"])
    parts = [f"\b\nExamples:{examples}"] if examples else []
    parts += [f"See also: {related}"] if related else []
    return "\n\n".join(parts)


def _of_its_commands(noun: str) -> list[str]:
    """The first examples of a noun's first commands."""
    below = [page["examples"] for name, page in pages().items() if name.startswith(f"{noun} ")]
    return [examples[0] for examples in below if examples][:3]


PROGRAM = (
    ("init --verify 'pytest -q'", "task submit --title 'Say hello' --command 'echo hello > hello.txt'", "wait --all"),
    ("status", "task", "doctor"),
)
"""The examples and the related commands of the program itself."""


def epilog_of_program() -> str:
    """The end of the help page of ``corral`` itself."""
    examples, related = PROGRAM
    lines = "".join(f"\n  corral {line}" for line in examples)
    return f"\b\nExamples:{lines}\n\nSee also: {', '.join(f'corral {name} --help' for name in related)}"


class Grouped(TyperGroup):
    """A group whose help lists its commands by category with their whole first sentence, and adds their examples."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with its entry of :func:`pages`."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and not command.epilog:
            command.epilog = epilog(" ".join([*_names(ctx), cmd_name]))
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section per category; a noun has one section."""
        shown = self.summaries(ctx)
        sections = {"Commands": tuple(shown)} if _names(ctx) else CATEGORIES
        for heading, names in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, shown[name]) for name in names])

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return the commands with their first sentences."""
        return {name: first_sentence(self.get_command(ctx, name)) for name in self.list_commands(ctx)}


def reached(program: Any, words: Sequence[str]) -> tuple[Any, Any] | None:
    """The framework's context and command of a command's words; None if there is none.

    The framework itself would read all options first, for which it loads a library that takes as long as all the rest.
    """
    here, context = program, program.context_class(program, info_name="corral", **program.context_settings)
    for word in words:
        here = here.get_command(context, word) if hasattr(here, "list_commands") else None
        if here is None:
            return None
        context = here.context_class(here, info_name=word, parent=context, **here.context_settings)
    return context, here


def _names(ctx: Any) -> list[str]:
    """The nouns that led here, without the program's name."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name)
        ctx = ctx.parent
    return names


def first_sentence(command: Any) -> str:
    """The first sentence of a command's help."""
    return str(command.help or "").strip().split(". ")[0].split("\n")[0].rstrip(".") + "."
