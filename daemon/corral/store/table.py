"""How a table is declared: its columns are those of the type of its rows, and beside them stands what a type cannot say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType, NoneType
from typing import Any, get_args

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

from corral.store.rows import Sentence

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class _Sentence(Text):
    """Text that stores what stands for a byte that is no UTF-8 as an escape."""

    def bind_processor(self, _dialect: Dialect) -> Callable[[str | None], str | None]:
        return lambda text: text.encode(errors="backslashreplace").decode() if text is not None else None


_PLAIN: dict[Any, TypeEngine[Any]] = {
    str: Text(),
    Sentence: _Sentence(),
    int: Integer(),
    float: Float(),
    bool: Boolean(),
}
_JSON: TypeEngine[Any] = JSON()
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def table(
    name: str,
    row: type,
    *,
    key: str = "",
    numbered: str = "",
    first: str = "",
    unique: Sequence[str] = (),
    references: Mapping[str, str] = _NOTHING,
    defaults: Mapping[str, Any] = _NOTHING,
    checks: Mapping[str, str] = _NOTHING,
    indexes: Sequence[str] = (),
    **options: Any,
) -> Table:
    """Declare the table that has rows of a type; several columns are named as in SQL, ``"task_id, number"``.

    Args:
        row: A TypedDict (:mod:`corral.store.rows`): ``str`` is text, ``Annotated[str, 36]`` has at most so many characters,
            ``| None`` may be null, and what no column can hold is JSON.
        key: The primary key.
        numbered: The primary key, where it is a number that the database counts.
        first: The first columns, where the type, which has those of its bases first, names them in another order. A primary key
            needs no mention.
        unique: Columns that are unique, alone or together.
        references: The column of another table that a column refers to.
        defaults: What the database sets where an insert says nothing.
        checks: Conditions of each row, by their names.
        indexes: The columns of each index; one that takes more than columns to say is declared after the table.
        options: As :class:`sqlalchemy.Table` has them.
    """
    keys = _columns(key or numbered)
    names = dict.fromkeys([*_columns(first), *keys, *row.__annotations__])
    columns = [
        Column(
            column,
            kind,
            *([ForeignKey(references[column])] if column in references else ()),
            primary_key=column in keys,
            nullable=is_nullable,
            autoincrement=bool(numbered),
            unique=column in unique or None,
            server_default=defaults.get(column),
        )
        for column in names
        for kind, is_nullable in [_stored(row.__annotations__[column])]
    ]
    rules = [
        *(UniqueConstraint(*_columns(together)) for together in unique if "," in together),
        *(CheckConstraint(condition, name=check) for check, condition in checks.items()),
    ]
    made = Table(name, metadata, *columns, *rules, **options)
    for index in indexes:
        Index(None, *(made.c[column] for column in _columns(index)))
    return made


def _columns(text: str) -> list[str]:
    return text.split(", ") if text else []


@cache
def _stored(hint: Any) -> tuple[TypeEngine[Any], bool]:
    """The type of a column that holds such values, and whether it may be null."""
    choices = get_args(hint)
    is_nullable = NoneType in choices
    (kind,) = (choice for choice in choices if choice is not NoneType) if is_nullable else (hint,)
    (length,) = getattr(kind, "__metadata__", (None,))
    return String(length) if length else _PLAIN.get(kind, _JSON), is_nullable


def one_of(column: str, values: tuple[str, ...]) -> str:
    """The condition of a check: the column has one of these values."""
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


def only(where: ColumnElement[bool] | TextClause) -> dict[str, Any]:
    """The options that make an index a partial one, in either database."""
    return {"sqlite_where": where, "postgresql_where": where}
