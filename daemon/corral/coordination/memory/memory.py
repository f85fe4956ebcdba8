"""Memory: lessons that agents record, and later sessions find.

How relevant a memory is, from 0 to 1::

    relevance = words × tags × e^(−0.1 · days)

``words``: the share of the query's words that occur in summary or lessons (1 without a query); ``tags``: the share of the
query's tags that it has (1 without tags); ``days`` since it was last recorded. A memory without any of the words, or any of
the tags, does not match.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks.table import Holder
from corral.coordination.memory import api
from corral.coordination.memory import store as memory_rows
from corral.coordination.memory.api import MAX_LESSONS
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.actor import Actor
from corral.coordination.sessions.store import traces
from corral.core.errors import InvalidInput
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import iso, parse
from corral.core.payload import Payload, picked
from corral.core.redaction import redact_values
from corral.store import events
from corral.store.rows import Columns
from corral.store.rows.records import MemoryRow
from corral.store.rows.sessions import SessionRow

SAME_FOR_S = 3600.0
"""A lesson that its agent repeats within this time is the same memory, recorded once more."""
DECAY_PER_DAY = 0.1
LIMIT = 32_000
"""Characters of a whole memory."""
MAX_TAGS, MAX_TAG = 32, 128
"""How many, and how many characters of one."""
MAX_WORDS = 16
"""Words of a query that count, the longest ones."""
MAX_SHOWN = 100
_TYPE = re.compile(r"[a-z][a-z0-9_.-]{0,31}")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Memory:
    """A lesson to remember.

    Attributes:
        event_type: Its kind: ``discovery``, ``decision``, ``error``, …
        details: Anything that JSON can hold.
    """

    summary: str
    event_type: str = "discovery"
    details: Any = None
    outcome: str | None = None
    lessons: Sequence[str] = field(default=())
    tags: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Question:
    """A query; empty: the newest memories."""

    query: str = ""
    tags: Sequence[str] = ()
    event_type: str | None = None
    limit: int = 10
    min_relevance: float = 0.0


def remember(conn: Connection, session: SessionRow, entry: Memory, now: datetime) -> tuple[MemoryRow, bool]:
    """Keep a memory. The same summary of the same kind from the same agent within an hour is one memory: ``times`` counts.

    Args:
        session: The row of who tells it.

    Returns:
        The memory, and whether it is a new one.

    Raises:
        InvalidInput: No summary, too much of something, or details that are no JSON.
    """
    entry = _checked(entry)
    name = traces.called(conn, session)
    digest = hashlib.sha256("\0".join((name, entry.event_type, " ".join(entry.summary.split()))).encode()).hexdigest()
    twin = memory_rows.recent_twin(conn, digest, iso(now - timedelta(seconds=SAME_FOR_S)))
    if twin is not None:
        updated = memory_rows.tell_again(conn, twin["memory_id"], _merged(twin, entry, now))
        return _stored(conn, updated, session, now), False
    values = {
        **vars(entry),
        "memory_id": new_id(),
        "session_id": session["session_id"],
        "agent_name": name,
        "digest": digest,
        "times": 1,
        "created_at": iso(now),
        "seen_at": iso(now),
    }
    return _stored(conn, memory_rows.create(conn, values), session, now), True


def _stored(conn: Connection, row: MemoryRow, session: SessionRow, now: datetime) -> MemoryRow:
    memory_id, author = row["memory_id"], row["agent_name"]
    stored = EventKind.MEMORY_STORED(
        {"memory_id": memory_id, "agent_name": author, "event_type": row["event_type"], "times": row["times"]}
    )
    events.record(conn, now, stored, session_id=session["session_id"])
    return row


def recall(conn: Connection, question: Question, now: datetime) -> list[Payload]:
    """Memories by their relevance, the most relevant first, the newest first among equals.

    Raises:
        InvalidInput: An impossible limit or threshold.
    """
    if not 1 <= question.limit <= MAX_SHOWN or not 0 <= question.min_relevance <= 1:
        raise InvalidInput(
            f"A limit of {question.limit} and a relevance of {question.min_relevance:g} are not possible together.",
            remedy=f"The limit is 1 to {MAX_SHOWN}, the relevance 0 to 1.",
        )
    tags = _plain_tags(question.tags)
    shares = _shares(conn, question.query) if question.query.strip() else None
    event_type = question.event_type.strip().lower() if question.event_type else None
    limit = memory_rows.LOOKED_AT if tags[1:] or shares is not None else question.limit
    relevant: dict[int, float] = {}
    equals: Counter[float] = Counter()
    for seq, seen_at, tag_count in memory_rows.candidates(
        conn, seqs=shares, tags=tags, event_type=event_type, limit=limit
    ):
        share = (shares[seq] if shares is not None else 1.0) * (tag_count / len(tags) if tags else 1.0)
        equals[share] += 1
        if equals[share] > question.limit:
            continue  # equal shares: the newest are the most relevant, and came first
        days = max(0.0, (now - parse(seen_at)).total_seconds() / 86_400)
        relevance = share * math.exp(-DECAY_PER_DAY * days)
        if relevance >= question.min_relevance:
            relevant[seq] = relevance
    best = sorted(relevant, key=lambda seq: relevant[seq], reverse=True)[: question.limit]
    memories = memory_rows.whole(conn, best)
    return [wire({**memories[seq], "relevance": round(relevant[seq], 4)}) for seq in best]


def wire(row: Mapping[str, Any]) -> Payload:
    """A memory as every surface shows it."""
    return picked(row, api.Memory.__annotations__)


def _shares(conn: Connection, query: str) -> dict[int, float]:
    """By ``seq``: the share of the query's words that occur in a memory."""
    words = sorted(dict.fromkeys(_WORD.findall(query.lower())), key=len, reverse=True)[:MAX_WORDS]
    counts = Counter(seq for word in words for seq in memory_rows.with_words(conn, word))
    # A memory with all of them may be older than the newest with one.
    for seq in memory_rows.with_words(conn, " ".join(words)) if words[1:] else ():
        counts[seq] = len(words)
    best = heapq.nlargest(memory_rows.LOOKED_AT, ((count, seq) for seq, count in counts.items()))
    return {seq: count / len(words) for count, seq in best}


