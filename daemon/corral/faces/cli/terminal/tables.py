"""Tables: aligned columns for people, and bordered ASCII tables of every field."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from corral.core.instants import UTC, parse, short_span
from corral.core.visible import one_line, visible
from corral.faces.cli.terminal.output import echo, paint, printed, state
from corral.faces.cli.terminal.stdio import can_write, columns

Row = Mapping[str, Any]
Column = tuple[str, "str | Callable[[Any], str]", int]
"""A heading, the key of its values or how a row's value is made, and the maximum width."""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d")
"""How a time begins. Cut, it says nothing: its end is what tells one line from the next."""
NARROWEST = 4
"""Cells below which no column is cut: where that does not suffice, each row becomes lines of its own."""


def table(
    rows: Sequence[Row],
    columns: Sequence[Column],
    *,
    empty: str,
) -> None:
    """Print rows: for programs in whole, else in aligned columns that fit the terminal. States are coloured.

    Without a terminal nothing is cut: what reads it may look for any of it.

    Args:
        empty: The text for no rows.
    """
    if printed(rows, empty=empty):
        return
    if not rows:
        echo(empty)
        return
    headings = [heading for heading, _, _ in columns]
    cells = [[shortened(_cell(row, of), most) for _, of, most in columns] for row in rows]
    widths = _fitted([headings, *cells], between=2, room=_room())
    if widths is None:
        _stacked(headings, cells)
        return
    echo(paint(_line(headings, widths), "bold"))
    for line in cells:
        echo(_line(line, widths, state))


def _line(texts: Sequence[str], widths: Sequence[int], style: Callable[[str], str] = str) -> str:
    shown = [_cut(text, width) for text, width in zip(texts, widths, strict=True)]
    padded = [style(text) + " " * (width - cells_of(text)) for text, width in zip(shown, widths, strict=True)]
    return "  ".join(padded).rstrip()


def _stacked(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Each row as lines of ``HEADING value``, for a terminal that is too narrow for columns."""
    for line in cells:
        for heading, text in zip(headings, line, strict=True):
            if text:
                echo(f"{heading} {state(text)}")
        echo("")


def show_fields(value: Any, empty: str = "") -> None:
    """Print a JSON value as ASCII tables: a list as rows, an object as fields; a list of objects in it as a further table."""
    if isinstance(value, list):
        _grid(_rows(value), empty or "(none)")
        return
    if not isinstance(value, dict):
        echo(_text(value))
        return
    lists: dict[str, list[Any]] = {}
    fields = [[name, text] for name, text in _flat(value, lists)]
    if fields:
        _grid([["FIELD", "VALUE"], *fields], "")
    for name, rows in lists.items():
        echo(f"\n{name}")
        _grid(_rows(rows), "(none)")


def _flat(value: Mapping[str, Any], lists: dict[str, list[Any]], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The fields of an object by dotted name; lists of objects are set aside."""
    for name, inner in value.items():
        key = f"{prefix}{one_line(str(name))}"
        if isinstance(inner, dict) and inner:
            yield from _flat(inner, lists, f"{key}.")
        elif isinstance(inner, list) and any(isinstance(item, dict) for item in inner):
            lists[key] = inner
        else:
            yield key, _text(inner)


def _rows(values: Sequence[Any]) -> list[list[str]]:
    """A heading and the rows of a list; a value that is no object has one column."""
    if not values:
        return []
    if not all(isinstance(value, dict) for value in values):
        return [["VALUE"], *([_text(value)] for value in values)]
    names = list(dict.fromkeys(name for value in values for name in value))
    return [
        [one_line(str(name)).upper() for name in names],
        *([_text(value.get(name)) for name in names] for value in values),
    ]


def _text(value: Any) -> str:
    """A value in one cell: nothing for null, JSON for an object, commas between the texts of a list."""
    if value is None:
        return ""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return one_line(", ".join(value))
    return one_line(json.dumps(value, ensure_ascii=False))


def _grid(lines: Sequence[Sequence[str]], empty: str) -> None:
    if not lines:
        echo(empty)
        return
    widths = _fitted(lines, between=3, room=_room(around=4))
    if widths is None:
        _stacked(lines[0], lines[1:])
        return
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    echo(rule)
    for number, line in enumerate(lines):
        shown = [_cut(text, width) for text, width in zip(line, widths, strict=True)]
        padded = (text + " " * (width - cells_of(text)) for text, width in zip(shown, widths, strict=True))
        echo("| " + " | ".join(padded) + " |")
        if number == 0:
            echo(rule)
    echo(rule)


def _room(around: int = 0) -> int | None:
    """The cells of a line; None: unlimited, as in a pipe."""
    return max(1, columns() - around) if sys.stdout.isatty() else None


def _fitted(lines: Sequence[Sequence[str]], *, between: int, room: int | None) -> list[int] | None:
    """The widths of columns; the widest are cut until a line fits, times of day the last. None: they cannot fit."""
    columns = list(zip(*lines, strict=True))
    widths = [max(map(cells_of, column)) for column in columns]
    if room is None:
        return widths
    room -= between * (len(widths) - 1)
    times = {number for number, column in enumerate(columns) if any(map(_MOMENT.match, column))}
    while sum(widths) > room:
        wide = [number for number, width in enumerate(widths) if width > NARROWEST]
        if not wide:
            return None
        widths[max(wide, key=lambda number: (number not in times, widths[number]))] -= 1
    return widths


def age(instant: str) -> str:
    """The time since an instant in its largest unit: ``5s``, ``12m``, ``3h``, ``8d``."""
    return short_span((datetime.now(UTC) - parse(instant)).total_seconds())


def _cell(row: Row, of: str | Callable[[Any], str]) -> str:
    value = row.get(of) if isinstance(of, str) else of(row)
    return "" if value is None else visible(str(value)).replace("\n", " ").replace("\t", " ")


def cells_of(text: str) -> int:
    """The number of cells that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shortened(text: str, most: int) -> str:
    """The text in at most that many cells of a terminal; in a pipe all of it."""
    return _cut(text, most) if sys.stdout.isatty() else text


def _cut(text: str, most: int) -> str:
    """The text in at most that many cells; one that was cut ends in an ellipsis."""
    if cells_of(text) <= most:
        return text
    mark = "…" if can_write(sys.stdout, "…") else "..."
    shortened, room = text[: max(0, most - len(mark))], most - len(mark)
    if not text.isascii():
        shortened = ""
        for character in text:  # a character may take two cells, or none
            room -= cells_of(character)
            if room < 0:
                break
            shortened += character
    return (shortened + mark)[:most] if most <= len(mark) else shortened + mark
