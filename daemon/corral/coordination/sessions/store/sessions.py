"""SQL for sessions and for the notices that wait for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)

from corral.core.events import EventKind
from corral.core.states import SessionStatus, ShownStatus
from corral.store import events
from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared
from corral.store.rows import columns_of
from corral.store.rows.mail import Notice
from corral.store.rows.sessions import SessionLife, SessionRow, SessionState, SessionTouch
from corral.store.schema import agent_sessions, notices

if TYPE_CHECKING:
    from corral.core.event_payloads import SessionChanged

Moving = TypeVar("Moving", SessionRow, SessionTouch)
_LIVE = agent_sessions.c.status != SessionStatus.DISCONNECTED
_BY_ID = Prepared[SessionRow](select(agent_sessions).where(agent_sessions.c.session_id == bindparam("which")))
_CREATE = Prepared[SessionRow](insert(agent_sessions).returning(agent_sessions), *agent_sessions.c.keys())
_NOTHING = dict.fromkeys(agent_sessions.c.keys())
_CHANGE = update(agent_sessions).where(agent_sessions.c.session_id == bindparam("which")).returning(agent_sessions)
_BEAT = Prepared[SessionRow](_CHANGE.where(_LIVE), "last_heartbeat")
_TOUCH = Prepared[SessionTouch](
    update(agent_sessions)
    .where(agent_sessions.c.session_id == bindparam("which"), _LIVE)
    .returning(*columns_of(agent_sessions, SessionTouch)),
    "last_heartbeat",
)
_WORKS_ON = Prepared[object](
    update(agent_sessions)
    .where(agent_sessions.c.session_id == bindparam("which"), _LIVE)
    .where(agent_sessions.c.current_task.is_distinct_from(bindparam("title")))
    .returning(agent_sessions.c.last_heartbeat),
    "current_task",
)
_ENDED_WORK = Prepared[object](
    update(agent_sessions)
    .where(agent_sessions.c.session_id == bindparam("which"), _LIVE)
    .where(agent_sessions.c.current_task == bindparam("title"))
    .returning(agent_sessions.c.last_heartbeat),
    "current_task",
)
_SEEN: Final = ("agent_name", "status", "current_task", "capabilities", "waiting_for")
_NOT_WAITING = {"waiting_since_at": None, "waiting_path": None}
_ENDED = {
    "status": SessionStatus.DISCONNECTED,
    "waiting_for": None,
    **_NOT_WAITING,
    "unguarded_since_at": None,
    "stalled_since_at": None,
}
"""The columns of an ended session: it is in the middle of nothing, and edits nothing."""
_END = Prepared[SessionRow](_CHANGE.where(_LIVE), *_ENDED, "ended_at", "end_reason")
_END_CHILDREN = Prepared[object](
    update(agent_sessions)
    .where(agent_sessions.c.parent_session_id == bindparam("which"), _LIVE)
    .returning(agent_sessions.c.session_id),
    *_ENDED, "ended_at", "end_reason",
)  # fmt: skip
_FAMILY = Prepared[object](
    select(agent_sessions.c.session_id).where(
        or_(agent_sessions.c.session_id == bindparam("which"), agent_sessions.c.parent_session_id == bindparam("which"))
    )
)
_PART = 256
NOTICES_AT_ONCE = 20
"""Notices that one answer of a hook hands over at most,"""
NOTICES_LENGTH = 2000
"""in so many characters."""
_NOTICES = Prepared[Notice](
    select(notices.c.notice_id, func.substr(notices.c.text, 1, NOTICES_LENGTH).label("text"))
    .where(notices.c.session_id == bindparam("which"), notices.c.injected_at.is_(None))
    .order_by(notices.c.notice_id)
    .limit(NOTICES_AT_ONCE)
)


_LIFE = select(*columns_of(agent_sessions, SessionLife)).where(
    agent_sessions.c.status.in_([bindparam("active", SessionStatus.ACTIVE), bindparam("idle", SessionStatus.IDLE)])
)
_ALL_LIVE = Prepared[SessionRow](
    select(agent_sessions)
    .where(or_(agent_sessions.c.status == SessionStatus.ACTIVE, agent_sessions.c.status == SessionStatus.IDLE))
    .order_by(agent_sessions.c.last_heartbeat.desc(), agent_sessions.c.session_id)
)
_WATCHED = Prepared[SessionLife](_LIFE)
_ANYONE = Prepared[object](_LIFE.limit(1))
_BEYOND = Prepared[object](_LIFE.limit(1).offset(bindparam("most", type_=Integer)))


def get(conn: Connection, session_id: str) -> SessionRow | None:
    """One session by its id."""
    return _BY_ID.first(conn, {"which": session_id})


def create(conn: Connection, values: Mapping[str, Any]) -> SessionRow:
    """Insert a session; ``values`` holds every column that is not null."""
    return _CREATE.one(conn, {**_NOTHING, **values})


def change(conn: Connection, session_id: str, values: Mapping[str, Any]) -> SessionRow | None:
    """Set columns of a session; None if there is no such session.

    A change of a visible column of a live session is recorded, as of its last heartbeat. With ``waiting_for`` goes since
    when, and the file.
    """
    if "waiting_for" in values and values["waiting_for"] is None:
        values = {**values, **_NOT_WAITING}
    before = get(conn, session_id) if values.keys() & _SEEN else None
    row = _change_of(tuple(values)).first(conn, {**values, "which": session_id})
    if before is not None and row is not None and before["status"] != SessionStatus.DISCONNECTED:
        news = cast("SessionChanged", {name: row[name] for name in _SEEN if row[name] != before[name]})
        if news:
            events.record(conn, row["last_heartbeat"], EventKind.SESSION_CHANGED(news), session_id=session_id)
    return row


def works_on(conn: Connection, session_id: str, title: str) -> None:
    """Set the task that a live session shows as its own, and record that where it is another."""
    at = _WORKS_ON.text(conn, {"which": session_id, "title": title, "current_task": title})
    if at is not None:
        events.record(conn, at, EventKind.SESSION_CHANGED({"current_task": title}), session_id=session_id)


def ended_work(conn: Connection, session_id: str, title: str) -> None:
    """Take back what :func:`works_on` set, unless the session shows another task by now."""
    at = _ENDED_WORK.text(conn, {"which": session_id, "title": title, "current_task": None})
    if at is not None:
        events.record(conn, at, EventKind.SESSION_CHANGED({"current_task": None}), session_id=session_id)


@lru_cache(maxsize=64)
def _change_of(columns: tuple[str, ...]) -> Prepared[SessionRow]:
    return Prepared(_CHANGE, *columns)


def beat(conn: Connection, session_id: str, at: str) -> SessionRow | None:
    """Record a heartbeat of a session that is not disconnected; a stalled one is active again.

    Returns:
        The session, or None if there is no such session or it was given up.
    """
    return _moving(conn, _BEAT.first(conn, {"which": session_id, "last_heartbeat": at}), at)


def touch(conn: Connection, session_id: str, at: str) -> SessionTouch | None:
    """Like :func:`beat`, but reads only these columns: half the time."""
    return _moving(conn, _TOUCH.first(conn, {"which": session_id, "last_heartbeat": at}), at)


def _moving(conn: Connection, row: Moving | None, at: str) -> Moving | None:
    if row is None or row["stalled_since_at"] is None:
        return row
    condition = agent_sessions.c.session_id == row["session_id"]
    conn.execute(update(agent_sessions).where(condition).values(stalled_since_at=None))
    changed = EventKind.SESSION_CHANGED({"status": row["status"]})
    events.record(conn, at, changed, session_id=row["session_id"])
    row["stalled_since_at"] = None
    return row


def stall(conn: Connection, session_id: str, at: str) -> None:
    """Mark an active session as stalled; one that is so already, or is not active, stays as it is."""
    active = and_(agent_sessions.c.status == SessionStatus.ACTIVE, agent_sessions.c.stalled_since_at.is_(None))
    condition = agent_sessions.c.session_id == session_id
    stalled = update(agent_sessions).where(condition, active).values(stalled_since_at=at)
    row = conn.execute(stalled.returning(agent_sessions.c.last_heartbeat)).first()
    if row is not None:
        event = EventKind.SESSION_STALLED({"last_heartbeat": row.last_heartbeat})
        events.record(conn, at, event, session_id=session_id)


def names_of(conn: Connection, session_ids: Collection[str]) -> dict[str, str]:
    """The own names of some sessions, by id."""
    its = agent_sessions.c
    query = select(its.session_id, its.agent_name).where(its.session_id.in_(session_ids))
    return {row.session_id: row.agent_name for row in conn.execute(query)} if session_ids else {}


def end_children(conn: Connection, session_id: str, reason: str, at: str) -> list[str]:
    """Mark the sessions below a session ``disconnected``; the ids of those that were not so already."""
    return _END_CHILDREN.column(conn, {**_ENDED, "which": session_id, "ended_at": at, "end_reason": reason})


def end(conn: Connection, session_id: str, reason: str, at: str) -> SessionRow | None:
    """Mark a session ``disconnected``; None if it was so already."""
    return _END.first(conn, {**_ENDED, "which": session_id, "ended_at": at, "end_reason": reason})


def listing(conn: Connection, statuses: Sequence[str] = ()) -> list[SessionRow]:
    """Sessions, the most recently alive first.

    Args:
        statuses: Only those that are shown as one of these.
    """
    query = select(agent_sessions).order_by(agent_sessions.c.last_heartbeat.desc(), agent_sessions.c.session_id)
    if statuses:
        query = query.where(_is_shown_as(statuses))
    return fetch_all(conn, query, SessionRow)


def latest(
    conn: Connection, statuses: Sequence[str] = (), behind: tuple[str, str] | None = None
) -> Iterator[SessionRow]:
    """Sessions, the last to begin first: that does not change while somebody reads on. Read a part at a time.

    Args:
        behind: Only those behind the one that began at this instant and has this id.
    """
    its = agent_sessions.c
    query = select(agent_sessions).order_by(its.started_at.desc(), its.session_id.desc()).limit(_PART)
    if statuses:
        query = query.where(_is_shown_as(statuses))

    def older(at: str, session_id: str) -> Select[Any]:
        return query.where(or_(its.started_at < at, and_(its.started_at == at, its.session_id < session_id)))

    part_query = older(*behind) if behind else query
    while part := fetch_all(conn, part_query, SessionRow):
        yield from part
        part_query = older(part[-1]["started_at"], part[-1]["session_id"])


def live(conn: Connection) -> list[SessionRow]:
    """Sessions that are not disconnected, the most recently alive first."""
    return _ALL_LIVE.all(conn, {})


def _is_shown_as(statuses: Sequence[str]) -> ColumnElement[bool]:
    """Whether a row's :func:`shown_status` is one of these."""
    its, stored = agent_sessions.c, [status for status in statuses if status != ShownStatus.STALLED]
    stalled = its.stalled_since_at.is_not(None)
    shown = and_(its.status.in_(stored), ~stalled)
    return or_(shown, stalled) if ShownStatus.STALLED in statuses else shown


