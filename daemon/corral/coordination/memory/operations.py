"""Memory over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.responses import Response

from corral.coordination.memory import memory
from corral.coordination.memory import recording as app_memory
from corral.coordination.memory.memory import Question
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.pages import page
from corral.core.paging import named
from corral.core.routing import Routes

router = Routes("memory", "/memory")


class Memory(BaseModel):
    """Something worth knowing later; ``session_id`` says who tells it (default: the person)."""

    summary: str = Field(examples=["The tests need a running database."])
    event_type: str = Field("discovery", max_length=64)
    details: dict[str, Any] | None = None
    outcome: str | None = None
    lessons: list[str] = Field(default_factory=list, max_length=200)
    tags: list[str] = Field(default_factory=list, max_length=200, examples=[["tests", "database"]])
    session_id: str | None = Field(None, min_length=1, max_length=128)


@router.post("", status_code=201)
async def remember(services: Services, said: Memory) -> dict[str, Any]:
    """Keep something; ``action`` is ``created``, or ``deduplicated`` where it was told within the hour."""
    told = memory.Memory(**said.model_dump(exclude={"session_id"}))
    return await app_memory.remember(Actor(services, said.session_id), told)


@router.get("", answer=dict[str, Any])
async def recall(
    services: Services,
    query: str = "",
    tag: Sequence[str] = (),
    event_type: str | None = None,
    limit: Annotated[int, Field(ge=1, le=memory.MAX_SHOWN)] = 10,
    min_relevance: Annotated[float, Field(ge=0, le=1)] = 0,
) -> Response:
    """Memories, the most relevant first; without a query and tags, the newest. Of long ones as many as fit."""
    now, asked = services.now(), Question(query, tag, event_type, limit, min_relevance)
    found = await services.store.read(lambda conn: page(memory.recall(conn, asked, now)))
    return named("memories", found)
