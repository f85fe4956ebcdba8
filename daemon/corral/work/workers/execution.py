"""One attempt, outside of the supervisor's step: allocate a worktree, start the worker, and later collect its work.

Everything here may be slow (git, copying, starting a process) and runs in the server's threads. Each function leaves the
database in a state from which a restart goes on: :meth:`corral.work.workers.supervisor.Supervisor.recover`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from sqlalchemy import Connection

from corral.config.roster import Roster
from corral.config.trust import not_trusted
from corral.coordination.mail import addresses
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import session_end
from corral.core.clock import AwakeClock
from corral.core.crash import crash_point
from corral.core.errors import CorralError, LeaseLost, PathReplaced
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.redaction import redact
from corral.core.remedies import with_remedy
from corral.core.sealing import seal_where_possible
from corral.core.states import OPEN_MERGES, MergeState, RunnerName, TaskStatus, WorktreePurpose, WorktreeState
from corral.core.volumes import is_full, met_the_end
from corral.git import refs
from corral.git.land import candidates
from corral.runners import keeping
from corral.runners.blame import BY_ITSELF, CONVERSATION_LOST, DISK_FULL, Blame, blame_of, blame_of_error
from corral.runners.keeping import is_killed
from corral.runners.protocol import Finished, HasApiAccess, Runner, Running
from corral.runners.tags import PROJECT_MARK, TASK_MARK
from corral.store import events
from corral.store.rows import required
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import TaskRow, WorktreeRow
from corral.work.agents import record
from corral.work.agents.choosing import choosing
from corral.work.agents.definitions import Origin, origin_of
from corral.work.loops import closing, continuing, history
from corral.work.loops import store as loops
from corral.work.loops.history import Past
from corral.work.merges.store import of_tasks
from corral.work.tasks import attempts, leases
from corral.work.tasks.agents import ResolvedAgent, checked, resolve_agent
from corral.work.tasks.attempts import HAS_TO_WAIT, INTERRUPTED, Ending
from corral.work.tasks.dependencies import standing
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import dependencies, tasks
from corral.work.trust.trust import TrustGate
from corral.work.workers.assigning import assignment, keeper_folder, model_of, resumption
from corral.work.workers.collect import collect, committer
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import Plan, WorktreeContext, allocate, mark_ready, reclaim
from corral.work.worktrees.provision import Provisioned
from corral.work.worktrees.worktrees import landing_target


@dataclass(frozen=True)
class AttemptContext:
    """Services and settings that every attempt uses.

    Attributes:
        runners: By name.
        nudge: Tells ``"supervisor"`` or ``"landing"`` to look soon.
        is_stopping: Whether no worker may be started any more.
        host: The name of this machine.
        awake: Turns an instant of the wall clock into the one that a worker's limits are measured by.
    """

    worktrees: WorktreeContext
    runners: Mapping[str, Runner]
    nudge: Callable[[str], None]
    is_stopping: Callable[[], bool]
    awake: AwakeClock = field(default_factory=AwakeClock)
    host: str = field(default_factory=platform.node)

    def gate(self) -> TrustGate:
        """Which tasks wait for the user's approval at this moment."""
        context = self.worktrees
        choices = choosing(context.db)
        return TrustGate(context.untrusted(), self.roster, choices, context.missing)

    def roster(self) -> Roster:
        """The agents at this moment, as their files define them."""
        return Roster(self.worktrees.project, self.worktrees.team().agents)


@dataclass(frozen=True)
class Started:
    """A worker at work in its worktree."""

    running: Running
    task: TaskRow
    worktree: WorktreeRow
    began: datetime
    """By the clock that its limits are measured by."""
    is_loop: bool = False
    """Its end takes as long as its evaluation does."""


