"""Aliases: names of whole commands, with parameters. They are expanded as words; no shell reads them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from corral.core.errors import InvalidInput

ALIASES = "alias"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PLACE = re.compile(r"\$(?:(\$)|(@)|([1-9][0-9]?)|([A-Za-z_]\w*)|\{([A-Za-z0-9_@]+)\})")
_EXECUTED = {
    "--command", "-c", "--prompt", "-p", "--verify", "--file", "-f", "--input", "--agent", "-a", "--runner", "--template",
}  # fmt: skip
"""Options whose values decide what is executed."""
_AGREEING = {
    ("init",), ("trust",), ("uninstall",), ("merge", "approve"), ("daemon", "adopt"), ("supervisor", "start"),
    ("supervisor", "once"), ("config",), ("alias",),
}  # fmt: skip
"""Commands by which a person agrees to something, or that change settings."""


@dataclass(frozen=True)
class Alias:
    """A name for a command.

    Attributes:
        name: As it is typed after ``corral``.
        command: Words as in a shell, with ``$1``, ``$@`` or ``$name`` for arguments.
        source: The file that declares it.
    """

    name: str
    command: str
    source: str


def aliases_of(layers: Mapping[str, Mapping[str, Any]]) -> dict[str, Alias]:
    """The aliases of all files by name, later files win.

    Args:
        layers: The content of each file by its name.

    Raises:
        InvalidInput: One is not usable.
    """
    aliases: dict[str, Alias] = {}
    for source, content in layers.items():
        section = content.get(ALIASES)
        if section is None:
            continue
        if not isinstance(section, dict):
            raise InvalidInput(f"{source}: `{ALIASES}` must be a section of names with commands.")
        for name, command in section.items():
            if not isinstance(command, str):
                raise InvalidInput(f"{source}: the alias {name!r} must be a text: the command without `corral`.")
            check(name, command)
            aliases[name] = Alias(name, command, source)
    return aliases


def check(name: str, command: str) -> list[str]:
    """Return the words of an alias's command.

    Raises:
        InvalidInput: The name or the command is not usable.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} cannot be the name of an alias.", remedy="Use letters, digits, `-` and `_`, at most 64."
        )
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidInput(
            f"The command of the alias {name!r} cannot be read.", cause=f"{error}.", remedy="Close each quote."
        ) from error
    if words[:1] == ["corral"]:
        words = words[1:]
    if not words or words[0].startswith("-"):
        raise InvalidInput(f"The alias {name!r} does not begin with a command.", remedy="Write it without `corral`.")
    return words


def expand(aliases: Mapping[str, Alias], name: str, arguments: Sequence[str], commands: frozenset[str]) -> list[str]:
    """The words of a command line, for an alias and its arguments; an alias may begin with another one.

    Args:
        commands: The names of real commands; they are never aliases.

    Raises:
        InvalidInput: An argument is missing, or the alias calls itself.
    """
    path: list[str] = []
    words = [name, *arguments]
    while words and words[0] in aliases and words[0] not in commands:
        if words[0] in path:
            circle = " -> ".join([*path[path.index(words[0]) :], words[0]])
            raise InvalidInput(
                f"The alias {words[0]!r} calls itself: {circle}.",
                cause="An alias must end in a command of Corral's.",
                remedy=f"Change one: `corral alias set {words[0]} COMMAND`.",
            )
        path.append(words[0])
        words = _substitute(aliases[words[0]], words[1:])
    return words


def _substitute(alias: Alias, arguments: Sequence[str]) -> list[str]:
    """The words of an alias with its arguments in their places; the arguments that have none come last."""
    words = check(alias.name, alias.command)
    places = [match for word in words for match in _PLACE.finditer(word)]
    named, rest = _named_arguments(
        {_placeholder(match) for match in places if _placeholder(match).isidentifier()}, arguments
    )
    numbers = {int(_placeholder(match)) for match in places if _placeholder(match).isdigit()}
    if missing := [f"${number}" for number in sorted(numbers) if number > len(rest)]:
        raise _missing_argument(alias, missing[0])
    others = [argument for number, argument in enumerate(rest, 1) if number not in numbers]

    def value(match: re.Match[str]) -> str:
        place = _placeholder(match)
        if place == "$":
            return "$"
        if place == "@":
            return " ".join(others)
        if place.isdigit():
            return rest[int(place) - 1]
        if place not in named:
            raise _missing_argument(alias, f"--{place.replace('_', '-')}")
        return named[place]

    filled: list[str] = []
    for word in words:
        filled += others if word in ("$@", "${@}") else [_PLACE.sub(value, word)]
    return filled if any(_placeholder(match) == "@" for match in places) else filled + others


def _placeholder(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None)


def _named_arguments(names: set[str], arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Take ``--name value`` and ``--name=value`` out of the arguments, for the names that an alias has."""
    options = {f"--{name.replace('_', '-')}": name for name in names} | {f"--{name}": name for name in names}
    values: dict[str, str] = {}
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        if option not in options:
            rest.append(word)
        elif equals:
            values[options[option]] = value
        else:
            following = next(words, None)
            if following is not None:
                values[options[option]] = following
    return values, rest


def _missing_argument(alias: Alias, what: str) -> InvalidInput:
    return InvalidInput(
        f"The alias {alias.name!r} needs {what}.",
        cause=f"It stands for: corral {alias.command}",
        remedy=f"Add it: corral {alias.name} …",
    )


def must_be_approved(alias: Alias) -> bool:
    """Whether an alias that came with a repository could execute, or agree to, what its caller did not type."""
    words = check(alias.name, alias.command)
    path = tuple(word for word in words if not word.startswith(("-", "$")))
    if any(path[: len(command)] == command for command in _AGREEING):
        return True
    return any(_executes(word, (words[number + 1 :] or [""])[0]) for number, word in enumerate(words))


def _executes(word: str, following: str) -> bool:
    """Whether an option has a value of the alias's own that is executed."""
    option, equals, value = word.partition("=")
    if option in _EXECUTED:
        return _PLACE.fullmatch(value if equals else following) is None
    shorts = {option[1] for option in _EXECUTED if not option.startswith("--")}
    return word.startswith("-") and not word.startswith("--") and bool(shorts & {*word[1:]})
