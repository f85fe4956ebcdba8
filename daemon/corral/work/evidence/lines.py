"""Lines of the lifecycle and of the leases, from the events of a task: the same events always give the same lines.

An attempt that succeeds has four lifecycle lines: selected, assigned, started, completed. Every event gives at most one line of
each file, so the ``event_id`` of a file's last line says how far that file has come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from corral.core.events import EventKind
from corral.core.payload import Payload
from corral.core.redaction import is_secret_name, redact
from corral.runners.blame import DIED
from corral.store.rows.records import EventRow
from corral.store.rows.tasks import ExportedTask
from corral.work.tasks.store.dependencies import DEPENDENCY_FAILED

if TYPE_CHECKING:
    from corral.core.event_payloads import TaskClaimed

SUPERVISOR = "supervisor"
"""The ``agent_id`` of what happens to a task that no agent has had yet."""
MOST_REASON = 2000
"""Characters of a ``reason``."""

_SETBACKS = (EventKind.TASK_FAILED, EventKind.TASK_DEAD, EventKind.TASK_CANCELLED, EventKind.TASK_RETRIED)
_BLOCKED = (EventKind.TASK_INTERRUPTED, EventKind.TASK_REQUEUED)
_NAMES: Mapping[str, str] = {
    EventKind.TASK_CLAIMED: "selected",
    EventKind.TASK_ASSIGNED: "assigned",
    EventKind.TASK_STARTED: "started",
    EventKind.TASK_COMPLETED: "completed",
    **dict.fromkeys(_SETBACKS, "failed"),
    **dict.fromkeys(_BLOCKED, "blocked"),
}
ENDS: tuple[str, ...] = (EventKind.TASK_COMPLETED, *_SETBACKS, *_BLOCKED)
"""Kinds of events that end an attempt, if one is open."""
KINDS: tuple[str, ...] = tuple(_NAMES)
"""Kinds of events that give lines."""


class Exported(NamedTuple):
    """The lines of one event; ``lease`` is None where it changes no lease."""

    event_id: int
    lifecycle: Payload
    lease: Payload | None


@dataclass
class _Attempt:
    number: int
    agent_id: str
    acquired_at: str
    expires_at: str | None
    is_open: bool = True


def name_of(task: ExportedTask) -> str:
    """The id that a task has in the files: the roadmap's where there is one, else the queue's."""
    named = (task["metadata"] or {}).get("roadmap_id")
    return named if isinstance(named, str) and named.strip() else task["task_id"]


def of_task(task: ExportedTask, history: Sequence[EventRow]) -> list[Exported]:
    """The lines of a task.

    Args:
        history: All its events of :data:`KINDS`, oldest first; a part from the beginning gives a part of the lines.
    """
    ids = {"task_id": name_of(task), "queue_task_id": task["task_id"]}
    metadata = _clean(task["metadata"] or {})
    exported: list[Exported] = []
    current: _Attempt | None = None
    for event in history:
        if event["kind"] == EventKind.TASK_CLAIMED:
            current = _claimed(event)
            status = "active"
        elif current is not None and current.is_open and event["kind"] in ENDS:
            current.is_open = False
            status = "expired" if event["data"].get("error_code") in DIED else "released"
        else:
            status = ""
        agent_id = current.agent_id if current is not None else SUPERVISOR
        number = current.number if current is not None else 0
        when = {"timestamp": event["at"], "event_id": event["event_id"]}
        about = {**ids, "agent_id": agent_id, "attempt": number}
        lifecycle = {"event": _name(event), **about, "priority": task["priority"], "metadata": metadata, **when}
        if (reason := _reason(event)) is not None:
            lifecycle["reason"] = reason
        lease = None
        if current is not None and status:
            term = {"acquired_at": current.acquired_at, "expires_at": current.expires_at}
            lease = {**about, "status": status, **term, **when}
        exported.append(Exported(event["event_id"], lifecycle, lease))
    return exported


def _claimed(event: EventRow) -> _Attempt:
    claim = cast("TaskClaimed", event["data"])
    agent_id = claim.get("agent_name") or event["session_id"] or SUPERVISOR
    return _Attempt(claim["token"], agent_id, event["at"], claim.get("expires_at"))


def _name(event: EventRow) -> str:
    """``blocked``: the task is not to blame, and may continue automatically; ``failed``: it failed, or somebody called it off."""
    data = event["data"]
    is_machines_fault = event["kind"] == EventKind.TASK_RETRIED and data.get("is_counted") is False
    is_parents_fault = event["kind"] == EventKind.TASK_FAILED and data.get("error_code") == DEPENDENCY_FAILED
    return "blocked" if is_machines_fault or is_parents_fault else _NAMES[event["kind"]]


def _reason(event: EventRow) -> str | None:
    if event["kind"] not in (*_SETBACKS, *_BLOCKED):
        return None
    data = event["data"]
    why = [str(data[key]) for key in ("error_code", "reason", "error_message") if data.get(key)]
    if event["kind"] == EventKind.TASK_CANCELLED:
        why.insert(0, "cancelled")
    return redact(": ".join(why))[:MOST_REASON] or None


def _clean(value: Any, name: str = "") -> Any:
    """Without secrets: the files are for other programs."""
    if isinstance(value, str):
        return "[redacted]" if is_secret_name(name) else redact(value)
    if isinstance(value, dict):
        return {key: _clean(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    return value