def launch(context: AttemptContext, task: TaskRow) -> Started | Ending:
    """Start a claimed task.

    Args:
        task: The leased row.

    Returns:
        The worker; or, if it could not be started or must not be any more, how the attempt ended: it is closed already.
    """
    token = task["fencing_token"]
    worktree: WorktreeRow | None = None
    running: Running | None = None
    try:
        resolved, runner = _resolved_agent(context, task)
        target, tip = landing_target(context.worktrees, task["target"])
        past = history.past_of(context.worktrees, task["task_id"])
        resumed = resumption(context.worktrees, task, holder_of(resolved), past)
        laid = Foundation(tip) if resumed.tree else lay(context.worktrees, task, target, tip)
        if isinstance(laid, Ending):
            return _closed(context, task, None, laid)
        base_sha = history.begin_at(context.worktrees, {**task, "target": target}, past, laid.base_sha)
        name = f"task-{task['task_id'][:13]}-{token}"
        plan = Plan(
            name=name,
            branch=f"corral/{name}",
            purpose=WorktreePurpose.TASK,
            base_sha=base_sha,
            task_id=task["task_id"],
            session_id=task["session_id"],
            stacked_on=laid.stacked_on,
        )
        origin = _origin(context, resolved)
        allocated, provided = resumed.tree or allocate(
            context.worktrees, plan, is_unwanted=lambda: _is_cancelled(context, task)
        )
        worktree = allocated
        task, worktree = context.worktrees.db.write(
            _record_start, context, task, allocated, provided, target, resolved, past, origin
        )
        if task["cancel_reason"] is not None or context.is_stopping():
            return _closed(context, task, worktree, Ending(False, INTERRUPTED, "It had not started yet."))
        crash_point("task.start")
        ownership.prove(context.worktrees, worktree)
        began = context.awake.at(context.worktrees.clock())
        running = runner.start(assignment(context.worktrees, task, worktree, provided, resolved, past, resumed), began)
        crash_point("task.started")
        now = context.worktrees.clock()
        context.worktrees.db.write(_record_process, task, token, running, now)
        return Started(running, task, worktree, began, is_loop=past is not None)
    except (CorralError, OSError) as error:
        if running is not None:
            _kill(context, task, running)
        stopped = Ending(False, INTERRUPTED, "The daemon was stopped before it had started.")
        return _closed(context, task, worktree, stopped if context.is_stopping() else _ending_of_error(context, error))


def adopt(context: AttemptContext, task: TaskRow, now: datetime) -> Started | None:
    """Go on with a task's worker that another daemon started, if it is certainly that worker; no new attempt is counted.

    A worker that was killed while no daemon followed it, or whose keeper died, counts as dead with its daemon.

    Raises:
        OSError: What is left of it cannot be read.
    """
    worktrees = context.worktrees
    folder = keeper_folder(worktrees, task)
    survivor = keeping.find(folder, task_marks(worktrees, task["task_id"]), task["fencing_token"])
    if survivor is None:
        return None
    kept, assigned = survivor
    with worktrees.db.reading() as conn:
        rows = attempt_rows.of_task(conn, task["task_id"])
        worktree = worktree_rows.get(conn, task["worktree_id"]) if task["worktree_id"] is not None else None
    runner = context.runners.get(str(next(row["runner"] for row in rows if row["number"] == assigned.attempt)))
    ended, place = kept.exit(), (WorktreeState.READY, str(assigned.worktree))
    died = ended is not None and is_killed(ended)
    if runner is None or worktree is None or (worktree["state"], worktree["path"]) != place or died:
        kept.close()
        return None
    awake = context.awake.at(now)
    running = runner.follow(assigned, kept, awake)
    if task["pid"] is None:  # its daemon died between its start and the record of it
        worktrees.db.write(_record_process, task, task["fencing_token"], running, now)
    past = history.past_of(worktrees, task["task_id"])
    began = awake - timedelta(seconds=kept.age_s)
    return Started(running, task, worktree, began, is_loop=past is not None)


