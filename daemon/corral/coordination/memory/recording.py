"""Memory: facts that a session records for later ones."""

from __future__ import annotations

from sqlalchemy import Connection

from corral.coordination.locks.table import Holder
from corral.coordination.memory import memory
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.actor import Actor
from corral.core.payload import Payload


async def remember(actor: Actor, it: memory.Memory) -> Payload:
    """Record a memory; ``action`` is ``created``, or ``deduplicated`` if it was recorded within the hour."""
    now = actor.services.now()

    def keep(conn: Connection, me: Holder) -> Payload:
        row, is_new = memory.remember(conn, session_registry.find(conn, me.session_id), it, now)
        return {"success": True, "memory_id": row["memory_id"], "action": "created" if is_new else "deduplicated"}

    return await actor.write(keep)
