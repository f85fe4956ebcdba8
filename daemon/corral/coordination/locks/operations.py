"""Locks over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.edits import commits
from corral.coordination.locks import activity as lock_activity
from corral.coordination.locks import stale_holders
from corral.coordination.locks import table as lock_table
from corral.coordination.locks import waiting as lock_waiting
from corral.coordination.locks.reserving import EXTEND_S, MAX_KEYS, parse, reserve_each, told
from corral.coordination.locks.table import Holder
from corral.coordination.locks.waiting import MAX_WAIT_S
from corral.coordination.locks.waits import LockRequest
from corral.coordination.mail import addresses
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor, Speaker, person, speaker
from corral.coordination.sessions.impersonation import refusals
from corral.core.errors import InvalidInput, NotPermitted
from corral.core.pages import MOST, page
from corral.core.paging import answer
from corral.core.routing import Routes
from corral.store.rows.sessions import RenewedLock

router = Routes("locks", "/locks")

MOST_COMMITTED = 20_000
"""Files of one commit that are looked at."""
_SESSION = Field(None, max_length=128, description="For whom; by default the person at the keyboard.")


class Keys(BaseModel):
    """Paths, globs and logical keys."""

    paths: list[str] = Field(
        default_factory=list, max_length=MAX_KEYS, examples=[["src/api/**", "api:GET /v1/users", "db:schema:users"]]
    )
    file_path: str | None = Field(None, description="One more of them.")
    file_paths: list[str] = Field(default_factory=list, max_length=MAX_KEYS, description="Another word for `paths`.")
    session_id: str | None = _SESSION

    @model_validator(mode="after")
    def _one_list(self) -> Keys:
        if self.file_path is not None or self.file_paths:
            self.paths = [*self.paths, *self.file_paths, *([] if self.file_path is None else [self.file_path])]
        return self


class Acquisition(Keys):
    """What to reserve, all or none; ``ttl_s``: seconds until it expires, 1 to 30 days' worth.

    ``wait_s``: wait for all of it, in turn; ``each``: take what is free and tell about the rest.
    """

    ttl_s: float | None = None
    exclusive: bool = True
    reason: str | None = Field(None, max_length=2000)
    wait_s: float = Field(0.0, ge=0, le=MAX_WAIT_S)
    each: bool = False


class Commit(BaseModel):
    """The files of a commit that is about to be made in a checkout; ``session_id``: who makes it, else the person."""

    checkout: str = Field(min_length=1, max_length=4096, description="The top folder of the checkout.")
    paths: list[str] = Field(max_length=MOST_COMMITTED, description="Relative to it.")
    session_id: str | None = Field(None, max_length=128)


class Named(Keys):
    """Locks by what they are on, or by their ids."""

    lock_ids: list[str] = Field(default_factory=list, max_length=MAX_KEYS)


class Release(Named):
    """What to give up; ``caller``: the session that asks, where it is not the one whose locks they are."""

    caller: str | None = Field(None, max_length=128)


class Renewal(Named):
    """The locks to extend, all or none; nothing named: all that the session has reserved."""

    extend_s: float = EXTEND_S


class Force(Named):
    """What to take from a holder who is gone; ``note`` says why, ``notify`` whether they are told.

    ``certain``: a person takes it from an active holder, too.
    """

    note: str = Field("", max_length=2000)
    notify: bool = True
    certain: bool = False


@router.get("", answer=list[dict[str, Any]])
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
    found = await services.store.read(lambda conn: page(lock_table.listing(conn, now, after=after, limit=limit), limit))
    return answer(request, found, lambda row: {"after": lock_table.cursor(row)})


@router.post("/acquire", status_code=201, hot=True)
async def acquire(services: Services, request: Request, wanted: Acquisition) -> dict[str, Any]:
    """Reserve all the keys or none of them, or each that is free; with ``wait_s`` when it is one's turn."""
    actor = Actor(services, wanted.session_id)
    ttl_s = wanted.ttl_s if wanted.ttl_s is not None else services.settings().locks.ttl_s
    lock_request = LockRequest(tuple(parse(services, wanted.paths)), ttl_s, wanted.exclusive, wanted.reason)
    if not wanted.each:
        whole = await lock_waiting.acquire(actor, lock_request, wanted.wait_s, partial(_hung_up, request))
        return {"success": True, "locks": told(*whole)}
    if wanted.wait_s:
        raise InvalidInput("One waits for all or nothing.", remedy="Leave out `each`, or `wait_s`.")
    now = services.now()
    held = await actor.write_as(lambda conn, me: reserve_each(conn, lock_request, me, now))
    if not held["conflicts"]:
        del held["conflicts"]
    return {"success": "conflicts" not in held, **held}


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.post("/renew")
async def renew(services: Services, wanted: Renewal) -> dict[str, Any]:
    """Let reservations last ``extend_s`` longer, all or none; each is told with ``old_expires_at``."""
    now, keys = services.now(), parse(services, wanted.paths)

    def extend(conn: Connection, me: Speaker) -> tuple[str, list[RenewedLock]]:
        return me.name, lock_table.renew(
            conn, me.holder, now, extend_s=wanted.extend_s, keys=keys, lock_ids=wanted.lock_ids, whole=True
        )

    name, renewed = await Actor(services, wanted.session_id).write_as(extend)
    shown = renewed[:MOST]
    locks = [
        {**lock, "old_expires_at": row["old_expires_at"]} for lock, row in zip(told(name, shown), shown, strict=True)
    ]
    return {
        "success": True,
        "locks": locks,
        **({"left_out": len(renewed) - len(shown)} if renewed[len(shown) :] else {}),
    }


