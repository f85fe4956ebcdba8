"""Handoffs as the coordination document names them: ``write_handoff``, ``read_handoff``."""

from __future__ import annotations

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
    """Handoffs, newest first: an agent's, or everybody's."""
    services = current.get().services
    recent = await services.store.read(lambda conn: page(handoffs.recent(conn, agent_name, limit), size=SHOWN_BYTES))
    return {"handoffs": recent.rows, **({"left_out": "The older ones; ask for fewer."} if recent.cut else {})}
