"""Locks over HTTP."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.app import lock_activity, lock_waiting, refusals
from corral.app.lock_waiting import MAX_WAIT_S
from corral.app.pages import MOST, page
from corral.app.runtime.services import Services
from corral.config.account import user_name
from corral.coordination.locks import stale_holders
from corral.coordination.locks import table as locks
from corral.coordination.locks.keys import LockKey, parse_key, reach
from corral.coordination.locks.table import Holder
from corral.coordination.locks.waits import Wish
from corral.coordination.mail import addresses
from corral.coordination.sessions import registry as sessions
from corral.coordination.sessions.registry import Arrival
from corral.errors import InvalidInput, NotPermitted
from corral.models.instants import iso
from corral.server.http.pages import answer
from corral.server.http.routing import Routes
from corral.store.sessions import sessions as session_rows

router = Routes("locks", "/locks")

PERSON = "person"
"""The session that acts when no Claude Code session asks: the person at the keyboard."""


MAX_KEYS = 1000
"""Paths in one call."""
MAX_ANYWHERE = 10
"""Globs in one call that may mean anything, anywhere."""
EXTEND_S = 1800.0
"""How much longer a renewed lock lasts where nothing else is said."""
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
    """What to reserve, now, all or none; ``ttl_s``: seconds until it expires, 1 to 30 days' worth."""

    model_config = ConfigDict(extra="forbid")

    ttl_s: float | None = None
    exclusive: bool = True
    reason: str | None = Field(None, max_length=2000)


class Patience(Acquisition):
    """What to reserve; ``wait_s``: wait for all of it, in turn; ``each``: take what is free and tell about the rest."""

    model_config = ConfigDict(extra="ignore")

    wait_s: float = Field(0.0, ge=0, le=MAX_WAIT_S)
    each: bool = False


class Named(Keys):
    """Locks by what they are on, or by their ids."""

    lock_ids: list[str] = Field(default_factory=list, max_length=MAX_KEYS)


class Release(Named):
    """What to give up; ``caller``: the session that asks, where it is not the one whose locks they are."""

    caller: str | None = Field(None, max_length=128)


class Renewal(Named):
    """What is to last longer, all or none; nothing named: all that the session has reserved."""

    extend_s: float = EXTEND_S


class Force(Named):
    """What to take from a holder who is gone; ``note`` says why, ``notify`` whether they are told.

    ``certain``: a person takes it from a holder who is at work, too.
    """

    note: str = Field("", max_length=2000)
    notify: bool = True
    certain: bool = False


def parse(services: Services, paths: Sequence[str]) -> list[LockKey]:
    """Read what a caller typed as keys of this project.

    Raises:
        InvalidInput: Too many, or one that is none.
    """
    if len(paths) > MAX_KEYS:
        raise InvalidInput(
            f"{len(paths)} paths in one call are too many.",
            cause=f"At most {MAX_KEYS} are taken at once.",
            remedy="Name a folder or a glob such as `src/**` that covers them.",
        )
    root = services.project.root
    exists, is_folder = (lambda name: os.path.lexists(root / name)), (lambda name: os.path.isdir(root / name))  # noqa: PTH112
    keys = [parse_key(path, fold=services.fold, exists=exists, is_folder=is_folder) for path in paths]
    if sum(not reach(key) for key in keys) > MAX_ANYWHERE:
        raise InvalidInput(
            "Too many globs that begin with a wildcard.",
            cause=f"Each is compared with every lock there is; {MAX_ANYWHERE} are taken at once.",
            remedy="Begin globs with a folder, such as `src/**/*.py`.",
        )
    return keys


@cache
def person() -> str:
    """The id of the session of the person at the keyboard: whoever started the daemon."""
    return f"{PERSON}-{user_name()}"


@dataclass(frozen=True)
class Speaker:
    """The session that a request acts for; ``arrived``: it was not alive before."""

    holder: Holder
    name: str
    arrived: bool


def speaker(conn: Connection, session_id: str | None, now: datetime) -> Speaker:
    """Find, or register, the session that a request acts for: the person's own where none is named."""
    who = session_id or person()
    row = session_rows.touch(conn, who, iso(now))
    arrived = row is None
    if row is None:
        kind, named = ("claude", None) if session_id else (PERSON, user_name())
        row = sessions.register(conn, Arrival(session_id=who, agent_type=kind, agent_name=named), now)
    kin = (row["parent_session_id"],) if row["parent_session_id"] else ()
    return Speaker(Holder(session_id=who, task_id=row["task_id"], kin=kin), row["agent_name"], arrived)


@router.get("", response_model=list[dict[str, Any]])
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
    found = await services.store.read(lambda conn: page(locks.listing(conn, now, after=after, limit=limit), limit))
    return answer(request, found, lambda row: {"after": locks.place(row)})


async def acquire(services: Services, wanted: Acquisition) -> dict[str, Any]:
    """Reserve all the keys now, or none of them: what is asked all the time, past the framework."""
    identity = Identity(services, wanted.session_id)
    taken = await lock_waiting.acquire(services, _wish(services, wanted), identity, 0)
    return identity.told(taken)