@router.post("/force-release")
async def force_release(services: Services, wanted: Force) -> dict[str, Any]:
    """Take locks from holders who are gone: no heartbeat for 30 minutes, no mail, file or commit for 15."""
    if not wanted.paths and not wanted.lock_ids:
        raise InvalidInput("Say what to release.", remedy="Name paths or ids of locks.")
    now, keys = services.now(), parse(services, wanted.paths)
    if wanted.certain and wanted.session_id not in (None, person()):
        raise NotPermitted(
            "Only a person may take a lock from an active session.", remedy="Ask the holder, or a person."
        )
    seen = await lock_activity.signs(services, keys, wanted.lock_ids)
    released = await Actor(services, wanted.session_id).write(
        lambda conn, me: stale_holders.force_release(
            conn,
            keys,
            wanted.lock_ids,
            seen,
            me,
            now,
            note=wanted.note,
            notify=wanted.notify,
            by_person=wanted.certain,
        )
    )
    services.changes.announce()
    return {"success": True, "released": released}


@router.post("/check", hot=True, audited=False)
async def check(services: Services, asked: Keys) -> list[dict[str, Any]]:
    """For each key: whether an edit of it would be free, and who holds what overlaps it."""
    now, keys = services.now(), parse(services, asked.paths)
    me = Holder(session_id=asked.session_id or person())
    return await services.store.read_inline(lambda conn: lock_table.standing(conn, keys, me, now))


@router.post("/check-commit")
async def check_commit(services: Services, asked: Commit) -> dict[str, Any]:
    """The files of a commit that other sessions hold in its checkout; ``enforcement``: as in the settings."""
    now, who = services.now(), asked.session_id or person()

    def look(conn: Connection) -> list[dict[str, Any]]:
        return commits.held_by_others(conn, asked.paths, asked.checkout, who, now, fold=services.fold)

    policy = services.settings().locks.enforcement
    return {"enforcement": policy, "held": [] if policy == "off" else await services.store.read(look)}


@router.post("/release", hot=True)
async def release(services: Services, given: Release) -> dict[str, Any]:
    """Give up a session's locks, those named or all. Another session is refused, a person put on record."""
    now, keys = services.now(), parse(services, given.paths)

    def free(conn: Connection) -> list[str]:
        holder = speaker(conn, given.session_id, now).holder
        by = addresses.acting_for(conn, holder.session_id, given.caller or holder.session_id, person())
        gone = lock_table.release(conn, keys, holder, now, by=by, lock_ids=given.lock_ids)
        return [row["file_path"] for row in gone]

    async with refusals(services, given.caller):
        released = await services.store.write(free)
    services.changes.announce()
    return {"success": True, "released": released}
