"""One FastMCP server for each profile. The only module that imports FastMCP at its top."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ValidationError
from fastmcp.tools import FunctionTool, ToolResult
from pydantic import ValidationError as ArgumentsInvalid
from starlette.applications import Starlette

from corral import __version__
from corral.core.instructions import INSTRUCTIONS
from corral.faces.mcp import arguments as call_arguments
from corral.faces.mcp import resources
from corral.faces.mcp.calls import FAMILIES, answered, show_token
from corral.faces.mcp.profiles import TOOLS, tools_of


class _Tool(FunctionTool):
    """A tool that reports invalid arguments in its family's error format."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        known = list(self.parameters.get("properties", {}))
        await show_token(call_arguments.token_in(arguments))
        try:
            return await super().run(call_arguments.without_ignored(arguments, known))
        except ValidationError as error:
            if not isinstance(error.__cause__, ArgumentsInvalid):
                raise
            invalid = call_arguments.invalid(error.__cause__.errors(include_url=False, include_input=False), known)
        return self.convert_result(answered(FAMILIES[TOOLS[self.name]], invalid))


def build(profile: str) -> Starlette:
    """The application that serves a profile at ``/mcp``."""
    # A resource's arguments are names and words here, never opened as files: a project is named by its path.
    mcp: FastMCP[None] = FastMCP(
        "corral", INSTRUCTIONS, version=__version__, mask_error_details=True, resource_security=None
    )
    for function in tools_of(profile):
        mcp.add_tool(_Tool.from_function(function, output_schema=None))
    for uri, read in resources.RESOURCES.items():
        mcp.resource(uri, mime_type="application/json")(read)
    # Host and Origin are checked before a request comes here, by corral.faces.http.access.
    return mcp.http_app(path="/mcp", stateless_http=True, json_response=True, host_origin_protection=False)