def _closed(context: AttemptContext, task: TaskRow, worktree: WorktreeRow | None, ending: Ending) -> Ending:
    conclude(context, task, worktree, ending)
    return ending


def _is_cancelled(context: AttemptContext, task: TaskRow) -> bool:
    with context.worktrees.db.reading() as conn:
        row = tasks.get(conn, task["task_id"])
    return row is None or row["cancel_reason"] is not None


def _kill(context: AttemptContext, task: TaskRow, running: Running) -> None:
    """Kill a worker whose start could not be recorded, until nothing of it is alive: then another one may start."""
    folder, marks = keeper_folder(context.worktrees, task), task_marks(context.worktrees, task["task_id"])
    while not keeping.revoke(folder, marks):
        pass
    running.observe(context.worktrees.clock())  # lets go of it


def task_marks(context: WorktreeContext, task_id: str) -> dict[str, str]:
    """The mark in the environment of every process of a task, and of no process of another project."""
    return {PROJECT_MARK: context.project_id, TASK_MARK: task_id}


def seal(context: WorktreeContext, task: TaskRow) -> None:
    """Seal the logs of a task's last attempt before its row is closed, so that the next daemon repeats it after a crash."""
    logs = context.project.logs_dir
    seal_where_possible(logs, logs / "tasks" / task["task_id"], f"{task['fencing_token']}.")


def finish(context: AttemptContext, started: Started, finished: Finished, usage: Payload) -> None:
    """Collect a worker's work, or evaluate it as an iteration of a loop, and close the attempt.

    Args:
        usage: The usage of this attempt.
    """
    task, worktree = started.task, started.worktree
    ending = None if finished.success else _ending_of_failure(context, worktree, finished, usage)
    if ending is None or (started.is_loop and _is_iteration(ending)):
        try:
            ending = _end_iteration(context, started, finished, usage) if started.is_loop else None
            ending = ending or collect(context.worktrees, task, worktree, finished.result, usage)
            crash_point("task.collected")
        except (CorralError, OSError) as error:
            ending = _ending_of_error(context, error, usage)
    conclude(context, task, worktree, ending)


def _ending_of_failure(context: AttemptContext, worktree: WorktreeRow, finished: Finished, usage: Payload) -> Ending:
    """The ending of a failed worker: by its own account, or because its disk is full or its worktree was replaced."""
    code, message = finished.error_code or "failed", finished.error_message
    is_fault = blame_of(finished.error_code) is Blame.MACHINE
    ending = Ending(False, code, message, finished.retryable, finished.result, usage, is_fault=is_fault)
    if ending.retryable and is_full(Path(worktree["path"])):
        text = f"The volume of {worktree['path']} is full. {message}"
        return replace(ending, error_code=DISK_FULL, error_message=text, is_fault=True)
    if code in BY_ITSELF:
        try:
            ownership.prove(context.worktrees, worktree)
        except PathReplaced as error:
            replaced = _ending_of_error(context, error, usage)
            return replace(replaced, error_message=f"{message} {replaced.error_message}", result=finished.result)
    return ending


def _is_iteration(ending: Ending) -> bool:
    """Whether a failed worker has used up an iteration of its loop: it was to blame, and another one may do better."""
    return blame_of(ending.error_code) is Blame.TASK and not ending.is_fault and ending.error_code != INTERRUPTED


def _end_iteration(context: AttemptContext, started: Started, finished: Finished, usage: Payload) -> Ending | None:
    task_id = started.task["task_id"]
    past, row = (
        history.past_of(context.worktrees, task_id),
        context.worktrees.db.read(tasks.get, task_id),
    )
    if past is None or row is None or row["fencing_token"] != started.task["fencing_token"]:
        return None
    api = context.runners.get(RunnerName.ANTHROPIC)
    return closing.Iteration(
        context.worktrees,
        past,
        row,
        started.worktree,
        finished,
        usage,
        elapsed_s=lambda: (context.awake.at(context.worktrees.clock()) - started.began).total_seconds(),
        is_unwanted=lambda: context.is_stopping() or _is_cancelled(context, row),
        api=api if isinstance(api, HasApiAccess) else None,
    ).close()


