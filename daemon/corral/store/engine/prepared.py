"""Statements of every hook event and every lock: compiled once, and run by the driver itself.

SQLAlchemy takes three times as long around such a statement as SQLite takes to run it. So only its SQL and the conversions of
its types are used. On a server statements run through SQLAlchemy as usual.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Generic, TypeVar

from pydantic_core import to_json
from sqlalchemy import JSON, Boolean, ColumnElement, Connection, CursorResult, SelectBase, literal
from sqlalchemy.engine import Dialect as DriverDialect
from sqlalchemy.sql.dml import UpdateBase

from corral.store.engine.dialect import Dialect, dialect_of

ROWS = 16
"""Rows that an insert of many writes at a time: at each statement the driver hands the interpreter to another thread."""

R = TypeVar("R")
Convert = Callable[[Any], Any]


class Prepared(Generic[R]):
    """A statement with named parameters, run again and again.

    A driver's error is not converted here; :mod:`corral.store.engine.database` does that. ``Prepared[TaskRow](…)`` names the
    type of its rows (:mod:`corral.store.rows`), ``Prepared[None](…)`` returns no rows, and of ``Prepared[object](…)`` only
    single values, or whether there is a row, are used.

    Args:
        statement: A select, or an insert, update or delete with or without ``returning``. Its parameters are ``bindparam``
            that stand for one value each.
        sets: The columns that an insert or an update sets, each a parameter of the same name.
    """

    def __init__(self, statement: SelectBase | UpdateBase, *sets: str) -> None:
        self.statement = statement
        self._sets = sets
        self._sql = ""

    def all(self, conn: Connection, parameters: Mapping[str, Any]) -> list[R]:
        """Run it and return all its rows, by the names of its columns."""
        if dialect_of(conn) is not Dialect.SQLITE:
            return list(self.each(conn, parameters))
        return [self._named(values) for values in self._run(conn, parameters).fetchall()]

    def each(self, conn: Connection, parameters: Mapping[str, Any]) -> Iterator[R]:
        """Run it and yield its rows one by one, in the same transaction; further rows are not read."""
        if dialect_of(conn) is not Dialect.SQLITE:
            rows: Iterator[Any] = map(dict, self._run_by_sqlalchemy(conn, parameters).mappings())
            return rows
        return map(self._named, self._run(conn, parameters))

    def first(self, conn: Connection, parameters: Mapping[str, Any]) -> R | None:
        """Run it and return its first row, or None."""
        rows = self.all(conn, parameters)
        return rows[0] if rows else None

    def one(self, conn: Connection, parameters: Mapping[str, Any]) -> R:
        """Run it and return its only row."""
        (row,) = self.all(conn, parameters)
        return row

    def any(self, conn: Connection, parameters: Mapping[str, Any]) -> bool:
        """Run it and return whether it has a row. The statement itself says ``limit(1)``."""
        return bool(self.all(conn, parameters))

    def column(self, conn: Connection, parameters: Mapping[str, Any]) -> list[Any]:
        """Run it and return the first column of every row."""
        rows: Iterator[Any] = self.each(conn, parameters)
        return [next(iter(row.values())) for row in rows]

    def scalar(self, conn: Connection, parameters: Mapping[str, Any]) -> Any:
        """Run it and return the first column of its first row, or None."""
        return next(iter(self.column(conn, parameters)), None)

    def text(self, conn: Connection, parameters: Mapping[str, Any]) -> str | None:
        """Like :meth:`scalar`, for a text column."""
        value: str | None = self.scalar(conn, parameters)
        return value

    def add(self, conn: Connection, parameters: Mapping[str, Any]) -> int:
        """Run an insert of one row, and return the row's numeric key."""
        if dialect_of(conn) is not Dialect.SQLITE:
            key: Any = self._run_by_sqlalchemy(conn, parameters).inserted_primary_key
            return int(key[0])
        return int(self._run(conn, parameters).lastrowid)

    def change(self, conn: Connection, parameters: Mapping[str, Any]) -> int:
        """Run a statement that returns no rows, and return how many rows it changed."""
        run = self._run if dialect_of(conn) is Dialect.SQLITE else self._run_by_sqlalchemy
        return int(run(conn, parameters).rowcount)

    def each_of(self, conn: Connection, parameters: Sequence[Mapping[str, Any]]) -> None:
        """Run a plain insert (nothing follows its values) once for each of these parameters, of which there is at least one."""
        if dialect_of(conn) is not Dialect.SQLITE:
            statement: Any = self.statement
            conn.execute(statement, list(parameters))
            return
        raw, rows = self._begun(conn), list(map(self._values, parameters))
        head, _, placeholders = self._sql.rpartition("VALUES ")
        for several in (ROWS, 1):
            sql = f"{head}VALUES {', '.join([placeholders] * several)}"
            while len(rows) >= several:
                raw.execute(sql, [*chain.from_iterable(rows[:several])])
                del rows[:several]

    def _run_by_sqlalchemy(self, conn: Connection, parameters: Mapping[str, Any]) -> CursorResult[Any]:
        statement: Any = self.statement
        return conn.execute(statement, parameters, execution_options={"preserve_rowcount": True})

    def _named(self, values: tuple[Any, ...]) -> Any:
        row = dict(zip(self._names, values))  # noqa: B905 - as many of both, and it takes a third less
        for name, read in self._readers:
            row[name] = read(row[name])
        return row

    def _run(self, conn: Connection, parameters: Mapping[str, Any]) -> Any:
        return self._begun(conn).execute(self._sql, self._values(parameters))

    def _begun(self, conn: Connection) -> Any:
        """The driver's connection, in a transaction; from now on the SQL is there."""
        if not self._sql:
            self._compile(conn.dialect)
        raw: Any = conn.connection.dbapi_connection
        if not (raw.in_transaction or conn.in_transaction()):
            conn.begin()
        return raw

    def _values(self, parameters: Mapping[str, Any]) -> Sequence[Any]:
        if not self._fixed and not self._writers:
            return self._ordered(parameters)
        values = {**self._fixed, **parameters}
        for name, write in self._writers:
            values[name] = write(values[name])
        return self._ordered(values)

    def _compile(self, driver: DriverDialect) -> None:
        dialect_class: Callable[..., DriverDialect] = type(driver)
        dialect = dialect_class(paramstyle="qmark")
        compiled = self.statement.compile(dialect=dialect, column_keys=list(self._sets) or None)
        columns = self.statement.exported_columns
        readers = ((str(column.key), _reader_of(column.type, dialect)) for column in columns)
        positions = compiled.positiontup or ()  # a value that an update sets is among the binds under a second name
        writers = ((name, _writer_of(bind.type, dialect)) for name, bind in compiled.binds.items() if name in positions)
        self._ordered = _picker(positions)
        self._names = [str(column.key) for column in columns]
        self._readers = [(name, read) for name, read in readers if read is not None]
        self._writers = [(name, write) for name, write in writers if write is not None]
        supplied = {*self._sets, *(name for name, bind in compiled.binds.items() if bind.required)}
        self._fixed = {name: value for name, value in compiled.params.items() if name not in supplied}
        self._sql = str(compiled)  # last: a thread that sees it finds the rest