@router.post("/acquire", status_code=201)
async def acquire_in_turn(services: Services, request: Request, wanted: Patience) -> dict[str, Any]:
    """Reserve all the keys or none of them, or each that is free; with ``wait_s`` when it is one's turn."""
    wish, identity = _wish(services, wanted), Identity(services, wanted.session_id)
    if not wanted.each:
        hung_up = partial(_hung_up, request)
        return identity.told(await lock_waiting.acquire(services, wish, identity, wanted.wait_s, hung_up))
    if wanted.wait_s:
        raise InvalidInput("One waits for all or nothing.", remedy="Leave out `each`, or `wait_s`.")
    now = services.now()
    taken, refused = await services.store.write(
        lambda conn: locks.acquire_each(
            conn, wish.keys, identity(conn), now, ttl_s=wish.ttl_s, exclusive=wish.exclusive, reason=wish.reason
        )
    )
    return identity.told(taken, [row for found in refused.values() for row in found])


class Identity:
    """Who asks, found in the transaction of what is asked for."""

    def __init__(self, services: Services, session_id: str | None) -> None:
        self._services = services
        self._session_id = session_id
        self._speaker: Speaker | None = None

    def __call__(self, conn: Connection) -> Holder:
        """Find or register the session."""
        self._speaker = speaker(conn, self._session_id, self._services.now())
        return self._speaker.holder

    def told(self, taken: list[dict[str, Any]], conflicts: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        """What the one who asked is told of locks of his own."""
        assert self._speaker is not None
        if self._speaker.arrived:  # from now on the job looks regularly, at what expires too
            self._services.nudge("sessions")
        own = [locks.wire({**row, "agent_name": self._speaker.name}) for row in taken]
        return {"success": not conflicts, "locks": own, **({"conflicts": list(conflicts)} if conflicts else {})}


def _wish(services: Services, wanted: Acquisition) -> Wish:
    ttl_s = wanted.ttl_s if wanted.ttl_s is not None else services.settings().locks.ttl_s
    return Wish(tuple(parse(services, wanted.paths)), ttl_s, wanted.exclusive, wanted.reason)


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.post("/renew")
async def renew(services: Services, wanted: Renewal) -> dict[str, Any]:
    """Let reservations last ``extend_s`` longer, all or none; each is told with ``old_expires_at``."""
    now, keys, identity = services.now(), parse(services, wanted.paths), Identity(services, wanted.session_id)
    renewed = await services.store.write(
        lambda conn: locks.renew(
            conn, identity(conn), now, extend_s=wanted.extend_s, keys=keys, lock_ids=wanted.lock_ids, whole=True
        )
    )
    shown = renewed[:MOST]
    answer = identity.told(shown)
    for lock, row in zip(answer["locks"], shown, strict=True):
        lock["old_expires_at"] = row["old_expires_at"]
    return {**answer, **({"left_out": len(renewed) - len(shown)} if renewed[len(shown) :] else {})}


@router.post("/force-release")
async def force_release(services: Services, wanted: Force) -> dict[str, Any]:
    """Take locks from holders who are gone: no sign of life for 30 minutes, no mail, file or commit for 15."""
    if not wanted.paths and not wanted.lock_ids:
        raise InvalidInput("Say what to release.", remedy="Name paths or ids of locks.")
    now, keys, identity = services.now(), parse(services, wanted.paths), Identity(services, wanted.session_id)
    if wanted.certain and wanted.session_id not in (None, person()):
        raise NotPermitted(
            "Only a person takes a lock from somebody who is at work.", remedy="Ask the holder, or a person."
        )
    seen = await lock_activity.signs(services, keys, wanted.lock_ids)
    released = await services.store.write(
        lambda conn: stale_holders.force_release(
            conn,
            keys,
            wanted.lock_ids,
            seen,
            identity(conn),
            now,
            note=wanted.note,
            notify=wanted.notify,
            by_person=wanted.certain,
        )
    )
    services.changes.announce()
    return {"success": True, "released": released}


@router.post("/check")
async def check(services: Services, asked: Keys) -> list[dict[str, Any]]:
    """For each key: whether an edit of it would be free, and who holds what overlaps it."""
    now, keys = services.now(), parse(services, asked.paths)
    me = Holder(session_id=asked.session_id or person())
    return await services.store.glance(lambda conn: locks.standing(conn, keys, me, now))


@router.post("/release")
async def release(services: Services, given: Release) -> dict[str, Any]:
    """Give up a session's locks, those named or all. Another session is refused, a person put on record."""
    now, keys = services.now(), parse(services, given.paths)

    def free(conn: Connection) -> list[str]:
        holder = speaker(conn, given.session_id, now).holder
        by = addresses.acting_for(conn, holder.session_id, given.caller or holder.session_id, person())
        gone = locks.release(conn, keys, holder, now, by=by, lock_ids=given.lock_ids)
        return [row["file_path"] for row in gone]

    released = await refusals.write(services, given.caller, free)
    services.changes.announce()
    return {"success": True, "released": released}
