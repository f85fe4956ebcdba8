"""``help``: what a session may need to know, a topic at a time, so that tool definitions can stay short."""

from __future__ import annotations

from pathlib import Path

from corral.core.errors import NOT_IN_THIS_VERSION, NotFound
from corral.core.payload import Payload
from corral.faces.mcp.calls import coordinator_tool

_TEXTS = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").split("## ")[1:]
TOPICS = {topic: " ".join(text.split()) for topic, text in (part.split("\n", 1) for part in _TEXTS)}


@coordinator_tool
async def help(topic: str | None = None) -> Payload:
    """How to use all this: topics without an argument, else one of them."""
    if topic is None:
        return {"success": True, "topics": list(TOPICS)}
    if topic not in TOPICS:
        raise NotFound(
            f"There is no topic {topic[:40]!r}.", cause=NOT_IN_THIS_VERSION, remedy=f"There are: {', '.join(TOPICS)}."
        )
    return {"success": True, "topic": topic, "text": TOPICS[topic]}
