"""A plain MCP client, the official one, on the bridge as any agent program starts it; or straight on the daemon's port."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.coordinated import Coordinated

T = TypeVar("T")
DAEMON = Path(__file__).parents[3] / "daemon"


class Agent:
    """One connection: what an agent can do through MCP."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def tools(self) -> list[str]:
        """The names of the tools that are offered."""
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool; returns the JSON that it answers. An MCP error is ``{"mcp_error": text or JSON}``."""
        result = await self.session.call_tool(tool, arguments)
        text = "".join(getattr(part, "text", "") for part in result.content)
        try:
            said = json.loads(text) if text else None
        except ValueError:
            said = text
        return {"mcp_error": said} if result.is_error else said

    async def read(self, uri: str) -> Any:
        """Read a resource; returns its JSON."""
        result = await self.session.read_resource(uri)
        return json.loads(result.contents[0].text)  # type: ignore[union-attr]


def play(
    house: Coordinated,
    scene: Callable[..., Awaitable[T]],
    agents: int = 1,
    profile: str = "core",
    cwd: Path | None = None,
    **env: str,
) -> T:
    """Connect so many agents, each by a bridge of its own (started in ``cwd``), let them play a scene, and hang up."""

    async def run() -> T:
        async with AsyncExitStack() as stack:
            connected = [await _connect(stack, cwd or house.root, profile, env) for _ in range(agents)]
            return await scene(*connected)

    return asyncio.run(run())


async def _connect(stack: AsyncExitStack, cwd: Path, profile: str, env: dict[str, str]) -> Agent:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "corral", "mcp", "--profile", profile],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.fspath(DAEMON), **env},
    )
    reading, writing = await stack.enter_async_context(stdio_client(server))
    session = await stack.enter_async_context(ClientSession(reading, writing))
    await session.initialize()
    return Agent(session)
