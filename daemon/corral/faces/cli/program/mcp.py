"""``corral mcp``; usually the bridge runs before this module is loaded."""

from __future__ import annotations

import os
from typing import Annotated

from corral.core.instructions import PROFILES
from corral.faces.cli.parsing import Exit
from corral.faces.cli.terminal.options import here, option


def mcp(
    profile: Annotated[
        str,
        option(
            "--profile",
            f"Profile of tools: {', '.join(PROFILES)} (default: the first).",
            "NAME",
            envvar="CORRAL_MCP_PROFILE",
        ),
    ] = PROFILES[0],
) -> None:
    """The stdio MCP bridge that Claude Code starts for each session."""
    from corral.client.bridge import serve

    os.chdir(here())
    raise Exit(serve(profile))
