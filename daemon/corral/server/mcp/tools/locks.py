"""Locks as the coordinator's documents name them: ``acquire_lock``, ``release_lock``, ``check_locks``."""

from __future__ import annotations

from corral.coordination import locks
from corral.errors import LockHeld
from corral.models.instants import iso
from corral.server.mcp.calls import Answer, Function, current, told
from corral.server.routes.locks import parse
from corral.store import locks as rows


@told
async def acquire_lock(
    file_path: str, reason: str | None = None, ttl_minutes: float | None = None, exclusive: bool = True
) -> Answer:
    """Reserve a path, a glob or a logical key (api:, db:, event:, flag:, env:, contract:, feature:) in every checkout."""
    call = current.get()
    services, keys = call.services, parse(call.services, [file_path])
    ttl_s = services.settings().locks.ttl_s if ttl_minutes is None else ttl_minutes * 60
    now = services.now()
    try:
        (row,) = await call.write(
            lambda conn, me: locks.acquire(conn, keys, me, now, ttl_s=ttl_s, exclusive=exclusive, reason=reason)
        )
    except LockHeld as held:
        first = held.details["conflicts"][0]
        return {
            "success": False,
            "error": held.name,
            "reason": "locked_by_other",
            "file_path": first["file_path"],
            "locked_by": first["holder"],
            "lock_reason": first["reason"] or first["task"],
            "expires_at": first["expires_at"],
            "message": f"{held.message} {held.cause}",
        }
    action = "acquired" if row["acquired_at"] == iso(now) else "refreshed"
    services.nudge("sessions")
    return {"success": True, "action": action, "file_path": row["file_path"], "expires_at": row["expires_at"]}


@told
async def release_lock(file_path: str) -> Answer:
    """Give up a lock of your own."""
    call = current.get()
    keys, now = parse(call.services, [file_path]), call.services.now()
    released = await call.write(lambda conn, me: locks.release(conn, keys, me, now))
    if not released:
        return {"success": False, "error": "not_found", "reason": "lock_not_found_or_not_owner", "file_path": file_path}
    call.services.nudge("sessions")
    return {"success": True, "action": "released", "file_path": released[0]["file_path"]}


@told
async def check_locks(file_paths: list[str] | None = None) -> Answer:
    """Who holds what: live locks, all or those that overlap these paths and keys."""
    call = current.get()
    services, now = call.services, call.services.now()
    if file_paths is None:
        found = await services.read(lambda conn: rows.listing(conn, iso(now)))
    else:
        keys = parse(services, file_paths)
        nobody = locks.Holder("")
        found = await services.read(
            lambda conn: list(
                {row["lock_id"]: row for key in keys for row in locks.overlapping(conn, key, nobody, now)}.values()
            )
        )
    return {"success": True, "locks": [locks.wire(row) for row in found]}


TOOLS: tuple[Function, ...] = (acquire_lock, release_lock, check_locks)
