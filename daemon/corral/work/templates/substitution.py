"""Put values in the place of ``{{ NAME }}``: once, strictly, and in a shell command so that a value stays one word.

Nothing is evaluated: a placeholder is a name and nothing else, and a value is never looked through for placeholders.
``{{{{`` stands for two braces. In a command, text is quoted for ``/bin/sh``. Quotes protect only where the shell reads them as
quotes, so text is refused in any other place: :func:`unsafe_places`. Numbers and truth values are safe anywhere.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}"
Value = str | int | float | bool | list[str]

_PLACEHOLDER = re.compile(r"\{\{\{\{|\{\{\s*(?P<name>" + NAME + r")\s*\}\}|(?P<broken>\{\{)")
_SIMPLE_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_BEFORE_COMMENT = " \t\n;&|()"


class Broken(NamedTuple):
    """A ``{{`` that begins no placeholder; the line counts from 0 within the text."""

    line: int
    text: str


class Unsafe(NamedTuple):
    """A placeholder where quotes would not protect a value; the line counts from 0 within the command."""

    line: int
    name: str
    where: str


def names_in(text: str) -> set[str]:
    """The names of the placeholders of a text."""
    return {match["name"] for match in _PLACEHOLDER.finditer(text) if match["name"]}


def broken_in(text: str) -> list[Broken]:
    """Each ``{{`` of a text that begins no placeholder."""
    return [
        Broken(text.count("\n", 0, match.start()), text[match.start() : match.start() + 30].splitlines()[0])
        for match in _PLACEHOLDER.finditer(text)
        if match["broken"]
    ]


def as_text(value: Value) -> str:
    """A value as a text has it."""
    if isinstance(value, list):
        return ", ".join(value)
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def as_word(value: Value) -> str:
    """A value as one word of a shell command; a list as one word for each item."""
    if isinstance(value, list):
        return " ".join(map(shlex.quote, value))
    return shlex.quote(value) if isinstance(value, str) else as_text(value)


def substituted(text: str, values: Mapping[str, Value], write: Callable[[Value], str] = as_text) -> str:
    """The text with the values in place of its placeholders.

    Args:
        values: One for each placeholder.
        write: :func:`as_text`, or :func:`as_word` for a command without unsafe places.

    Raises:
        KeyError: A placeholder has no value.
        ValueError: A ``{{`` begins no placeholder.
    """

    def value_of(match: re.Match[str]) -> str:
        if match["broken"]:
            raise ValueError("`{{` must be followed by the name of a parameter and `}}`")
        return write(values[match["name"]]) if match["name"] else "{{"

    return _PLACEHOLDER.sub(value_of, text)


def unsafe_places(command: str) -> list[Unsafe]:
    """The placeholders of a command where quotes would not protect a text.

    Such places are: within quotes, a comment, ``${…}`` or behind a backslash or ``$``; and, because the shell reads what follows
    by other rules, everywhere after a here-document, a backtick, an arithmetic expression, or a substitution within quotes.
    """
    return [Unsafe(command.count("\n", 0, at), name, where) for at, name, where in _places(command) if where]


def _places(command: str) -> Iterator[tuple[int, str, str]]:
    """Each placeholder: its position, its name, and why text is not safe there (empty: it is)."""
    at, mode, complex_after = 0, "", ""
    while at < len(command):
        char, rest = command[at], command[at : at + 3]
        if char == "{" and (match := _PLACEHOLDER.match(command, at)):
            if match["name"]:
                dollar = "behind `$`" if command[at - 1 : at] == "$" else ""
                yield at, match["name"], mode or dollar or complex_after
            at = match.end()
            continue
        if char == "\\" and mode not in ("within single quotes", "within a comment"):
            if (match := _PLACEHOLDER.match(command, at + 1)) and match["name"]:
                yield at + 1, match["name"], "behind a backslash"
                at = match.end()
            else:
                at += 2
            continue
        mode, complex_after = _next_mode(command, at, mode, complex_after)
        simple = _SIMPLE_VARIABLE.match(command, at)
        at = simple.end() if simple else at + (3 if rest == "<<<" and not mode else 1)


def _next_mode(command: str, at: int, mode: str, complex_after: str) -> tuple[str, str]:
    """The quoting after the character at this position, and what makes the rest of the command unsafe."""
    char, two, three = command[at], command[at : at + 2], command[at : at + 3]
    if mode == "within a comment":
        return ("" if char == "\n" else mode), complex_after
    if mode == "within single quotes":
        return ("" if char == "'" else mode), complex_after
    if char == '"':
        return ("" if mode else "within double quotes"), complex_after
    if char == "`":
        return mode, complex_after or "after a backtick"
    if two == "${" and not _SIMPLE_VARIABLE.match(command, at):
        return mode, complex_after or "within or after `${…}`"
    if mode:  # double quotes
        return mode, complex_after or ("after a substitution within quotes" if two == "$(" else "")
    if two == "((":
        return mode, complex_after or "in or after arithmetic"
    if two == "$'":
        return mode, complex_after or "after `$'`"
    if two == "<<" and three != "<<<":
        return mode, complex_after or "in or after a here-document"
    if char == "'":
        return "within single quotes", complex_after
    if char == "#" and (at == 0 or command[at - 1] in _BEFORE_COMMENT):
        return "within a comment", complex_after
    return mode, complex_after
