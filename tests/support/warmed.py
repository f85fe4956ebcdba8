"""What a daemon builds when it is first asked, built once in the process that daemons are forked from.

FastMCP's tools take half a second: much of what a daemon does in the life of a test. They are made by the product's own code,
unchanged.
"""

from __future__ import annotations

import contextlib
import gc

from sqlalchemy import create_engine

from corral.core.instructions import PROFILES
from corral.daemon import nouns
from corral.faces.http import router
from corral.faces.mcp import server as mcp
from corral.store import migrate
from corral.store.engine.dialect import dialect_of
from corral.store.engine.prepared import Prepared


def warm() -> None:
    """Build all of it; a daemon that is forked from here takes it."""
    _compile()
    _build()


def _compile() -> None:
    """Compile the schema and the prepared statements: what they lack to be run as well, they notice afterwards."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        for prepared in [candidate for candidate in gc.get_objects() if isinstance(candidate, Prepared)]:
            with contextlib.suppress(Exception):
                prepared.all(connection, {})
        migrate.definitions(dialect_of(connection))
    engine.dispose()


def _build() -> None:
    router.operations(nouns.every())  # the patterns of their paths
    build_tools = mcp.build
    tools = {profile: mcp.build(profile) for profile in PROFILES}
    mcp.build = lambda profile: tools.pop(profile, None) or build_tools(profile)
