"""Memory as the coordinator's documents name it: ``remember``, ``recall``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from corral.coordination.memory import memory
from corral.coordination.memory.memory import Memory, Question
from corral.core.pages import SHOWN_BYTES, page
from corral.core.payload import Payload
from corral.faces.mcp.calls import coordinator_tool, current


@coordinator_tool
async def remember(
    summary: str,
    event_type: str = "discovery",
    details: dict[str, Any] | None = None,
    outcome: str | None = None,
    lessons: list[str] | None = None,
    tags: list[str] | None = None,
) -> Payload:
    """Keep for all later sessions what was found out, decided or went wrong."""
    entry = Memory(summary, event_type, details, outcome, lessons or (), tags or ())
    return await memory.keep(current.get(), entry)


@coordinator_tool
async def recall(
    query: str | None = None,
    tags: list[str] | None = None,
    event_type: str | None = None,
    limit: int = 10,
    min_relevance: float = 0,
) -> Payload:
    """Lessons of earlier sessions, by words, tags and age; look before you start."""
    services = current.get().services
    question, now = Question(query or "", tags or (), event_type, limit, min_relevance), services.now()

    def rows(conn: Connection) -> Iterator[Payload]:
        for row in memory.recall(conn, question, now):
            yield {"id": row["memory_id"], **row, "relevance_score": row["relevance"]}

    memories = await services.store.read(lambda conn: page(rows(conn), size=SHOWN_BYTES))
    return {"memories": memories.rows, **({"left_out": "The less relevant; ask for less."} if memories.cut else {})}
