"""Types of rows: one :class:`typing.TypedDict` per table and per select of a part or a join, named as the noun is.

A table is declared of the type of its rows (:func:`corral.store.table.table`). So the modules here are without ``from __future__
import annotations``, and their types say how long a text may be; those of parts and joins need not.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from sqlalchemy import Column, Table

T = TypeVar("T")
Id = Annotated[str, 36]
Name = Annotated[str, 128]
"""The id of a session or thread, the name of an agent or model."""
Sha = Annotated[str, 64]
"""Of a commit, a tree, or a text."""
Instant = Annotated[str, 24]
"""See :mod:`corral.core.instants`."""
State = Annotated[str, 16]
"""One of a few words: a state, an outcome, a runner."""
Word = Annotated[str, 64]
"""One of many words: a kind, an error's code."""
Sentence = Annotated[str, 0]
"""Of Corral's own, however long. It may name a file whose name is no UTF-8, which is stored with escapes."""

Columns = dict[str, Any]
"""The values of an insert or update, by the names of columns; the returned row has a type of its own."""


def columns_of(table: Table, kind: type) -> list[Column[Any]]:
    """The columns of a table that a type of rows names, for a select of these and no others."""
    return [table.c[name] for name in kind.__annotations__]


def required(value: T | None) -> T:
    """A nullable column that is not null here, by the state of the row or by its writer."""
    assert value is not None
    return value