def conclude(context: AttemptContext, task: TaskRow, worktree: WorktreeRow | None, ending: Ending) -> None:
    """Close an attempt in one transaction, then give its worktree back.

    An attempt that lost its lease changes nothing of its task; its worktree is salvaged all the same.
    """
    seal(context.worktrees, task)
    status = context.worktrees.db.write(_close, context, task, worktree, ending)
    crash_point("task.closed")
    keeping.forget(keeper_folder(context.worktrees, task))
    context.nudge("supervisor")
    if ending.to_land is not None:
        context.nudge("landing")
    if worktree is not None and not _keeps_tree(ending, status):
        keeps = ending.success and status != "lost"
        reclaim(context.worktrees, worktree["worktree_id"], reason=f"task {task['task_id']} {status}", keeps=keeps)
        context.nudge("landing")  # a branch that has landed can go once no worktree has it


def _keeps_tree(ending: Ending, status: str) -> bool:
    """Whether the worktree stays for the next attempt: to go on in it, or to be told what it saved of it."""
    return status == TaskStatus.PENDING and (ending.goes_on or ending.error_code == CONVERSATION_LOST)


def _close(
    conn: Connection, context: AttemptContext, task: TaskRow, worktree: WorktreeRow | None, ending: Ending
) -> str:
    now = context.worktrees.clock()
    rules = context.worktrees.settings().tasks
    try:
        status = str(attempts.end(conn, task["task_id"], task["fencing_token"], ending, now, rules)["status"])
        if ending.iteration is not None:
            loops.record(conn, ending.iteration)
    except LeaseLost:
        status = "lost"
    session_end.end_attempt(conn, required(task["session_id"]), status, now, leases.offering(rules))
    if worktree is not None and _keeps_tree(ending, status):
        continuing.keep(context.worktrees, task, worktree)  # before anybody can claim the task again
    elif worktree is not None:
        from_states = (WorktreeState.ALLOCATING, WorktreeState.READY)
        worktree_rows.transition(conn, worktree["worktree_id"], from_states, {"state": WorktreeState.RECLAIMING})
    return status


def _record_start(
    conn: Connection,
    context: AttemptContext,
    task: TaskRow,
    worktree: WorktreeRow,
    provided: Provisioned,
    target: str,
    resolved: ResolvedAgent,
    past: Past | None,
    origin: Origin | None,
) -> tuple[TaskRow, WorktreeRow]:
    now = context.worktrees.clock()
    if worktree["state"] == WorktreeState.READY:
        worktree = continuing.go_on_in(conn, worktree, task["session_id"])
    else:
        worktree = mark_ready(conn, worktree["worktree_id"], provided)
    loops.begin(conn, task["task_id"], target, worktree["base_sha"])
    attempt = {
        "worktree_id": worktree["worktree_id"],
        "branch": worktree["branch"],
        "base_sha": (past and past.loop["base_sha"]) or worktree["base_sha"],
        "agent": resolved.agent.name if resolved.agent else None,
        "runner": resolved.runner,
        "model": model_of(context.worktrees, resolved, task),
        "host": context.host,
    }
    moved = attempts.change(conn, task["task_id"], task["fencing_token"], {"target": target}, attempt)
    session_id = required(task["session_id"])
    arrival = session_registry.Arrival(
        session_id=session_id,
        agent_type=str(resolved.runner),
        agent=resolved.agent.name if resolved.agent else None,
        capabilities=resolved.agent.capabilities if resolved.agent else (),
        cwd=worktree["path"],
        worktree=worktree["path"],
        branch=worktree["branch"],
        current_task=redact(task["title"]),
        task_id=task["task_id"],
    )
    session_registry.register(conn, arrival, now)
    if resolved.agent is not None:
        agent = resolved.agent
        record.begin(conn, moved, agent.name, origin, model_of(context.worktrees, resolved, task), now)
        addresses.take(conn, agent.name, session_id, now)
        assigned = EventKind.TASK_ASSIGNED({"agent": agent.name, "runner": agent.runner, "model": agent.model})
    else:
        assigned = EventKind.TASK_ASSIGNED(
            {"agent": None, "runner": str(resolved.runner), "model": model_of(context.worktrees, resolved, task)}
        )
    events.record(conn, now, assigned, task_id=task["task_id"], session_id=session_id)
    return moved, worktree


