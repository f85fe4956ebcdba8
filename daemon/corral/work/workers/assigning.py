"""Make the assignment of one attempt: the task, the folder, the limits, the environment, and the prompt."""

from __future__ import annotations

from pathlib import Path

from corral.config.links import make_own_folder
from corral.config.model import Settings
from corral.config.paths import bundle_dir
from corral.config.sections.work import AnthropicRunner, ClaudeRunner
from corral.core.states import RunnerName
from corral.git.process.command import as_env
from corral.runners.protocol import Assignment, Limits
from corral.store.rows import required
from corral.store.rows.tasks import TaskRow, WorktreeRow
from corral.work.agents import judging
from corral.work.evidence import process
from corral.work.loops import continuing
from corral.work.loops.continuing import Thread
from corral.work.loops.history import Past
from corral.work.tasks import combining
from corral.work.tasks.agents import ResolvedAgent
from corral.work.workers import resuming
from corral.work.workers.collect import committer
from corral.work.workers.resuming import Resumption
from corral.work.workflows import standing
from corral.work.worktrees.allocation import WorktreeContext, environment
from corral.work.worktrees.provision import Provisioned


def assignment(
    context: WorktreeContext,
    task: TaskRow,
    worktree: WorktreeRow,
    provided: Provisioned,
    resolved: ResolvedAgent,
    past: Past | None,
    resumed: Resumption,
) -> Assignment:
    """The assignment for the runner of a claimed task.

    Args:
        past: Its loop, if it is one.
        resumed: What it takes over from an attempt that died with its daemon.
    """
    settings = context.settings()
    is_claude, rules = resolved.runner is RunnerName.CLAUDE, _rules(settings, resolved)
    limits, definition, session_id = (
        {**resolved.limits, **task["limits"]},
        resolved.definition,
        required(task["session_id"]),
    )
    identity = as_env(committer(context.repo, task))
    folder = make_own_folder(context.project.logs_dir / "tasks" / task["task_id"], context.project.root)
    log = folder / f"{task['fencing_token']}.log"
    by_program = settings.runners.claude.memory_mb if resolved.program else settings.runners.command.memory_mb
    memory = rules.memory_mb if rules else by_program
    thread, feedback, of_loop = Thread(), "", dict[str, str]()
    if past is not None:
        thread, _ = continuing.thread_of(context, task, past)
        feedback, of_loop = continuing.last_evaluation(context, task, past, Path(worktree["path"]), thread)
    earlier, of_steps = standing.of_earlier_steps(context, task)
    return Assignment(
        task_id=task["task_id"],
        attempt=task["fencing_token"],
        title=task["title"],
        command=task["command"],
        program=resolved.program,
        prompt=feedback
        if thread.resumes and resumed.conversation is None
        else resuming.request(resumed, _prompt(context, task, resolved, earlier, feedback), Path(worktree["path"])),
        worktree=Path(worktree["path"]),
        log=log,
        keeper=keeper_folder(context, task),
        session_id=session_id,
        env={
            **resolved.program_env,
            **environment(context, Path(worktree["path"]), provided),
            "CORRAL_SESSION_ID": session_id,
            **of_loop,
            **of_steps,
        },
        limits=Limits(
            timeout_s=continuing.time_left_s(context, past, task["timeout_s"] or limits.get("timeout_s")),
            max_turns=limits.get("max_turns") or (rules.max_turns if rules else None),
            max_tokens=limits.get("max_tokens"),
            max_cost_usd=limits.get("max_cost_usd") or (rules.max_cost_usd if rules else None),
            memory_mb=limits.get("memory_mb") or settings.limits.memory_mb_per_agent or memory,
            stall_s=settings.agents.stalled_after_s,
            output_mb=settings.limits.output_mb_per_agent,
        ),
        identity_env=identity,
        project_id=context.project_id,
        plugin_dir=bundle_dir() if is_claude else None,
        model=model_of(context, resolved, task),
        agent=resolved.agent.name if resolved.agent else None,
        definition=definition.for_claude() if definition else judging.own_definition(task["idempotency_key"]),
        instructions=resolved.instructions,
        conversation=continuing.file_of(folder, task["fencing_token"]),
        resumes=thread.resumes or resumed.conversation,
    )


def keeper_folder(context: WorktreeContext, task: TaskRow) -> Path:
    """The folder of the keeper of a task's current attempt."""
    return context.project.attempts_dir / f"{task['task_id']}.{task['fencing_token']}"


def model_of(context: WorktreeContext, resolved: ResolvedAgent, task: TaskRow) -> str | None:
    """The model that its worker asks for; None: it runs none, or the client's own default."""
    rules = _rules(context.settings(), resolved)
    if judging.own_definition(task["idempotency_key"]) and (model := (task["input_data"] or {}).get("model")):
        return str(model)
    return (resolved.model or rules.model) if rules else None


def _rules(settings: Settings, resolved: ResolvedAgent) -> ClaudeRunner | AnthropicRunner | None:
    """The settings of a runner that takes prompts; None: it takes none."""
    runners = settings.runners
    prompted: dict[RunnerName, ClaudeRunner | AnthropicRunner] = {
        RunnerName.CLAUDE: runners.claude,
        RunnerName.ANTHROPIC: runners.anthropic,
    }
    return prompted.get(resolved.runner) if resolved.runner is not None else None


def _prompt(
    context: WorktreeContext, task: TaskRow, resolved: ResolvedAgent, earlier: str, feedback: str
) -> str | None:
    """The request to its agent, with the phases that it is asked for, the contributions that it synthesizes, the results of
    earlier steps and the feedback of its loop."""
    prompt = task["prompt"] or (str(task["description"] or task["title"]) if resolved.agent else None)
    if prompt:
        prompt = process.of_task(task, context.settings().supervisor).asked_in(prompt)
    with context.db.reading() as conn:
        contributions = combining.synthesis(conn, task)
    return "\n\n".join(text for text in (prompt, contributions, earlier, feedback) if text) if prompt else prompt
