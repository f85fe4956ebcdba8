"""Output of the command line: JSON for programs, aligned text for people, errors with cause and remedy on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from corral.config.paths import bundle_dir
from corral.core.errors import ConfigInvalid, CorralError
from corral.core.tones import tone_of
from corral.core.visible import one_line, visible
from corral.faces.cli.terminal.context import Common, Format
from corral.faces.cli.terminal.stdio import can_write

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_COLOURS = {"good": "green", "busy": "cyan", "wait": "yellow", "bad": "red", "dim": "dim", "plain": ""}


def coloured(stream: Any = None) -> bool:
    """Whether to use colour: on a terminal, unless NO_COLOR is set."""
    stream = stream or sys.stdout
    return bool(stream.isatty()) and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: Any = None) -> str:
    """Style a text, where colour is used."""
    return f"\033[{_STYLES[style]}m{text}\033[0m" if style in _STYLES and coloured(stream) else text


def state(text: str) -> str:
    """A state in its colour."""
    return paint(text, _COLOURS[tone_of(text)])


def waiting(reason: str) -> str:
    """The reason why a session waits: Claude Code's own words, or a noun such as "permission for Bash"."""
    return (
        reason.removeprefix("Claude ").removeprefix("is ") if reason.startswith("Claude ") else f"waiting for {reason}"
    )


def verification(receipt: dict[str, Any]) -> str:
    """A receipt in one line: ``passed: 5 tests, 0.2 s``, and what a person should know of its inputs."""
    count = receipt["tests"]
    tests = "" if count is None else f"{count} test{'' if count == 1 else 's'}, "
    note = f" ({one_line(receipt['note'])})" if receipt.get("note") else ""
    by = f" by {receipt['covered_by'][:12]}" if receipt.get("covered_by") else ""
    return f"{state(receipt['status'])}{by}: {tests}{receipt['duration_s']:.1f} s{note}"


_PLAIN = str.maketrans({"→": "->", "…": "...", "×": "x", "·": "-", "—": "-"})


def echo(text: str) -> None:
    """Print a line for people; without UTF-8 in plain characters."""
    print(text if text.isascii() or can_write(sys.stdout, text) else text.translate(_PLAIN))


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


def emit(value: Any, *, indent: int | None = 2, empty: str = "") -> None:
    """Print an answer in whole: as one JSON document (without ``indent`` on one line), or as tables of its fields.

    Args:
        empty: The text for an empty list in a table.
    """
    if Common.output == Format.TABLE:
        from corral.faces.cli.terminal.tables import show_fields

        show_fields(value, empty)
    else:
        print(_json(value, sys.stdout, indent))


def for_programs() -> bool:
    """Whether an answer is to be printed in whole, as :func:`emit` does, and nothing for people."""
    return Common.output in (Format.JSON, Format.TABLE)


def printed(answer: Any, **more: Any) -> bool:
    """Print an answer in whole, as :func:`emit` does, where that is asked for; else nothing is printed, and False returned."""
    if for_programs():
        emit(answer, **more)
    return for_programs()


def report(answer: Any, line: str) -> None:
    """Print an answer: all of it for programs, or one line about it for people."""
    if not printed(answer):
        echo(line)


def _json(value: Any, stream: TextIO, indent: int | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text if can_write(stream, text) else json.dumps(value, indent=indent)


def fail(error: CorralError, *, as_json: bool = False, debug: bool = False) -> int:
    """Show an error on stderr and return its exit code."""
    if as_json:
        print(_json(error.to_wire(), sys.stderr), file=sys.stderr)
        return error.exit_code
    print(f"{paint('error', 'red', sys.stderr)}: {_indented(error.message, 9)} [{error.code}]", file=sys.stderr)
    problems, lines = error.details.get("errors"), list[str]()
    if isinstance(problems, list):
        of_several = error.details.get("submitted", 1) > 1
        lines = [_problem(problem, of_several=of_several) for problem in problems if isinstance(problem, dict)]
        if not (len(lines) == 1 and lines[0].rstrip(".") in error.message):
            for line in lines[:_MOST_PROBLEMS]:
                print(f"  {line}", file=sys.stderr)
        if len(problems) > _MOST_PROBLEMS:
            print(f"  and {len(problems) - _MOST_PROBLEMS} more; --json shows them all", file=sys.stderr)
    if not {line.rstrip(".") for line in error.cause.splitlines()} <= set(lines):
        print(f"  cause:  {_indented(error.cause, 10)}", file=sys.stderr)
    if error.remedy:
        print(f"  remedy: {_indented(error.remedy, 10)}", file=sys.stderr)
    if page := _page(error.code):
        print(f"  docs:   {page}", file=sys.stderr)
    if debug:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    return error.exit_code


_MOST_PROBLEMS = 20


def _problem(problem: dict[str, Any], *, of_several: bool) -> str:
    """One error of an invalid input, with its place; tasks of a batch count from 1."""
    file, line = problem.get("file"), problem.get("line")
    where = problem.get("field") or problem.get("path") or ""
    what = problem.get("reason") or problem.get("message") or ""
    places = [f"task {problem['index'] + 1}"] if of_several else []
    files = [f"{file}:{line}" if line else file] if file else []
    return ": ".join(one_line(str(part)) for part in (*places, *files, where, what) if part)


_WITHOUT_PAGE = ("CORRAL-ERR-002", "CORRAL-ERR-003", "CORRAL-ERR-004")
"""Codes of which the documents say no more than each error itself."""


def _page(code: str) -> str:
    """The document that says more about an error, installed with Corral; empty if none does."""
    if code in _WITHOUT_PAGE:
        return ""
    name = "configuration.md" if code == ConfigInvalid.code else f"troubleshooting.md#{code.lower()}"
    return f"{bundle_dir()}/docs/{name}"


INTERRUPTED = 130


class Interrupted(BaseException):
    """Control-C; not an Exception, which a command may handle."""


def guarded(command: Callable[[], int], *, as_json: bool, debug: Callable[[], bool]) -> int:
    """Run a command; show whatever error ends it, and return the exit code."""
    if sys.stderr.isatty():
        from corral.client.connection import Client
        from corral.faces.cli.terminal.progress import progress

        Client.waiting = progress
    try:
        return command()
    except CorralError as error:
        return fail(error, as_json=as_json, debug=debug())
    except (Interrupted, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the edge of the program: a person gets a message, with --debug the rest
        unexpected = CorralError(
            f"Unexpected error: {type(error).__name__}: {error}",
            remedy="Run it again with --debug and report what it prints; `corral doctor` checks the installation.",
        )
        unexpected.__cause__ = error
        return fail(unexpected, as_json=as_json, debug=debug())
