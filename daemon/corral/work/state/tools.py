"""Shared state: values that the agents at one task, and those that it leads, share while it lasts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks.table import Holder
from corral.core.payload import Payload
from corral.faces.mcp.calls import Call, coordinator_tool, current
from corral.work.state import state as shared_state
from corral.work.tasks.api import StateKey


@coordinator_tool
async def get_state(key: StateKey, task_id: str | None = None) -> Payload:
    """A value that agents share about a task, with its version. task_id: default is the task that you work on, or the one that
    leads it."""
    call = current.get()
    return {
        "success": True,
        **await call.services.store.read(lambda conn: shared_state.read(conn, _task(conn, call, task_id), key)),
    }


@coordinator_tool
async def list_state(task_id: str | None = None) -> Payload:
    """All values that agents share about a task (default: as in get_state)."""
    call = current.get()
    rows = await call.services.store.read(lambda conn: shared_state.listing(conn, _task(conn, call, task_id)))
    return {"success": True, "values": rows}


@coordinator_tool
async def set_state(key: StateKey, value: Any, if_version: int | None = None, task_id: str | None = None) -> Payload:
    """Set a value (default task: as in get_state). if_version: only if nobody has changed it since you read that version; 0: only
    if the key is new. All values are deleted when the task ends."""
    call, now = current.get(), current.get().services.now()

    def store(conn: Connection, me: Holder) -> Payload:
        task = task_id or shared_state.task_of(conn, me.session_id)
        row = shared_state.write(conn, task, key, value, now, by=me.session_id, if_version=if_version)
        return {"success": True, **row}

    return await call.write(store)


@coordinator_tool
async def delete_state(key: StateKey, if_version: int | None = None, task_id: str | None = None) -> Payload:
    """Delete a value (default task: as in get_state); if_version: as in set_state."""

    def store(conn: Connection, me: Holder) -> Payload:
        task = task_id or shared_state.task_of(conn, me.session_id)
        shared_state.remove(conn, task, key, if_version=if_version)
        return {"success": True, "key": key, "deleted": True}

    return await current.get().write(store)


def _task(conn: Connection, call: Call, named: str | None) -> str:
    return named or shared_state.task_of(conn, call.acting)
