"""Search by words: what each database has for it. SQLite: FTS5 tables beside the real ones, kept in step by triggers."""

from __future__ import annotations

import re
from itertools import islice

from sqlalchemy import Connection, text

_WORD = re.compile(r"\w+", re.UNICODE)
_TERM = re.compile(r'"(?P<phrase>[^"]*)"|(?P<operator>\b(?:AND|OR|NOT)\b)|(?P<word>\w+)')
MOST_TERMS = 32
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
        words: As a person types them: all are looked for, the last of them as a beginning. ``"several words"`` in a row,
            ``OR``, ``AND`` and ``NOT`` between words mean what they say; nothing else is an operator.
        newest: The newest first instead: then what is found does not have to be weighed, which takes most of the time.
    """
    columns = _INDEXED[table]
    asked = _expression(words)
    if not asked:
        return []
    if conn.dialect.name == "sqlite":
        order = "rowid DESC" if newest else "rank, rowid DESC"
        query = text(f"SELECT rowid FROM {table}_fts WHERE {table}_fts MATCH :match ORDER BY {order} LIMIT :limit")
    else:
        document = " || ' ' || ".join(f"CAST({column} AS TEXT)" for column in columns)
        query = text(
            f"SELECT seq FROM {table} WHERE to_tsvector('simple', {document}) @@ websearch_to_tsquery('simple', :match) "
            "ORDER BY seq DESC LIMIT :limit"
        )
        asked = words
    return [int(row[0]) for row in conn.execute(query, {"match": asked, "limit": limit})]


def _expression(words: str) -> str:
    """What was typed as an expression of FTS5; an operator with nothing on one of its sides is left out."""
    terms: list[str] = []
    for match in islice(_TERM.finditer(words), MOST_TERMS):
        if match["operator"]:
            if terms and terms[-1].startswith('"'):
                terms.append(match["operator"])
        elif found := _WORD.findall(match["phrase"] or match["word"] or ""):
            beginning = "*" if match["word"] and match.end() == len(words.rstrip()) else ""
            terms.append(f'"{" ".join(found)}"{beginning}')
    while terms and not terms[-1].startswith('"'):
        terms.pop()
    return " ".join(terms)