def holder_of(resolved: ResolvedAgent) -> tuple[str, str | None]:
    """Who holds the conversation of an attempt: a runner and an agent."""
    return str(resolved.runner), resolved.agent.name if resolved.agent else None


def _origin(context: AttemptContext, resolved: ResolvedAgent) -> Origin | None:
    """The definition that the agent works by, and who wrote it; None: a member of the team without one."""
    definition = resolved.agent.definition if resolved.agent else None
    return origin_of(context.worktrees.repo, context.worktrees.project.root, definition) if definition else None


def _record_process(conn: Connection, task: TaskRow, token: int, running: Running, now: datetime) -> None:
    attempts.started(conn, task["task_id"], token, now, pid=running.pid, pid_started=running.pid_started)
    process = {"client_pid": running.pid, "client_started": running.pid_started, "last_heartbeat": iso(now)}
    session_registry.change(conn, required(task["session_id"]), process)


def _resolved_agent(context: AttemptContext, task: TaskRow) -> tuple[ResolvedAgent, Runner]:
    """The agent that does it now, and the runner that starts it."""
    db, roster, check = context.worktrees.db, context.roster(), cache(checked(context.runners))
    roster = choosing(db).roster(roster, task)
    resolved = resolve_agent(task, roster, check)
    if task["agent"] is None and resolved.agent is not None:

        def choose(conn: Connection) -> ResolvedAgent:  # in one transaction, so that no two starts count alike
            chosen = resolve_agent(task, roster, check, attempt_rows.at_work(conn))
            named = {"agent": chosen.agent.name if chosen.agent else None}
            attempt_rows.change_open(conn, task["task_id"], task["fencing_token"], named)
            return chosen

        resolved = db.write(choose)
    agent = resolved.agent.name if resolved.agent else None
    assigned: TaskRow = {**task, "runner": resolved.runner, "agent": agent}
    if missing := context.gate().needed(assigned):
        raise not_trusted(missing)
    return resolved, context.runners[str(resolved.runner)]


def _ending_of_error(context: AttemptContext, error: CorralError | OSError, usage: Payload | None = None) -> Ending:
    """The ending of an attempt by an error of Corral: the task's fault, or the machine's."""
    root = context.worktrees.places.volume
    if met_the_end(error) or is_full(root):
        cause = error.message if isinstance(error, CorralError) else str(error)
        text, remedy = f"The volume of {root} is full: {cause}", f"Free space on the volume of {root}."
        return Ending(False, DISK_FULL, text, usage=usage or {}, is_fault=True, remedy=remedy)
    blame = blame_of_error(error)
    ending = Ending(
        False, "os_error", str(error), blame is not Blame.FINAL, usage=usage or {}, is_fault=blame is Blame.MACHINE
    )
    if not isinstance(error, CorralError):
        return ending
    text = error.message if error.cause == error.default_cause else f"{error.message} {error.cause}"
    message = text if ending.is_fault else with_remedy(text, error.remedy)
    return replace(ending, error_code=error.name, error_message=message, remedy=error.remedy)


# -- Where a task's branch begins: at the tip of its target, or on what its parents have finished but not landed.
#
# With ``tasks.unblock_on: completed`` a dependent begins before its parents have landed: on the branch of one, on a
# merge of several. What it began on stands in the row of its worktree (``stacked_on``), so that it lands behind that.


