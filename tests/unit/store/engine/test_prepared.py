"""Prepared statements give the rows that SQLAlchemy gives."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
    update,
)

from corral.store.engine.prepared import Prepared
from tests.support.steps import only_sqlite

metadata = MetaData()
things = Table(
    "things",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("name", String, nullable=False),
    Column("kept", Boolean, nullable=False),
    Column("more", JSON, nullable=False),
)
_ADD = Prepared[dict[str, Any]](insert(things).returning(things), "name", "kept", "more")
_FIND = Prepared[dict[str, Any]](select(things).where(things.c.name == bindparam("which"), things.c.kept.is_(True)))


class Colour(str, Enum):
    RED = "red"


@pytest.fixture
def conn(any_database: Connection) -> Connection:
    metadata.create_all(any_database)
    return any_database


def test_rows_are_those_of_sqlalchemy_with_every_type_read_and_written(conn: Connection) -> None:
    more = {"a": [1, None, "ü"]}
    added = _ADD.one(conn, {"name": "one", "kept": True, "more": more})
    assert added == {"number": 1, "name": "one", "kept": True, "more": more}
    assert isinstance(added["kept"], bool)
    assert [dict(row) for row in conn.execute(select(things)).mappings()] == [added]
    assert _FIND.all(conn, {"which": "one"}) == [added]
    assert _FIND.first(conn, {"which": "another"}) is None


def test_what_stands_in_the_statement_and_what_is_given_are_kept_apart(conn: Connection) -> None:
    _ADD.one(conn, {"name": "one", "kept": True, "more": {}})
    _ADD.one(conn, {"name": "two", "kept": True, "more": {}})
    rename = Prepared[None](
        update(things).where(things.c.name == bindparam("which"), things.c.name != Colour.RED), "name"
    )
    assert rename.change(conn, {"which": "one", "name": "red"}) == 1
    assert rename.change(conn, {"which": "red", "name": "green"}) == 0
    assert Prepared(delete(things)).change(conn, {}) == 2


@only_sqlite
def test_it_runs_in_the_transaction_of_its_connection(conn: Connection) -> None:
    _ADD.one(conn, {"name": "one", "kept": True, "more": {}})
    assert conn.in_transaction()
    conn.rollback()
    assert _FIND.first(conn, {"which": "one"}) is None


def test_a_parameter_that_is_missing_is_an_error(conn: Connection) -> None:
    with pytest.raises(Exception, match="which"):
        _FIND.all(conn, {})
