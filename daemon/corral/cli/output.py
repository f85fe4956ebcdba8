"""How the command line speaks: JSON for programs, plain aligned text for people, errors with cause and remedy to stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from corral.cli.outlet import writes
from corral.errors import CorralError
from corral.models.visible import visible

Row = Mapping[str, Any]
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_COLOURS = {
    "landed": "green",
    "completed": "green",
    "passed": "green",
    "active": "green",
    "running": "cyan",
    "verifying": "cyan",
    "held": "yellow",
    "waiting": "yellow",
    "unverified": "yellow",
    "interrupted": "yellow",
    "conflict": "red",
    "failed": "red",
    "dead": "red",
    "cancelled": "dim",
    "superseded": "dim",
    "disconnected": "dim",
}


def coloured(stream: Any = None) -> bool:
    """Whether to use colour: a terminal, and nobody said no."""
    stream = stream or sys.stdout
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: Any = None) -> str:
    """Text in a style, where colour is welcome."""
    return f"\033[{_STYLES[style]}m{text}\033[0m" if style in _STYLES and coloured(stream) else text


def state(text: str) -> str:
    """A state in its colour."""
    return paint(text, _COLOURS.get(text, ""))


def say(text: str) -> None:
    """A line for people. Control characters of other people's text are shown, not obeyed."""
    print(text)


def emit(value: Any, *, indent: int | None = 2) -> None:
    """A value for programs: one JSON document on stdout; without an indent on a line."""
    print(_json(value, sys.stdout, indent))


def _json(value: Any, stream: TextIO, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text if writes(stream, text) else json.dumps(value, indent=indent)


def table(rows: Sequence[Row], columns: Sequence[tuple[str, str, int]], *, empty: str) -> None:
    """Aligned columns: ``(heading, key, widest)``; a value that is wider is cut. States come in colour."""
    if not rows:
        say(empty)
        return
    cells = [[_cell(row.get(key), widest) for _heading, key, widest in columns] for row in rows]
    widths = [max(len(columns[i][0]), *(len(line[i]) for line in cells)) for i in range(len(columns))]
    say(paint("  ".join(columns[i][0].ljust(widths[i]) for i in range(len(columns))).rstrip(), "bold"))
    for line in cells:
        shown = [state(text) + " " * (widths[i] - len(text)) for i, text in enumerate(line)]
        say("  ".join(shown).rstrip())


def _cell(value: Any, widest: int) -> str:
    text = "" if value is None else visible(str(value)).replace("\n", " ")
    return text if len(text) <= widest else text[: widest - 1] + "…"


def fail(error: CorralError, *, as_json: bool = False, debug: bool = False) -> int:
    """Show an error on stderr and return the exit code for it."""
    if as_json:
        print(_json(error.to_wire(), sys.stderr), file=sys.stderr)
        return error.exit_code
    print(f"{paint('error', 'red', sys.stderr)}: {visible(error.message)} [{error.code}]", file=sys.stderr)
    problems = error.details.get("errors")
    if isinstance(problems, list):
        for problem in problems[:20]:
            if isinstance(problem, dict):
                where = problem.get("field") or problem.get("path") or ""
                what = problem.get("reason") or problem.get("message") or ""
                print(f"  {where}: {visible(str(what))}", file=sys.stderr)
    if error.cause:
        print(f"  cause:  {visible(error.cause)}", file=sys.stderr)
    if error.remedy:
        print(f"  remedy: {visible(error.remedy)}", file=sys.stderr)
    if debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return error.exit_code


INTERRUPTED = 130


class Interrupted(BaseException):
    """Control-C; not KeyboardInterrupt, which the framework would turn into a plain failure."""


def guarded(command: Callable[[], int], *, as_json: bool, debug: Callable[[], bool]) -> int:
    """Run a command: whatever ends it becomes what is shown, and an exit code."""
    try:
        return command()
    except CorralError as error:
        return fail(error, as_json=as_json, debug=debug())
    except (Interrupted, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


@contextlib.contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Say what goes on, on stderr, once it has lasted a second: a spinner on a terminal, else nothing.

    Yields:
        A function that changes the text.
    """
    if not sys.stderr.isatty() or os.environ.get("CORRAL_QUIET"):
        yield lambda _text: None
        return
    from rich.console import Console

    began = time.monotonic()
    with Console(stderr=True).status(text, refresh_per_second=12.5) as status:
        yield lambda more: status.update(f"{more} [dim]{time.monotonic() - began:.0f} s[/dim]")
