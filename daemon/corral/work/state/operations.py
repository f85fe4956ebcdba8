"""The shared state of a task over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

from corral.coordination.services import Services
from corral.core.routing import Routes
from corral.work.state import state as shared_state
from corral.work.tasks import wire as task_shapes

router = Routes("state", "/tasks")

Key = task_shapes.StateKey
Version = Annotated[int, Field(ge=0)]


class NewValue(BaseModel):
    """A value to set; ``if_version``: only if the key has this version (0: only if it is not there)."""

    key: Key
    value: Any
    if_version: Version | None = None
    session_id: task_shapes.Short | None = None


class Gone(BaseModel):
    """A key to delete; ``if_version``: only if it has this version."""

    key: Key
    if_version: Version | None = None


@router.get("/{task_id}/state")
async def listing(services: Services, task_id: str, key: Key | None = None) -> list[dict[str, Any]]:
    """The values that agents share about a task, by key: ``{key, value, version, updated_by, updated_at}``."""
    if key is not None:
        return [dict(await services.store.read(lambda conn: shared_state.read(conn, task_id, key)))]
    return [dict(row) for row in await services.store.read(lambda conn: shared_state.listing(conn, task_id))]


@router.post("/{task_id}/state")
async def write(services: Services, task_id: str, given: NewValue) -> dict[str, Any]:
    """Set a value, atomically; it is answered with its new version."""
    now = services.now()
    return dict(
        await services.store.write(
            lambda conn: shared_state.write(
                conn, task_id, given.key, given.value, now, by=given.session_id, if_version=given.if_version
            )
        )
    )


@router.post("/{task_id}/state/delete")
async def remove(services: Services, task_id: str, given: Gone) -> dict[str, Any]:
    """Delete a key."""
    await services.store.write(lambda conn: shared_state.remove(conn, task_id, given.key, if_version=given.if_version))
    return {"key": given.key, "deleted": True}
