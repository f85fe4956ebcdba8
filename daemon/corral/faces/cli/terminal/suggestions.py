"""Answers to a mistyped name: the similar ones that exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from corral.core.errors import CorralError
from corral.faces.cli.terminal.candidates import CUTOFF, Candidate, near

_BEGINNING = "Did you mean "
_NO_CHOICE = re.compile(r"'([^']*)' is not one of ")


def add_suggestion(error: CorralError, context: Any, given: Mapping[str, Any]) -> None:
    """Put similar ids or names before the remedy of an error about an argument that names nothing.

    Args:
        context: The framework's context of the command.
        given: The command's parameters with their values.
    """
    if error.remedy.startswith(_BEGINNING):
        return
    for parameter, value in _values(context, given):
        if repr(value[:80]) in error.message:
            candidates = _candidates(parameter, context)
            if value in dict(candidates):
                continue  # it exists: the error is about something else of it
            if names := near(value, candidates):
                error.remedy = f"{meant(names)} {error.remedy}"
            return


def _values(context: Any, given: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """The values on the command line, with their parameters; those before the noun last."""
    while context is not None:
        for parameter in context.command.params:
            value = given.get(parameter.name)
            values = [value] if isinstance(value, str) else value
            if isinstance(values, list):
                yield from ((parameter, one) for one in values if isinstance(one, str) and one)
        context = context.parent
        given = context.params if context is not None else {}


def _candidates(parameter: Any, context: Any) -> list[Candidate]:
    return [(item.value, item.help or "") for item in parameter.shell_complete(context, "")]


def explained(error: Any) -> tuple[str, str]:
    """The message of the framework's complaint about a command line, and the beginning of a remedy, or nothing."""
    message = str(error.format_message())
    option, command = getattr(error, "option_name", None), re.match(r"No such command '([^']*)'\.", message)
    if option is not None and hasattr(error, "possibilities"):
        return f"No such option {option!r}.", meant(_similar(option, _options_of(error.ctx)))
    if command:
        context = error.ctx
        names = context.command.list_commands(context) if hasattr(context.command, "list_commands") else []
        others = _aliases() if context.parent is None else []
        return command[0], meant(_similar(command[1], [*names, *others]))
    if choice := _NO_CHOICE.search(message):
        choices = re.findall(r"'([^']*)'", message[choice.end() :])
        return message.replace("Value error, ", ""), meant(_similar(choice[1], choices))
    return message, ""


def meant(names: Sequence[str]) -> str:
    """The question whether one of the names was meant; empty if there is none."""
    return f"{_BEGINNING}{' or '.join(map(repr, names))}?" if names else ""


def _similar(word: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(word, list(known), n=3, cutoff=CUTOFF)


def _options_of(context: Any) -> list[str]:
    return [flag for parameter in context.command.params for flag in parameter.opts if flag.startswith("--")]


def _aliases() -> list[str]:
    from corral.faces.cli.terminal.candidates import found

    return [name for name, _ in found("alias")]