@dataclass(frozen=True)
class Foundation:
    """Where a branch begins.

    Attributes:
        stacked_on: The tasks whose work is in it and has not landed, each with the head of that.
    """

    base_sha: str
    stacked_on: dict[str, str] = field(default_factory=dict)


def lay(context: WorktreeContext, task: TaskRow, target: str, tip: str) -> Foundation | Ending:
    """Find or make the commit that a claimed task begins at.

    Args:
        target: The branch that it lands on, by its short name.
        tip: Where that is.

    Returns:
        The commit; or, where the work of its parents does not merge or came back just now, the end of this attempt: it waits.

    Raises:
        CorralError: Git refused.
    """
    rules = context.settings().tasks
    if rules.unblock_on != "completed":
        return Foundation(tip)
    with context.db.reading() as conn:
        parents, status = _parents(conn, task, rules.unblock_on)
    if status is TaskStatus.WAITING or status is TaskStatus.FAILED:
        return Ending(False, HAS_TO_WAIT, "A task that it waits for has changed just now.")
    here = [merge for merge in parents if merge["target"] == target]
    unlanded = [merge for merge in here if merge["state"] in OPEN_MERGES]
    if not unlanded:
        return Foundation(tip)
    base, stacked_on = unlanded[0]["head_sha"], dict[str, str]()
    for merge in unlanded:
        built = _merged(context, task, base, merge["head_sha"])
        if isinstance(built, candidates.Conflicted):
            return _wait(context, task, [*unlanded[: len(stacked_on)], merge], built)
        base = built.sha if built is not None else base
        stacked_on[str(merge["task_id"])] = merge["head_sha"]
    if any(merge["state"] == MergeState.LANDED and not _has(context, base, merge) for merge in here):
        built = _merged(context, task, base, tip)
        if isinstance(built, candidates.Conflicted):
            return _wait(context, task, unlanded, built)
        base = built.sha if built is not None else base
    crash_point("task.foundation_laid")
    return Foundation(base, stacked_on)


def _parents(conn: Connection, task: TaskRow, unblock_on: str) -> tuple[list[MergeRow], TaskStatus]:
    """The merge requests of the tasks that a task waited for, in the order of their submission; and where these put it now."""
    rows = dependencies.parent_states(conn, [task["task_id"]]).get(task["task_id"], [])
    decisive = (of_tasks.decisive(conn, row["task_id"]) for row in rows)
    parents = sorted((merge for merge in decisive if merge is not None), key=lambda merge: merge["seq"])
    return parents, standing(rows, ignore_failure=task["ignore_dependency_failure"], unblock_on=unblock_on)[0]


def _has(context: WorktreeContext, base: str, landed: MergeRow) -> bool:
    """Whether a commit has the work of a request that landed."""
    shas = (landed["head_sha"], landed["landed_sha"])
    return any(sha is not None and refs.is_ancestor(context.repo, sha, base) for sha in shas)


def _merged(
    context: WorktreeContext, task: TaskRow, base: str, head: str
) -> candidates.Candidate | candidates.Conflicted | None:
    message = f"Merge the work that {task['title']} begins on"
    return candidates.build(context.repo, base, head, message, committer(context.repo, task), context.clock())


def _wait(context: WorktreeContext, task: TaskRow, clashing: list[MergeRow], conflict: candidates.Conflicted) -> Ending:
    """Let the task wait until one of these has landed, or is another one."""
    heads = {str(merge["task_id"]): merge["head_sha"] for merge in clashing}
    context.db.write(dependencies.clash, task["task_id"], heads)
    crash_point("task.clash_stored")
    branches = " and ".join(merge["branch"] for merge in clashing)
    return Ending(
        False, HAS_TO_WAIT, f"{branches} conflict in {conflict.in_words}: it begins once one of them has landed."
    )
