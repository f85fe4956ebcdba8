"""One attempt, outside of the supervisor's step: get a worktree and a worker, and later bring in what was made.

Everything here may be slow (git, copying, starting a process) and runs in the server's threads. Each function leaves the
database in a state from which a restart goes on: :meth:`corral.work.supervisor.Supervisor.recover`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.paths import bundle_dir
from corral.config.roster import Roster
from corral.coordination import seats, sessions
from corral.errors import ConfigInvalid, CorralError, InvalidInput, LeaseLost, NotFound, RunnerUnavailable, Unsupported
from corral.git.identity import as_env
from corral.models.crash import crash_point
from corral.models.instants import iso
from corral.models.states import RunnerName, WorktreePurpose, WorktreeState
from corral.runners.process import end_leftovers
from corral.runners.protocol import Assignment, Finished, Limits, Runner, Running
from corral.store import events, tasks
from corral.store import worktrees as worktree_rows
from corral.work import attempts, departures
from corral.work.agents import Post, appoint, checked
from corral.work.allocation import Grounds, Plan, allocate, environment, landing_target, mark_ready, reclaim
from corral.work.attempts import INTERRUPTED, Ending
from corral.work.harvest import committer, harvest
from corral.work.provision import Provisioned

Row = dict[str, Any]

_HOPELESS = (InvalidInput, NotFound, RunnerUnavailable, Unsupported, ConfigInvalid)
"""Errors that another attempt would only meet again."""


@dataclass(frozen=True)
class Site:
    """What every attempt works with.

    Attributes:
        runners: By name.
        nudge: Tells ``"supervisor"`` or ``"landing"`` to look soon.
        is_stopping: Whether no worker may be started any more.
    """

    grounds: Grounds
    runners: Mapping[str, Runner]
    nudge: Callable[[str], None]
    is_stopping: Callable[[], bool]


@dataclass(frozen=True)
class Started:
    """A worker at work in its worktree."""

    running: Running
    task: Row
    worktree: Row


def launch(site: Site, task: Row) -> Started | None:
    """Start a claimed task.

    Args:
        task: The leased row.

    Returns:
        The worker; None if it could not be started, or must not be any more: then the attempt is closed already.
    """
    token = task["fencing_token"]
    worktree: Row | None = None
    running: Running | None = None
    try:
        post, runner = _appointed(site, task)
        target, base_sha = landing_target(site.grounds, task["target"])
        name = f"task-{task['task_id'][:13]}-{token}"
        plan = Plan(
            name=name,
            branch=f"corral/{name}",
            purpose=WorktreePurpose.TASK,
            base_sha=base_sha,
            task_id=task["task_id"],
            session_id=task["session_id"],
        )
        worktree, provided = allocate(site.grounds, plan, is_unwanted=lambda: _is_cancelled(site, task))
        made = worktree
        task, worktree = site.grounds.db.write(lambda conn: _moved_in(conn, site, task, made, provided, target, post))
        if task["cancel_reason"] is not None or site.is_stopping():
            conclude(site, task, worktree, Ending(False, INTERRUPTED, "It had not started yet."))
            return None
        crash_point("task.start")
        running = runner.start(_assignment(site, task, worktree, provided, post), site.grounds.clock())
        crash_point("task.started")
        now = site.grounds.clock()
        site.grounds.db.write(lambda conn: _running(conn, task, token, running, now))
        return Started(running, task, worktree)
    except (CorralError, OSError) as error:
        if running is not None:
            _kill(site, task, running)
        stopped = Ending(False, INTERRUPTED, "The daemon was stopped before it had started.")
        conclude(site, task, worktree, stopped if site.is_stopping() else _failure(error))
        return None


def _is_cancelled(site: Site, task: Row) -> bool:
    row = site.grounds.db.read(lambda conn: tasks.get(conn, task["task_id"]))
    return row is None or row["cancel_reason"] is not None


def _kill(site: Site, task: Row, running: Running) -> None:
    """End a worker that could not be recorded: only once nothing of it is alive may another one start."""
    while end_leftovers(task["task_id"], running.pid, running.pid_started):
        pass
    running.observe(site.grounds.clock())  # reaps it


def finish(site: Site, task: Row, worktree: Row, finished: Finished, usage: Row) -> None:
    """Bring in what a worker has made, and close its attempt.

    Args:
        task: The leased row.
        worktree: Where it worked.
        usage: What the task has used, earlier attempts included.
    """
    if not finished.success:
        ending = Ending(
            False,
            finished.error_code or "failed",
            finished.error_message,
            finished.retryable,
            finished.result,
            usage,
        )
    else:
        try:
            ending = harvest(site.grounds, task, worktree, finished.result, usage)
            crash_point("task.harvested")
        except (CorralError, OSError) as error:
            ending = _failure(error, usage)
    conclude(site, task, worktree, ending)


def conclude(site: Site, task: Row, worktree: Row | None, ending: Ending) -> None:
    """Close an attempt in one transaction, then give its worktree back.

    An attempt that lost its lease changes nothing of its task; its worktree is salvaged all the same.
    """
    status = site.grounds.db.write(lambda conn: _close(conn, site, task, worktree, ending))
    crash_point("task.closed")
    site.nudge("supervisor")
    if ending.harvest is not None:
        site.nudge("landing")
    if worktree is not None:
        reclaim(site.grounds, worktree["worktree_id"], reason=f"task {task['task_id']} {status}")
        site.nudge("landing")  # a branch that has landed can go once no worktree has it


def _close(conn: Connection, site: Site, task: Row, worktree: Row | None, ending: Ending) -> str:
    now = site.grounds.clock()
    rules = site.grounds.settings().tasks
    try:
        status = str(attempts.end(conn, task["task_id"], task["fencing_token"], ending, now, rules)["status"])
    except LeaseLost:
        status = "lost"
    departures.end_attempt(conn, task["session_id"], status, now, rules)
    if worktree is not None:
        come_from = (WorktreeState.ALLOCATING, WorktreeState.READY)
        worktree_rows.move(conn, worktree["worktree_id"], come_from, {"state": WorktreeState.RECLAIMING})
    return status


def _moved_in(
    conn: Connection, site: Site, task: Row, worktree: Row, provided: Provisioned, target: str, post: Post
) -> tuple[Row, Row]:
    now = site.grounds.clock()
    worktree = mark_ready(conn, worktree["worktree_id"], provided)
    values = {
        "worktree_id": worktree["worktree_id"],
        "branch": worktree["branch"],
        "base_sha": worktree["base_sha"],
        "target": target,
    }
    moved = attempts.change(conn, task["task_id"], task["fencing_token"], values)
    arrival = sessions.Arrival(
        session_id=task["session_id"],
        agent_type=str(post.runner),
        agent=post.agent.name if post.agent else None,
        capabilities=post.agent.capabilities if post.agent else (),
        cwd=worktree["path"],
        worktree=worktree["path"],
        branch=worktree["branch"],
        current_task=task["title"],
        task_id=task["task_id"],
    )
    sessions.register(conn, arrival, now)
    if post.agent is not None:
        given = {"agent": post.agent.name, "runner": post.agent.runner, "model": post.agent.model}
        seats.take(conn, post.agent.name, task["session_id"], now)
        events.record(conn, now, "task.assigned", task_id=task["task_id"], session_id=task["session_id"], data=given)
    return moved, worktree


def _running(conn: Connection, task: Row, token: int, running: Running, now: datetime) -> None:
    attempts.started(conn, task["task_id"], token, now, pid=running.pid, pid_started=running.pid_started)
    process = {"client_pid": running.pid, "client_started": running.pid_started, "last_heartbeat": iso(now)}
    sessions.change(conn, task["session_id"], process)


def _appointed(site: Site, task: Row) -> tuple[Post, Runner]:
    """Who does it at this moment, and the runner that starts it."""
    roster = Roster(site.grounds.project, site.grounds.team().agents)
    post = appoint(task, roster, checked(site.runners))
    return post, site.runners[str(post.runner)]


def _assignment(site: Site, task: Row, worktree: Row, provided: Provisioned, post: Post) -> Assignment:
    grounds = site.grounds
    settings = grounds.settings()
    claude = post.runner is RunnerName.CLAUDE
    limits, definition = task["limits"], post.definition
    who = as_env(committer(grounds.repo, task))
    log = grounds.project.logs_dir / "tasks" / task["task_id"] / f"{task['fencing_token']}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    works_by_model = claude or post.program
    memory = settings.runners.claude.memory_mb if works_by_model else settings.runners.command.memory_mb
    turns = (definition and definition.maxTurns) or settings.runners.claude.max_turns
    return Assignment(
        task_id=task["task_id"],
        attempt=task["fencing_token"],
        title=task["title"],
        command=task["command"],
        program=post.program,
        prompt=task["prompt"] or (_said(task) if post.agent else None),
        worktree=Path(worktree["path"]),
        log=log,
        session_id=task["session_id"],
        env={
            **post.program_env,
            **environment(grounds, Path(worktree["path"]), provided),
            "CORRAL_TASK_ID": task["task_id"],
            "CORRAL_SESSION_ID": task["session_id"],
        },
        limits=Limits(
            timeout_s=task["timeout_s"],
            max_turns=limits.get("max_turns") or (turns if claude else None),
            max_tokens=limits.get("max_tokens"),
            max_cost_usd=limits.get("max_cost_usd") or (settings.runners.claude.max_cost_usd if claude else None),
            memory_mb=limits.get("memory_mb") or memory,
            stall_s=settings.sessions.stall_after_s,
        ),
        identity_env=who,
        plugin_dir=bundle_dir() if claude else None,
        model=(post.model or settings.runners.claude.model) if claude else None,
        agent=post.agent.name if post.agent else None,
        definition=definition.for_claude() if definition else None,
        instructions=post.instructions,
    )


def _said(task: Row) -> str:
    return str(task["description"] or task["title"])


def _failure(error: CorralError | OSError, usage: Row | None = None) -> Ending:
    if isinstance(error, CorralError):
        text = error.message if error.cause == error.default_cause else f"{error.message} {error.cause}"
        return Ending(False, error.name, text, not isinstance(error, _HOPELESS), usage=usage or {})
    return Ending(False, "os_error", str(error), True, usage=usage or {})
