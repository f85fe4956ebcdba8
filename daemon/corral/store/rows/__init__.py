"""What a row holds: one :class:`typing.TypedDict` per table and per select of a part or a join, named as the noun is.

Instants, identifiers and states are text, as they are stored. A test compares each type of a whole row with its table.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")
Columns = dict[str, Any]
"""What an insert or an update sets, by the names of columns; what comes back has a type of its own."""


def required(value: T | None) -> T:
    """A column that may be null, and is not: the state that the row is in, or whoever made it, saw to that."""
    assert value is not None
    return value
