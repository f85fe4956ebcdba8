"""A plain MCP client, the official one, on the bridge as any agent program starts it; or straight on the daemon's port.

The bridge's pipes are read here, and not by the client's own transport, which starts it by asyncio: :mod:`tests.support.forked`
forks what is started by ``subprocess``. What is documented of a start is tested by the client's own (``test_documented``).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2 as httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from tests.support.coordinated import Coordinated

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
            answer = json.loads(text) if text else None
        except ValueError:
            answer = text
        return {"mcp_error": answer} if result.is_error else answer

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


def at(house: Coordinated) -> tuple[str, dict[str, str]]:
    """Where the daemon listens on TCP, and the headers that let a client in."""
    port = json.loads((house.root / ".corral/run/daemon.json").read_text())["port"]
    token = (house.root / ".corral/run/token").read_text().strip()
    return f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {token}"}


async def over_http(stack: AsyncExitStack, house: Coordinated, path: str = "/mcp?profile=full") -> Agent:
    """Connect an agent by a URL."""
    url, headers = at(house)
    http = await stack.enter_async_context(httpx.AsyncClient(headers=headers, timeout=60))
    streams = await stack.enter_async_context(streamable_http_client(f"{url}{path}", http_client=http))
    session = await stack.enter_async_context(ClientSession(streams[0], streams[1]))
    await session.initialize()
    return Agent(session)


async def _connect(stack: AsyncExitStack, cwd: Path, profile: str, env: dict[str, str]) -> Agent:
    bridge = subprocess.Popen(
        [sys.executable, "-m", "corral", "mcp", "--profile", profile],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    streams = await stack.enter_async_context(_pipes(bridge))
    session = await stack.enter_async_context(ClientSession(*streams))
    await session.initialize()
    return Agent(session)


@asynccontextmanager
async def _pipes(bridge: subprocess.Popen[bytes]) -> AsyncIterator[tuple[Any, Any]]:
    """What the bridge says and what it is told, a message each; in the end it ends by itself, since it is told no more."""
    said, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    told, telling = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        assert bridge.stdout
        async with said:
            while line := await anyio.to_thread.run_sync(bridge.stdout.readline):
                try:
                    await said.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client hangs up
                    await anyio.to_thread.run_sync(bridge.stdout.read)
                    return

    async def write() -> None:
        assert bridge.stdin
        async with telling:
            async for message in telling:
                bridge.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                bridge.stdin.flush()

    with bridge:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(write)
            try:
                yield heard, told
            finally:
                with anyio.CancelScope(shield=True):
                    await heard.aclose()
                    await told.aclose()
                    await anyio.to_thread.run_sync(_hang_up, bridge)


def _hang_up(bridge: subprocess.Popen[bytes]) -> None:
    assert bridge.stdin
    bridge.stdin.close()
    try:
        bridge.wait(20)
    finally:
        bridge.kill()
