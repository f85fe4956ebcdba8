"""Output of the command line: JSON for programs, aligned text for people, errors with cause and remedy on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from corral.cli.terminal.stdio import can_write
from corral.errors import CorralError
from corral.models.visible import one_line, visible

Row = Mapping[str, Any]
Column = tuple[str, "str | Callable[[Any], str]", int]
"""A heading, the key of its values or how a row's value is made, and the maximum width."""
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATES = {
    "green": ("landed", "completed", "passed", "active"),
    "cyan": ("running", "verifying"),
    "yellow": ("held", "waiting", "unverified", "interrupted"),
    "red": ("conflict", "failed", "red", "dead"),
    "dim": ("cancelled", "dismissed", "superseded", "disconnected"),
}
_COLOURS = {name: colour for colour, names in _STATES.items() for name in names}


def coloured(stream: Any = None) -> bool:
    """Whether to use colour: on a terminal, unless NO_COLOR is set."""
    stream = stream or sys.stdout
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: Any = None) -> str:
    """Style a text, where colour is used."""
    return f"\033[{_STYLES[style]}m{text}\033[0m" if style in _STYLES and coloured(stream) else text


def state(text: str) -> str:
    """A state in its colour."""
    return paint(text, _COLOURS.get(text, ""))


def waiting(reason: str) -> str:
    """The reason why a session waits: Claude Code's own words, or a noun such as "permission for Bash"."""
    return reason.removeprefix("Claude is ") if reason.startswith("Claude ") else f"waiting for {reason}"


def verification(receipt: dict[str, Any]) -> str:
    """A receipt in one line: ``passed: 5 tests, 0.2 s``."""
    count = receipt["tests"]
    tests = "" if count is None else f"{count} test{'' if count == 1 else 's'}, "
    return f"{state(receipt['status'])}: {tests}{receipt['duration_s']:.1f} s"


def echo(text: str) -> None:
    """Print a line for people. Control characters in foreign text are made visible."""
    print(text)


def moment(instant: str) -> str:
    """An instant to the second, as people read it; in UTC."""
    return instant[:19].replace("T", " ")


def fact(name: str, value: Any, width: int = 8) -> None:
    """Print a named value; further lines are indented, so that none looks like another value."""
    echo(f"  {name:<{width}} {_indented(str(value), width + 3)}")


def facts(rows: Mapping[str, Any], width: int = 8) -> None:
    """Print named values, without those that are empty."""
    for name, value in rows.items():
        if value:
            fact(name, value, width)


def _indented(text: str, by: int) -> str:
    return visible(text).replace("\n", "\n" + " " * by)


def emit(value: Any, *, indent: int | None = 2) -> None:
    """Print one JSON document for programs; without ``indent`` on one line."""
    print(_json(value, sys.stdout, indent))


def report(answer: Any, line: str, *, as_json: bool) -> None:
    """Print an answer: all of it for programs, or one line about it for people."""
    if as_json:
        emit(answer)
    else:
        echo(line)


def _json(value: Any, stream: TextIO, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text if can_write(stream, text) else json.dumps(value, indent=indent)


def table(rows: Sequence[Row], columns: Sequence[Column], *, empty: str, as_json: bool = False) -> None:
    """Print rows: as JSON for programs, else in aligned columns; wider values are cut. States are coloured."""
    if as_json:
        emit(rows)
        return
    if not rows:
        echo(empty)
        return
    cells = [[_cell(row.get(of) if isinstance(of, str) else of(row), most) for _, of, most in columns] for row in rows]
    widths = [max(len(columns[i][0]), *(len(line[i]) for line in cells)) for i in range(len(columns))]
    echo(paint("  ".join(columns[i][0].ljust(widths[i]) for i in range(len(columns))).rstrip(), "bold"))
    for line in cells:
        shown = [state(text) + " " * (widths[i] - len(text)) for i, text in enumerate(line)]
        echo("  ".join(shown).rstrip())


def _cell(value: Any, widest: int) -> str:
    text = "" if value is None else visible(str(value)).replace("\n", " ")
    return text if len(text) <= widest else text[: widest - 1] + "…"


def fail(error: CorralError, *, as_json: bool = False, debug: bool = False) -> int:
    """Show an error on stderr and return its exit code."""
    if as_json:
        print(_json(error.to_wire(), sys.stderr), file=sys.stderr)
        return error.exit_code
    print(f"{paint('error', 'red', sys.stderr)}: {_indented(error.message, 9)} [{error.code}]", file=sys.stderr)
    problems = error.details.get("errors")
    if isinstance(problems, list):
        for problem in problems[:20]:
            if isinstance(problem, dict):
                where = problem.get("field") or problem.get("path") or ""
                what = problem.get("reason") or problem.get("message") or ""
                place = f"{one_line(str(where))}: " if where else ""
                print(f"  {place}{one_line(str(what))}", file=sys.stderr)
    if error.cause:
        print(f"  cause:  {_indented(error.cause, 10)}", file=sys.stderr)
    if error.remedy:
        print(f"  remedy: {_indented(error.remedy, 10)}", file=sys.stderr)
    if debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return error.exit_code


INTERRUPTED = 130


class Interrupted(BaseException):
    """Control-C; not KeyboardInterrupt, which the framework would turn into a plain failure."""


def guarded(command: Callable[[], int], *, as_json: bool, debug: Callable[[], bool]) -> int:
    """Run a command; show whatever error ends it, and return the exit code."""
    try:
        return command()
    except CorralError as error:
        return fail(error, as_json=as_json, debug=debug())
    except (Interrupted, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


class Progress:
    """A progress line: calling it changes the text; ``tell`` prints a permanent line above it.

    Args:
        change: Changes the text.
        tell: Prints a line on stderr.
    """

    def __init__(self, change: Callable[[str], None], tell: Callable[[str], None]) -> None:
        self._change = change
        self.tell = tell

    def __call__(self, text: str) -> None:
        """Change the text."""
        self._change(text)


@contextlib.contextmanager
def progress(text: str) -> Iterator[Progress]:
    """Show progress on stderr after one second: a spinner on a terminal, else only permanent lines.

    Yields:
        The progress line.
    """
    if not sys.stderr.isatty() or os.environ.get("CORRAL_QUIET"):
        yield Progress(lambda _text: None, lambda line: print(line, file=sys.stderr, flush=True))
        return
    from rich import progress as bars
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    # The timer column updates itself, so a long wait never looks frozen. Only the text is cut: a longer one than the
    # terminal is wide would push out the other columns.
    given = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    words = bars.TextColumn("{task.description}", markup=False, table_column=given)
    columns = (bars.SpinnerColumn(), bars.TimeElapsedColumn(), words)
    with bars.Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        shown = bar.add_task(text, total=None)
        yield Progress(
            lambda more: bar.update(shown, description=more),
            lambda line: bar.console.print(Text.from_ansi(line), soft_wrap=True),
        )
