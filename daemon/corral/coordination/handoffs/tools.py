"""Handoffs as the coordination document names them: ``write_handoff``, ``read_handoff``."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from corral.config.teams import EVERYBODY
from corral.coordination.handoffs import handoffs
from corral.core.pages import SHOWN_BYTES, page
from corral.core.payload import Payload
from corral.faces.mcp.calls import coordinator_tool, current


@coordinator_tool
async def write_handoff(
    summary: str,
    completed_work: list[str] | str | None = None,
    in_progress: list[str] | str | None = None,
    decisions: list[str] | str | None = None,
    next_steps: list[str] | str | None = None,
    relevant_files: list[str] | str | None = None,
) -> Payload:
    """Leave what the next session here has to know."""
    call = current.get()
    lists = {
        "completed_work": completed_work,
        "in_progress": in_progress,
        "decisions": decisions,
        "next_steps": next_steps,
        "relevant_files": relevant_files,
    }
    now = call.services.now()
    row = await call.write(lambda conn, me: handoffs.write(conn, me.session_id, summary, lists, now))
    return {"success": True, "handoff_id": row["handoff_id"]}


@coordinator_tool
async def read_handoff(agent_name: str | None = None, limit: int = 1) -> Payload:
    """Handoffs, newest first: yours, or what was left for you; another agent's by its name; everybody's by "all"."""
    call = current.get()

    def read(conn: Connection) -> list[Payload]:
        if not agent_name:
            return handoffs.of_caller(conn, call.acting, limit)
        return handoffs.recent(conn, None if agent_name == EVERYBODY else agent_name, limit)

    def rows(conn: Connection) -> Iterator[Payload]:
        return ({"id": row["handoff_id"], **row} for row in read(conn))

    recent = await call.services.store.read(lambda conn: page(rows(conn), size=SHOWN_BYTES))
    return {"handoffs": recent.rows, **({"left_out": "The older ones; ask for fewer."} if recent.cut else {})}
