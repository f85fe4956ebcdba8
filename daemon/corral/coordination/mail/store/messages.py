"""SQL for messages and for what became of them at each recipient."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, and_, bindparam, case, func, insert, or_, select, true, update

from corral.core.states import Importance, MailWay, RecipientRole, SessionStatus
from corral.store.engine import search
from corral.store.engine.fetch import fetch_all, fetch_first
from corral.store.engine.prepared import Prepared
from corral.store.rows import Columns
from corral.store.rows.mail import (
    AwaitedSession,
    Correspondent,
    MessageRow,
    NewMessage,
    NewRecipient,
    RecipientState,
    Seen,
    SentAt,
    WaitingMessage,
)
from corral.store.schema import agent_sessions, notices
from corral.store.schema_coordination import message_recipients, messages

_m, _r = messages.c, message_recipients.c
_UNREAD = and_(_r.read_at.is_(None), _r.acknowledged_at.is_(None))
QUEUED, BOUNCED = "queued", "bounced"
STATE = case(
    (_r.acknowledged_at.is_not(None), "acknowledged"),
    (_r.read_at.is_not(None), "read"),
    (_r.injected_at.is_not(None), "injected"),
    (_r.bounced_at.is_not(None), BOUNCED),
    else_=QUEUED,
).label("state")
"""Where a message stands at one recipient."""

# Asked at every hook event: built once, since building a statement costs more than running it.
AT_MOST = 50
"""Messages that one answer of a hook looks at."""
BEGINNING = 3001
"""Characters of their bodies that are read."""
_SHOWN = (
    select(
        _m.seq, _m.thread_id, _m.sender_name, _m.importance, _m.subject, _m.ack_required, _m.attachments,
        _m.created_at, func.substr(_m.body, 1, BEGINNING).label("body"), _r.injected_at,
    )
    .join(message_recipients, _r.seq == _m.seq)
    .order_by(_r.seq)
    .limit(AT_MOST)
)  # fmt: skip
_WAITS = and_(_r.session_id == bindparam("which"), _r.injected_at.is_(None), _UNREAD)
_WAITING = Prepared[WaitingMessage](_SHOWN.where(_WAITS))
_ANY_WAITING = Prepared[object](select(_r.seq).where(_WAITS).limit(1))
_HOW_MANY = (
    select(func.count(), func.count().filter(_m.importance == Importance.URGENT))
    .select_from(message_recipients)
    .join(messages, _m.seq == _r.seq)
    .where(_WAITS)
)
_NOTICES = Prepared[object](
    select(notices.c.notice_id)
    .where(notices.c.session_id == bindparam("which"), notices.c.injected_at.is_(None))
    .limit(1)
)
_HOLDING = Prepared[WaitingMessage](
    _SHOWN.where(_r.session_id == bindparam("which"), _r.held_at.is_(None), _UNREAD, _m.importance == Importance.URGENT)
)


_CREATE = Prepared[None](insert(messages), *(column.key for column in _m if column.key != "seq"))
_ADDRESS = Prepared[None](insert(message_recipients), "seq", "session_id", "name", "role", "bounced_at")
_SENT_AT = Prepared[SentAt](
    select(_m.created_at)
    .where(_m.sender_session_id == bindparam("sender"))
    .order_by(_m.seq.desc())
    .offset(bindparam("back"))
    .limit(1)
)
_RECIPIENTS = Prepared[RecipientState](
    select(message_recipients, STATE).where(_r.seq == bindparam("which")).order_by(_r.role.desc(), _r.name)
)
_AS_SENT: Seen = {"injected_at": None, "way": None, "held_at": None, "read_at": None, "acknowledged_at": None}


def create(
    conn: Connection, message: NewMessage, recipients: Sequence[NewRecipient]
) -> tuple[MessageRow, list[RecipientState]]:
    """Store a message with its recipients, at least one.

    Returns:
        Both as they stand now, the recipients in the order of their roles.
    """
    number = _CREATE.add(conn, message)
    for recipient in recipients:
        _ADDRESS.change(conn, {**recipient, "seq": number})
    if number % search.AT_ONCE == 0:
        search.learn(conn, "messages")
    by_name = sorted(recipients, key=lambda recipient: str(recipient["name"]))
    return {"seq": number, **message}, [
        {**_AS_SENT, **recipient, "seq": number, "state": QUEUED if recipient["bounced_at"] is None else BOUNCED}
        for recipient in sorted(by_name, key=lambda recipient: str(recipient["role"]), reverse=True)
    ]


def find(conn: Connection, reference: str) -> MessageRow | None:
    """One message by its number or its id."""
    condition = _m.seq == int(reference) if _is_number(reference) else _m.message_id == reference
    return fetch_first(conn, select(messages).where(condition), MessageRow)


def _is_number(reference: str) -> bool:
    return reference.isascii() and reference.isdigit() and len(reference) < 19


def by_key(conn: Connection, sender_session_id: str | None, idempotency_key: str) -> MessageRow | None:
    """The message that a sender sent with this key; None as the sender is Corral."""
    query = select(messages).where(_m.sender_session_id == sender_session_id, _m.idempotency_key == idempotency_key)
    return fetch_first(conn, query, MessageRow)


def sent_at(conn: Connection, sender_session_id: str, back: int) -> str | None:
    """When a sender sent the message that lies so many back; 0: the latest."""
    row = _SENT_AT.first(conn, {"sender": sender_session_id, "back": back})
    return row["created_at"] if row else None


def recipients(conn: Connection, number: int) -> list[RecipientState]:
    """The recipients of a message, in the order of their roles."""
    return _RECIPIENTS.all(conn, {"which": number})


def waiting(conn: Connection, session_id: str) -> list[WaitingMessage]:
    """The first unread mail that has not entered the session's context yet, the oldest first, with how bodies begin."""
    return _WAITING.all(conn, {"which": session_id})


