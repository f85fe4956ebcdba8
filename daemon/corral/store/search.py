"""Search by words: what each database has for it. SQLite: FTS5 tables beside the real ones, kept in step by triggers."""

from __future__ import annotations

import re

from sqlalchemy import Connection, text

_WORD = re.compile(r"\w+", re.UNICODE)
_INDEXED = {"messages": ("subject", "body"), "memories": ("summary", "lessons")}
"""Searched tables and columns; each table has an integer key ``seq``."""


def create_indexes(conn: Connection) -> None:
    """Make the search indexes; for the migration that makes the tables."""
    if conn.dialect.name != "sqlite":
        return
    for table, columns in _INDEXED.items():
        names = ", ".join(columns)
        new = ", ".join(f"new.{column}" for column in columns)
        old = ", ".join(f"old.{column}" for column in columns)
        forget = f"INSERT INTO {table}_fts({table}_fts, rowid, {names}) VALUES ('delete', old.seq, {old})"
        learn = f"INSERT INTO {table}_fts(rowid, {names}) VALUES (new.seq, {new})"
        for statement in (
            f"CREATE VIRTUAL TABLE {table}_fts USING fts5({names}, content='{table}', content_rowid='seq')",
            f"CREATE TRIGGER {table}_fts_insert AFTER INSERT ON {table} BEGIN {learn}; END",
            f"CREATE TRIGGER {table}_fts_delete AFTER DELETE ON {table} BEGIN {forget}; END",
            f"CREATE TRIGGER {table}_fts_update AFTER UPDATE OF {names} ON {table} BEGIN {forget}; {learn}; END",
        ):
            conn.execute(text(statement))


def matching(conn: Connection, table: str, words: str, limit: int = 200, *, newest: bool = False) -> list[int]:
    """The ``seq`` of the rows that hold all the words, the best first.

    Args:
        table: One of those that are indexed.
        words: As a person types them; nothing in it is an operator, the last word may be a beginning.
        newest: The newest first instead: then what is found does not have to be weighed, which takes most of the time.
    """
    columns = _INDEXED[table]
    tokens = _WORD.findall(words)[:32]
    if not tokens:
        return []
    if conn.dialect.name == "sqlite":
        quoted = [f'"{token}"' for token in tokens]
        order = "rowid DESC" if newest else "rank, rowid DESC"
        query = text(f"SELECT rowid FROM {table}_fts WHERE {table}_fts MATCH :match ORDER BY {order} LIMIT :limit")
        given = {"match": " ".join(quoted) + "*", "limit": limit}
    else:
        document = " || ' ' || ".join(f"CAST({column} AS TEXT)" for column in columns)
        query = text(
            f"SELECT seq FROM {table} WHERE to_tsvector('simple', {document}) @@ plainto_tsquery('simple', :match) "
            "ORDER BY seq DESC LIMIT :limit"
        )
        given = {"match": " ".join(tokens), "limit": limit}
    return [int(row[0]) for row in conn.execute(query, given)]
