"""The options that commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from corral.config.paths import find_checkout
from corral.core.errors import InvalidInput
from corral.core.instants import span_s
from corral.faces.cli.parsing import Argument, Context, Option, Parameter
from corral.faces.cli.terminal.context import Common, author, client, guarded_project, here, project, session_id

__all__ = [
    "Common", "argument", "author", "client", "command", "guarded_project", "here", "json_object", "option", "project",
    "session_id",
]  # fmt: skip
F = TypeVar("F", bound=Callable[..., Any])


def command(**more: Any) -> Callable[[F], F]:
    """Say what a function is as a command that stands in no group; ``more``: as of :class:`Command`."""

    def keep(function: F) -> F:
        vars(function)["command"] = more
        return function

    return keep


def option(flag: str, about: str, metavar: str, *, short: str | None = None, of: str = "", **more: Any) -> Parameter:
    """An option that has a value, for ``Annotated``.

    Args:
        of: The kind of its values, a key of :data:`corral.faces.cli.terminal.candidates.KINDS`: shells complete it, and an
            unknown one is answered with similar ones.
    """
    return Option(*filter(None, (flag, short)), help=about, metavar=metavar, candidates=candidates(of), **more)


def argument(about: str, metavar: str, *, of: str = "", **more: Any) -> Parameter:
    """An argument, for ``Annotated``; ``of`` as in :func:`option`."""
    return Argument(help=about, metavar=metavar, candidates=candidates(of), **more)


def candidates(kind: str) -> Callable[[Context, str], list[tuple[str, str]]] | None:
    """Completes a word of that kind, as in :func:`option`; None for no kind."""

    def look(context: Context, incomplete: str) -> list[tuple[str, str]]:
        from corral.faces.cli.terminal.candidates import completed

        return completed(kind, context, incomplete)

    return look if kind else None


def content(option: str, file: str, kind: str = "text") -> str:
    """Read the file that an option names.

    Raises:
        InvalidInput: It cannot be read, or is not UTF-8.
    """
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        remedy = f"Name a readable file with {kind}."
        raise InvalidInput(f"Cannot read the file {file!r} of {option}.", cause=str(error), remedy=remedy) from error


def json_object(option: str, text: str | None, *, or_file: bool = False) -> dict[str, Any] | None:
    """Parse an option as a JSON object; None if it was not given.

    Args:
        or_file: Whether the option may also name a file with the object: it does unless it begins like JSON.

    Raises:
        InvalidInput: It is not a JSON object, or the file cannot be read.
    """
    if text is None:
        return None
    remedy = f"Write {option} '{{\"key\": 1}}'{', or name a file with such an object' if or_file else ''}."
    if or_file and not text.lstrip().startswith(("{", "[")):
        option, text = f"The file {text!r} of {option}", content(option, text, "a JSON object")
    try:
        value = json.loads(text)
    except ValueError as mistake:
        raise InvalidInput(f"{option} is not JSON.", cause=str(mistake), remedy=remedy) from mistake
    if not isinstance(value, dict):
        raise InvalidInput(f"{option} is not a JSON object.", remedy=remedy)
    return value


def span(text: str) -> float:
    """The seconds of a span of time as a person writes it.

    Raises:
        InvalidInput: It is none.
    """
    try:
        return span_s(text)
    except ValueError as error:
        raise InvalidInput(f"{error}.", remedy="Write 90m, 12h, 7d or 4w.") from error


# -- Convert typed paths, globs and logical keys to lock keys, relative to the top of the repository


def to_lock_keys(keys: list[str]) -> list[str]:
    """Convert paths that are absolute or relative to the current folder, as git does. Logical keys stay."""
    folder = here().absolute()
    checkout = find_checkout(folder)
    if checkout is None:
        return keys
    below = os.path.relpath(folder, checkout.top)
    return [_lock_key(key, checkout.top, "" if below == "." else below) for key in keys]


def _lock_key(key: str, top: Path, below: str) -> str:
    if key.startswith("/") and key.startswith(f"{top}/"):
        return key[len(f"{top}/") :]
    if not below or not key or key.startswith("/") or ":" in key.partition("/")[0]:
        return key
    slash = "/" if key.endswith("/") else ""  # a folder's key ends in a slash
    return os.path.normpath(f"{below}/{key}") + slash
