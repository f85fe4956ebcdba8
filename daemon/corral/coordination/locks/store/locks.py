"""SQL for locks. Whether two keys overlap is decided in ``coordination``; here candidates are found by index."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    String,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert  # also SQLite compiles its ON CONFLICT

from corral.store.engine.fetch import fetch_all, fetch_each
from corral.store.engine.prepared import Prepared
from corral.store.rows.sessions import HeldLock, LockOfHolder, LockRow
from corral.store.schema import agent_sessions, file_locks

_WITH_HOLDER = select(
    file_locks, agent_sessions.c.agent_name, agent_sessions.c.current_task, agent_sessions.c.stalled_since_at
).join(agent_sessions, agent_sessions.c.session_id == file_locks.c.session_id)
_PLACE = (file_locks.c.acquired_at, file_locks.c.file_path, file_locks.c.lock_id)
"""The order of lists: paths acquired together stand by name."""

_WILD = ("*", "?", "[", "\\", ".")
"""How the key of a glob may begin whose paths begin with another character; all others begin as their paths do."""
_GLOB = file_locks.c.is_pattern.is_(True)
_LIVE = _WITH_HOLDER.where(file_locks.c.expires_at > bindparam("now"))
_KEY: Final = ("session_id", "match_key", "checkout")
_HAD = Prepared[LockRow](select(file_locks).where(*(file_locks.c[key] == bindparam(key) for key in _KEY)))
_TAKE = Prepared[None](insert(file_locks).on_conflict_do_nothing(index_elements=_KEY), *file_locks.c.keys())
_CHANGE = update(file_locks).where(file_locks.c.lock_id == bindparam("which")).returning(file_locks)
_RENEW = Prepared[LockRow](_CHANGE, "exclusive", "automatic", "reason", "task_id", "ttl_s", "expires_at")
_PROLONG = update(file_locks).where(file_locks.c.lock_id == bindparam("which")).values(expires_at=bindparam("until"))
_RELEASE_ALL = Prepared[LockRow](
    delete(file_locks).where(file_locks.c.session_id == bindparam("session_id")).returning(file_locks)
)
_RELEASE = Prepared[LockRow](
    delete(file_locks)
    .where(
        file_locks.c.session_id == bindparam("session_id"),
        file_locks.c.match_key.in_([bindparam(name, type_=String) for name in ("match_key", "other_spelling")]),
    )
    .returning(file_locks)
)

_BEYOND = Prepared[object](
    select(file_locks.c.lock_id)
    .where(file_locks.c.session_id == bindparam("session_id"))
    .limit(1)
    .offset(bindparam("most", type_=Integer))
)


@cache
def _near(folders: int) -> tuple[Prepared[HeldLock], list[str]]:
    """Locks on a path, on one of so many folders above it, on anything below it, and all globs: each kind has its index.

    Returns:
        The statement, and the names of its parameters for the folders, of which each may be spelled in two ways.
    """
    names = [f"folder{number}" for number in range(2 * folders)]
    meets = or_(
        file_locks.c.match_key.in_([bindparam(name, type_=String) for name in ("path", *names)]),
        and_(file_locks.c.match_key >= bindparam("below"), file_locks.c.match_key < bindparam("beyond")),
    )
    begins = func.substr(file_locks.c.match_key, 1, 1).in_([bindparam("first"), *_WILD])
    return Prepared[HeldLock](union_all(_LIVE.where(meets, ~_GLOB), _LIVE.where(begins, _GLOB))), names


def candidates(conn: Connection, below: str, ancestors: Sequence[str], first: str, *, now: str) -> list[HeldLock]:
    """Live locks that may overlap what lies at or below a path.

    Args:
        below: Normalised, as in ``match_key``.
        ancestors: The folders above it: a lock on a folder holds what is below.
        first: The first character of the path itself.
        now: Locks that expired before it do not count.
    """
    statement, names = _near(len(ancestors))
    spelled = [spelling for folder in ancestors for spelling in (folder, f"{folder}/")]  # known to be a folder, or not
    parameters = dict(zip(names, spelled, strict=True))
    parameters |= {"now": now, "path": below, "first": first, "below": below + "/", "beyond": below + "0"}
    return statement.all(conn, parameters)


def by_expiry(conn: Connection, now: str) -> Iterator[HeldLock]:
    """Every live lock, that which expires first first; read as they are asked for."""
    query = _WITH_HOLDER.where(file_locks.c.expires_at > now).order_by(file_locks.c.expires_at)
    return fetch_each(conn, query, HeldLock)


def plain_keys(conn: Connection, now: str, besides: Collection[str], *, exclusive_only: bool) -> str:
    """The paths of the live locks of others, without globs, in order of expiry; a NUL before and behind each.

    Args:
        besides: The sessions whose locks do not count.
        exclusive_only: Nor does what is shared.
    """
    locks = file_locks.c
    query = select(locks.match_key).where(
        locks.is_pattern.is_(False), locks.expires_at > now, locks.session_id.not_in(list(besides))
    )
    if exclusive_only:
        query = query.where(locks.exclusive.is_(True))
    return "\0".join(("", *conn.execute(query.order_by(locks.expires_at)).scalars(), ""))


def globs(conn: Connection, now: str) -> list[HeldLock]:
    """Every live lock on a glob."""
    return fetch_all(conn, _WITH_HOLDER.where(_GLOB, file_locks.c.expires_at > now), HeldLock)


def count(conn: Connection, now: str) -> int:
    """How many locks there are."""
    query = select(func.count()).select_from(file_locks).where(file_locks.c.expires_at > now)
    return int(conn.execute(query).scalar_one())


def count_of(conn: Connection, session_id: str, now: str) -> int:
    """How many locks a session has."""
    its = file_locks.c
    query = select(func.count()).select_from(file_locks).where(its.session_id == session_id, its.expires_at > now)
    return int(conn.execute(query).scalar_one())


def count_globs(conn: Connection) -> int:
    """How many locks are on globs."""
    return int(conn.execute(select(func.count()).select_from(file_locks).where(_GLOB)).scalar_one())


def has_more_than(conn: Connection, session_id: str, most: int) -> bool:
    """Whether a session has more locks than this."""
    return _BEYOND.first(conn, {"session_id": session_id, "most": most}) is not None


def upsert(conn: Connection, values: LockRow) -> LockRow:
    """Take a lock, or renew and strengthen the one that the same session has on the same key in the same checkout.

    A reservation stays one when an edit renews it (``automatic`` and ``exclusive`` only ever grow stronger), and a renewal
    never shortens it. An expired lock is not renewed: it is removed, and the lock is a new one.

    Args:
        values: Every column; ``acquired_at`` is now.
    """
    if _TAKE.change(conn, values):
        return values
    before = _HAD.one(conn, {name: values[name] for name in _KEY})
    if before["expires_at"] <= values["acquired_at"]:
        release_these(conn, [before["lock_id"]])
        _TAKE.change(conn, values)
        return values
    merged = {
        "exclusive": bool(before["exclusive"] or values["exclusive"]),
        "automatic": bool(before["automatic"] and values["automatic"]),
        "reason": values["reason"] or before["reason"],
        "task_id": values["task_id"] or before["task_id"],
        "ttl_s": max(before["ttl_s"], values["ttl_s"]) if values["automatic"] else values["ttl_s"],
        "expires_at": max(before["expires_at"], values["expires_at"]),
    }
    return _RENEW.one(conn, {**merged, "which": before["lock_id"]})


def listing(
    conn: Connection,
    now: str,
    session_ids: Sequence[str] = (),
    *,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[HeldLock]:
    """Live locks with their holders, oldest first.

    Args:
        after: Only those behind the one with this ``acquired_at`` and ``lock_id``.
    """
    query = _WITH_HOLDER.where(file_locks.c.expires_at > now).order_by(*_PLACE).limit(limit)
    if after is not None:
        acquired_at, lock_id = after
        last = file_locks.alias()
        path = select(last.c.file_path).where(last.c.lock_id == lock_id).scalar_subquery()
        # Where that lock is gone, what was acquired with it is listed once more, and nothing is left out.
        query = query.where(tuple_(*_PLACE) > tuple_(acquired_at, func.coalesce(path, ""), lock_id))
    if session_ids:
        query = query.where(file_locks.c.session_id.in_(list(session_ids)))
    return fetch_all(conn, query, HeldLock)


def named(
    conn: Connection, now: str, *, match_keys: Sequence[str] = (), lock_ids: Sequence[str] = ()
) -> list[LockOfHolder]:
    """Live locks on one of the keys or with one of the ids, with what is known of their holders."""
    query = (
        _WITH_HOLDER.add_columns(
            agent_sessions.c.status, agent_sessions.c.last_heartbeat, agent_sessions.c.worktree, agent_sessions.c.cwd
        )
        .where(file_locks.c.expires_at > now)
        .where(or_(file_locks.c.match_key.in_(list(match_keys)), file_locks.c.lock_id.in_(list(lock_ids))))
        .order_by(*_PLACE)
    )
    return fetch_all(conn, query, LockOfHolder)


def prolong(conn: Connection, expiries: Mapping[str, str]) -> None:
    """Give locks another expiry, each its own, by their ids."""
    rows = [{"which": lock_id, "until": expires_at} for lock_id, expires_at in expiries.items()]
    if rows:
        conn.execute(_PROLONG, rows)


def others_in_checkout(conn: Connection, checkout: str, session_ids: Sequence[str], now: str) -> list[HeldLock]:
    """Live locks that other sessions hold in a checkout."""
    query = _WITH_HOLDER.where(
        file_locks.c.checkout == checkout,
        file_locks.c.session_id.not_in(list(session_ids)),
        file_locks.c.expires_at > now,
    )
    return fetch_all(conn, query, HeldLock)


def release(conn: Connection, session_id: str, keys: Iterable[Sequence[str]]) -> list[LockRow]:
    """Give up a session's locks on the given keys, in whatever checkout; returns what was released.

    Args:
        keys: Of each, its match key, or both where it has two.
    """
    bounds = ({"session_id": session_id, "match_key": key[0], "other_spelling": key[-1]} for key in keys)
    return [row for values in bounds for row in _RELEASE.all(conn, values)]


def release_these(conn: Connection, lock_ids: Sequence[str]) -> list[LockRow]:
    """Remove locks of any holder; returns the removed ones."""
    return _delete(conn, file_locks.c.lock_id.in_(list(lock_ids)))


def release_all(conn: Connection, session_ids: Sequence[str]) -> list[LockRow]:
    """Give up everything that the sessions hold; returns what was released."""
    return [row for session_id in session_ids for row in _RELEASE_ALL.all(conn, {"session_id": session_id})]


def inherit(conn: Connection, session_id: str, heir: str, checkout: str) -> None:
    """Give a session's automatic locks in a checkout to another session there, but for what that one holds already."""
    locks, theirs = file_locks.c, file_locks.alias()
    same_key = select(theirs.c.lock_id).where(
        theirs.c.session_id == heir, theirs.c.match_key == locks.match_key, theirs.c.checkout == checkout
    )
    condition = and_(locks.session_id == session_id, locks.checkout == checkout, locks.automatic.is_(True))
    conn.execute(update(file_locks).where(condition, ~same_key.exists()).values(session_id=heir))


def shorten(conn: Connection, session_id: str, until: str) -> None:
    """Let a session's automatic locks expire no later than at an instant."""
    condition = and_(file_locks.c.session_id == session_id, file_locks.c.automatic.is_(True))
    conn.execute(update(file_locks).where(condition, file_locks.c.expires_at > until).values(expires_at=until))


def expire(conn: Connection, now: str) -> list[LockRow]:
    """Remove the locks whose time is over; returns them."""
    return _delete(conn, file_locks.c.expires_at <= now)


def _delete(conn: Connection, condition: ColumnElement[bool]) -> list[LockRow]:
    return fetch_all(conn, delete(file_locks).where(condition).returning(file_locks), LockRow)


def next_expiry(conn: Connection) -> str | None:
    """When the first of all locks expires, or None."""
    return conn.execute(select(func.min(file_locks.c.expires_at))).scalar()


def reschedule(conn: Connection, new_expiry: Callable[[str], str]) -> None:
    """Give every lock another expiry, made of the one it has."""
    rows = conn.execute(select(file_locks.c.lock_id, file_locks.c.expires_at)).all()
    prolong(conn, {row.lock_id: new_expiry(row.expires_at) for row in rows})
