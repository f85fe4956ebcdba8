"""Search by words: what each database has for it, finding the same.

SQLite: FTS5 tables beside the real ones, kept in step by triggers, but for rows that come often: those are learned many at
once, since one by one they cost more than all else about them; who searches sees first to the rest. PostgreSQL: a column
that it keeps itself. Both fold case and diacritics, and take for a word what stands between anything else than letters and
digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection, text

from corral.store.engine.dialect import Dialect, dialect_of

_PUNCTUATION = r"\u0001-/:-@\[-`{-\u00a9\u00ab-\u00b4\u00b6-\u00b9\u00bb-\u00bf\u00d7\u00f7\u2000-\u206f\u3000-\u3003"
"""And what else is no word, in the notation of both Python's and PostgreSQL's expressions."""
_WORD = re.compile(rf"[^\s\0{_PUNCTUATION}\ud800-\udfff]+")
_TERM = re.compile(rf'"(?P<phrase>[^"]*)"|(?P<operator>\b(?:AND|OR|NOT)\b)|(?P<word>(?:{_WORD.pattern}|_)+)')
MOST_TERMS = 32
_INDEXED = {"messages": ("subject", "body"), "memories": ("summary", "lessons")}
"""Searched tables and columns; each table has an integer key ``seq``."""
_OFTEN = ("messages",)
"""Tables whose new rows are learned by :func:`learn`."""
AT_ONCE = 1024
"""Rows that are learned in one go."""


class _Term(NamedTuple):
    words: list[str]
    """In a row."""
    begins: bool
    """The last of the words may go on."""


class _Language(NamedTuple):
    """How a database is asked."""

    quoted: str
    then: str
    """Between words in a row,"""
    goes_on: str
    """behind a word that may go on,"""
    operators: dict[str, str]
    """and before what is looked for; "": before the first."""
    found: str
    """The rows that match, to be completed by an order and a limit,"""
    best: str
    newest: str


_LANGUAGES = {
    Dialect.SQLITE: _Language(
        '"{}"', " ", "*", {"": "", "AND": " AND ", "OR": " OR ", "NOT": " NOT "},
        "SELECT rowid FROM {table}_fts WHERE {table}_fts MATCH :match",
        "rank, rowid DESC",
        "rowid DESC",
    ),
    Dialect.POSTGRESQL: _Language(
        "'{}'", "' <-> '", ":*", {"": "", "AND": " & ", "OR": " | ", "NOT": " & !"},
        "SELECT seq FROM {table} WHERE {table}_fts @@ to_tsquery('simple', :match)",
        "ts_rank({table}_fts, to_tsquery('simple', :match), 1) DESC, seq DESC",
        "seq DESC",
    ),
}  # fmt: skip


def create_indexes(conn: Connection) -> None:
    """Make the search indexes; for who makes the tables."""
    indexes = _INDEXES[dialect_of(conn)]
    for table, columns in _INDEXED.items():
        for statement in indexes(table, columns):
            conn.execute(text(statement))


def _fts5(table: str, columns: Sequence[str]) -> list[str]:
    names = ", ".join(columns)
    new = ", ".join(f"new.{column}" for column in columns)
    old = ", ".join(f"old.{column}" for column in columns)
    forget = f"INSERT INTO {table}_fts({table}_fts, rowid, {names}) VALUES ('delete', old.seq, {old})"
    learn = f"INSERT INTO {table}_fts(rowid, {names}) VALUES (new.seq, {new})"
    options = f"content='{table}', content_rowid='seq', tokenize='unicode61 remove_diacritics 2'"
    known = f" WHEN EXISTS (SELECT 1 FROM {table}_fts_docsize WHERE id = old.seq)" if table in _OFTEN else ""
    triggers = {
        "insert": f"AFTER INSERT ON {table} BEGIN {learn}; END",
        "delete": f"AFTER DELETE ON {table}{known} BEGIN {forget}; END",
        "update": f"AFTER UPDATE OF {names} ON {table}{known} BEGIN {forget}; {learn}; END",
    }
    if table in _OFTEN:
        del triggers["insert"]
    return [
        f"CREATE VIRTUAL TABLE {table}_fts USING fts5({names}, {options})",
        *(f"CREATE TRIGGER {table}_fts_{kind} {trigger}" for kind, trigger in triggers.items()),
    ]


def _tsvector(table: str, columns: Sequence[str]) -> list[str]:
    # Its parser knows hosts, paths and addresses by their punctuation, and would find none of the words in them.
    document = " || ' ' || ".join(f"CAST({column} AS text)" for column in columns)
    folded = f"normalize(regexp_replace(normalize({document}, NFD), '[\\u0300-\\u036f]+', '', 'g'), NFC)"
    words = f"to_tsvector('simple', regexp_replace({folded}, '[{_PUNCTUATION}]+', ' ', 'g'))"
    return [
        f"ALTER TABLE {table} ADD COLUMN {table}_fts tsvector GENERATED ALWAYS AS ({words}) STORED",
        f"CREATE INDEX ix_{table}_fts ON {table} USING gin ({table}_fts)",
    ]


_INDEXES = {Dialect.SQLITE: _fts5, Dialect.POSTGRESQL: _tsvector}


def behind(conn: Connection, table: str) -> int:
    """How many rows of a table the index has not learned yet."""
    if dialect_of(conn) is not Dialect.SQLITE:
        return 0
    return int(conn.execute(text(f"SELECT count(*) FROM ({_UNLEARNED.format(table)})")).scalar_one())


def learn(conn: Connection, table: str) -> None:
    """Let the index learn the next :data:`AT_ONCE` rows of a table."""
    if dialect_of(conn) is Dialect.SQLITE:
        columns = ", ".join(_INDEXED[table])
        some = (
            f"SELECT seq, {columns} FROM {table} WHERE seq IN ({_UNLEARNED.format(table)} ORDER BY seq LIMIT {AT_ONCE})"
        )
        conn.execute(text(f"INSERT INTO {table}_fts(rowid, {columns}) {some}"))


_UNLEARNED = "SELECT seq FROM {0} WHERE seq > (SELECT coalesce(max(id), 0) FROM {0}_fts_docsize)"


def matching(conn: Connection, table: str, words: str, limit: int = 200, *, newest: bool = False) -> list[int]:
    """The ``seq`` of the rows that hold all the words, the best first.

    Args:
        table: One of those that are indexed.
        words: As a person types them: all are looked for, the last of them as a beginning. ``"several words"`` in a row,
            ``OR``, ``AND`` and ``NOT`` between words mean what they say; nothing else is an operator.
        newest: The newest first instead: then what is found does not have to be weighed, which takes most of the time.
    """
    language = _LANGUAGES[dialect_of(conn)]
    asked = _expression(words, language)
    if not asked:
        return []
    order = language.newest if newest else language.best
    query = f"{language.found} ORDER BY {order} LIMIT :limit".format(table=table)
    return [int(row[0]) for row in conn.execute(text(query), {"match": asked, "limit": limit})]


def _expression(words: str, language: _Language) -> str:
    def said(term: _Term) -> str:
        quoted = language.quoted.format(language.then.join(term.words))
        return f"{quoted}{language.goes_on}" if term.begins else quoted

    every = language.operators["AND"]
    return "".join(
        f"{language.operators[operator]}({every.join(map(said, terms))})" for operator, terms in _parsed(words)
    )


def _parsed(words: str) -> list[tuple[str, list[_Term]]]:
    """Terms that all must occur, with the operator before them; one with nothing on one of its sides is left out."""
    groups: list[tuple[str, list[_Term]]] = []
    operator = ""
    matches = list(islice(_TERM.finditer(words), MOST_TERMS))
    for match in matches:
        if match["operator"]:
            operator = match["operator"] if groups else ""
        elif found := [word for word in _WORD.findall(_folded(match[0])) if any(map(str.isalnum, word))]:
            if operator or not groups:
                groups.append((operator, []))
            groups[-1][1].append(_Term(found, match["word"] is not None and match is matches[-1]))
            operator = ""
    return groups


def _folded(words: str) -> str:
    """Without diacritics."""
    plain = re.sub("[\u0300-\u036f]+", "", unicodedata.normalize("NFD", words))
    return unicodedata.normalize("NFC", plain)
