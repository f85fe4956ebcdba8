"""Memory: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from corral.coordination.sessions.api import Acting
from corral.core.answers import Instant

MAX_LESSONS = 200


class NewMemory(Acting):
    """Something worth knowing later."""

    summary: str = Field(description="The fact, in one sentence.", examples=["The tests need a running database."])
    event_type: str = Field("discovery", max_length=64, description="Kind of memory.")
    details: dict[str, Any] | None = Field(None, description="Further data: a JSON object.")
    outcome: str | None = Field(None, description="The outcome.")
    lessons: list[str] = Field(
        default_factory=list, max_length=MAX_LESSONS, description="Advice for next time.", examples=[["make db"]]
    )
    tags: list[str] = Field(default_factory=list, max_length=200, description="A tag.", examples=[["tests"]])
    session_id: str | None = Field(None, min_length=1, max_length=128, description="Who tells it; none: the person.")


class Memory(TypedDict):
    """Something that was told; ``details`` is any JSON, ``times``: how often it was told, ``relevance``: 0 to 1."""

    memory_id: str
    agent_name: str
    session_id: str | None
    event_type: str
    summary: str
    details: Any
    outcome: str | None
    lessons: list[str]
    tags: list[str]
    times: int
    relevance: float
    created_at: Instant
    seen_at: Instant


class Memories(TypedDict):
    """Memories, the most relevant first; ``left_out``: not all of them fit."""

    memories: list[Memory]
    left_out: NotRequired[bool]


class Remembered(TypedDict):
    """The memory that is kept; ``deduplicated``: it was told within the hour."""

    success: bool
    memory_id: str
    action: Literal["created", "deduplicated"]
