"""Locks as the coordinator's documents name them: ``acquire_lock``, ``release_lock``, ``check_locks``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.locks import waiting as lock_waiting
from corral.coordination.locks.keys import LockKey
from corral.coordination.locks.reserving import inside, parse
from corral.coordination.locks.table import LockRequest
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import CorralError, InvalidInput, LockHeld, NotPermitted
from corral.core.instants import iso
from corral.core.pages import MOST, SHOWN_BYTES, Page, page
from corral.core.payload import Payload
from corral.faces.mcp.acting import listed
from corral.faces.mcp.calls import coordinator_tool, current, refusal

USUAL_TTL_MINUTES = 120
"""As the coordinator has it."""
MAX_WAIT_S = 100.0
"""A bridge waits for an answer a little longer."""
MOST_OF_REASON = 2000
"""Characters; everyone who meets the lock reads it."""


@coordinator_tool
async def acquire_lock(
    file_path: str | list[str],
    reason: str | None = None,
    ttl_minutes: float | None = USUAL_TTL_MINUTES,
    exclusive: bool = True,
    wait_seconds: float = 0,
) -> Payload:
    """Reserve a path, a glob or a logical key (api:, db:, event:, flag:, env:, contract:, feature:) in every checkout; of several
    all or none. wait_seconds: wait in turn, at most 100."""
    call = current.get()
    services = call.services
    try:
        keys = await _keys([file_path] if isinstance(file_path, str) else file_path)
    except (InvalidInput, NotPermitted) as error:
        return _failed(error, file_path, "invalid_file_path")
    ttl_s = (USUAL_TTL_MINUTES if ttl_minutes is None else ttl_minutes) * 60
    try:
        lock_table.check_ttl(ttl_s)
    except InvalidInput as error:
        return _failed(error, file_path, "ttl_out_of_range")
    began = iso(services.now())
    try:
        _check(reason or "", wait_seconds)
        _name, rows = await lock_waiting.acquire(
            call, LockRequest(keys, ttl_s, exclusive, reason), wait_seconds, _hung_up
        )
    except LockHeld as held:
        return _refused(held)
    except CorralError as error:
        return _failed(error, file_path, error.name)
    services.nudge("sessions")
    row = rows[0]
    action = "acquired" if row["acquired_at"] >= began else "refreshed"
    several = {} if len(rows) == 1 else {"file_paths": [lock["file_path"] for lock in rows]}
    return {
        **_NOTHING, "success": True, "action": action, "file_path": row["file_path"], "expires_at": row["expires_at"],
        **several,
    }  # fmt: skip


def _check(reason: str, wait_s: float) -> None:
    if len(reason) > MOST_OF_REASON:
        raise InvalidInput(
            f"A reason has at most {MOST_OF_REASON} characters; this one has {len(reason)}.", remedy="Say it shorter."
        )
    if not 0 <= wait_s <= MAX_WAIT_S:
        raise InvalidInput(f"Waiting for {wait_s:g} s is not possible.", remedy=f"Use 0 to {MAX_WAIT_S:g} s.")


_NOTHING = dict.fromkeys(("success", "action", "file_path", "expires_at", "reason", "locked_by", "lock_reason"))
"""The fields of the coordinator's answer: each of them is in every one."""


def _failed(error: CorralError, file_path: str | list[str], reason: str) -> Payload:
    path = file_path if isinstance(file_path, str) else ", ".join(file_path[:1])
    return {**_NOTHING, **refusal(error), "file_path": path[:500], "reason": reason}


async def _keys(paths: list[str]) -> list[LockKey]:
    services = current.get().services
    return await services.work(lambda: parse(services, [inside(services.project, path) for path in paths]))


async def _hung_up() -> None:
    """Wait until the connection that this call came by is closed: nobody would learn of the lock."""
    from fastmcp.server.dependencies import get_http_request  # costs a second where no MCP client ever came

    receive = get_http_request().receive
    while (await receive())["type"] != "http.disconnect":
        pass


def _refused(held: LockHeld) -> Payload:
    first = held.details["conflicts"][0]
    circle = {"circle": held.details["circle"]} if "circle" in held.details else {}
    return {
        **_NOTHING,
        "success": False,
        "error": held.name,
        "reason": "would_wait_for_itself" if circle else "locked_by_other",
        "file_path": first["file_path"],
        "locked_by": first["holder"],
        "lock_reason": first["reason"] or first["task"],
        "expires_at": first["expires_at"],
        "message": f"{held.message} {held.cause} {held.remedy}",
        **circle,
    }


@coordinator_tool
async def release_lock(file_path: str) -> Payload:
    """Give up a lock of your own."""
    call = current.get()
    try:
        keys = await _keys([file_path])
    except (InvalidInput, NotPermitted) as error:
        return {"action": None, **refusal(error), "file_path": file_path[:500], "reason": "invalid_file_path"}
    now = call.services.now()
    released = await call.write(lambda conn, me: lock_table.release(conn, keys, me, now))
    if not released:
        why = "lock_not_found_or_not_owner"
        return {"success": False, "action": None, "error": "not_found", "reason": why, "file_path": file_path}
    call.services.nudge("sessions")
    return {"success": True, "action": "released", "file_path": released[0]["file_path"], "reason": None}


@coordinator_tool
async def check_locks(file_paths: list[str] | None = None, after: str | None = None) -> Any:
    """Locks and their holders: all, or those that overlap these paths and keys; after: goes on where an answer was cut."""
    services, now = current.get().services, current.get().services.now()
    keys = None if file_paths is None else await _keys(file_paths)

    def look(conn: Connection) -> Page:
        rows = (
            lock_table.listing(conn, now, after=after, limit=MOST)
            if keys is None
            else lock_table.meeting(conn, keys, now)
        )
        return page(coordinator_answers(conn, rows), size=SHOWN_BYTES)

    locks = await services.store.read(look)
    if not locks.more:
        return listed(locks.rows)
    how = "ask for fewer paths" if keys else f"check_locks with after={lock_table.cursor(locks.last)!r} goes on"
    return listed(locks.rows, how)


def coordinator_answers(conn: Connection, locks: Iterable[Payload]) -> Iterator[Payload]:
    """Locks with the fields of the coordinator's that they do not have by themselves."""
    kinds: dict[str, str] = {}
    for row in locks:
        holder = row["session_id"]
        if holder not in kinds:
            session = session_rows.get(conn, holder)
            kinds[holder] = session["agent_type"] if session is not None else ""
        yield {**row, "agent_type": kinds[holder], "locked_at": row["acquired_at"]}
