"""Requests over HTTP and calls of MCP tools, noted for the audit by the edge that answered them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from corral.config.account import user_name
from corral.coordination.services import Services
from corral.coordination.sessions.actor import person
from corral.core.errors import CorralError
from corral.observe.audit.tool_calls import CONTENT, size_of
from corral.observe.audit.trail import FAILED, OK, AuditTrail, Deed

caller: ContextVar[str] = ContextVar("caller", default="")
"""The session that a request comes from, as far as that is shown; empty: a person's. Set by the edge for what is noted."""


PRIVATE = frozenset({"ignored_files"})
"""Values of answers that only a person is told: agents can read the audit."""
_UNTOLD = CONTENT | PRIVATE


def note(services: Services, action: str, arguments: Mapping[str, Any], answered: Any) -> None:
    """Note a request over HTTP. The caller must not change the arguments or the answer afterwards.

    Args:
        arguments: The arguments of the operation: the parts of its path, and its body.
        answered: The answer, or the error.
    """
    at, session_id = services.now(), caller.get()

    def deed() -> Deed:
        parameters = _plain(arguments)
        named = parameters.get("session_id") or parameters.get("caller") or session_id
        return _deed(at, action, named if isinstance(named, str) and named else None, parameters, answered)

    services.of(AuditTrail).note_later(deed)


def note_call(
    services: Services, tool: str, arguments: Mapping[str, Any], answered: Any, session_id: str | None, use_id: str
) -> None:
    """Note a call of one of Corral's own tools; the hooks of the same call then add nothing."""
    services.of(AuditTrail).is_new(use_id)
    at = services.now()
    services.of(AuditTrail).note_later(lambda: _deed(at, f"mcp.{tool}", session_id, _plain(arguments), answered))


def _deed(at: datetime, action: str, session_id: str | None, parameters: dict[str, Any], answered: Any) -> Deed:
    who, task = session_id or person(), parameters.get("task_id")
    return Deed(
        at=at,
        action=action,
        session_id=who,
        agent_id=user_name() if who == person() else who,
        task_id=task if isinstance(task, str) else _task_of(answered),
        parameters=parameters,
        result=outcome(answered),
    )


def outcome(answered: Any) -> dict[str, Any]:
    """The result of an operation: ``{status, answer}``, or ``{status, error}``."""
    if isinstance(answered, CorralError):
        failure = {"code": answered.code, "name": answered.name, "message": answered.message}
        return {"status": FAILED, "error": failure}
    if isinstance(answered, Exception):
        return {"status": FAILED, "error": {"name": type(answered).__name__}}
    if isinstance(answered, BaseModel):
        answered = answered.model_dump()
    summary = dict(_brief(answered)) if isinstance(answered, Mapping) else _ids(answered)
    return {"status": OK, **({"answer": summary} if summary else {})}


def _brief(answer: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of an answer, but no content and nothing empty, and the ids of what it lists."""
    for name, value in answer.items():
        if value and name not in _UNTOLD:
            brief = _ids([value] if isinstance(value, dict) else value) if isinstance(value, (list, dict)) else value
            if brief:
                yield name, brief


def _ids(listed: Any) -> list[Any]:
    """The id of each item of a list; a plain value stands for itself."""
    ids = [_id(item) if isinstance(item, dict) else item for item in listed] if isinstance(listed, list) else []
    return [value for value in ids if isinstance(value, (str, int))]


def _id(item: dict[str, Any]) -> Any:
    for name in item:
        if name.endswith("_id"):
            return item[name]
    return None


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The path parameters and the fields of the body in one mapping, without content and without objects such as the request."""
    plain: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, BaseModel):
            plain |= value.model_dump()
        elif isinstance(value, dict):
            plain |= value
        elif value is None or isinstance(value, (str, int, float, bool, list)):
            plain[name] = value
    for name in CONTENT & plain.keys():
        plain[name] = size_of(plain[name])
    return {name: value for name, value in plain.items() if value is not None}


def _task_of(answered: Any) -> str | None:
    task = answered.get("task_id") if isinstance(answered, Mapping) else None
    return task if isinstance(task, str) else None