def one_of(column: ColumnElement[Any], values: Iterable[str]) -> ColumnElement[bool]:
    """Whether a column has one of these values: as :meth:`~sqlalchemy.ColumnElement.in_`, but compiled only once."""
    return column.in_([literal(str(value)) for value in values])


def _picker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Sequence[Any]]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: [values[name] for name in names]


def _reader_of(kind: Any, dialect: DriverDialect) -> Convert | None:
    if isinstance(kind, JSON):
        return _from_json
    convert: Convert | None = kind.dialect_impl(dialect).result_processor(dialect, None)
    return convert


def _from_json(text: str | None) -> Any:
    if text == "{}":  # most values; parsing one takes longer than fetching its row
        return {}
    if text == "[]":
        return []
    return None if text is None else json.loads(text)


def _to_json(value: Any) -> str:
    try:
        return to_json(value).decode()
    except ValueError:  # half a surrogate pair, of a name that is no UTF-8; or too deep for it
        return json.dumps(value)


def _writer_of(kind: Any, dialect: DriverDialect) -> Convert | None:
    if isinstance(kind, JSON):
        return _to_json
    if isinstance(kind, Boolean):  # the driver takes it as it is
        return None
    convert: Convert | None = kind.dialect_impl(dialect).bind_processor(dialect)
    return convert
