"""The HTTP application: routes, and the one place where errors become answers."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from corral import __version__
from corral.errors import CorralError, InvalidInput, NotFound
from corral.observe.logs import logger
from corral.server import openapi
from corral.server.routes import (
    agents,
    contacts,
    daemon,
    events,
    features,
    handoffs,
    hooks,
    locks,
    macros,
    memory,
    merges,
    messages,
    sessions,
    tasks,
    teams,
    wait,
    worktrees,
)
from corral.server.services import Services

PREFIX = "/api/v1"

log = logger("http")


def build(services: Services) -> FastAPI:
    """Make the application around the daemon's parts."""
    app = FastAPI(
        title="Corral",
        version=__version__,
        description="Many Claude Code sessions on one git repository.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    for module in (
        daemon,
        events,
        teams,
        agents,
        sessions,
        locks,
        features,
        handoffs,
        hooks,
        messages,
        contacts,
        macros,
        tasks,
        merges,
        worktrees,
        wait,
        memory,
    ):
        app.include_router(module.router, prefix=PREFIX, responses=openapi.RESPONSES)
    openapi.describe(app)
    app.add_exception_handler(CorralError, _known)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unknown)
    return app


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


def failure(method: str, path: str, error: Exception) -> CorralError:
    """What is answered where a request failed in a way nobody foresaw; the log gets the rest."""
    if isinstance(error, OverflowError):  # no integer column, no instant and no file offset holds it
        return InvalidInput("A number in the request is too large.", cause=str(error))
    if isinstance(error, UnicodeEncodeError):  # half of a surrogate pair, which JSON can spell
        return InvalidInput("A text in the request holds a character that is none.", cause=str(error))
    log.error("request_failed", path=path, method=method, exc_info=error)
    return CorralError(f"The daemon failed: {type(error).__name__}.")
