"""File reservations as Agent Mail names them: the same locks, granted path by path, and never one that conflicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator
from sqlalchemy import Connection

from corral.coordination.locks import activity as lock_activity
from corral.coordination.locks import stale_holders
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.api import EXTEND_S, MAX_KEYS
from corral.coordination.locks.keys import LockKey
from corral.coordination.locks.reserving import inside, parse
from corral.coordination.locks.table import Holder, LockRequest
from corral.coordination.mail.addresses import Identity
from corral.coordination.projects import slug
from corral.coordination.services import Services
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import CorralError, InvalidInput, NotPermitted
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.faces.mcp.acting import Text, Texts, act, known_as
from corral.faces.mcp.calls import complaint, current, mail_tool

Some = Annotated[
    tuple[str | int, ...] | None, BeforeValidator(lambda value: (value,) if isinstance(value, str | int) else value)
]
"""Texts or numbers; one alone is a list of one; left out is another thing than none."""
MOST_CHECKED = 200


class EmptyPaths(InvalidInput):
    """No path was named where one is needed."""

    name = "empty_paths"
    default_remedy = "Name at least one path or glob."


class EmptyIds(InvalidInput):
    """A list of ids with nothing in it."""

    name = "empty_ids"
    default_remedy = "Name at least one, or leave the list out."


@mail_tool
async def file_reservation_paths(
    paths: Texts,
    ttl_seconds: float = 3600,
    exclusive: bool = True,
    reason: Text = "",
    project_key: Text = "",
    agent_name: Text = "",
    idempotency_key: Text = "",
) -> Payload:
    """Reserve paths and globs before you edit them. Conflicting ones are not granted: see `conflicts`, with the holders."""
    arguments = (project_key, agent_name, paths, ttl_seconds, exclusive, reason)
    if not idempotency_key:
        return await reserve(*arguments)
    call = current.get()
    me = await act(project_key, agent_name, lambda _conn, me, _now: me.session_id)
    before = call.replays.find(me, idempotency_key, arguments[2:], call.services.now())
    if before is not None:
        return {**before, "idempotent_replay": True}
    answer = await reserve(*arguments)
    call.replays.keep(me, idempotency_key, arguments[2:], answer, call.services.now())
    return answer


async def reserve(
    project_key: str, agent_name: str, paths: Sequence[str], ttl_s: float, exclusive: bool, reason: str
) -> Payload:
    """Reserve each path that is free: ``{granted, conflicts}``; also for tools that do more than that."""
    if not paths:
        raise EmptyPaths("No path was given.")
    keys, wrong = await _read(paths)

    def take(conn: Connection, me: Identity, now: datetime) -> Payload:
        lock_request = LockRequest(list(keys.values()), ttl_s, exclusive, reason or None)
        taken, refused = lock_table.acquire_each(conn, lock_request, _holder(conn, me), now)
        return {
            "granted": [_granted(row) for row in taken],
            "conflicts": [*_conflicts(conn, keys, refused), *wrong],
        }

    return await act(project_key, agent_name, take)


async def _read(paths: Iterable[str | int]) -> tuple[dict[str, LockKey], list[Payload]]:
    """The lock key of each path; for a path without one, the reason.

    Raises:
        InvalidInput: None of them means anything, or they are too many.
        NotPermitted: None of them may be reserved.
    """
    services = current.get().services

    def read() -> tuple[dict[str, LockKey], list[Payload]]:
        names = {path: inside(services.project, path) for path in map(str, paths)}
        try:
            return dict(zip(names, parse(services, list(names.values())), strict=True)), []
        except (InvalidInput, NotPermitted):
            if not 1 < len(names) <= MAX_KEYS:
                raise
        wrong = [(path, error) for path, name in names.items() if (error := _refusal(services, name)) is not None]
        good = {path: name for path, name in names.items() if path not in dict(wrong)}
        if not good:
            raise wrong[0][1]
        keys = dict(zip(good, parse(services, list(good.values())), strict=True))
        return keys, [{"path": path, "holders": [], **complaint(error)} for path, error in wrong]

    return await services.work(read)


def _refusal(services: Services, path: str) -> CorralError | None:
    try:
        parse(services, [path])
    except (InvalidInput, NotPermitted) as error:
        return error
    return None


def _conflicts(
    conn: Connection, keys: Mapping[str, LockKey], refused: Mapping[LockKey, list[Payload]]
) -> list[Payload]:
    return [{"path": path, "holders": _holders(conn, refused[key])} for path, key in keys.items() if key in refused]


@mail_tool
async def release_file_reservations(
    paths: Some = None,
    file_reservation_ids: Some = None,
    project_key: Text = "",
    agent_name: Text = "",
) -> Payload:
    """Give up your reservations: those named, or all."""
    return await give_back(project_key, agent_name, paths, file_reservation_ids)


async def give_back(
    project_key: str, agent_name: str, paths: Sequence[str | int] | None, ids: Sequence[str | int] | None = None
) -> Payload:
    """Release what is named, or everything: ``{released, released_at}``; also for tools that do more than that."""
    (keys, _), lock_ids = await _read(_named(paths, EmptyPaths)), _named(ids, EmptyIds)

    def free(conn: Connection, me: Identity, now: datetime) -> Payload:
        released = lock_table.release(conn, list(keys.values()), _holder(conn, me), now, lock_ids=lock_ids)
        return {"released": len({row["match_key"] for row in released}), "released_at": iso(now)}

    return await act(project_key, agent_name, free)


@mail_tool
async def renew_file_reservations(
    extend_seconds: float = EXTEND_S,
    paths: Some = None,
    file_reservation_ids: Some = None,
    project_key: Text = "",
    agent_name: Text = "",
) -> Payload:
    """Let your reservations last longer: those named, or all."""
    keys, _ = await _read(_named(paths, EmptyPaths))
    lock_ids = _named(file_reservation_ids, EmptyIds)
    renewed = await act(
        project_key,
        agent_name,
        lambda conn, me, now: lock_table.renew(
            conn, _holder(conn, me), now, extend_s=extend_seconds, keys=list(keys.values()), lock_ids=lock_ids
        ),
    )
    shown = [
        {
            "id": row["lock_id"],
            "path_pattern": row["file_path"],
            "old_expires_ts": row["old_expires_at"],
            "new_expires_ts": row["expires_at"],
        }
        for row in renewed[:MOST_CHECKED]
    ]
    more = {"left_out": len(renewed) - len(shown)} if len(renewed) > len(shown) else {}
    return {"renewed": len(renewed), "file_reservations": shown, **more}


@mail_tool
async def force_release_file_reservation(
    file_reservation_id: str | int,
    note: Text = "",
    notify_previous: bool = True,
    project_key: Text = "",
    agent_name: Text = "",
) -> Payload:
    """Take a reservation from an agent without a heartbeat; an active one is named to you instead (RESERVATION_ACTIVE)."""
    services, lock_ids = current.get().services, [str(file_reservation_id)]
    activities = await lock_activity.signs(services, (), lock_ids)

    def force(conn: Connection, me: Identity, now: datetime) -> Payload:
        holder = _holder(conn, me)
        taken = stale_holders.force_release(
            conn, (), lock_ids, activities, holder, now, note=note[:2000], notify=notify_previous
        )
        if taken:
            former = {**_former(taken[0], taken[0]["locked_by"], now), "notified": notify_previous}
            return {"released": 1, "released_at": iso(now), "reservation": former}
        own = lock_table.release(conn, (), holder, now, lock_ids=lock_ids)
        if own:
            former = {**_former(own[0], me.name, now), "notified": False}
            return {"released": 1, "released_at": iso(now), "reservation": former}
        return {"released": 0, "released_at": None, "already_released": True}

    return await act(project_key, agent_name, force)


@mail_tool
async def check_file_reservation_conflicts(paths: Texts, project_key: Text = "", agent_name: Text = "") -> Payload:
    """Whether paths are free for you, without reserving them."""
    if not paths:
        raise EmptyPaths("No path was given.")
    if len(paths) > MOST_CHECKED:
        raise InvalidInput(f"{len(paths)} paths in one call are too many.", remedy=f"Name at most {MOST_CHECKED}.")
    services = current.get().services
    (keys, wrong), now = await _read(paths), services.now()
    me = await act(project_key, agent_name, lambda conn, me, _now: _holder(conn, me))

    def look(conn: Connection) -> Payload:
        blocking = lock_table.blockers(conn, list(keys.values()), me, now, exclusive=True)
        nobody = Holder("")
        touched = {
            row["lock_id"]: row for key in keys.values() for row in lock_table.overlapping(conn, key, nobody, now)
        }
        conflicts = [*_conflicts(conn, keys, blocking), *wrong]
        held = {(row["session_id"], row["file_path"]) for rows_of_key in blocking.values() for row in rows_of_key}
        return {
            "conflict_free": not conflicts,
            "conflicts": conflicts,
            "own_active": [_granted(row) for row in touched.values() if row["session_id"] == me.session_id],
            "clear_paths": [path for path, key in keys.items() if key not in blocking],
            "checked_paths": list(paths),
            "total_conflicting_reservations": len(held),
            "output_truncated": False,
            "project": slug(services),
            "snapshot_ts": iso(now),
            "authoritative_source": "database",
            "read_only": True,
        }

    return await services.store.read(look)


def _holder(conn: Connection, me: Identity) -> Holder:
    row = session_rows.get(conn, me.session_id)
    if row is None:
        return Holder(me.session_id)
    return Holder(me.session_id, task_id=row["task_id"], kin=session_registry.kin_of(row))


def _named(values: Sequence[str | int] | None, empty: type[InvalidInput]) -> list[str]:
    if values is not None and not values:
        raise empty("An empty list names nothing.")
    if values is not None and len(values) > MAX_KEYS:
        raise InvalidInput(
            f"{len(values)} in one call are too many.", remedy=f"Name at most {MAX_KEYS}, or leave it out."
        )
    return [str(value) for value in values or ()]


def _granted(row: Mapping[str, Any]) -> Payload:
    return {
        "id": row["lock_id"],
        "path_pattern": row["file_path"],
        "exclusive": bool(row["exclusive"]),
        "reason": row["reason"] or "",
        "expires_ts": row["expires_at"],
    }


def _holders(conn: Connection, conflicts: Sequence[Payload]) -> list[Payload]:
    names = known_as(conn, ((row["session_id"], row["holder"]) for row in conflicts))
    return [
        {
            "agent": names[row["session_id"]],
            "path_pattern": row["file_path"],
            "exclusive": row["exclusive"],
            "expires_ts": row["expires_at"],
            **({"waiting": True} if row["waiting"] else {}),
        }
        for row in conflicts
    ]


def _former(row: Mapping[str, Any], holder: str, now: datetime) -> Payload:
    shown = {"agent": holder, "created_ts": row["acquired_at"], "released_ts": iso(now)}
    signs = {key.removesuffix("_at") + "_ts": at for key, at in row.items() if key.startswith("last_")}
    return {**_granted(row), **shown, **signs, "stale_reasons": row.get("stale_reasons", [])}
