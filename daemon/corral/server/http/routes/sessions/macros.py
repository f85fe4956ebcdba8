"""Agent Mail's macros over HTTP: several steps in one call, all of them or none."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field
from sqlalchemy import Connection

from corral.app.actor import Speaker, speaker
from corral.app.locks import MAX_KEYS, parse, reserve_each
from corral.app.pages import SHOWN_BYTES, page
from corral.app.projects import project_of
from corral.app.runtime.services import Services
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.waits import LockRequest
from corral.coordination.mail import mailbox, mailing, threads
from corral.coordination.mail.addresses import Identity
from corral.coordination.sessions import registry as session_registry
from corral.models.instants import iso
from corral.models.payload import Payload
from corral.server.http.routes.callers import Caller, act
from corral.server.http.routes.daemon import Project
from corral.server.http.routes.sessions.sessions import Naming, give_name, whole
from corral.server.http.routing import Routes
from corral.store.sessions import locks as lock_rows
from corral.store.sessions import mailbox as mailbox_rows

router = Routes("macros", "/macros")
MOST_MAIL = 200


class Entering(Naming):
    """The session that begins, and its program. Without ``session_id``: the one that HTTP knows by ``name``, or a new one."""

    session_id: str | None = Field(None, max_length=128)
    program: str = Field(min_length=1, max_length=200, examples=["opencode-coder"])
    inbox_limit: int = Field(10, ge=1, le=MOST_MAIL)


class Reserving(BaseModel):
    """What to reserve, each path that is free."""

    paths: list[str] = Field(default_factory=list, max_length=MAX_KEYS, examples=[["src/api/**"]])
    ttl_s: float = 3600
    reason: str = Field("", max_length=2000)


class Beginning(Entering, Reserving):
    """The session that begins, and the paths to reserve."""


class Joining(Entering):
    """The session that joins a thread, and how many of its last messages it gets whole."""

    thread_id: str = Field(min_length=1, max_length=128, examples=["batch-7"])
    examples: int = Field(threads.EXAMPLES, ge=0, le=MOST_MAIL)


class Cycle(Caller, Reserving):
    """What to reserve; ``auto_release``: and to give up again at once."""

    paths: list[str] = Field(min_length=1, max_length=MAX_KEYS, examples=[["src/api/**"]])
    exclusive: bool = True
    auto_release: bool = False


class Reserved(BaseModel):
    """The reserved paths, and the holders of the others."""

    success: Literal[True] = True
    locks: list[Payload]
    conflicts: list[Payload]


class Begun(BaseModel):
    """Where a session is, who it is, and its mail, the newest first; ``inbox_left_out``: as much of it as fits."""

    success: Literal[True] = True
    project: Project
    session: Payload
    inbox: list[Payload]
    inbox_left_out: bool


class Started(Begun, Reserved):
    """The same, and what it reserved."""


class Thread(BaseModel):
    """The authors of a thread, and its last messages, the oldest first."""

    thread_id: str
    summary: dict[str, list[str]]
    total_messages: int
    examples: list[Payload]


class Joined(Begun):
    """The same, and the thread."""

    thread: Thread


class Cycled(Reserved):
    """The reserved paths, and those released again."""

    released: list[str] | None


@router.post("/start-session", status_code=201)
async def start_session(services: Services, said: Beginning) -> Started:
    """Begin: a session and its name, the files that it reserves, its mail."""
    now = services.now()
    wanted = LockRequest(tuple(parse(services, said.paths)), said.ttl_s, reason=said.reason or None)

    def begin(conn: Connection) -> tuple[str, Payload]:
        me = _enter(conn, said, now)
        held = reserve_each(conn, wanted, me, now) if wanted.keys else {"locks": [], "conflicts": []}
        return me.holder.session_id, held

    who, held = await services.store.write(begin)
    services.nudge("sessions")
    return Started.model_validate({**held, **await _begun(services, who, said.inbox_limit)})


@router.post("/prepare-thread", status_code=201)
async def prepare_thread(services: Services, said: Joining) -> Joined:
    """Join a thread: a session and its name, who has written what in it, its mail."""
    now = services.now()
    who = await services.store.write(lambda conn: _enter(conn, said, now).holder.session_id)
    services.nudge("sessions")

    def look(conn: Connection) -> Payload:
        meant = mailbox.thread_of(conn, said.thread_id) or said.thread_id
        last = (mailing.wire(one) for one in mailbox_rows.thread(conn, meant, limit=said.examples))
        told = {**threads.summary(conn, meant), "examples": page(last, size=SHOWN_BYTES).rows[::-1]}
        return {"thread_id": meant, **told}

    return Joined.model_validate(
        {"thread": await services.store.read(look), **await _begun(services, who, said.inbox_limit)}
    )


@router.post("/reservation-cycle")
async def reservation_cycle(services: Services, said: Cycle) -> Cycled:
    """Reserve paths, each that is free; with ``auto_release`` give up again at once what the session did not hold before."""
    keys = tuple(parse(services, said.paths))
    wanted = LockRequest(keys, said.ttl_s, said.exclusive, said.reason or None)

    def turn(conn: Connection, _me: Identity, now: datetime) -> Payload:
        me = speaker(conn, said.session_id, now)
        before = {row["lock_id"] for row in lock_rows.listing(conn, iso(now), [me.holder.session_id])}
        held = reserve_each(conn, wanted, me, now)
        ids = [lock["lock_id"] for lock in held["locks"] if lock["lock_id"] not in before]
        gone = lock_table.release(conn, (), me.holder, now, lock_ids=ids) if said.auto_release and ids else []
        return {**held, "released": [row["file_path"] for row in gone] if said.auto_release else None}

    return Cycled.model_validate(await act(services, said, turn))


def _enter(conn: Connection, said: Entering, now: datetime) -> Speaker:
    """The session that begins, under the name that it wants."""
    known = said.session_id or str(
        session_registry.over_http(conn, "" if said.new else said.name or "", now)["session_id"]
    )
    me = speaker(conn, known, now)
    give_name(conn, known, me.name, said, now)
    return me


async def _begun(services: Services, session_id: str, limit: int) -> Payload:

    def look(conn: Connection) -> Payload:
        mail = page(map(mailing.wire, mailbox.inbox(conn, session_id, limit=limit)), limit, size=SHOWN_BYTES)
        session = whole(conn, session_registry.find(conn, session_id), services.teams().capabilities)
        return {"session": session, "inbox": mail.rows, "inbox_left_out": mail.cut}

    return {"project": await services.work(lambda: project_of(services)), **await services.store.read(look)}
