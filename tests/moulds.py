"""A new database, made once by the product and from then on copied.

To make one takes 0.2 s of processor, and a wait for the disk at each of its hundreds of statements; a suite needs thousands.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.store import migrate


def cast_schema(mould: Path) -> Callable[[], None]:
    """Have this process, and what is forked from it, fill new databases from one that :func:`migrate.open_schema` made.

    Args:
        mould: Where to make it, when the first is wanted.

    Returns:
        What ends that.
    """
    make = migrate.make_schema

    def use(schema: Callable[[Connection], None]) -> None:
        migrate.make_schema = schema

    def cast(conn: Connection) -> None:
        raw: Any = conn.connection.dbapi_connection
        if conn.dialect.name != "sqlite" or raw.in_transaction:
            make(conn)
            return
        if not mould.exists():
            use(make)
            try:
                migrate.open_schema(mould)
            finally:
                use(cast)
        with closing(sqlite3.connect(mould)) as made:
            made.backup(raw)

    use(cast)
    return lambda: use(make)
