"""Work as the coordinator's documents name it: submitted, claimed, completed, read, cancelled by convention."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from sqlalchemy import Connection

from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import LeaseLost, NotFound
from corral.core.payload import Payload
from corral.faces.mcp.calls import coordinator_tool, current, identified, refusal
from corral.work.tasks import completion
from corral.work.tasks import submitting as app_tasks
from corral.work.tasks import wire as task_shapes
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import dependencies
from corral.work.tasks.tasks import find

DEFAULT_PRIORITY = 5


@coordinator_tool
async def submit_work(
    task_type: str,
    description: str,
    input_data: dict[str, Any] | None = None,
    priority: int = DEFAULT_PRIORITY,
    depends_on: list[str] | None = None,
    claims: list[str] | None = None,
    thread_id: str | None = None,
    agent_requirements: dict[str, Any] | None = None,
    command: str | None = None,
    prompt: str | None = None,
    idempotency_key: str | None = None,
    agent: str | None = None,
    follower: bool = False,
    template: str | None = None,
    loop: dict[str, Any] | None = None,
    agent_version: str | None = None,
) -> Payload:
    """Queue a task (priority 10 first). With a command, a prompt or an agent (of the team, or a definition) a worker executes
    it in a worktree of its own and lands it; without, a session claims it by get_work. claims: paths and keys it will change.
    follower: it ends with the task that you work on. template: a task template that says what is done; input_data has the values
    of its parameters. loop: {"until": [{"kind": "tests", "command": "…"}], "max_iterations": 5}: repeat it until that passes."""
    call = current.get()
    fields = {
        "task_type": task_type,
        "description": description,
        "input_data": input_data,
        "priority": priority,
        "wait_for": depends_on or [],
        "claims": claims or [],
        "thread_id": thread_id,
        "agent_requirements": agent_requirements,
        "command": command,
        "prompt": prompt,
        "idempotency_key": idempotency_key,
        "agent": agent,
        "template": template,
        "loop": loop,
        "agent_version": agent_version,
    }
    if template is not None and priority == DEFAULT_PRIORITY:
        del fields["priority"]  # the template's counts
    row = await app_tasks.submit(call.services, fields, call, as_follower=follower)
    return {"success": True, "task_id": row["task_id"], "status": row["status"]}


@coordinator_tool
async def get_work(task_types: list[str] | None = None) -> Payload:
    """Claim the next task that is for sessions: it is yours until you complete it or your session ends. also_held: what you
    claimed before and have not completed."""
    return await app_tasks.claim(current.get(), task_types or ())


@coordinator_tool
async def complete_work(
    task_id: str, success: bool, result: dict[str, Any] | None = None, error_message: str | None = None
) -> Payload:
    """End a task that you claimed; what you committed in a worktree that Corral made for you lands. A failed task is not tried
    again by itself; result.error_code says why."""
    call = current.get()
    outcome = {"success": success, "result": result, "error_message": error_message}
    try:
        return await completion.complete(call, task_id, **outcome)
    except (LeaseLost, NotFound) as error:
        return {**refusal(error), "reason": "task_not_found_or_not_claimed_by_agent", "task_id": task_id}


@coordinator_tool
async def get_task(task_id: str) -> Payload:
    """A task's status, input and result, of any task; reading changes nothing."""
    return await _with_success(task_id, current.get().services.store.read(_read, task_id))


def _read(conn: Connection, task_id: str) -> Payload:
    """A task as the task document shows it, and as the coordinator does: ``task``."""
    row = find(conn, task_id)
    shown = task_shapes.read(row)
    names = {key: shown[key] for key in shown if key != "task_id"}
    holder, number = row["session_id"], row["current_attempt"]
    attempts = attempt_rows.of_task(conn, row["task_id"]) if number is not None else []
    return {
        **shown,
        "task": {
            "id": row["task_id"],
            **names,
            "description": row["description"] or row["title"],
            "claimed_by": session_rows.names_of(conn, [holder]).get(holder) if holder else None,
            "claimed_at": next((attempt["claimed_at"] for attempt in attempts if attempt["number"] == number), None),
            "depends_on": dependencies.parents_of(conn, row["task_id"]),
            "deadline": row["deadline_at"],
        },
    }


@coordinator_tool
async def cancel_task_convention(task_id: str, reason: str) -> Payload:
    """Cancel any task, running or not: it ends failed, with result.error_code "cancelled_by_orchestrator" and the reason."""
    return await _with_success(task_id, _cancelled(task_id, reason))


async def _cancelled(task_id: str, reason: str) -> Payload:
    row = await app_tasks.cancel(identified().services, task_id, reason=reason, convention=True)
    return {"task_id": row["task_id"], "status": row["status"], "result": row["result"]}


async def _with_success(task_id: str, answer: Awaitable[Payload]) -> Payload:
    try:
        return {"success": True, **await answer}
    except NotFound as error:
        return {**refusal(error), "reason": "task_not_found", "task_id": task_id}
