"""Memory over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from corral.coordination.memory import memory
from corral.coordination.memory.api import Memories, NewMemory, Remembered
from corral.coordination.memory.memory import Question
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.pages import named, page
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PROJECT, Routes

router = Routes("memory", "/memory", scope=PROJECT, callers=EVERYONE)


@router.post("", status=201, answer=Remembered)
async def remember(services: Services, body: NewMemory) -> Payload:
    """Keep something; what was told within the hour is kept once."""
    entry = memory.Memory(**body.fields())
    return await memory.keep(Actor(services, body.session_id), entry)


@router.get("", answer=Memories)
async def recall(
    services: Services,
    query: Annotated[str, Field(description="Words to search for.")] = "",
    tag: Annotated[Sequence[str], Field(description="A tag.")] = (),
    event_type: Annotated[str | None, Field(description="Only this kind, such as discovery or error.")] = None,
    limit: Annotated[int, Field(ge=1, le=memory.MAX_SHOWN, description="Maximum number of rows.")] = 10,
    min_relevance: Annotated[float, Field(ge=0, le=1, description="Minimum relevance, 0 to 1.")] = 0,
) -> Response:
    """Memories, the most relevant first; without a query and tags, the newest. Of long ones as many as fit."""
    now, question = services.now(), Question(query, tag, event_type, limit, min_relevance)
    memories = await services.store.read(lambda conn: page(memory.recall(conn, question, now)))
    return named("memories", memories)
