"""Types of rows: one :class:`typing.TypedDict` per table and per select of a part or a join, named as the noun is.

Instants, identifiers and states are text, as they are stored. A test compares each type of a whole row with its table.
"""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import Column, Table

T = TypeVar("T")
Columns = dict[str, Any]
"""The values of an insert or update, by the names of columns; the returned row has a type of its own."""


def columns_of(table: Table, kind: type) -> list[Column[Any]]:
    """The columns of a table that a type of rows names, for a select of these and no others."""
    return [table.c[name] for name in kind.__annotations__]


def required(value: T | None) -> T:
    """A nullable column that is not null here, by the state of the row or by its writer."""
    assert value is not None
    return value
