"""SQL for memories: facts that agents recorded, shared by the whole project."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, literal, select, type_coerce, union_all, update
from sqlalchemy.types import NULLTYPE

from corral.store.engine import search
from corral.store.engine.fetch import fetch_each, fetch_first, fetch_one
from corral.store.rows.records import MemoryRow
from corral.store.schema_coordination import memories, memory_tags

LOOKED_AT = 1000
"""The newest memories that a search looks at: of all that have a word, for each word, and of those that have all of them."""
_m, _t = memories.c, memory_tags.c


def create(conn: Connection, values: Mapping[str, Any]) -> MemoryRow:
    """Insert a memory; ``values`` holds every column that is not null, but for ``seq``."""
    row = fetch_one(conn, insert(memories).values(**_searchable(values)).returning(memories), MemoryRow)
    _tag(conn, row)
    return row


def recent_twin(conn: Connection, digest: str, since: str) -> MemoryRow | None:
    """A memory with the same digest that was recorded at or after an instant."""
    query = select(memories).where(_m.digest == digest, _m.seen_at >= since).order_by(_m.seen_at.desc()).limit(1)
    return fetch_first(conn, query, MemoryRow)


def tell_again(conn: Connection, memory_id: str, values: Mapping[str, Any]) -> MemoryRow:
    """Update a memory that was recorded again."""
    query = update(memories).where(_m.memory_id == memory_id).values(**_searchable(values)).returning(memories)
    row = fetch_one(conn, query, MemoryRow)
    conn.execute(delete(memory_tags).where(_t.seq == row["seq"]))
    _tag(conn, row)
    return row


def candidates(
    conn: Connection, *, seqs: Collection[int] | None, tags: Sequence[str], event_type: str | None, limit: int
) -> list[tuple[int, str, int]]:
    """The relevance of memories: ``seq``, ``seen_at``, and how many of the tags each has; the latest recorded first.

    Args:
        seqs: Only these; None: all.
        tags: Only those that have one of these.
    """
    if tags:
        newest = [select(_newest_with(tag).subquery()) for tag in tags]
        those = select(_t.seq, _t.seen_at).where(_t.seq.in_(seqs or ()), _t.tag.in_(tags))
        tagged = (union_all(*newest) if seqs is None else those).subquery()
        its: Any = tagged.c
        query = select(its.seq, its.seen_at, func.count()).group_by(its.seq, its.seen_at)
        if event_type is not None:
            query = query.join(memories, _m.seq == its.seq)
    else:
        its = _m
        query = select(its.seq, its.seen_at, literal(0))
        if seqs is not None:
            query = query.where(its.seq.in_(seqs))
    if event_type is not None:
        query = query.where(_m.event_type == event_type)
    rows = conn.execute(query.order_by(its.seen_at.desc(), its.seq.desc()).limit(limit))
    return [(int(row[0]), str(row[1]), int(row[2])) for row in rows]


def _newest_with(tag: str) -> Select[tuple[int, str]]:
    newest = select(_t.seq, _t.seen_at).where(_t.tag == tag)
    return newest.order_by(_t.seen_at.desc(), _t.seq.desc()).limit(LOOKED_AT)


def whole(conn: Connection, seqs: Collection[int]) -> dict[int, MemoryRow]:
    """Memories by their ``seq``."""
    rows = fetch_each(conn, select(memories).where(_m.seq.in_(seqs)), MemoryRow)
    return {row["seq"]: row for row in rows}


def with_words(conn: Connection, words: str) -> list[int]:
    """The ``seq`` of the newest memories in which words occur, or the last one begins one that does."""
    return search.matching(conn, "memories", words, LOOKED_AT, newest=True)


def _searchable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Lessons are searched as they are stored: as JSON, but with every letter as it is written."""
    return {**values, "lessons": type_coerce(json.dumps(values["lessons"], ensure_ascii=False), NULLTYPE)}


def _tag(conn: Connection, row: MemoryRow) -> None:
    its = {"seq": row["seq"], "seen_at": row["seen_at"]}
    if row["tags"]:
        conn.execute(insert(memory_tags), [{**its, "tag": tag} for tag in row["tags"]])
