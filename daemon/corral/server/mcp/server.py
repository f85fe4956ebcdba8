"""One FastMCP server for each profile. The only module that imports FastMCP at its top."""

from __future__ import annotations

from fastmcp import FastMCP
from fastmcp.tools import FunctionTool
from starlette.applications import Starlette

from corral import __version__
from corral.instructions import INSTRUCTIONS
from corral.server.mcp import resources
from corral.server.mcp.profiles import tools_of


def build(profile: str) -> Starlette:
    """The application that serves a profile at ``/mcp``."""
    mcp: FastMCP[None] = FastMCP("corral", INSTRUCTIONS, version=__version__, mask_error_details=True)
    for function in tools_of(profile):
        mcp.add_tool(FunctionTool.from_function(function, output_schema=None))
    for uri, read in resources.RESOURCES.items():
        mcp.resource(uri, mime_type="application/json")(read)
    # Host and Origin are checked before a request comes here, by corral.server.access.
    return mcp.http_app(path="/mcp", stateless_http=True, json_response=True, host_origin_protection=False)
