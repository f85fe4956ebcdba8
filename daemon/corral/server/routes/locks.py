"""Locks over HTTP."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from corral.coordination import locks, sessions
from corral.coordination.keys import LockKey, parse_key
from corral.coordination.locks import Holder
from corral.coordination.sessions import Arrival
from corral.models.instants import iso
from corral.server.routes.dependencies import Given
from corral.server.services import Services
from corral.store import locks as rows
from corral.store import sessions as session_rows

router = APIRouter(prefix="/locks", tags=["locks"])

PERSON = "person"
"""The session that acts when no Claude Code session asks: the person at the keyboard."""


class Keys(BaseModel):
    """Paths, globs and logical keys; ``session_id`` says for whom (default: the person)."""

    paths: list[str] = Field(default_factory=list, max_length=1000)
    session_id: str | None = Field(None, max_length=128)


class Acquisition(Keys):
    """What to reserve."""

    ttl_s: float | None = None
    exclusive: bool = True
    reason: str | None = Field(None, max_length=2000)


class Release(Keys):
    """What to give up; ``caller``: the session that asks, where it is not the one whose locks they are."""

    caller: str | None = Field(None, max_length=128)


def parse(services: Services, paths: list[str]) -> list[LockKey]:
    """Read what a caller typed as keys of this project."""
    root = Path(services.project.root)
    return [parse_key(path, fold=services.fold, exists=lambda name: (root / name).exists()) for path in paths]


def person() -> str:
    """The id of the session of the person at the keyboard."""
    return f"{PERSON}-{getpass.getuser()}"


@dataclass(frozen=True)
class Speaker:
    """The session that a request acts for; ``arrived``: it was not alive before."""

    holder: Holder
    name: str
    arrived: bool


def speaker(conn: Connection, session_id: str | None, now: datetime) -> Speaker:
    """Find, or register, the session that a request acts for: the person's own where none is named."""
    who = session_id or person()
    row = session_rows.beat(conn, who, iso(now))
    arrived = row is None
    if row is None:
        kind, named = ("claude", None) if session_id else (PERSON, _free_name(conn, who))
        row = sessions.register(conn, Arrival(session_id=who, agent_type=kind, agent_name=named), now)
    kin = (row["parent_session_id"],) if row["parent_session_id"] else ()
    return Speaker(Holder(session_id=who, task_id=row["task_id"], kin=kin), row["agent_name"], arrived)


def _free_name(conn: Connection, who: str) -> str | None:
    name = getpass.getuser()
    holder = session_rows.by_name(conn, name)
    free = holder is None or holder["session_id"] == who
    return name if free and name.replace("-", "").replace("_", "").isalnum() else None


@router.get("")
async def listing(services: Given) -> list[dict[str, Any]]:
    """Every live lock."""
    now = iso(services.now())
    found = await services.read(lambda conn: rows.listing(conn, now))
    return [locks.wire(row) for row in found]


@router.post("/acquire", status_code=201)
async def acquire(services: Given, wanted: Acquisition) -> dict[str, Any]:
    """Reserve all the keys, or none of them."""
    now, keys = services.now(), parse(services, wanted.paths)
    ttl_s = wanted.ttl_s if wanted.ttl_s is not None else services.settings().locks.ttl_s

    def take(conn: Connection) -> tuple[Speaker, list[dict[str, Any]]]:
        me = speaker(conn, wanted.session_id, now)
        taken = locks.acquire(conn, keys, me.holder, now, ttl_s=ttl_s, exclusive=wanted.exclusive, reason=wanted.reason)
        return me, list({row["lock_id"]: row for row in taken}.values())

    me, taken = await services.write(take)
    if me.arrived:  # from now on the job looks regularly, at what expires too
        services.nudge("sessions")
    return {"success": True, "locks": [locks.wire({**row, "agent_name": me.name}) for row in taken]}


@router.post("/check")
async def check(services: Given, asked: Keys) -> list[dict[str, Any]]:
    """For each key: whether an edit of it would be free, and who holds what overlaps it."""
    now, keys = services.now(), parse(services, asked.paths)
    me = Holder(session_id=asked.session_id or person())

    def look(conn: Connection) -> list[dict[str, Any]]:
        answer = []
        for key in keys:
            found = [locks.conflict(row, key, now) for row in locks.overlapping(conn, key, me, now)]
            answer.append({"file_path": key.file_path, "locked": bool(found), "conflicts": found})
        return answer

    return await services.read(look)


@router.post("/release")
async def release(services: Given, given: Release) -> dict[str, Any]:
    """Give up a session's locks on the keys; without keys, all of them. Another caller is put on record."""
    now, keys = services.now(), parse(services, given.paths)

    def free(conn: Connection) -> list[str]:
        holder = speaker(conn, given.session_id, now).holder
        by = given.caller if given.caller != holder.session_id else None
        return [row["file_path"] for row in locks.release(conn, keys, holder, now, by=by)]

    released = await services.write(free)
    services.changed()
    return {"success": True, "released": released}
