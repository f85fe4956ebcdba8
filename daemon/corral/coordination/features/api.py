"""Features: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from corral.coordination.sessions.api import Acting
from corral.core.answers import Instant
from corral.core.states import FeatureStatus

MAX_CLAIMS = 1000
MAX_ID = 128
USUAL_PRIORITY = 5
FeatureId = Annotated[str, Field(min_length=1, max_length=MAX_ID, description="The feature's name, such as FEAT-123.")]
Claims = Annotated[
    list[str], Field(max_length=MAX_CLAIMS, description="A path, a glob, or a logical key such as 'api:GET /v1/users'.")
]
Caller = Annotated[str | None, Field(max_length=128, description="The session that asks; none: the person.")]
_ID = "FEAT-123"


class FeatureRegistration(Acting):
    """A line of work and what it claims."""

    feature_id: FeatureId = Field(examples=[_ID])
    resource_claims: Claims = Field(examples=[["src/search/**"], ["api:GET /v1/users", "db:schema:users"]])
    title: str | None = Field(None, description="A short title.", examples=["Search"])
    branch_name: str | None = Field(None, description="The branch of the feature.")
    merge_priority: int = Field(USUAL_PRIORITY, ge=-1000, le=1000, description="Priority for ordering merges.")
    metadata: dict[str, Any] = Field(default_factory=dict, description="Further data: a JSON object.")
    session_id: Caller = None


class Deregistration(Acting):
    """How a feature ends."""

    feature_id: FeatureId = Field(examples=[_ID])
    status: FeatureStatus = Field(
        FeatureStatus.COMPLETED, description="Whether it was completed or abandoned.", examples=["completed"]
    )
    session_id: Caller = None


class Question(BaseModel):
    """A registered feature, or claims of one that is only thought of."""

    feature_id: FeatureId | None = None
    claims: Claims | None = Field(None, examples=[["src/search/index.py"]])
    candidate_feature_id: FeatureId | None = Field(None, description="Another word for `feature_id`.")
    candidate_claims: Claims | None = Field(None, description="Another word for `claims`.")


class Feature(TypedDict):
    """A line of work that was registered; ``metadata`` has free fields."""

    feature_id: str
    title: str | None
    status: FeatureStatus
    registered_by: str | None
    resource_claims: list[str]
    branch_name: str | None
    merge_priority: int
    metadata: dict[str, Any]
    registered_at: Instant
    updated_at: Instant
    completed_at: Instant | None


class Registered(Feature):
    """A feature as it was registered now; ``updated``: it was active before."""

    success: bool
    action: Literal["registered", "updated"]


class Deregistered(Feature):
    """A feature that has ended."""

    success: bool


class ClaimConflict(TypedDict):
    """How a feature goes beside an active one that it meets.

    ``claims``: pairs of its claim and the other's that overlap; ``overlapping_keys``: its claims among these; ``left_out``: how
    many more pairs there are.
    """

    feature_id: str
    feasibility: Literal["PARTIAL", "SEQUENTIAL"]
    claims: list[list[str]]
    overlapping_keys: list[str]
    left_out: NotRequired[int]


class Judgement(TypedDict):
    """How well a feature goes beside the active ones, the gravest conflict first; ``left_out``: how many more conflicts."""

    candidate_feature_id: str | None
    feasibility: Literal["FULL", "PARTIAL", "SEQUENTIAL"]
    total_candidate_claims: int
    total_conflicting_claims: int
    conflicts: list[ClaimConflict]
    left_out: NotRequired[int]