def how_many_wait(conn: Connection, session_id: str) -> tuple[int, int]:
    """How much unread mail has not entered the session's context yet, and how much of it is urgent."""
    everything, urgent = conn.execute(_HOW_MANY, {"which": session_id}).one()
    return int(everything), int(urgent)


def holding(conn: Connection, session_id: str) -> list[WaitingMessage]:
    """The first unread urgent mail that has not held a Stop yet, the oldest first, with how bodies begin."""
    return _HOLDING.all(conn, {"which": session_id})


def anything_waits(conn: Connection, session_id: str) -> bool:
    """Whether a session has mail or notices that have not entered its context yet."""
    return any(query.first(conn, {"which": session_id}) is not None for query in (_NOTICES, _ANY_WAITING))


def waited_for(
    conn: Connection, clients: Sequence[int], session_ids: Sequence[str], importances: Sequence[str]
) -> list[AwaitedSession]:
    """Live sessions for which mail of these importances waits, the one last alive first.

    Args:
        clients: Only sessions of these client processes,
        session_ids: or these, where nobody knows the process.
    """
    sessions = agent_sessions.c
    live = sessions.status.in_((SessionStatus.ACTIVE, SessionStatus.IDLE))
    query = (
        select(sessions.session_id, sessions.client_pid, sessions.status, func.min(_m.created_at).label("since"))
        .join(message_recipients, _r.session_id == sessions.session_id)
        .join(messages, _m.seq == _r.seq)
        .where(live, sessions.parent_session_id.is_(None), _r.injected_at.is_(None), _UNREAD)
        .where(
            or_(
                sessions.client_pid.in_(clients),
                and_(sessions.client_pid.is_(None), sessions.session_id.in_(session_ids)),
            )
        )
        .where(_m.importance.in_(importances))
        .group_by(sessions.session_id)
        .order_by(sessions.last_heartbeat.desc())
    )
    return fetch_all(conn, query, AwaitedSession)


def kept_waiting(conn: Connection, session_ids: Sequence[str], since: str) -> list[str]:
    """Those of some sessions for which mail has waited since an instant."""
    query = select(_r.session_id).distinct().join(messages, _m.seq == _r.seq)
    waits = and_(_r.session_id.in_(session_ids), _r.injected_at.is_(None), _UNREAD, _m.created_at <= since)
    return list(conn.execute(query.where(waits)).scalars())


def mark(conn: Connection, session_id: str, numbers: Sequence[int], columns: Sequence[str], at: str) -> None:
    """Set instants of a session's receipts that are not set yet: the first one counts."""
    for column in columns:
        _mark(conn, session_id, numbers, column, {column: at})


def mark_injected(conn: Connection, session_id: str, numbers: Sequence[int], way: MailWay, at: str) -> None:
    """Messages have entered a session's context, unless they had before."""
    _mark(conn, session_id, numbers, "injected_at", {"injected_at": at, "way": way})


def _mark(conn: Connection, session_id: str, numbers: Sequence[int], unset: str, values: Columns) -> None:
    condition = and_(_r.session_id == session_id, _r.seq.in_(list(numbers)), _r[unset].is_(None))
    conn.execute(update(message_recipients).where(condition).values(values))


