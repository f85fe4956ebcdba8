"""Locks over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.edits import commits
from corral.coordination.locks import activity as lock_activity
from corral.coordination.locks import stale_holders
from corral.coordination.locks import table as lock_table
from corral.coordination.locks import waiting as lock_waiting
from corral.coordination.locks.api import (
    Acquired,
    Acquisition,
    Checked,
    Commit,
    CommitChecked,
    Force,
    Forced,
    Keys,
    Lock,
    Release,
    Released,
    Renewal,
    Renewed,
)
from corral.coordination.locks.reserving import describe_locks, parse, reserve_each
from corral.coordination.locks.table import Holder, LockRequest
from corral.coordination.mail import addresses
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor, Speaker, person, speaker
from corral.coordination.sessions.claims import refusals
from corral.core.errors import Conflict, DaemonUnreachable, InvalidInput, LockHeld
from corral.core.pages import MOST, answer, page
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, MACHINE, PROJECT, Routes
from corral.store.rows.sessions import RenewedLock

router = Routes("locks", "/locks", scope=PROJECT, callers=EVERYONE)


@router.get("", answer=list[Lock])
async def listing(
    services: Services,
    request: Request,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[
        str | None, Field(max_length=128, description="`acquired_at,lock_id` of the last one known.")
    ] = None,
) -> Response:
    """The live locks, the oldest first."""
    now = services.now()
    locks = await services.store.read(lambda conn: page(lock_table.listing(conn, now, after=after, limit=limit), limit))
    return answer(request, locks, lambda row: {"after": lock_table.cursor(row)})


@router.post("/acquire", status=201, answer=Acquired, errors=(LockHeld, Conflict, DaemonUnreachable))
async def acquire(services: Services, request: Request, body: Acquisition) -> Payload:
    """Reserve all the keys or none of them, or each that is free; with ``wait_s`` when it is one's turn."""
    actor = Actor(services, body.session_id)
    ttl_s = body.ttl_s if body.ttl_s is not None else services.settings().locks.ttl_s
    lock_request = LockRequest(parse(services, body.paths), ttl_s, body.exclusive, body.reason)
    if not body.each:
        name_and_locks = await lock_waiting.acquire(actor, lock_request, body.wait_s, partial(_hung_up, request))
        return {"success": True, "locks": describe_locks(*name_and_locks)}
    if body.wait_s:
        raise InvalidInput("One waits for all or nothing.", remedy="Leave out `each`, or `wait_s`.")
    now = services.now()
    reservations = await actor.write_as(lambda conn, me: reserve_each(conn, lock_request, me, now))
    if not reservations["conflicts"]:
        del reservations["conflicts"]
    return {"success": "conflicts" not in reservations, **reservations}


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.post("/renew", answer=Renewed)
async def renew(services: Services, body: Renewal) -> Payload:
    """Let reservations last ``extend_s`` longer, all or none; each is told with ``old_expires_at``."""
    now, keys = services.now(), parse(services, body.paths)

    def extend(conn: Connection, me: Speaker) -> tuple[str, list[RenewedLock]]:
        return me.name, lock_table.renew(
            conn, me.holder, now, extend_s=body.extend_s, keys=keys, lock_ids=body.lock_ids, whole=True
        )

    name, renewed = await Actor(services, body.session_id).write_as(extend)
    shown = renewed[:MOST]
    locks = [
        {**lock, "old_expires_at": row["old_expires_at"]}
        for lock, row in zip(describe_locks(name, shown), shown, strict=True)
    ]
    return {
        "success": True,
        "locks": locks,
        **({"left_out": len(renewed) - len(shown)} if renewed[len(shown) :] else {}),
    }


@router.post("/force-release", answer=Forced, errors=(stale_holders.ReservationActive,))
async def force_release(services: Services, body: Force) -> Payload:
    """Take locks from holders who are gone: no heartbeat for 30 minutes, no mail, file or commit for 15."""
    if not body.paths and not body.lock_ids:
        raise InvalidInput("Say what to release.", remedy="Name paths or ids of locks.")
    now, keys = services.now(), parse(services, body.paths)
    activities = await lock_activity.signs(services, keys, body.lock_ids)
    released = await Actor(services, body.session_id).write(
        lambda conn, me: stale_holders.force_release(
            conn,
            keys,
            body.lock_ids,
            activities,
            me,
            now,
            note=body.note,
            notify=body.notify,
            by_person=body.certain,
        )
    )
    services.changes.announce()
    return {"success": True, "released": released}


@router.post("/check", changes=False, answer=list[Checked])
async def check(services: Services, body: Keys) -> list[Payload]:
    """For each key: whether an edit of it would be free, and who holds what overlaps it."""
    now, keys = services.now(), parse(services, body.paths)
    me = Holder(session_id=body.session_id or person())
    return await services.store.read_inline(lock_table.standing, keys, me, now)


@router.post("/check-commit", scope=MACHINE, changes=False, audited=True, answer=CommitChecked)
async def check_commit(services: Services, body: Commit) -> Payload:
    """The files of a commit that other sessions hold in its checkout; ``enforcement``: as in the settings."""
    now, session_id = services.now(), body.session_id or person()

    def look(conn: Connection) -> list[Payload]:
        return commits.held_by_others(conn, body.paths, body.checkout, session_id, now, fold=services.fold)

    policy = services.settings().locks.enforcement
    return {"enforcement": policy, "held": [] if policy == "off" else await services.store.read(look)}


@router.post("/release", answer=Released)
async def release(services: Services, body: Release) -> Payload:
    """Give up a session's locks, those named or all. Another session is refused, a person put on record."""
    now, keys = services.now(), parse(services, body.paths)

    def free(conn: Connection) -> list[str]:
        holder = speaker(conn, body.session_id, now).holder
        by = addresses.acting_for(conn, holder.session_id, body.caller or holder.session_id, person())
        released_locks = lock_table.release(conn, keys, holder, now, by=by, lock_ids=body.lock_ids)
        return [row["file_path"] for row in released_locks]

    async with refusals(services, body.caller):
        released = await services.store.write(free)
    services.changes.announce()
    return {"success": True, "released": released}
