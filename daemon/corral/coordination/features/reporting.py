"""Features: lines of work with what they claim, and whether they go beside each other."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from corral.coordination.features import registry as feature_registry
from corral.coordination.locks.reserving import parse
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.pages import page


async def register(actor: Actor, *, resource_claims: list[str], **about: Any) -> tuple[dict[str, Any], str]:
    """Register a feature, or give an active one these claims in place of its own; its row, and what was done.

    Args:
        resource_claims: Paths, globs and logical keys as callers type them.
        about: The rest of :class:`corral.coordination.features.registry.Registration`.
    """
    services, now = actor.services, actor.services.now()
    feature = feature_registry.Registration(claims=parse(services, resource_claims), **about)
    row_and_action = await actor.write(lambda conn, me: feature_registry.register(conn, feature, me.session_id, now))
    services.changes.announce()
    return row_and_action


async def deregister(actor: Actor, feature_id: str, status: str) -> dict[str, Any]:
    """End a feature: its claims count no more. To do it twice is no error."""
    now = actor.services.now()
    row = await actor.write(lambda conn, me: feature_registry.deregister(conn, feature_id, status, me.session_id, now))
    actor.services.changes.announce()
    return row


async def analyze(services: Services, feature_id: str | None, claims: list[str] | None, size: int) -> dict[str, Any]:
    """The judgement, with as many conflicting features as fit into so many bytes, and the number of the rest."""
    keys = None if claims is None else parse(services, claims)

    def judge(conn: Connection) -> dict[str, Any]:
        judgement = feature_registry.analyze(conn, feature_id, keys)
        conflicts = judgement["conflicts"]
        fitting = page(conflicts, size=size).rows
        left_out = len(conflicts) - len(fitting)
        return {**judgement, "conflicts": fitting, **({"left_out": left_out} if left_out else {})}

    return await services.store.read(judge)
