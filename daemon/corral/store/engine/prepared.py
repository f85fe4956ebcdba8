"""Statements that every hook event and every lock asks: compiled once, and run by the driver itself.

SQLAlchemy's way from a statement to its rows takes three times as long as these statements do in SQLite. Its knowledge stays
in use: the SQL it compiles, and how its types are written and read. A server is asked the usual way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeVar

from pydantic_core import to_json
from sqlalchemy import JSON, Boolean, ColumnElement, Connection, CursorResult, SelectBase, literal
from sqlalchemy.engine import Dialect as DriverDialect
from sqlalchemy.sql.dml import UpdateBase

from corral.store.engine.dialect import Dialect, dialect_of

R = TypeVar("R")
Convert = Callable[[Any], Any]


class Prepared(Generic[R]):
    """A statement with named parameters, run again and again.

    A driver's error comes as it is; :mod:`corral.store.engine.database` names it. ``Prepared[TaskRow](…)`` says what its rows
    hold (:mod:`corral.store.rows`), ``Prepared[None](…)`` that it returns none, ``Prepared[object](…)`` that
    only counts whether it returns one.

    Args:
        statement: A select, or an insert, update or delete with or without ``returning``. Its parameters are ``bindparam``
            that stand for one value each.
        sets: The columns that an insert or an update sets, each a parameter of the same name.
    """

    def __init__(self, statement: SelectBase | UpdateBase, *sets: str) -> None:
        self.statement = statement
        self._sets = sets
        self._sql = ""

    def all(self, conn: Connection, given: Mapping[str, Any]) -> list[R]:
        """Run it; every row that it returns, by the names of its columns."""
        return list(self.each(conn, given))

    def each(self, conn: Connection, given: Mapping[str, Any]) -> Iterator[R]:
        """Run it; its rows as they are asked for, in the same transaction. Rows beyond those are not read."""
        if dialect_of(conn) is not Dialect.SQLITE:
            rows: Iterator[Any] = map(dict, self._usual(conn, given).mappings())
            return rows
        return self._rows(self._run(conn, given))

    def first(self, conn: Connection, given: Mapping[str, Any]) -> R | None:
        """Run it; the first of its rows, or None."""
        rows = self.all(conn, given)
        return rows[0] if rows else None

    def one(self, conn: Connection, given: Mapping[str, Any]) -> R:
        """Run it; its only row."""
        (row,) = self.all(conn, given)
        return row

    def any(self, conn: Connection, given: Mapping[str, Any]) -> bool:
        """Run it; whether it returns a row. The statement itself says ``limit(1)``."""
        return bool(self.all(conn, given))

    def column(self, conn: Connection, given: Mapping[str, Any]) -> list[Any]:
        """Run it; of every row its first column."""
        rows: Iterator[Any] = self.each(conn, given)
        return [next(iter(row.values())) for row in rows]

    def scalar(self, conn: Connection, given: Mapping[str, Any]) -> Any:
        """Run it; the first column of its first row, or None."""
        return next(iter(self.column(conn, given)), None)

    def text(self, conn: Connection, given: Mapping[str, Any]) -> str | None:
        """The same of a column that is text."""
        found: str | None = self.scalar(conn, given)
        return found

    def add(self, conn: Connection, given: Mapping[str, Any]) -> int:
        """Run an insert of one row that returns nothing; the number that is the row's key."""
        if dialect_of(conn) is not Dialect.SQLITE:
            key: Any = self._usual(conn, given).inserted_primary_key
            return int(key[0])
        return int(self._run(conn, given).lastrowid)

    def change(self, conn: Connection, given: Mapping[str, Any]) -> int:
        """Run one that returns nothing; how many rows it changed."""
        run = self._run if dialect_of(conn) is Dialect.SQLITE else self._usual
        return int(run(conn, given).rowcount)

    def each_of(self, conn: Connection, given: Sequence[Mapping[str, Any]]) -> None:
        """Run one that returns nothing, once for each of these; there is at least one."""
        if dialect_of(conn) is not Dialect.SQLITE:
            statement: Any = self.statement
            conn.execute(statement, list(given))
            return
        self._begin(conn)
        raw: Any = conn.connection.dbapi_connection
        raw.executemany(self._sql, map(self._values, given))

    def _usual(self, conn: Connection, given: Mapping[str, Any]) -> CursorResult[Any]:
        statement: Any = self.statement
        return conn.execute(statement, given, execution_options={"preserve_rowcount": True})

    def _rows(self, found: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        names, readers = self._names, self._readers
        for values in found:
            row = dict(zip(names, values))  # noqa: B905 - as many of both, and it takes a third less
            for name, read in readers:
                row[name] = read(row[name])
            yield row

    def _run(self, conn: Connection, given: Mapping[str, Any]) -> Any:
        self._begin(conn)
        raw: Any = conn.connection.dbapi_connection
        return raw.execute(self._sql, self._values(given))

    def _begin(self, conn: Connection) -> None:
        if not self._sql:
            self._compile(conn.dialect)
        if not conn.in_transaction():
            conn.begin()

    def _values(self, given: Mapping[str, Any]) -> Sequence[Any]:
        values = {**self._fixed, **given}
        for name, write in self._writers:
            values[name] = write(values[name])
        return self._ordered(values)

    def _compile(self, of: DriverDialect) -> None:
        make: Callable[..., DriverDialect] = type(of)
        dialect = make(paramstyle="qmark")
        compiled = self.statement.compile(dialect=dialect, column_keys=list(self._sets) or None)
        columns = self.statement.exported_columns
        readers = ((str(column.key), _read(column.type, dialect)) for column in columns)
        used = compiled.positiontup or ()  # a value that an update sets is among the binds under a second name
        writers = ((name, _write(bind.type, dialect)) for name, bind in compiled.binds.items() if name in used)
        self._ordered = _picker(used)
        self._names = [str(column.key) for column in columns]
        self._readers = [(name, read) for name, read in readers if read is not None]
        self._writers = [(name, write) for name, write in writers if write is not None]
        given = {*self._sets, *(name for name, bind in compiled.binds.items() if bind.required)}
        self._fixed = {name: value for name, value in compiled.params.items() if name not in given}
        self._sql = str(compiled)  # last: a thread that sees it finds the rest


def one_of(column: ColumnElement[Any], values: Iterable[str]) -> ColumnElement[bool]:
    """Whether a column is one of these words: as :meth:`~sqlalchemy.ColumnElement.in_`, which is written out at each run."""
    return column.in_([literal(str(value)) for value in values])


def _picker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: [values[name] for name in names]


def _read(kind: Any, dialect: DriverDialect) -> Convert | None:
    if isinstance(kind, JSON):
        return _from_json
    found: Convert | None = kind.dialect_impl(dialect).result_processor(dialect, None)
    return found


def _from_json(text: str | None) -> Any:
    if text == "{}":  # so are most of them, and to read one takes longer than to fetch its row
        return {}
    if text == "[]":
        return []
    return None if text is None else json.loads(text)


def _to_json(value: Any) -> str:
    try:
        return to_json(value).decode()
    except ValueError:  # half a surrogate pair, of a name that is no UTF-8; or too deep for it
        return json.dumps(value)


def _write(kind: Any, dialect: DriverDialect) -> Convert | None:
    if isinstance(kind, JSON):
        return _to_json
    if isinstance(kind, Boolean):  # the driver takes it as it is
        return None
    found: Convert | None = kind.dialect_impl(dialect).bind_processor(dialect)
    return found