def shown_status(row: SessionState) -> str:
    """The status of a session as every surface shows it, one of :class:`ShownStatus`."""
    return str(ShownStatus.STALLED if row["stalled_since_at"] is not None else row["status"])


def anyone(conn: Connection) -> bool:
    """Whether there is a session that is not disconnected."""
    return _ANYONE.first(conn, {}) is not None


def more_live_than(conn: Connection, most: int) -> bool:
    """Whether more sessions than this are not disconnected."""
    return _BEYOND.first(conn, {"most": most}) is not None


def watched(conn: Connection) -> list[SessionLife]:
    """For each session that is not disconnected, the columns that show whether it lives."""
    return _WATCHED.all(conn, {})


def of_processes(conn: Connection, pids: Sequence[int]) -> list[SessionLife]:
    """The same of the sessions of client processes, or of others that had their ids, in no order."""
    return _of_processes(len(pids)).all(conn, {f"pid{place}": pid for place, pid in enumerate(pids)}) if pids else []


@cache
def _of_processes(count: int) -> Prepared[SessionLife]:
    """One select for each process: of several in one ``IN``, SQLite would rather look at every live session."""
    return Prepared(
        union_all(*(_LIFE.where(agent_sessions.c.client_pid == bindparam(f"pid{place}")) for place in range(count)))
    )


def family(conn: Connection, session_id: str) -> list[str]:
    """The ids of a session and of its subagents."""
    return _FAMILY.column(conn, {"which": session_id})


def notify(conn: Connection, session_id: str, text: str, at: str) -> None:
    """Leave a notice for a session; it is handed over with the session's next hook answer."""
    conn.execute(insert(notices).values(session_id=session_id, text=text, created_at=at))


def take_notices(conn: Connection, session_id: str, at: str) -> list[str]:
    """Hand over what waits for a session, oldest first, as much as fits; once."""
    rows, room = [], NOTICES_LENGTH
    for row in _NOTICES.all(conn, {"which": session_id}):
        room -= len(row["text"])
        if room < 0:
            break
        rows.append(row)
    if rows:
        condition = notices.c.notice_id.in_([row["notice_id"] for row in rows])
        conn.execute(update(notices).where(condition).values(injected_at=at))
    return [row["text"] for row in rows]
