"""Tasks: submitted, claimed, cancelled. How a claimed one ends is :mod:`corral.work.tasks.completion`."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.coordination.locks.table import Holder
from corral.coordination.services import Services
from corral.coordination.sessions.actor import Actor
from corral.core.errors import CorralError, InvalidInput
from corral.core.redaction import redact
from corral.core.states import RunnerName, TaskStatus
from corral.git import refs
from corral.store.rows.tasks import TaskRow
from corral.work.agents import definitions
from corral.work.agents.choosing import choosing
from corral.work.agents.judging import KEY
from corral.work.evidence.bundle import OF_ROADMAP
from corral.work.merges.store import landed
from corral.work.tasks import agents, delays, followers, leases, tasks
from corral.work.tasks import wire as task_shapes
from corral.work.tasks.store import family, work_pause
from corral.work.templates import task_template
from corral.work.workers.supervisor import Supervisor
from corral.work.workflows import standing

MOST_OF_REASON = 2000
"""Characters of the reason of a cancellation; everyone who reads the task reads it."""
STOPPED_WITHIN_S = 20.0
"""How long a cancellation by the convention waits for the worker to be gone."""


async def submit(
    services: Services, fields: dict[str, Any], actor: Actor | None = None, *, as_follower: bool = False
) -> TaskRow:
    """Queue one task; returns its row when it is durable.

    Args:
        fields: As the wire has it.
        actor: The session that submits it, where that is known.
        as_follower: The task that this session works on leads it.

    Raises:
        InvalidInput: It is none; nobody can lead it; its agent is not there, not valid, or not capable of what is required;
            or its template is not there, not valid, or lacks a parameter.
        RunnerUnavailable: Says what is missing.
    """
    (fields,), errors = await _expanded(services, [fields])
    if errors:
        task_shapes.refuse(errors, 1)
    (task,) = await _settled(services, task_shapes.read_submissions([fields]))
    settings, now = services.settings(), services.now()

    def create(conn: Connection, item: task_shapes.TaskSubmission) -> TaskRow:
        return tasks.submit(
            conn, _with_leader(conn, item, settings), now, settings.tasks, max_size=settings.queue.max_size
        )

    def store(conn: Connection, me: Holder) -> TaskRow:
        led = {"parent_task_id": followers.task_of(conn, me.session_id)} if as_follower else {}
        return create(conn, task.model_copy(update={"submitted_by": me.session_id, **led}))

    if actor is not None:
        row = await actor.write(store)
    else:
        row = await services.store.write(create, task)
    services.nudge("supervisor")
    return row


async def submit_batch(services: Services, items: list[Any]) -> list[TaskRow]:
    """Queue several tasks, all or none; they may wait for each other by ``name``. Raises as :func:`submit` does.

    ``details['errors']`` of an InvalidInput has all errors, of every kind.
    """
    items, errors = await _expanded(services, items)
    batch, invalid = task_shapes.parse_submissions(items)
    errors += invalid
    settings, now = services.settings(), services.now()
    try:
        batch = await _settled(services, batch)
    except InvalidInput as error:
        errors += error.details["errors"]

    def check(conn: Connection) -> list[task_shapes.TaskSubmission]:
        led, unled = _with_leaders(conn, batch, settings)
        if errors or unled:
            task_shapes.refuse([*errors, *unled, *tasks.errors_in(conn, batch)], len(batch))
        return led

    def store(conn: Connection) -> list[TaskRow]:
        return tasks.submit_batch(conn, check(conn), now, settings.tasks, max_size=settings.queue.max_size)

    if errors:
        await services.store.read(check)
    rows = await services.store.write(store)
    services.nudge("supervisor")
    return rows


async def _expanded(services: Services, items: list[Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """The submissions with what their templates say, and the errors of those whose template cannot be used."""
    if not any(isinstance(item, dict) and (item.get("template") is not None or "steps" in item) for item in items):
        return items, []
    return await services.work(lambda: task_template.expand_all(services.project.home / "templates", items))


def _with_leaders(
    conn: Connection, batch: Sequence[task_shapes.TaskSubmission], settings: Settings
) -> tuple[list[task_shapes.TaskSubmission], list[dict[str, Any]]]:
    """Each submission with the whole id of the task that leads it, and the errors of those that nobody can lead."""
    led: list[task_shapes.TaskSubmission] = []
    errors: list[dict[str, Any]] = []
    for index, item in enumerate(batch):
        try:
            led.append(_with_leader(conn, item, settings))
        except CorralError as error:
            errors.append({"index": index, "field": "parent_task_id", "message": error.message})
    return led, errors


def _with_leader(conn: Connection, item: task_shapes.TaskSubmission, settings: Settings) -> task_shapes.TaskSubmission:
    """The submission with the whole id of the task that leads it, if one does."""
    levels = 2 if item.steps else 1
    if item.parent_task_id is None:
        if levels > settings.supervisor.max_depth:
            raise followers.too_deep(f"The steps of {item.template!r}", levels, settings.supervisor.max_depth)
        return item
    leader_id = followers.leader(conn, item.parent_task_id, settings.supervisor.max_depth, levels=levels)
    return item.model_copy(update={"parent_task_id": leader_id})


async def _settled(
    services: Services, submissions: list[task_shapes.TaskSubmission]
) -> list[task_shapes.TaskSubmission]:
    """Choose the runner of each, mark claims on folders, and refuse tasks that no worker here could do.

    Raises:
        InvalidInput: An agent is not there, not valid, or not capable of what is required; or an idempotency key is one of
            Corral's own.
        RunnerUnavailable: Says what is missing.
    """
    batch, submissions = submissions, standing.flat(submissions)
    errors = _key_errors(submissions)
    try:
        if any(_is_slow_to_settle(item) for item in submissions):
            settled = await services.work(lambda: settle(services, submissions, errors))
        else:
            settled = settle(services, submissions, errors)
    except InvalidInput as error:
        task_shapes.refuse(standing.placed(batch, error.details["errors"]), len(batch))
    return standing.regrouped(batch, settled)


def _is_slow_to_settle(item: task_shapes.TaskSubmission) -> bool:
    """Whether settling it reads files or refs, or asks a keychain."""
    return _asks_for_an_agent(item) or bool(item.target) or item.runner is RunnerName.ANTHROPIC


def _asks_for_an_agent(item: task_shapes.TaskSubmission) -> bool:
    return bool(item.agent) or item.agent_requirements is not None


def settle(
    services: Services, submissions: Sequence[task_shapes.TaskSubmission], known_errors: Sequence[dict[str, Any]] = ()
) -> list[task_shapes.TaskSubmission]:
    """The same, in the thread of the caller; ``known_errors`` are the errors of earlier checks."""
    with_folders = [_with_folders(item, services.project.root) if item.claims else item for item in submissions]
    pinned, version_errors = _with_versions(services, with_folders)
    errors = [*known_errors, *_target_errors(services, submissions), *version_errors]
    chosen = choosing(services.db) if any(map(_asks_for_an_agent, submissions)) else None
    return agents.settle(pinned, services.roster(), services.of(Supervisor).check, errors, chosen)


def _with_versions(
    services: Services, submissions: Sequence[task_shapes.TaskSubmission]
) -> tuple[list[task_shapes.TaskSubmission], list[dict[str, Any]]]:
    """Each submission with the hash of the version that it is pinned to, and the errors of those that are not stored."""
    pinned: list[task_shapes.TaskSubmission] = []
    errors: list[dict[str, Any]] = []
    for index, item in enumerate(submissions):
        version = None
        if item.agent is not None and item.agent_version is not None:
            try:
                version = definitions.stored(services, item.agent, item.agent_version)["content_hash"]
            except CorralError as error:
                errors.append({"index": index, "field": "agent_version", "message": error.message})
        pinned.append(item if item.agent_version is None else item.model_copy(update={"agent_version": version}))
    return pinned, errors


def _target_errors(services: Services, submissions: Sequence[task_shapes.TaskSubmission]) -> list[dict[str, Any]]:
    """The errors of targets that never were a branch: such a task would fail at its start."""
    errors = []
    for index, item in enumerate(submissions):
        try:
            if item.target is None or refs.read(services.git, refs.branch_ref(item.target)) is not None:
                continue
            short = item.target.removeprefix("refs/heads/")
            with services.db.reading() as conn:
                if landed.is_known_target(conn, short):
                    continue  # it was renamed or deleted: the task waits until it is back
        except InvalidInput as error:  # no name that a branch can have
            errors.append({"index": index, "field": "target", "message": error.message})
            continue
        known = [row.name.removeprefix("refs/heads/") for row in refs.listing(services.git, "refs/heads/")]
        near = difflib.get_close_matches(item.target[:200], known, n=1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        message = f"There is no branch {item.target[:200]!r} to land on.{guess}"
        errors.append({"index": index, "field": "target", "message": message})
    return errors


def _key_errors(submissions: Sequence[task_shapes.TaskSubmission]) -> list[dict[str, Any]]:
    """The errors of submissions with a key or a type that is reserved: of the roadmap, of members, of improvements."""
    typed = [
        {"index": index, "field": "task_type", "message": f"{task_shapes.IMPROVEMENT!r} is for Corral's own tasks"}
        for index, item in enumerate(submissions)
        if item.task_type == task_shapes.IMPROVEMENT
    ]
    return typed + [
        {
            "index": index,
            "field": "idempotency_key",
            "message": f"{item.idempotency_key!r}: {begin!r} is for Corral's own tasks",
        }
        for index, item in enumerate(submissions)
        for begin in (*OF_ROADMAP, family.MEMBER, KEY)
        if (item.idempotency_key or "").startswith(begin)
    ]


def _with_folders(item: task_shapes.TaskSubmission, root: Path) -> task_shapes.TaskSubmission:
    """Add the slash to each claim on a folder of the main checkout, so that the claim covers its content."""

    def is_folder(claim: str) -> bool:
        return os.path.isdir(root / claim)  # noqa: PTH112 - False where the claim is no valid path

    claims = [f"{claim}/" if is_folder(claim) and not claim.endswith("/") else claim for claim in item.claims]
    return item.model_copy(update={"claims": claims})


def delay_of(services: Services, conn: Connection, row: TaskRow, now: datetime) -> str | None:
    """Why a task does not start now (:func:`corral.work.tasks.delays.reason`)."""
    supervisor = services.of(Supervisor)
    return delays.reason(
        conn,
        row,
        supervisor.pause,
        now,
        supervisor.gate,
        throttles=supervisor.throttles,
        busy=supervisor.busy,
        ageing_s=services.settings().tasks.ageing_s,
        fold=services.fold,
    )


async def claim(actor: Actor, task_types: Sequence[str], key: str | None = None) -> dict[str, Any]:
    """Claim the next task that no worker executes: a :data:`corral.work.tasks.api.Claimed`.

    Args:
        task_types: Of which types; none: of any.
        key: The same again gives the same task, while it is held.
    """
    services, now = actor.services, actor.services.now()

    def take(conn: Connection, me: Holder) -> dict[str, Any]:
        claimant = leases.claimant(conn, me.session_id, services.teams().capabilities)
        row = leases.claim(conn, claimant, now, services.settings(), task_types=task_types, key=key, fold=services.fold)
        also_held = leases.also_held(conn, me.session_id, row)
        also = {"also_held": also_held} if also_held else {}
        if row is not None:
            return {"success": True, **task_shapes.leased(row), **also}
        reason = "no_tasks_available" if work_pause.current(conn) is None else "work_paused"
        return {"success": False, "reason": reason, **also}

    answer = await actor.write(take)
    if answer["success"]:  # from now on its lease is looked after
        services.nudges.soon("supervisor")
    return answer


async def cancel(services: Services, task_id: str, *, reason: str, convention: bool = False) -> TaskRow:
    """Cancel a task; returns its row.

    Args:
        convention: It ends ``failed`` with ``result.error_code`` "cancelled_by_orchestrator"; wait until it has ended.
    """
    if len(reason) > MOST_OF_REASON:
        raise InvalidInput(
            f"A reason has at most {MOST_OF_REASON} characters; this one has {len(reason)}.", remedy="Say it shorter."
        )
    now, rules, why = services.now(), services.settings().tasks, redact(reason)
    row = await services.store.write(tasks.cancel, task_id, now, rules, reason=why, convention=convention)
    services.nudge("supervisor")
    full_id = row["task_id"]
    deadline = time.monotonic() + (STOPPED_WITHIN_S if convention else 0)
    while row["status"] in (TaskStatus.RUNNING, TaskStatus.INTERRUPTED) and (left_s := deadline - time.monotonic()) > 0:
        await services.changes.next(min(left_s, 1.0))
        row = await services.store.read(tasks.find, full_id)
    return row
