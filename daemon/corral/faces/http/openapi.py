"""What ``/openapi.json`` says beyond what routes say themselves: the envelope of errors, bodies that a route reads itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from corral.core.errors import DatabaseUnavailable, NotFound
from corral.core.routing import PREFIX
from corral.work.tasks.wire import TaskSubmission


class Problem(BaseModel):
    """An error as every surface tells it: a stable code and name, what happened, why probably, and what to do now."""

    code: str
    name: str
    message: str
    cause: str
    remedy: str
    details: dict[str, Any]


class Refusal(BaseModel):
    """The body of every answer that is not a success."""

    error: Problem


RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Refusal, "description": "Refused; nothing was changed."},
    "5XX": {"model": Refusal, "description": "It failed; what was acknowledged before stays."},
}
"""Of every operation."""


REFUSED = NotFound("There is no task '0b6f'.").to_wire()
FAILED = DatabaseUnavailable("The database is unavailable.", cause="The disk is full.").to_wire()
LINK = {
    "description": 'Where a list goes on, as `<address>; rel="next"`; it is missing where nothing was left out.',
    "schema": {"type": "string"},
}
EXAMPLES = Path(__file__).with_name("openapi_examples.json")


def describe(app: FastAPI) -> None:
    """Give the application its document, made when it is first asked for."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _made(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _made(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    submission = TaskSubmission.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = made["components"]["schemas"]
    schemas.update(submission.pop("$defs"), TaskSubmission=submission)
    # These two are read item by item, so that each mistake of a batch is named with its place.
    one = {"$ref": "#/components/schemas/TaskSubmission"}
    made["paths"]["/api/v1/tasks"]["post"]["requestBody"]["content"]["application/json"]["schema"] = one
    schemas["Batch"]["properties"]["tasks"]["items"] = one
    known = examples()
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            _explain(operation, known.get(f"{method.upper()} {path.removeprefix(PREFIX)}", {}))
    return made


def examples() -> dict[str, Any]:
    """Examples of each operation's ``request`` (if it has a body) and ``response``, by ``METHOD /path`` below ``/api/v1``.

    Real answers, shortened; a test plays them against a daemon, so that an example has the fields which the answer has. In the
    file an object begins with the fields of the parts that its ``$with`` names; ``$name`` makes one a part.
    """
    parts: dict[str, dict[str, Any]] = {}

    def read(said: dict[str, Any]) -> dict[str, Any]:
        name, shared = said.pop("$name", None), said.pop("$with", ())
        whole = {key: value for part in shared for key, value in parts[part].items()} | said
        return parts.setdefault(name, whole) if name else whole

    found: dict[str, Any] = json.loads(EXAMPLES.read_text(encoding="utf-8"), object_hook=read)["operations"]
    return found


def _explain(operation: dict[str, Any], example: dict[str, Any]) -> None:
    """Add derived parts: the summary is the description's first sentence, the examples are in one table."""
    operation["summary"] = re.split(r"[.;:](?:\s|$)", operation["description"])[0].replace("``", "`")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        if "request" in example:
            content["example"] = example["request"]
    pages = any(parameter["name"] in ("after", "before") for parameter in operation.get("parameters", ()))
    for status, response in operation["responses"].items():
        answered = {"4XX": REFUSED, "5XX": FAILED}.get(status, example.get("response"))
        for content in response.get("content", {}).values():
            if answered is not None:
                content["example"] = answered
        if pages and status == "200":
            response["headers"] = {"Link": LINK}
