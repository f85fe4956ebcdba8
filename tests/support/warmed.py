"""What a daemon builds when it is first asked, built once in the process that daemons are forked from.

FastAPI's routes take half a second and FastMCP's tools another: most of what a daemon does in the life of a test. They are made
by the product's own code, unchanged; only the services are put in where a daemon would have built them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from sqlalchemy import create_engine

from corral.coordination.services import Services
from corral.core.instructions import PROFILES
from corral.core.routing import Routes
from corral.daemon import nouns
from corral.faces.http import app as http
from corral.faces.mcp import server as mcp
from corral.store.engine.prepared import Prepared


def warm() -> None:
    """Build all of it; a daemon that is forked from here takes it."""
    _compile()
    _build()


def _compile() -> None:
    """Compile the prepared statements: what they lack to be run as well, they notice afterwards."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        for prepared in [one for one in gc.get_objects() if isinstance(one, Prepared)]:
            with contextlib.suppress(Exception):
                prepared.all(connection, {})
    engine.dispose()


def _build() -> None:
    made_for = object.__new__(Services)
    api = http.build(made_for, nouns.every())
    asyncio.run(_asked(api))
    build_api, build_tools = http.build, mcp.build
    apis, tools = [api], {profile: mcp.build(profile) for profile in PROFILES}

    def build(services: Services, nouns: Iterable[Routes]) -> FastAPI:
        if not apis:
            return build_api(services, nouns)
        made_for.__dict__ = services.__dict__  # one object to all that looks at it, and to all that changes it
        return apis.pop()

    http.build = build
    mcp.build = lambda profile: tools.pop(profile, None) or build_tools(profile)


async def _asked(api: Any) -> None:
    """Ask for what is not there: FastAPI makes its routes ready when it first looks for one."""

    async def nothing(*_: object) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http", "path": "/nowhere",
        "raw_path": b"/nowhere", "query_string": b"", "root_path": "", "headers": [],
    }  # fmt: skip
    await api(scope, nothing, nothing)
