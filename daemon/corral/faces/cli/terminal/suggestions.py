"""Answers to a mistyped name: the similar ones that exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from corral.core.errors import CorralError
from corral.faces.cli.parsing import Context, Group, Parameter, UsageError
from corral.faces.cli.terminal.candidates import CUTOFF, near

_BEGINNING = "Did you mean "


def add_suggestion(error: CorralError, context: Context, params: Mapping[str, Any]) -> None:
    """Put similar ids or names before the remedy of an error about an argument that names nothing.

    Args:
        context: What was read of the command line.
        params: The command's parameters with their values.
    """
    if error.remedy.startswith(_BEGINNING):
        return
    for parameter, value in _values(context, params):
        if repr(value[:80]) in error.message:
            candidates = parameter.completions(context, "")
            if value in dict(candidates):
                continue  # the name exists: the error has another cause
            if names := near(value, candidates):
                error.remedy = f"{did_you_mean(names)} {error.remedy}"
            return


def _values(context: Context | None, params: Mapping[str, Any]) -> Iterator[tuple[Parameter, str]]:
    """The values on the command line, with their parameters; those before the noun last."""
    while context is not None:
        for parameter in context.command.params:
            value = params.get(parameter.name)
            values = [value] if isinstance(value, str) else value
            if isinstance(values, list):
                yield from ((parameter, text) for text in values if isinstance(text, str) and text)
        context = context.parent
        params = context.params if context is not None else {}


def explained(error: UsageError) -> tuple[str, str]:
    """The message of a usage error, and the question for the remedy; the question is empty without a similar word."""
    context = error.context
    is_command = isinstance(context.command, Group) and context.parent is None and not error.word.startswith("-")
    others = _aliases() if error.word and is_command else []
    return error.message, did_you_mean(_similar(error.word, [*error.known, *others]))


def did_you_mean(names: Sequence[str]) -> str:
    """The question "Did you mean …?"; empty without names."""
    return f"{_BEGINNING}{' or '.join(map(repr, names))}?" if names else ""


def _similar(word: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(word, list(known), n=3, cutoff=CUTOFF)


def _aliases() -> list[str]:
    from corral.faces.cli.terminal.candidates import candidates_of

    return [name for name, _ in candidates_of("alias")]