def put_back(conn: Connection, session_id: str, begin: str, end: str) -> None:
    """Have messages that were delivered to a session between two instants wait again, and hold a Stop again, as not arrived.

    Those that a mod brought did arrive: it reports them only after its model has answered.
    """
    by_mod = func.coalesce(_r.way, "").in_((MailWay.TURN, MailWay.PROMPT))
    for column, names, those in (
        (_r.injected_at, ("injected_at", "way"), ~by_mod),
        (_r.held_at, ("held_at",), true()),
        (notices.c.injected_at, ("injected_at",), true()),
    ):
        whose = and_(column.table.c.session_id == session_id, column.between(begin, end), those)
        conn.execute(update(column.table).where(whose).values(dict.fromkeys(names)))


def put_back_woken(conn: Connection, session_ids: Collection[str], begin: str, end: str) -> None:
    """Messages that were to wake these sessions, given out between two instants, wait again."""
    condition = and_(_r.session_id.in_(session_ids), _r.way == MailWay.WAKE, _r.injected_at.between(begin, end))
    conn.execute(update(message_recipients).where(condition).values(injected_at=None, way=None))


def receipt(conn: Connection, session_id: str, number: int) -> RecipientState | None:
    """The state of a message at one recipient."""
    condition = and_(_r.session_id == session_id, _r.seq == number)
    return fetch_first(conn, select(message_recipients, STATE).where(condition), RecipientState)


def addressed_to(conn: Connection, session_id: str, numbers: Sequence[int], asker: str | None) -> set[int]:
    """Which of these messages a session sent or got, as far as another one may know."""
    visible = _r.role != RecipientRole.BCC
    if asker is not None:
        visible = or_(visible, _r.session_id == asker, _m.sender_session_id == asker)
    got = (
        select(_r.seq)
        .join(messages, _m.seq == _r.seq)
        .where(_r.session_id == session_id, _r.seq.in_(list(numbers)), visible)
    )
    sent = select(_m.seq).where(_m.sender_session_id == session_id, _m.seq.in_(list(numbers)))
    return {int(row[0]) for query in (got, sent) for row in conn.execute(query)}


def move(conn: Connection, name: str, old_session_id: str, new_session_id: str) -> None:
    """Unread mail to a name follows it to another session."""
    present = select(_r.seq).where(_r.session_id == new_session_id)
    condition = and_(
        _r.session_id == old_session_id, func.lower(_r.name) == name.lower(), _UNREAD, _r.seq.not_in(present)
    )
    fresh = {"session_id": new_session_id, "bounced_at": None, "injected_at": None, "way": None, "held_at": None}
    conn.execute(update(message_recipients).where(condition).values(fresh))


def pass_on(conn: Connection, name: str, old_session_id: str, new_session_id: str, at: str) -> None:
    """Pass mail to a name that one session has not seen on to another; what the other has already bounces here."""
    present = select(_r.seq).where(_r.session_id == new_session_id)
    unseen = and_(
        _r.session_id == old_session_id, func.lower(_r.name) == name.lower(), _r.injected_at.is_(None), _UNREAD
    )
    fresh = {"session_id": new_session_id, "bounced_at": None, "held_at": None}
    conn.execute(update(message_recipients).where(unseen, _r.seq.not_in(present)).values(fresh))
    conn.execute(update(message_recipients).where(unseen, _r.bounced_at.is_(None)).values(bounced_at=at))


def last_between(conn: Connection, session_id: str, *, blind: bool) -> list[Correspondent]:
    """With whom a session has exchanged mail, each partner once, the latest first.

    Args:
        blind: Whether blind copies count.
    """
    condition = or_(_m.sender_session_id == session_id, _r.session_id == session_id)
    if not blind:
        condition = and_(condition, _r.role != RecipientRole.BCC)
    query = (
        select(_m.sender_session_id, _r.session_id, func.max(_m.created_at).label("at"))
        .join(message_recipients, _r.seq == _m.seq)
        .where(condition, _m.sender_session_id.is_not(None))
        .group_by(_m.sender_session_id, _r.session_id)
        .order_by(func.max(_m.created_at).desc(), func.max(_m.seq).desc())
    )
    partners: dict[str, str] = {}
    for sender, recipient, at in conn.execute(query):
        other = recipient if sender == session_id else sender
        if other != session_id:
            partners.setdefault(other, at)
    return [{"session_id": partner, "at": at} for partner, at in partners.items()]
