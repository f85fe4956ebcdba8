"""The shared state of a task over HTTP."""

from __future__ import annotations

from corral.coordination.services import Services
from corral.core.errors import Conflict
from corral.core.routing import EVERYONE, PROJECT, Routes
from corral.store.rows.tasks import SharedValue
from corral.work.state import state as shared_state
from corral.work.state.api import Deleted, Gone, Key, NewValue, Value

router = Routes("state", "/tasks", scope=PROJECT, callers=EVERYONE)


@router.get("/{task_id}/state", answer=list[Value])
async def listing(services: Services, task_id: str, key: Key | None = None) -> list[SharedValue]:
    """The values that agents share about a task, by key."""
    if key is not None:
        return [await services.store.read(shared_state.read, task_id, key)]
    return await services.store.read(shared_state.listing, task_id)


@router.post("/{task_id}/state", answer=Value, errors=(Conflict,))
async def write(services: Services, task_id: str, body: NewValue) -> SharedValue:
    """Set a value, atomically; it is answered with its new version."""
    now = services.now()
    return await services.store.write(
        shared_state.write, task_id, body.key, body.value, now, by=body.session_id, if_version=body.if_version
    )


@router.post("/{task_id}/state/delete", errors=(Conflict,))
async def remove(services: Services, task_id: str, body: Gone) -> Deleted:
    """Delete a key."""
    await services.store.write(shared_state.remove, task_id, body.key, if_version=body.if_version)
    return {"key": body.key, "deleted": True}
