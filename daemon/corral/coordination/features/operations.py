"""Features over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.features import registry as feature_registry
from corral.coordination.features import reporting as app_features
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.pages import BYTES, MOST, following, page
from corral.core.paging import answer
from corral.core.routing import Routes
from corral.core.states import FeatureStatus

router = Routes("features", "/features")

FeatureId = Annotated[str, Field(min_length=1, max_length=feature_registry.MAX_ID, examples=["FEAT-123"])]
Claims = Annotated[
    list[str],
    Field(
        max_length=feature_registry.MAX_CLAIMS,
        examples=[["api:GET /v1/users", "db:schema:users", "src/api/**"]],
        description="Paths, globs and logical keys, as locks have them.",
    ),
]
Caller = Annotated[str | None, Field(max_length=128, description="The session that asks; none: the person.")]


class Registration(BaseModel):
    """A line of work and what it claims."""

    feature_id: FeatureId
    resource_claims: Claims
    title: str | None = None
    branch_name: str | None = None
    merge_priority: int = Field(feature_registry.USUAL_PRIORITY, ge=-1000, le=1000)
    metadata: dict[str, Any] = Field(default_factory=dict)
    session_id: Caller = None


class Deregistration(BaseModel):
    """How a feature ends."""

    feature_id: FeatureId
    status: FeatureStatus = FeatureStatus.COMPLETED
    session_id: Caller = None


class Question(BaseModel):
    """A registered feature, or claims of one that is only thought of."""

    feature_id: FeatureId | None = None
    claims: Claims | None = None
    candidate_feature_id: FeatureId | None = Field(None, description="Another word for `feature_id`.")
    candidate_claims: Claims | None = Field(None, description="Another word for `claims`.")


@router.get("", answer=list[dict[str, Any]])
async def listing(
    services: Services,
    request: Request,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[
        str | None, Field(max_length=feature_registry.MAX_ID, description="The id of the last one known.")
    ] = None,
) -> Response:
    """The active features, oldest first."""
    found = await services.store.read(
        lambda conn: page(following(feature_registry.active(conn), "feature_id", after), limit)
    )
    return answer(request, found, lambda row: {"after": row["feature_id"]})


@router.post("", status_code=201)
async def register(services: Services, said: Registration) -> dict[str, Any]:
    """Register a feature; one that is active gets these claims in place of its own."""
    actor = Actor(services, said.session_id)
    row, action = await app_features.register(actor, **said.model_dump(exclude={"session_id"}))
    return {"success": True, "action": action, **row}


@router.post("/deregister")
async def deregister(services: Services, said: Deregistration) -> dict[str, Any]:
    """End a feature: its claims count no more. To do it twice is no error."""
    row = await app_features.deregister(Actor(services, said.session_id), said.feature_id, said.status)
    return {"success": True, **row}


@router.post("/analyze", audited=False)
async def analyze(services: Services, asked: Question) -> dict[str, Any]:
    """How well it goes beside the active features: ``FULL``, ``PARTIAL`` or ``SEQUENTIAL``, and what overlaps.

    ``left_out``: how many more features it meets, and of one, how many more pairs, than are told.
    """
    said = asked.claims if asked.claims is not None else asked.candidate_claims
    return await app_features.analyze(services, asked.feature_id or asked.candidate_feature_id, said, BYTES)


@router.get("/{feature_id:path}")
async def detail(services: Services, feature_id: str) -> dict[str, Any]:
    """One feature, whether active or not."""
    return await services.store.read(lambda conn: feature_registry.detail(conn, feature_id))
