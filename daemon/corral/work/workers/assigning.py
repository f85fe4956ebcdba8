"""Make the assignment of one attempt: the task, the folder, the limits, the environment, and the prompt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import dropwhile
from pathlib import Path

from corral.config.links import make_own_folder
from corral.config.model import Settings
from corral.config.paths import bundle_dir
from corral.config.sections.work import AnthropicRunner, ClaudeRunner
from corral.core.logs import logger
from corral.core.runners import traits
from corral.core.states import RunnerName, TaskStatus, WorktreePurpose, WorktreeState
from corral.git import history
from corral.git.checkouts import salvage
from corral.git.process.command import as_env
from corral.runners.blame import CONVERSATION_LOST, DAEMON_DIED
from corral.runners.protocol import Assignment, Limits, PastConversation
from corral.store.rows import required
from corral.store.rows.tasks import AttemptRow, TaskRow, WorktreeRow
from corral.work.agents import judging
from corral.work.evidence import bundle
from corral.work.loops import continuing
from corral.work.loops.continuing import Thread
from corral.work.loops.history import Past
from corral.work.tasks import combining
from corral.work.tasks.agents import ResolvedAgent
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import tasks
from corral.work.workers.collect import committer
from corral.work.workflows import standing
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import WorktreeContext, environment, roll_back
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
        else request(resumed, _prompt(context, task, resolved, earlier, feedback), Path(worktree["path"])),
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
        prompt = bundle.of_task(task, context.settings().supervisor).asked_in(prompt)
    with context.db.reading() as conn:
        contributions = combining.synthesis(conn, task)
    return "\n\n".join(text for text in (prompt, contributions, earlier, feedback) if text) if prompt else prompt


# -- A task of a model whose worker died with its daemon: it goes on in its own conversation and, where that is there,
# in its tree.
#
# Everything is derived from the rows of its attempts: the newest ones that ended with `DAEMON_DIED`, and the worktree
# of the last. A failed attempt starts fresh (decision 6), and so does a plain command, which has no memory of what it
# did.

log = logger("supervisor")

MOST_FILES = 40
"""Files in the summary of saved work."""
_GO_ON = (
    "You were interrupted in the middle of this task: your process and what you had started ended. Go on where you stopped, in "
    "this conversation. You work in the folder {worktree}."
)
_SAME_TREE = "Its files are as they were then, uncommitted changes included."
_SAVED = (
    "An earlier worker was interrupted in the middle of this task. What it had done is not in your folder; it is saved as "
    "{ref}. Look at it (`git show {ref}`), and take over what is right. Compared with where it began:\n\n{summary}"
)


@dataclass(frozen=True)
class Resumption:
    """The state that an attempt takes over from an attempt whose worker died with its daemon.

    Attributes:
        tree: The worktree of the earlier attempt.
        conversation: Its conversation.
        prompt: Tells its agent of that: instead of the task if the conversation goes on, else together with the task.
    """

    tree: tuple[WorktreeRow, Provisioned] | None = None
    conversation: PastConversation | None = None
    prompt: str = ""


def kept_trees(context: WorktreeContext) -> dict[str, str]:
    """By task, the worktrees of attempts that died with a daemon, and whose task goes on in them."""
    with context.db.reading() as conn:
        rows = worktree_rows.listing(conn, states=(WorktreeState.READY,), purposes=(WorktreePurpose.TASK,))
        kept = {}
        for row in rows:
            task = tasks.get(conn, row["task_id"]) if row["task_id"] is not None else None
            if task is not None and task["status"] in (TaskStatus.PENDING, TaskStatus.INTERRUPTED):
                attempts = attempt_rows.of_task(conn, task["task_id"])
                if goes_on(attempts):
                    kept[task["task_id"]] = row["worktree_id"]
    return kept


def goes_on(attempts: list[AttemptRow]) -> bool:
    """Whether the last attempt's conversation, and its tree, are to be gone on in."""
    last = attempts[-1] if attempts else None
    return last is not None and last["error_code"] == DAEMON_DIED and traits(last["runner"]).keeps_conversation


def resumption(
    context: WorktreeContext, task: TaskRow, holder: tuple[str, str | None], past: Past | None
) -> Resumption:
    """What a claimed task takes over; where its last attempt did not die with its daemon, the tree of its loop alone.

    Args:
        holder: The runner, and the agent, that do it now.
        past: Its loop, if it is one.
    """
    with context.db.reading() as conn:
        rows = attempt_rows.of_task(conn, task["task_id"])
    before = [row for row in rows if row["number"] < task["fencing_token"] and row["started_at"] is not None]
    died = continuing.died(rows, task["fencing_token"])
    if not died:
        tree = continuing.kept_worktree(context, task, partial(continuing.is_unchanged, past))
        return Resumption(tree, prompt=_saved_work(context, before) if _is_lost(before) else "")
    tree = continuing.kept_worktree(context, task)
    conversation = continuing.of_died(died, holder, context.project.logs_dir / "tasks" / task["task_id"])
    if conversation is None and tree is not None:
        roll_back(context, tree[0])
    elif conversation is not None:
        return Resumption(tree, conversation, "" if tree else _saved_work(context, before))
    return Resumption(prompt=_saved_work(context, before))


def request(resumed: Resumption, prompt: str | None, worktree: Path) -> str | None:
    """The request to the agent: to go on, or its task with what was saved of it."""
    if resumed.conversation is None:
        return f"{prompt}\n\n{resumed.prompt}" if resumed.prompt and prompt else prompt
    return " ".join((_GO_ON.format(worktree=worktree), resumed.prompt or _SAME_TREE))


def _is_lost(before: list[AttemptRow]) -> bool:
    """Whether the last attempt could not go on in the conversation of one that died with its daemon."""
    codes = [row["error_code"] for row in reversed(before)]
    earlier = next(dropwhile(lambda code: code == CONVERSATION_LOST, codes), None)
    return codes[:1] == [CONVERSATION_LOST] and earlier == DAEMON_DIED


def _saved_work(context: WorktreeContext, before: list[AttemptRow]) -> str:
    """What is saved of the last attempts, as text for a prompt; empty: nothing was at risk."""
    with context.db.reading() as conn:
        rows = [
            worktree_rows.get(conn, row["worktree_id"]) for row in reversed(before) if row["worktree_id"] is not None
        ]
    for row in rows:
        if row is not None and (saved := salvage.listing(context.repo, row["name"])):
            summary = history.diff_stat(context.repo, row["base_sha"], saved[-1].sha, limit=MOST_FILES)
            return _SAVED.format(ref=saved[-1].ref, summary=summary)
    return ""
