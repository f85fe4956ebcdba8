"""Sessions as the coordination document names them: registration, heartbeat, discovery, cleanup."""

from __future__ import annotations

from sqlalchemy import Connection

from corral.coordination.locks.table import Holder
from corral.coordination.sessions import discovery
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import sweep as session_sweep
from corral.coordination.sessions.registry import Arrival
from corral.core.errors import InvalidInput
from corral.core.pages import SHOWN_BYTES, Page, page
from corral.core.payload import Payload
from corral.faces.mcp.calls import coordinator_tool, current, identified, newcomer

MAX_TASK = 2000
_SHOWN = (
    "agent_id",
    "names",
    "agent_type",
    "session_id",
    "capabilities",
    "status",
    "unguarded",
    "current_task",
    "last_heartbeat",
    "started_at",
)


@coordinator_tool
async def register_session(
    capabilities: list[str] | None = None, current_task: str | None = None, agent_name: str | None = None
) -> Payload:
    """Tell the others who you are, what you can do and what you are doing. Call it again when that changes."""
    call = newcomer()
    if current_task is not None and len(current_task) > MAX_TASK:
        raise InvalidInput(f"A task of {len(current_task)} characters is too long.", remedy=f"Use at most {MAX_TASK}.")
    able, now = discovery.check_capabilities(capabilities or ()), call.services.now()

    def enter(conn: Connection, me: Holder) -> Payload:
        before = session_registry.find(conn, me.session_id)
        arrival = Arrival(
            session_id=me.session_id,
            agent_type=before["agent_type"],
            agent_name=agent_name,
            capabilities=able,
            current_task=current_task,
        )
        row = session_registry.register(conn, arrival, now)
        if capabilities == []:  # said, and none
            row = session_registry.change(conn, me.session_id, {"capabilities": []})
        return session_registry.wire(row)

    row = await call.write(enter)
    call.services.changes.announce()
    proof = {"registration_token": call.proof or call.token} if call.token else {}
    return {"success": True, **{name: row[name] for name in ("session_id", "agent_id", "agent_name")}, **proof}


@coordinator_tool
async def heartbeat() -> Payload:
    """Say that you are alive; any other call does so too."""
    return {"success": True, "session_id": await current.get().write(lambda _conn, me: me.session_id)}


@coordinator_tool
async def discover_agents(capability: str | None = None, status: str | None = None) -> Payload:
    """Agents and their tasks. status: active, idle, stalled or disconnected (left out unless asked for)."""
    services = current.get().services

    def look(conn: Connection) -> Page:
        rows = discovery.discover(conn, capability, status, services.teams().capabilities)
        sessions = ({**session_registry.wire(row), "names": row["names"]} for row in rows)
        return page(({name: agent[name] for name in _SHOWN} for agent in sessions), size=SHOWN_BYTES)

    agents = await services.store.read(look)
    more = {"left_out": "Others; ask for a capability or a status, or by whois for one."} if agents.more else {}
    return {"agents": agents.rows, **more}


@coordinator_tool
async def cleanup_dead_agents(stale_threshold_minutes: float = 15) -> Payload:
    """Give up sessions of which nothing was heard for so long; their locks come free."""
    return await session_sweep.clean_up(identified().services, stale_threshold_minutes)
