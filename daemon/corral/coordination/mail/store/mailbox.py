"""SQL for reading mail: inboxes, threads and the whole project's, from a place on, a few messages at a time.

Which messages there are is asked first, and what they say only for as many as are looked at: bodies are large.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Integer, String, and_, bindparam, func, or_, select

from corral.coordination.mail.store.messages import STATE
from corral.core.states import RecipientRole
from corral.store.engine.dialect import json_row
from corral.store.engine.fetch import fetch_all, fetch_each
from corral.store.engine.prepared import Prepared
from corral.store.rows.mail import InboxMessage, MessageHeading, MessageRow, WrittenMessage
from corral.store.schema_coordination import message_recipients, messages

R = TypeVar("R")
_NEVER_SENT = 2**31 - 1
"""A number that no message has."""
AT_ONCE = 16
"""Bodies that are read in one go."""
_m, _r = messages.c, message_recipients.c
_SHOWN = {
    **{column.key: column for column in _m if column.key not in ("idempotency_key", "digest")},
    "addressed": _r.name.label("addressed"), "role": _r.role, "state": STATE, "way": _r.way,
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
) -> Iterator[InboxMessage] | Iterator[WrittenMessage]:
    """Messages to a session, or to anybody, the newest first; each with how it was addressed and its ``state``; to anybody once
    for each.

    Args:
        blind: Whether blind copies are among them.
        overdue_at: Only those sent before this instant whose acknowledgement was asked for, and has not come.
        since: Only those sent after this instant.
        after: Only those with a higher number.
        before: Only those behind this number and this name of a recipient.
        written: Of one session's: names, and the columns that stand under them; then each is a :class:`WrittenMessage`.
    """
    if session_id is None and before is None:
        before = (_NEVER_SENT, "")  # without a bound SQLite sorts them all, bodies too
    number, name = before or (None, None)
    bounds = {
        "whose": session_id, "overdue_at": overdue_at, "since": since, "after": after, "number": number, "behind": name,
    }  # fmt: skip
    parameters = {key: value for key, value in bounds.items() if value is not None}
    query = _inbox(frozenset(parameters), blind, tuple(importances), unread, tuple((written or {}).items()))
    rows = query.each(conn, {**parameters, "limit": limit})
    return rows if session_id is not None else _filled(conn, rows, InboxMessage)


@cache
def _inbox(
    bounds: frozenset[str],
    blind: bool,
    importances: tuple[str, ...],
    unread: bool,
    written: tuple[tuple[str, str], ...],
) -> Prepared[Any]:
    of_session = "whose" in bounds
    seq = _r.seq if of_session else _m.seq  # by whose index the newest come first, read no further than is asked for
    columns: Sequence[ColumnElement[Any]] = list(_SHOWN.values())
    if not of_session:  # they are sorted by the names of their recipients: no bodies among them
        columns = (_m.seq, _SHOWN["addressed"], _r.role, STATE, _r.way)
    elif written:
        text = json_row({name: _SHOWN[key] for name, key in written})
        columns = (_m.seq.label("id"), _r.name.label("to"), text.label("text"))
    query = select(*columns).join(message_recipients, _r.seq == _m.seq)
    query = query.order_by(seq.desc(), *(() if of_session else (_r.name,))).limit(bindparam("limit", type_=Integer))
    if of_session:
        query = query.where(_r.session_id == bindparam("whose"))
    if not blind:
        query = query.where(_r.role != RecipientRole.BCC)
    if importances:
        query = query.where(or_(*(_m.importance == importance for importance in importances)))
    if unread:
        query = query.where(and_(_r.read_at.is_(None), _r.acknowledged_at.is_(None)))
    if "overdue_at" in bounds:
        late = and_(_m.ack_required, _r.acknowledged_at.is_(None), _m.created_at < bindparam("overdue_at"))
        query = query.where(late)
    if "since" in bounds:
        query = query.where(_m.created_at > bindparam("since"))
    if "after" in bounds:
        query = query.where(seq > bindparam("after"))
    if "number" in bounds:
        number, behind = bindparam("number", type_=Integer), bindparam("behind", type_=String)
        query = query.where(or_(seq < number, and_(seq == number, _r.name > behind)))
    return Prepared[Any](query)


def outbox(
    conn: Connection, session_id: str, *, since: str | None = None, before: int | None = None, limit: int = 20
) -> Iterator[MessageRow]:
    """Messages that a session sent, the newest first.

    Args:
        since: Only those sent after this instant.
        before: Only those with a lower number.
    """
    query = select(_m.seq).where(_m.sender_session_id == session_id).order_by(_m.seq.desc()).limit(limit)
    if since is not None:
        query = query.where(_m.created_at > since)
    if before is not None:
        query = query.where(_m.seq < before)
    return _filled(conn, fetch_each(conn, query, dict), MessageRow)


def count_unread(conn: Connection, session_id: str) -> int:
    """How many messages a session has not read."""
    unread = (_r.session_id == session_id, _r.read_at.is_(None), _r.acknowledged_at.is_(None))
    return int(conn.execute(select(func.count()).select_from(message_recipients).where(*unread)).scalar_one())


def thread(conn: Connection, thread_id: str, *, before: int | None = None, limit: int = 1000) -> Iterator[MessageRow]:
    """The messages of a thread, the newest first.

    Args:
        before: Only those with a lower number.
    """
    query = select(_m.seq).where(_m.thread_id == thread_id).order_by(_m.seq.desc()).limit(limit)
    if before is not None:
        query = query.where(_m.seq < before)
    return _filled(conn, fetch_each(conn, query, dict), MessageRow)


def headings(conn: Connection, thread_id: str, limit: int = 1000) -> list[MessageHeading]:
    """Authors and subjects of the last messages of a thread, the oldest first."""
    query = select(_m.sender_name, _m.subject, _m.ack_required).where(_m.thread_id == thread_id)
    return fetch_all(conn, query.order_by(_m.seq.desc()).limit(limit), MessageHeading)[::-1]


def how_many(conn: Connection, thread_id: str) -> int:
    """Messages of a thread."""
    return int(conn.execute(select(func.count()).select_from(messages).where(_m.thread_id == thread_id)).scalar_one())


def _filled(conn: Connection, rows: Iterator[dict[str, Any]], kind: type[R]) -> Iterator[R]:
    """The messages that are named by their numbers, in that order, with what else is said of each, but for those gone."""
    while part := list(islice(rows, AT_ONCE)):
        numbers = {f"number{place}": row["seq"] for place, row in enumerate(part)}
        by_number = {row["seq"]: row for row in _numbered(len(part)).all(conn, numbers)}
        filled: Iterator[Any] = ({**by_number[row["seq"]], **row} for row in part if row["seq"] in by_number)
        yield from filled


@cache
def _numbered(many: int) -> Prepared[MessageRow]:
    numbers = [bindparam(f"number{place}", type_=Integer) for place in range(many)]
    return Prepared[MessageRow](select(messages).where(_m.seq.in_(numbers)))


def numbered(conn: Connection, numbers: Sequence[int]) -> Iterator[MessageRow]:
    """Messages by their numbers, in that order; what is not there is left out."""
    return _filled(conn, ({"seq": number} for number in numbers), MessageRow)
