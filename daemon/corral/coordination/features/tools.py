"""Features as the coordinator's documents name them."""

from __future__ import annotations

from typing import Any

from corral.coordination.features import registry as feature_registry
from corral.coordination.features import reporting as app_features
from corral.coordination.features.api import USUAL_PRIORITY
from corral.core.pages import SHOWN_BYTES, page
from corral.core.payload import Payload
from corral.faces.mcp.calls import coordinator_tool, current


@coordinator_tool
async def register_feature(
    feature_id: str,
    resource_claims: list[str],
    title: str | None = None,
    branch_name: str | None = None,
    merge_priority: int = USUAL_PRIORITY,
    metadata: dict[str, Any] | None = None,
) -> Payload:
    """Register a line of work with the paths, globs and logical keys that it will change; again: replaces the claims."""
    row, action = await app_features.register(
        current.get(),
        feature_id=feature_id,
        resource_claims=resource_claims,
        title=title,
        branch_name=branch_name,
        merge_priority=merge_priority,
        metadata=metadata or {},
    )
    return {"success": True, "action": action, **row}


@coordinator_tool
async def deregister_feature(feature_id: str, status: str = "completed") -> Payload:
    """End a feature (completed or cancelled): its claims count no more."""
    row = await app_features.deregister(current.get(), feature_id, status)
    return {"success": True, "feature_id": row["feature_id"], "status": row["status"]}


@coordinator_tool
async def get_feature(feature_id: str) -> Payload:
    """One feature: its claims, status, branch and who registered it."""
    row = await current.get().services.store.read(feature_registry.detail, feature_id)
    return {"success": True, "feature": row}


@coordinator_tool
async def list_active_features() -> Payload:
    """Every feature whose claims count."""
    features = await current.get().services.store.read(
        lambda conn: page(feature_registry.active(conn), size=SHOWN_BYTES)
    )
    return {"success": True, "features": features.rows, **({"left_out": "The younger ones."} if features.more else {})}


@coordinator_tool
async def analyze_feature_conflicts(
    feature_id: str | None = None, candidate_feature_id: str | None = None, candidate_claims: list[str] | None = None
) -> Payload:
    """Can it go beside the active features? FULL: yes; PARTIAL: it meets some at the merge; SEQUENTIAL: only after them."""
    services, feature = current.get().services, feature_id or candidate_feature_id
    return {"success": True, **await app_features.analyze(services, feature, candidate_claims, SHOWN_BYTES)}