def _merged(twin: MemoryRow, entry: Memory, now: datetime) -> Columns:
    return {
        "details": entry.details if entry.details is not None else twin["details"],
        "outcome": entry.outcome or twin["outcome"],
        "lessons": _latest(twin["lessons"], entry.lessons, MAX_LESSONS, LIMIT),
        "tags": _latest(twin["tags"], entry.tags, MAX_TAGS, MAX_TAGS * MAX_TAG),
        "times": twin["times"] + 1,
        "seen_at": iso(now),
    }


def _latest(before: Sequence[str], now: Sequence[str], most: int, characters: int) -> list[str]:
    """The lessons, each once, the last ones if not all are kept."""
    latest: list[str] = []
    for text in reversed(dict.fromkeys([*(text for text in before if text not in now), *now])):
        characters -= len(text)
        if len(latest) == most or characters < 0:
            break
        latest.append(text)
    return latest[::-1]


def _checked(entry: Memory) -> Memory:
    kind = entry.event_type.strip().lower()
    if not entry.summary.strip():
        raise InvalidInput("A memory needs a summary.", remedy="Say in a sentence what is worth knowing.")
    if not _TYPE.fullmatch(kind):
        raise InvalidInput(
            f"{entry.event_type[:80]!r} cannot be the type of a memory.",
            cause="A type is one word of at most 32 letters, digits, dots, dashes and underscores.",
            remedy="Use `discovery`, `decision` or `error`, for example.",
        )
    lessons = [lesson.strip() for lesson in entry.lessons if lesson.strip()]
    size = len(entry.summary) + len(entry.outcome or "") + sum(map(len, lessons)) + len(_as_json(entry.details))
    if size > LIMIT:
        raise InvalidInput(
            f"A memory has at most {LIMIT} characters; this one has {size}.",
            cause="Later sessions have to read it.",
            remedy="Keep what was learnt, and name files for the rest.",
        )
    tags = _plain_tags(entry.tags)
    # Every later session may be shown it, and for a secret there is no use in that.
    return Memory(
        **redact_values(vars(Memory(entry.summary.strip(), kind, entry.details, entry.outcome, lessons, tags)))
    )


def _as_json(details: Any) -> str:
    try:
        text = json.dumps(redact_values(details), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput("The details cannot be kept.", cause=f"They are no plain JSON: {error}.") from error
    return text


def _plain_tags(tags: Iterable[str]) -> list[str]:
    plain = list(dict.fromkeys(tag.strip().lower() for tag in tags if tag.strip()))
    if len(plain) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in plain):
        raise InvalidInput(
            "The tags cannot be used.", cause=f"There are at most {MAX_TAGS}, of {MAX_TAG} characters each."
        )
    return plain


# -- Memory: facts that a session records for later ones


async def keep(actor: Actor, it: Memory) -> Payload:
    """Record a memory; ``action`` is ``created``, or ``deduplicated`` if it was recorded within the hour."""
    now = actor.services.now()

    def write(conn: Connection, me: Holder) -> Payload:
        row, is_new = remember(conn, session_registry.find(conn, me.session_id), it, now)
        return {"success": True, "memory_id": row["memory_id"], "action": "created" if is_new else "deduplicated"}

    return await actor.write(write)
