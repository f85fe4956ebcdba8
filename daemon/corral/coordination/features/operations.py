"""Features over HTTP."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.features import registry as feature_registry
from corral.coordination.features import reporting as app_features
from corral.coordination.features.api import (
    MAX_ID,
    Deregistered,
    Deregistration,
    Feature,
    FeatureRegistration,
    Judgement,
    Question,
    Registered,
)
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.errors import NotFound
from corral.core.pages import BYTES, MOST, answer, following, page
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PROJECT, Routes

router = Routes("features", "/features", scope=PROJECT, callers=EVERYONE)


@router.get("", answer=list[Feature])
async def listing(
    services: Services,
    request: Request,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[str | None, Field(max_length=MAX_ID, description="The id of the last one known.")] = None,
) -> Response:
    """The active features, oldest first."""
    features = await services.store.read(
        lambda conn: page(following(feature_registry.active(conn), "feature_id", after), limit)
    )
    return answer(request, features, lambda row: {"after": row["feature_id"]})


@router.post("", status=201, answer=Registered)
async def register(services: Services, body: FeatureRegistration) -> Payload:
    """Register a feature; one that is active gets these claims in place of its own."""
    actor = Actor(services, body.session_id)
    row, action = await app_features.register(actor, **body.fields())
    return {"success": True, "action": action, **row}


@router.post("/deregister", answer=Deregistered)
async def deregister(services: Services, body: Deregistration) -> Payload:
    """End a feature: its claims count no more. To do it twice is no error."""
    row = await app_features.deregister(Actor(services, body.session_id), body.feature_id, body.status)
    return {"success": True, **row}


@router.post("/analyze", changes=False, answer=Judgement, errors=(NotFound,))
async def analyze(services: Services, body: Question) -> Payload:
    """How well it goes beside the active features, and what overlaps."""
    claims = body.claims if body.claims is not None else body.candidate_claims
    return await app_features.analyze(services, body.feature_id or body.candidate_feature_id, claims, BYTES)


@router.get("/{feature_id:path}", answer=Feature)
async def detail(services: Services, feature_id: str) -> Payload:
    """One feature, whether active or not."""
    return await services.store.read(feature_registry.detail, feature_id)
