"""SQL for locks. Whether two keys overlap is decided in ``coordination``; here candidates are found by index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select, update

from corral.store.schema import agent_sessions, file_locks

Row = dict[str, Any]

_WITH_HOLDER = select(file_locks, agent_sessions.c.agent_name, agent_sessions.c.current_task).join(
    agent_sessions, agent_sessions.c.session_id == file_locks.c.session_id
)

# What every edit asks is built once: building a statement costs more than running it.
_LIVE = _WITH_HOLDER.where(file_locks.c.expires_at > bindparam("now"))
_NEAR = _LIVE.where(
    or_(
        file_locks.c.match_key.in_(bindparam("keys", expanding=True)),
        and_(file_locks.c.match_key >= bindparam("below"), file_locks.c.match_key < bindparam("beyond")),
        file_locks.c.is_pattern.is_(True),
    )
)
_KEYS = (
    select(
        file_locks.c.lock_id,
        file_locks.c.session_id,
        file_locks.c.match_key,
        file_locks.c.is_pattern,
        file_locks.c.exclusive,
    )
    .where(file_locks.c.expires_at > bindparam("now"))
    .order_by(file_locks.c.expires_at)
)
_MINE = select(file_locks).where(
    file_locks.c.session_id == bindparam("session_id"),
    file_locks.c.match_key == bindparam("match_key"),
    file_locks.c.checkout == bindparam("checkout"),
)
_TAKE = insert(file_locks).returning(file_locks)
_RENEW = update(file_locks).where(file_locks.c.lock_id == bindparam("which")).returning(file_locks)
_RELEASE = (
    delete(file_locks)
    .where(
        file_locks.c.session_id == bindparam("session_id"),
        file_locks.c.match_key.in_(bindparam("keys", expanding=True)),
    )
    .returning(file_locks)
)


def candidates(conn: Connection, below: str, ancestors: Sequence[str], *, now: str) -> list[Row]:
    """Live locks that may overlap what lies at or below a path.

    Args:
        below: Normalised, as in ``match_key``.
        ancestors: The folders above it: a lock on a folder holds what is below.
        now: Locks that expired before it do not count.
    """
    near = {"keys": [below, *ancestors], "below": below + "/", "beyond": below + "0"}
    return [dict(row) for row in conn.execute(_NEAR, {"now": now, **near}).mappings()]


def keys(conn: Connection, now: str) -> list[Row]:
    """What every live lock is on, whose it is, and whether it is exclusive; the longest lasting last."""
    return [dict(row) for row in conn.execute(_KEYS, {"now": now}).mappings()]


def upsert(conn: Connection, values: Row) -> Row:
    """Take a lock, or renew and strengthen the one that the same session has on the same key in the same checkout.

    A reservation stays one when an edit renews it (``automatic`` and ``exclusive`` only ever grow stronger), and a renewal
    never shortens it.
    """
    same = {name: values[name] for name in ("session_id", "match_key", "checkout")}
    old = conn.execute(_MINE, same).mappings().first()
    if old is None:
        return dict(conn.execute(_TAKE, values).mappings().one())
    merged = {
        "exclusive": bool(old["exclusive"] or values["exclusive"]),
        "automatic": bool(old["automatic"] and values["automatic"]),
        "reason": values["reason"] or old["reason"],
        "task_id": values["task_id"] or old["task_id"],
        "ttl_s": max(old["ttl_s"], values["ttl_s"]) if values["automatic"] else values["ttl_s"],
        "expires_at": max(old["expires_at"], values["expires_at"]),
    }
    return dict(conn.execute(_RENEW, {**merged, "which": old["lock_id"]}).mappings().one())


def listing(conn: Connection, now: str, session_ids: Sequence[str] = ()) -> list[Row]:
    """Live locks with their holders, oldest first."""
    query = _WITH_HOLDER.where(file_locks.c.expires_at > now).order_by(file_locks.c.acquired_at, file_locks.c.lock_id)
    if session_ids:
        query = query.where(file_locks.c.session_id.in_(list(session_ids)))
    return [dict(row) for row in conn.execute(query).mappings()]


def named(conn: Connection, now: str, *, match_keys: Sequence[str] = (), lock_ids: Sequence[str] = ()) -> list[Row]:
    """Live locks on one of the keys or with one of the ids, with what is known of their holders."""
    query = (
        _WITH_HOLDER.add_columns(
            agent_sessions.c.status, agent_sessions.c.last_heartbeat, agent_sessions.c.worktree, agent_sessions.c.cwd
        )
        .where(file_locks.c.expires_at > now)
        .where(or_(file_locks.c.match_key.in_(list(match_keys)), file_locks.c.lock_id.in_(list(lock_ids))))
        .order_by(file_locks.c.acquired_at, file_locks.c.lock_id)
    )
    return [dict(row) for row in conn.execute(query).mappings()]


def prolong(conn: Connection, lock_id: str, expires_at: str) -> None:
    """Give a lock another expiry."""
    conn.execute(_RENEW, {"which": lock_id, "expires_at": expires_at}).close()


def others_in_checkout(conn: Connection, checkout: str, session_ids: Sequence[str], now: str) -> list[Row]:
    """Live locks that other sessions hold in a checkout."""
    query = _WITH_HOLDER.where(
        file_locks.c.checkout == checkout,
        file_locks.c.session_id.not_in(list(session_ids)),
        file_locks.c.expires_at > now,
    )
    return [dict(row) for row in conn.execute(query).mappings()]


def release(conn: Connection, session_id: str, match_keys: Iterable[str]) -> list[Row]:
    """Give up a session's locks on the given keys, in whatever checkout; returns what was released."""
    released = conn.execute(_RELEASE, {"session_id": session_id, "keys": list(match_keys)})
    return [dict(row) for row in released.mappings()]


def release_these(conn: Connection, lock_ids: Sequence[str]) -> list[Row]:
    """Take locks away, whoever holds them; returns what was taken away."""
    query = delete(file_locks).where(file_locks.c.lock_id.in_(list(lock_ids))).returning(file_locks)
    return [dict(row) for row in conn.execute(query).mappings()]


def release_all(conn: Connection, session_ids: Sequence[str]) -> list[Row]:
    """Give up everything that the sessions hold; returns what was released."""
    query = delete(file_locks).where(file_locks.c.session_id.in_(list(session_ids))).returning(file_locks)
    return [dict(row) for row in conn.execute(query).mappings()]


def expire(conn: Connection, now: str) -> list[Row]:
    """Remove the locks whose time is over; returns them."""
    query = delete(file_locks).where(file_locks.c.expires_at <= now).returning(file_locks)
    return [dict(row) for row in conn.execute(query).mappings()]


def next_expiry(conn: Connection) -> str | None:
    """When the first of all locks expires, or None."""
    return conn.execute(select(func.min(file_locks.c.expires_at))).scalar()


def reschedule(conn: Connection, moved: Callable[[str], str]) -> None:
    """Give every lock another expiry, made of the one it has."""
    for row in conn.execute(select(file_locks.c.lock_id, file_locks.c.expires_at)).all():
        prolong(conn, row.lock_id, moved(row.expires_at))
