"""The HTTP application: FastAPI around the routes, and the one place where errors become answers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.params import Param
from fastapi.responses import JSONResponse, Response
from pydantic.fields import FieldInfo
from starlette.exceptions import HTTPException

from corral import __version__
from corral.coordination.services import Services
from corral.core.errors import CorralError, InvalidInput, NotFound
from corral.core.failures import failure
from corral.core.json_text import json_bytes
from corral.core.routing import PREFIX, Route, Routes
from corral.faces.http import openapi
from corral.observe.audit import requests as audit_requests
from corral.observe.metrics import operations as metrics


class _Answer(JSONResponse):
    def render(self, content: Any) -> bytes:
        return json_bytes(content)


def build(services: Services, nouns: Iterable[Routes]) -> FastAPI:
    """Make the application around the operations of the nouns."""
    app = FastAPI(
        title="Corral",
        version=__version__,
        description="Many Claude Code sessions on one git repository.",
        docs_url=None,
        redoc_url=None,
        default_response_class=_Answer,
    )
    for routes in nouns:
        for route in routes.declared:  # added one by one: a router's would be made twice
            _add(app, routes, route, services)
    app.add_api_route(
        "/metrics", _endpoint(Route("GET", "/metrics", metrics.scrape, {}, hot=False), services),
        response_class=Response, tags=["metrics"], responses=openapi.RESPONSES | {200: {"content": {"text/plain": {}}}},
    )  # fmt: skip
    openapi.describe(app)
    app.add_exception_handler(CorralError, _known)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unknown)
    return app


def _add(app: FastAPI, routes: Routes, route: Route, services: Services) -> None:
    options = {**route.options, "responses": openapi.RESPONSES | route.options.get("responses", {})}
    path = f"{PREFIX}{routes.prefix}{route.path}"
    app.add_api_route(path, _endpoint(route, services), methods=[route.method], tags=[routes.tag], **options)


def _endpoint(route: Route, services: Services) -> Callable[..., Awaitable[Any]]:
    """A route as FastAPI reads it: the services are given, and a GET's parameters stand in its query."""
    signature = inspect.signature(route.handler, eval_str=True)
    _services, *parameters = signature.parameters.values()
    if route.method == "GET":
        parameters = [_in_query(one, route.path) for one in parameters]

    async def endpoint(**given: Any) -> Any:
        if route.action is None:
            return await route.handler(services, **given)
        try:
            answered = await route.handler(services, **given)
        except Exception as error:  # the edge: noted, and answered by the handlers below
            audit_requests.note(services, route.action, given, error)
            raise
        audit_requests.note(services, route.action, given, answered)
        return answered

    endpoint.__name__, endpoint.__doc__ = route.handler.__name__, route.handler.__doc__
    endpoint.__signature__ = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)  # type: ignore[attr-defined]
    return endpoint


def _in_query(parameter: inspect.Parameter, path: str) -> inspect.Parameter:
    """A parameter of a GET, which stands in the query unless it says or the path says that it stands elsewhere."""
    kind = parameter.annotation
    marks = getattr(kind, "__metadata__", ())
    if kind is Request or parameter.name in re.findall(r"{(\w+)", path) or any(isinstance(m, Param) for m in marks):
        return parameter
    said = next((mark for mark in marks if isinstance(mark, FieldInfo)), FieldInfo())
    query = Query(alias=said.alias, description=said.description)  # older FastAPIs take only limits over
    return parameter.replace(annotation=Annotated[kind, query])


def _answer(error: CorralError) -> JSONResponse:
    return JSONResponse(error.to_wire(), status_code=error.status)


async def _known(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, CorralError)
    return _answer(error)


async def _malformed(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [
        {"field": ".".join(str(part) for part in problem["loc"]), "message": problem["msg"]}
        for problem in error.errors()
    ]
    first = problems[0]
    return _answer(InvalidInput(f"{first['field']}: {first['message']}.", details={"errors": problems}))


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return _answer(NotFound("There is no such address.", remedy="See /openapi.json for what there is."))
    wrapped: dict[str, Any] = InvalidInput(str(error.detail)).to_wire()
    return JSONResponse(wrapped, status_code=error.status_code)


async def _unknown(request: Request, error: Exception) -> JSONResponse:
    return _answer(failure(request.method, request.url.path, error))
