"""SQL for reading mail: inboxes, threads and the whole project's, from a place on, a few messages at a time.

Which messages there are is asked first, and what they say only for as many as are looked at: bodies are large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Select, String, and_, bindparam, func, or_, select

from corral.models.states import RecipientRole
from corral.store.engine.json_rows import json_row
from corral.store.engine.prepared import Prepared
from corral.store.schema_coordination import message_recipients, messages
from corral.store.sessions.messages import STATE

Row = dict[str, Any]
_NEVER_SENT = 2**31 - 1
"""A number that no message has."""
AT_ONCE = 16
"""Bodies that are read in one go."""
_m, _r = messages.c, message_recipients.c
_SHOWN = {
    **{column.key: column for column in _m if column.key not in ("idempotency_key", "digest")},
    "addressed": _r.name.label("addressed"), "role": _r.role, "state": STATE,
}  # fmt: skip
"""Of a message in an inbox: each column takes as long as a tenth of finding the row."""


def inbox(
    conn: Connection,
    session_id: str | None,
    *,
    blind: bool = True,
    importances: Sequence[str] = (),
    unread: bool = False,
    overdue_at: str | None = None,
    since: str | None = None,
    after: int | None = None,
    before: tuple[int, str] | None = None,
    limit: int = 20,
    written: Mapping[str, str] | None = None,
) -> Iterator[Row]:
    """Messages to a session, or to anybody, the newest first; each with how it was addressed and its ``state``; to anybody once
    for each.

    Args:
        blind: Whether blind copies are among them.
        overdue_at: Only those sent before this instant whose acknowledgement was asked for, and has not come.
        since: Only those sent after this instant.
        after: Only those with a higher number.
        before: Only those behind this number and this name of a recipient.
        written: Of one session's: names, and the columns that stand under them; then each is ``{id, to, text}``, the text a JSON
            object.
    """
    if session_id is None and before is None:
        before = (_NEVER_SENT, "")  # without a bound SQLite sorts them all, bodies too
    asked = _inbox(
        session_id is not None,
        blind,
        tuple(importances),
        unread,
        overdue_at is not None,
        since is not None,
        after is not None,
        before is not None,
        conn.dialect.name,
        tuple((written or {}).items()),
    )
    number, name = before or (None, None)
    given = {
        "whose": session_id, "overdue_at": overdue_at, "since": since, "after": after, "number": number, "behind": name,
        "limit": limit,
    }  # fmt: skip
    found = asked.each(conn, {key: value for key, value in given.items() if value is not None})
    return found if session_id is not None else _filled(conn, found)


@cache
def _inbox(
    one: bool,
    blind: bool,
    importances: tuple[str, ...],
    unread: bool,
    overdue: bool,
    since: bool,
    after: bool,
    before: bool,
    dialect: str,
    written: tuple[tuple[str, str], ...],
) -> Prepared:
    seq = _r.seq if one else _m.seq  # by whose index the newest come first, read no further than is asked for
    shown: Sequence[ColumnElement[Any]] = list(_SHOWN.values())
    if not one:  # they are sorted by the names of their recipients: no bodies among them
        shown = (_m.seq, _SHOWN["addressed"], _r.role, STATE)
    elif written:
        text = json_row(dialect, {name: _SHOWN[key] for name, key in written})
        shown = (_m.seq.label("id"), _r.name.label("to"), text.label("text"))
    query = select(*shown).join(message_recipients, _r.seq == _m.seq)
    query = query.order_by(seq.desc(), *(() if one else (_r.name,))).limit(bindparam("limit", type_=Integer))
    if one:
        query = query.where(_r.session_id == bindparam("whose"))
    if not blind:
        query = query.where(_r.role != RecipientRole.BCC)
    if importances:
        query = query.where(or_(*(_m.importance == importance for importance in importances)))
    if unread:
        query = query.where(and_(_r.read_at.is_(None), _r.acknowledged_at.is_(None)))
    if overdue:
        late = and_(_m.ack_required, _r.acknowledged_at.is_(None), _m.created_at < bindparam("overdue_at"))
        query = query.where(late)
    if since:
        query = query.where(_m.created_at > bindparam("since"))
    if after:
        query = query.where(seq > bindparam("after"))
    if before:
        number, behind = bindparam("number", type_=Integer), bindparam("behind", type_=String)
        query = query.where(or_(seq < number, and_(seq == number, _r.name > behind)))
    return Prepared(query)


def thread(conn: Connection, thread_id: str, *, before: int | None = None, limit: int = 1000) -> Iterator[Row]:
    """The messages of a thread, the newest first.

    Args:
        before: Only those with a lower number.
    """
    query = select(_m.seq).where(_m.thread_id == thread_id).order_by(_m.seq.desc()).limit(limit)
    return _whole(conn, query if before is None else query.where(_m.seq < before))


def headings(conn: Connection, thread_id: str, limit: int = 1000) -> list[Row]:
    """Who wrote the last messages of a thread, and about what: ``{sender_name, subject, ack_required}``, the oldest first."""
    query = select(_m.sender_name, _m.subject, _m.ack_required).where(_m.thread_id == thread_id)
    found = conn.execute(query.order_by(_m.seq.desc()).limit(limit)).mappings()
    return [dict(row) for row in found][::-1]


def how_many(conn: Connection, thread_id: str) -> int:
    """Messages of a thread."""
    return int(conn.execute(select(func.count()).select_from(messages).where(_m.thread_id == thread_id)).scalar_one())


def _whole(conn: Connection, query: Select[Any]) -> Iterator[Row]:
    """The messages that a query names by their numbers, in its order, with what else it says of each."""
    return _filled(conn, (dict(row) for row in conn.execute(query).mappings()))


def _filled(conn: Connection, named: Iterator[Row]) -> Iterator[Row]:
    while some := list(islice(named, AT_ONCE)):
        numbers = {f"number{place}": row["seq"] for place, row in enumerate(some)}
        found = {row["seq"]: row for row in _numbered(len(some)).all(conn, numbers)}
        yield from ({**found[row["seq"]], **row} for row in some if row["seq"] in found)


@cache
def _numbered(many: int) -> Prepared:
    numbers = [bindparam(f"number{place}", type_=Integer) for place in range(many)]
    return Prepared(select(messages).where(_m.seq.in_(numbers)))


def numbered(conn: Connection, numbers: Sequence[int]) -> Iterator[Row]:
    """Messages by their numbers, in that order; what is not there is left out."""
    return _filled(conn, ({"seq": number} for number in numbers))
