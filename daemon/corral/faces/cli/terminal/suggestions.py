"""Answers to a mistyped name: the similar ones that exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from corral.core.errors import CorralError
from corral.faces.cli.parsing import Context, Group, Parameter, UsageError
from corral.faces.cli.terminal.candidates import CUTOFF, near

_BEGINNING = "Did you mean "


def add_suggestion(error: CorralError, context: Context, given: Mapping[str, Any]) -> None:
    """Put similar ids or names before the remedy of an error about an argument that names nothing.

    Args:
        context: What was read of the command line.
        given: The command's parameters with their values.
    """
    if error.remedy.startswith(_BEGINNING):
        return
    for parameter, value in _values(context, given):
        if repr(value[:80]) in error.message:
            candidates = parameter.completions(context, "")
            if value in dict(candidates):
                continue  # it exists: the error is about something else of it
            if names := near(value, candidates):
                error.remedy = f"{meant(names)} {error.remedy}"
            return


def _values(context: Context | None, given: Mapping[str, Any]) -> Iterator[tuple[Parameter, str]]:
    """The values on the command line, with their parameters; those before the noun last."""
    while context is not None:
        for parameter in context.command.params:
            value = given.get(parameter.name)
            values = [value] if isinstance(value, str) else value
            if isinstance(values, list):
                yield from ((parameter, one) for one in values if isinstance(one, str) and one)
        context = context.parent
        given = context.params if context is not None else {}


def explained(error: UsageError) -> tuple[str, str]:
    """The message of a complaint about a command line, and the beginning of a remedy, or nothing."""
    context = error.context
    is_command = isinstance(context.command, Group) and context.parent is None and not error.word.startswith("-")
    others = _aliases() if error.word and is_command else []
    return error.message, meant(_similar(error.word, [*error.known, *others]))


def meant(names: Sequence[str]) -> str:
    """The question whether one of the names was meant; empty if there is none."""
    return f"{_BEGINNING}{' or '.join(map(repr, names))}?" if names else ""


def _similar(word: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(word, list(known), n=3, cutoff=CUTOFF)


def _aliases() -> list[str]:
    from corral.faces.cli.terminal.candidates import found

    return [name for name, _ in found("alias")]
