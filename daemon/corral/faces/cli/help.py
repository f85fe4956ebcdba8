"""Help pages: what a command's parameters say of themselves, examples, related commands, and the commands by category."""

from __future__ import annotations

import functools
import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

from corral.faces.cli.parsing import HELP, JSON, Command, Context, Group, Parameter
from corral.faces.cli.terminal.stdio import columns

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
"""The commands by purpose, in the order of the help page and of docs/commands.md."""


@functools.cache
def pages() -> dict[str, dict[str, list[str]]]:
    """Per command: examples and related commands; both without the leading ``corral``."""
    content: dict[str, dict[str, list[str]]] = json.loads(Path(__file__).with_name("help.json").read_text("utf-8"))
    return content


def epilog(command: str) -> str:
    """The end of a command's help page; a leading backspace keeps the line breaks of a paragraph."""
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


def reached(program: Command, words: Sequence[str]) -> Context | None:
    """The context of a command's words, without reading further ones; None if there is no such command."""
    context = Context(program, "corral")
    for word in words:
        command = context.command.get_command(word) if isinstance(context.command, Group) else None
        if command is None:
            return None
        context = Context(command, word, context)
    return context


def page_of(context: Context) -> str:
    """The help page of a command."""
    command, width = context.command, _width()
    parts = [usage_of(context)]
    if text := described(command):
        parts.append(_wrapped(text, width, "  "))
    parts += [_section(heading, rows, width) for heading, rows in _sections(context) if rows]
    end = epilog(_name(context)) if context.parent else epilog_of_program()
    return "\n\n".join([*parts, _wrapped(end, width, "  ")] if end else parts)


def usage_of(context: Context) -> str:
    """The line that shows what a command takes."""
    pieces = ["[OPTIONS]"]
    for parameter in context.command.params:
        if parameter.is_argument:
            name = parameter.metavar or parameter.name
            pieces.append(
                (f"{{{name}}}" if parameter.required else f"[{name}]") + ("..." if parameter.multiple else "")
            )
    if isinstance(context.command, Group):
        pieces.append("COMMAND [ARGS]...")
    beginning, width = f"Usage: {context.path} ", _width()
    if width >= len(beginning) + 20:
        return _filled(" ".join(pieces), width, beginning, " " * len(beginning))
    return beginning + "\n" + _filled(" ".join(pieces), width, " " * 11)


def described(command: Command) -> str:
    """The text of a command's help, without the indentation of the source."""
    first, line_break, others = command.help.strip().partition("\n")
    return first + line_break + textwrap.dedent(others)


def record_of(parameter: Parameter) -> tuple[str, str]:
    """A parameter's flags with the name of its value, and what its help says."""
    if parameter.is_argument:
        names = f"{parameter.metavar or parameter.name + '...' * parameter.multiple} {_kind(parameter)}"
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or _kind(parameter)}"
        both = [parameter.opts, parameter.secondary_opts] if parameter.secondary_opts else [parameter.opts]
        names = " / ".join(", ".join(sorted(flags, key=lambda flag: flag.startswith("--"))) + value for flags in both)
    facts = "; ".join(filter(None, _facts(parameter)))
    return names, "  ".join(filter(None, [parameter.help, facts and f"[{facts}]"]))


def _kind(parameter: Parameter) -> str:
    """The type of a value: ``<int>``."""
    if parameter.choices:
        name = "|".join(parameter.choices)
    elif parameter.kind is Path:
        name = "path" if parameter.file_okay else "dir"
    else:
        name = (
            f"{parameter.kind.__name__} range"
            if (parameter.min, parameter.max) != (None, None)
            else parameter.kind.__name__
        )
    return f"<list[{name}]>" if parameter.multiple else f"<{name}>"


def _facts(parameter: Parameter) -> Iterator[str]:
    """What is added to the help of a parameter."""
    yield parameter.envvar and f"env var: {parameter.envvar}"
    default = parameter.default if parameter.show_default else None
    if parameter.secondary_opts and default is not None:
        default = (parameter.opts if default else parameter.secondary_opts)[0].removeprefix("--")
    elif parameter.is_flag and not default:
        default = None
    shown = str(default.value if isinstance(default, Enum) else default)
    yield f"default: {shown}" if shown and default is not None else ""
    if parameter.min is not None or parameter.max is not None:
        least, most = [
            f"{parameter.min}<=" if parameter.max is not None else f">={parameter.min}",
            f"<={parameter.max}",
        ]
        yield f"x{least}" if parameter.max is None else f"{least if parameter.min is not None else ''}x{most}"
    yield "required" if parameter.required else ""


def _sections(context: Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The parameters, and the commands of a group: the program's by category, a noun's in one section."""
    command = context.command
    every = [parameter for parameter in [*command.params, HELP] if not parameter.hidden]
    shared = [] if isinstance(command, Group) else [parameter for parameter in every if _is_shared(parameter, command)]
    yield "Arguments", [record_of(parameter) for parameter in every if parameter.is_argument]
    yield (
        "Options",
        [record_of(parameter) for parameter in every if not parameter.is_argument and parameter not in shared],
    )
    yield "Shared options", [record_of(parameter) for parameter in shared]
    if isinstance(command, Group):
        known = command.summaries()
        for heading, names in ({"Commands": tuple(known)} if context.parent else CATEGORIES).items():
            yield heading, [(name, known[name]) for name in names]


def _is_shared(parameter: Parameter, command: Command) -> bool:
    return parameter in (*command.shared, JSON, HELP)


def _section(heading: str, rows: list[tuple[str, str]], width: int) -> str:
    """Terms and their descriptions in two columns."""
    column = min(max(len(first) for first, _ in rows), 30) + 2
    lines = [f"{heading}:"]
    for first, second in rows:
        gap = " " * (column - len(first)) if len(first) <= column - 2 else "\n" + " " * (column + 2)
        text = _wrapped(second, max(width - column - 2, 10)).replace("\n", "\n" + " " * (column + 2))
        lines.append(f"  {first}{gap}{text}" if second else f"  {first}")
    return "\n".join(lines)


def _wrapped(text: str, width: int, indent: str = "") -> str:
    """Paragraphs, each indented like its first line; one that begins with a backspace keeps its line breaks."""
    parts = []
    for paragraph in re.split("\n\n+", text.strip("\n")):
        first, *others = paragraph.split("\n")
        if first == "\b":
            parts.append("\n".join(indent + line for line in others))
        else:
            begin = indent + " " * (len(first) - len(first.lstrip()))
            parts.append(_filled(" ".join([first.lstrip(), *others]), width, begin))
    return "\n\n".join(parts)


def _filled(text: str, width: int, begin: str, further: str | None = None) -> str:
    further = begin if further is None else further
    return textwrap.fill(text, width, initial_indent=begin, subsequent_indent=further, replace_whitespace=False)


def _width() -> int:
    return max(min(columns(), 80) - 2, 50)


def _name(context: Context) -> str:
    """The words that led here, without the program's name."""
    return context.path.partition(" ")[2]
