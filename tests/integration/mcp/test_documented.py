"""What docs/mcp.md says to somebody who connects an agent of another kind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from corral.coordination.sessions import tokens
from corral.core.instructions import PROFILES
from corral.faces.mcp.arguments import IGNORED
from corral.faces.mcp.profiles import MAIL, TOOLS
from corral.faces.mcp.resources import RESOURCES
from tests.integration.mcp.client import DAEMON, Agent
from tests.support.coordinated import Coordinated

ROOT = DAEMON.parent
SAID = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")


def test_the_bridge_starts_as_it_is_documented(house: Coordinated) -> None:
    (snippet,) = re.findall(r"```json\n(.*?)```", SAID, re.DOTALL)
    server = json.loads(snippet)["mcpServers"]["corral"]
    assert server["command"] == "corral"
    house.run("daemon", "start")  # a list waits eight seconds for one, which on a busy machine may take longer

    async def run() -> None:
        async with AsyncExitStack() as stack:
            start = StdioServerParameters(
                command=sys.executable,
                args=["-m", server["command"], *server["args"]],
                cwd=house.root,
                env={**os.environ, "PYTHONPATH": os.fspath(DAEMON)},
            )
            session = await stack.enter_async_context(
                ClientSession(*await stack.enter_async_context(stdio_client(start)))
            )
            await session.initialize()
            assert set(await Agent(session).tools()) == set(MAIL)

    asyncio.run(run())
    assert (house.root / ".corral" / "run" / "token").exists()
    assert "port" in json.loads((house.root / ".corral" / "run" / "daemon.json").read_text())


def test_what_is_documented_of_it_exists() -> None:
    profiles = re.findall(r"^\| `(\w+)` \|", SAID, re.MULTILINE)
    assert sorted(profiles) == sorted(PROFILES)
    ours, _, _ = SAID.partition("## Differences")  # from there on, what others have and this has not
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", ours))
    parameters = {
        "agent_name", "sender_name", "wait_seconds", "idempotency_key", "thread_id", *IGNORED, *tokens.ARGUMENTS
    }  # fmt: skip
    fields = {"session_id", "agent_id", "claimed_by", "client_pid", "handoff_id", "memory_id", "project_id", "relevance_score",
              "retired_agents", "sender_id"}  # fmt: skip
    assert named - set(TOOLS) - parameters - fields == set()
    assert [name for name in sorted(IGNORED) if f"`{name}`" not in SAID] == [], (
        "what has no effect is said to have none"
    )
    documented = {uri.split("{")[0] for uri in re.findall(r"`(\w+://[^`]*)`", SAID) if not uri.startswith("http")}
    assert documented == {uri.split("{")[0] for uri in RESOURCES}


def test_the_first_page_leads_there() -> None:
    assert "(docs/mcp.md)" in Path(ROOT / "README.md").read_text(encoding="utf-8")
