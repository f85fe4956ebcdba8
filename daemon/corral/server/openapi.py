"""What ``/openapi.json`` says beyond what routes say themselves: the envelope of errors, bodies that a route reads itself."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict

from corral.errors import NotFound
from corral.models.tasks import TaskSubmission


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

    model_config = ConfigDict(json_schema_extra={"example": NotFound("There is no task '0b6f'.").to_wire()})

    error: Problem


RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Refusal, "description": "Refused; nothing was changed."},
    "5XX": {"model": Refusal, "description": "It failed; what was acknowledged before stays."},
}
"""Of every operation."""


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
    return made
