"""Search by words, with the same results in both databases.

SQLite: FTS5 tables beside the real ones, updated by triggers. Rows of frequent tables are learned many at once instead, since
one by one that would cost more than the insert itself; a search first learns the missing ones. PostgreSQL: a generated column.
Both fold case and diacritics; a word is a run of letters and digits.
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
"""Characters that belong to no word, in a notation for both Python's and PostgreSQL's regular expressions."""
_WORD = re.compile(rf"[^\s\0{_PUNCTUATION}\ud800-\udfff]+")
_TERM = re.compile(rf'"(?P<phrase>[^"]*)"|(?P<operator>\b(?:AND|OR|NOT)\b)|(?P<word>(?:{_WORD.pattern}|_)+)')
MOST_TERMS = 32
_INDEXED = {"messages": ("subject", "body"), "memories": ("summary", "lessons")}
"""Searched tables and columns; each table has an integer key ``seq``."""
_OFTEN = ("messages",)
"""Tables whose new rows are learned by :func:`learn`."""
AT_ONCE = 1024
"""Maximum number of rows that are learned in one write."""


class _Term(NamedTuple):
    words: list[str]
    """A phrase, if there are several."""
    begins: bool
    """Whether the last word is a prefix."""


class _Language(NamedTuple):
    """The search syntax of a database."""

    quoted: str
    then: str
    """Between the words of a phrase."""
    goes_on: str
    """After a word that is a prefix."""
    operators: dict[str, str]
    """Before a term, by the operator; "": before the first term."""
    select: str
    """The matching rows, to be completed by an order and a limit."""
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
    """Create the search indexes; called when the tables are created."""
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
    if_learned = f" WHEN EXISTS (SELECT 1 FROM {table}_fts_docsize WHERE id = old.seq)" if table in _OFTEN else ""
    triggers = {
        "insert": f"AFTER INSERT ON {table} BEGIN {learn}; END",
        "delete": f"AFTER DELETE ON {table}{if_learned} BEGIN {forget}; END",
        "update": f"AFTER UPDATE OF {names} ON {table}{if_learned} BEGIN {forget}; {learn}; END",
    }
    if table in _OFTEN:
        del triggers["insert"]
    return [
        f"CREATE VIRTUAL TABLE {table}_fts USING fts5({names}, {options})",
        *(f"CREATE TRIGGER {table}_fts_{kind} {trigger}" for kind, trigger in triggers.items()),
    ]


def _tsvector(table: str, columns: Sequence[str]) -> list[str]:
    # Its parser takes hosts, paths and addresses as one word each, and would not find the words in them.
    document = " || ' ' || ".join(f"CAST({column} AS text)" for column in columns)
    folded = f"normalize(regexp_replace(normalize({document}, NFD), '[\\u0300-\\u036f]+', '', 'g'), NFC)"
    words = f"to_tsvector('simple', regexp_replace({folded}, '[{_PUNCTUATION}]+', ' ', 'g'))"
    return [
        f"ALTER TABLE {table} ADD COLUMN {table}_fts tsvector GENERATED ALWAYS AS ({words}) STORED",
        f"CREATE INDEX ix_{table}_fts ON {table} USING gin ({table}_fts)",
    ]


_INDEXES = {Dialect.SQLITE: _fts5, Dialect.POSTGRESQL: _tsvector}


def count_unlearned(conn: Connection, table: str) -> int:
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
        words: As a person types them: all must occur, the last one as a prefix. ``"several words"`` is a phrase; ``OR``,
            ``AND`` and ``NOT`` between words are the only operators.
        newest: The newest first instead: then rows need no ranking, which takes most of the time.
    """
    language = _LANGUAGES[dialect_of(conn)]
    expression = _expression(words, language)
    if not expression:
        return []
    order = language.newest if newest else language.best
    query = f"{language.select} ORDER BY {order} LIMIT :limit".format(table=table)
    return [int(row[0]) for row in conn.execute(text(query), {"match": expression, "limit": limit})]


def _expression(words: str, language: _Language) -> str:
    def term_text(term: _Term) -> str:
        quoted = language.quoted.format(language.then.join(term.words))
        return f"{quoted}{language.goes_on}" if term.begins else quoted

    conjunction = language.operators["AND"]
    return "".join(
        f"{language.operators[operator]}({conjunction.join(map(term_text, terms))})"
        for operator, terms in _parse(words)
    )


def _parse(words: str) -> list[tuple[str, list[_Term]]]:
    """Groups of terms that must all occur, with the operator before each; one without a term on both sides is ignored."""
    groups: list[tuple[str, list[_Term]]] = []
    operator = ""
    matches = list(islice(_TERM.finditer(words), MOST_TERMS))
    for match in matches:
        if match["operator"]:
            operator = match["operator"] if groups else ""
        elif searched := [word for word in _WORD.findall(_fold(match[0])) if any(map(str.isalnum, word))]:
            if operator or not groups:
                groups.append((operator, []))
            groups[-1][1].append(_Term(searched, match["word"] is not None and match is matches[-1]))
            operator = ""
    return groups


def _fold(words: str) -> str:
    """Without diacritics."""
    plain = re.sub("[\u0300-\u036f]+", "", unicodedata.normalize("NFD", words))
    return unicodedata.normalize("NFC", plain)
