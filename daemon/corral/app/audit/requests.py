"""Requests over HTTP and calls of MCP tools, noted for the audit by the edge that answered them."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from pydantic import BaseModel

from corral.app.actor import person
from corral.app.audit.trail import FAILED, OK
from corral.app.runtime.services import Services
from corral.config.account import user_name
from corral.errors import CorralError

caller: ContextVar[str] = ContextVar("caller", default="")
"""The session that a request says it comes from, if it does; set by the edge for every request."""


def note(services: Services, action: str, given: Mapping[str, Any], answered: Any) -> None:
    """Note a request over HTTP.

    Args:
        given: The arguments of the operation: the parts of its path, and its body.
        answered: The answer, or the error.
    """
    parameters = _plain(given)
    named = parameters.get("session_id") or parameters.get("caller") or caller.get()
    session_id = named if isinstance(named, str) and named else person()
    task = parameters.get("task_id")
    services.audit.note(
        services.now(),
        action,
        session_id=session_id,
        agent_id=user_name() if session_id == person() else session_id,
        task_id=task if isinstance(task, str) else _task_of(answered),
        parameters=parameters,
        result=outcome(answered),
    )


def note_call(
    services: Services, tool: str, given: Mapping[str, Any], answered: Any, session_id: str | None, use_id: str
) -> None:
    """Note a call of one of Corral's own tools; the hooks of the same call then add nothing."""
    services.audit.is_new(use_id)
    who, task = session_id or person(), given.get("task_id")
    services.audit.note(
        services.now(),
        f"mcp.{tool}",
        session_id=who,
        agent_id=user_name() if who == person() else who,
        task_id=task if isinstance(task, str) else None,
        parameters=_plain(given),
        result=outcome(answered),
    )


def outcome(answered: Any) -> dict[str, Any]:
    """The result of an operation: ``{status, answer}``, or ``{status, error}``."""
    if isinstance(answered, CorralError):
        told = {"code": answered.code, "name": answered.name, "message": answered.message}
        return {"status": FAILED, "error": told}
    if isinstance(answered, Exception):
        return {"status": FAILED, "error": {"name": type(answered).__name__}}
    if isinstance(answered, BaseModel):
        answered = answered.model_dump()
    return {"status": OK, **({"answer": answered} if isinstance(answered, (dict, list)) and answered else {})}


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a path beside the fields of the body; what is no value (the request itself) is left out."""
    plain: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, BaseModel):
            plain |= value.model_dump()
        elif isinstance(value, dict):
            plain |= value
        elif value is None or isinstance(value, (str, int, float, bool, list)):
            plain[name] = value
    return {name: value for name, value in plain.items() if value is not None}


def _task_of(answered: Any) -> str | None:
    task = answered.get("task_id") if isinstance(answered, Mapping) else None
    return task if isinstance(task, str) else None
