"""Before an iteration: the worktree that it goes on in, and its feedback."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.links import make_own_folder
from corral.core.errors import CorralError, GitFailed
from corral.core.logs import logger
from corral.core.redaction import redact
from corral.core.runners import traits
from corral.core.states import TERMINAL_TASKS, WorktreePurpose, WorktreeState
from corral.git.checkouts import status
from corral.git.process.command import Git
from corral.runners.blame import CONVERSATION_LOST, DAEMON_DIED
from corral.runners.process import open_private
from corral.runners.protocol import PastConversation, Usage
from corral.runners.stream import readable
from corral.store.rows.tasks import AttemptRow, TaskRow, WorktreeRow
from corral.work.loops.history import Past, bounds, feedback, read_record
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.tasks.store import tasks
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import WorktreeContext, roll_back
from corral.work.worktrees.provision import Provisioned

log = logger("loops")


def kept_worktree(
    context: WorktreeContext,
    task: TaskRow,
    fits: Callable[[Git, Provisioned], bool] = lambda _checkout, _provided: True,
) -> tuple[WorktreeRow, Provisioned] | None:
    """The worktree of the former attempt, if it is there and fits; else None, and what was kept is given back."""
    worktree_id = context.kept.pop(task["task_id"], None)
    row = worktree_id and context.db.read(worktree_rows.get, worktree_id)
    if not row or row["state"] != WorktreeState.READY:
        return None
    try:
        provided = Provisioned(**row["provision"])
        if fits(ownership.prove(context, row), provided):
            return row, provided
    except CorralError as error:
        log.warning("worktree_not_continued", task_id=task["task_id"], worktree=row["name"], reason=error.message)
    roll_back(context, row)
    return None


def is_unchanged(past: Past | None, checkout: Git, provided: Provisioned) -> bool:
    """Whether nothing has changed since the former iteration: later changes are the work of no iteration."""
    if past is None or past.checkpoint is None or checkout.head() != past.checkpoint["head_sha"]:
        return False
    return not status.committable(status.changes(checkout), provided.exclude)


def go_on_in(conn: Connection, worktree: WorktreeRow, session_id: str | None) -> WorktreeRow:
    """Give the worktree to the session of the next iteration."""
    row = worktree_rows.transition(
        conn, worktree["worktree_id"], (WorktreeState.READY,), {"session_id": session_id, "note": None}
    )
    if row is None:
        raise GitFailed(f"The worktree {worktree['name']} is being removed.")
    return row


def keep(context: WorktreeContext, task: TaskRow, worktree: WorktreeRow) -> None:
    """Keep a worktree for the next iteration, as long as this daemon lives."""
    context.kept[task["task_id"]] = worktree["worktree_id"]


def forsaken(conn: Connection, context: WorktreeContext) -> list[WorktreeRow]:
    """The kept worktrees whose task has ended, and will have no next iteration."""
    ended = [task_id for task_id in list(context.kept) if _has_ended(conn, task_id)]
    ids = [worktree_id for task_id in ended if (worktree_id := context.kept.pop(task_id, None)) is not None]
    rows = worktree_rows.listing(conn, states=(WorktreeState.READY,), purposes=(WorktreePurpose.TASK,)) if ids else []
    return [row for row in rows if row["worktree_id"] in ids]


def _has_ended(conn: Connection, task_id: str) -> bool:
    row = tasks.get(conn, task_id)
    return row is None or row["status"] in TERMINAL_TASKS


def thread_of(context: WorktreeContext, task: TaskRow, past: Past) -> tuple[Thread, tuple[str | None, str | None]]:
    """The conversation of a task's current attempt, and who holds it: a runner and an agent."""
    with context.db.reading() as conn:
        rows = attempt_rows.of_task(conn, task["task_id"])
    holder = next(
        ((row["runner"], row["agent"]) for row in rows if row["number"] == task["fencing_token"]), (None, None)
    )
    folder = context.project.logs_dir / "tasks" / task["task_id"]
    return thread(past, rows, task["fencing_token"], holder, folder), holder


def last_evaluation(
    context: WorktreeContext, task: TaskRow, past: Past, worktree: Path, thread: Thread
) -> tuple[str, dict[str, str]]:
    """The last evaluation: as text for a prompt, and as variables for a command.

    Args:
        thread: The conversation that gets it.
    """
    text = feedback(past, bounds(context.settings().loops, past.spec))
    text = "\n\n".join(part for part in (introduction(thread, worktree), text) if part)
    folder = make_own_folder(context.project.logs_dir / "tasks" / task["task_id"], context.project.root)
    file = folder / f"{task['fencing_token']}.feedback.txt"
    with os.fdopen(open_private(file, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as output:
        output.write(f"{text}\n" if text else "")
    return text, {"CORRAL_ITERATION": str(past.next_iteration), "CORRAL_FEEDBACK_FILE": str(file)}


def time_left_s(context: WorktreeContext, past: Past | None, own_s: float | None) -> float | None:
    """The time limit of an attempt: its task's own, and what is left of its loop's."""
    if past is None:
        return own_s
    left_s = max(1.0, bounds(context.settings().loops, past.spec).timeout_s - past.elapsed_s)
    return left_s if own_s is None else min(own_s, left_s)


# -- The conversation of a loop's agent: each iteration goes on in a copy of the last one, or in a new one if that is
# lost.
#
# An iteration whose worker died with its daemon goes on in a copy of its own.

READ_OF_LOG = 4 * 2**20
"""Bytes of the end of an agent's log that its actions are read from."""
MOST_ACTIONS = 200
"""Lines of an agent's actions that stay in the history."""
LONGEST_ACTION = 500
"""Characters of one of them."""
_OTHER_AGENT = "The one of iteration {iteration} was held by another agent or runner."


@dataclass(frozen=True)
class Thread:
    """The conversation of an attempt.

    Attributes:
        resumes: The one that it goes on in; None: a new one.
        continues: The iteration that held that one.
        lost: Why it does not go on in the one of the last iteration, which had one.
    """

    resumes: PastConversation | None = None
    continues: int | None = None
    lost: str | None = None


def file_of(folder: Path, attempt: int) -> Path:
    """The file of the conversation of an attempt, where its runner keeps it itself; it is sealed as a log is."""
    return folder / f"{attempt}.conversation.log"


def died(attempts: Sequence[AttemptRow], number: int) -> list[AttemptRow]:
    """The attempts right before this one whose workers died with their daemon; the newest first."""
    before = [row for row in attempts if row["number"] < number and row["started_at"] is not None]
    return [*takewhile(lambda row: row["error_code"] == DAEMON_DIED, reversed(before))]


def of_died(
    rows: Sequence[AttemptRow], holder: tuple[str | None, str | None], folder: Path, began_with: Usage | None = None
) -> PastConversation | None:
    """The conversation of attempts that died with their daemon; None: who does the task now does not hold it.

    Args:
        rows: As :func:`died` gives them.
        holder: A runner and an agent.
        folder: Holds the logs of the task.
        began_with: The usage of the conversation that the first of them went on in.
    """
    if not rows or (rows[0]["runner"], rows[0]["agent"]) != holder or not traits(holder[0]).keeps_conversation:
        return None
    used = [asdict(began_with or Usage()), *(row["usage"] for row in rows)]
    total = Usage(**{name: sum(usage.get(name, 0) for usage in used) for name in asdict(Usage())})
    return PastConversation(rows[0]["session_id"], file_of(folder, rows[0]["number"]), total)


def thread(
    past: Past, attempts: Sequence[AttemptRow], number: int, holder: tuple[str | None, str | None], folder: Path
) -> Thread:
    """The conversation of an attempt: the same at its start and at its end.

    Args:
        number: The attempt.
        holder: Its runner, and its agent.
        folder: Holds the logs of its task.
    """
    thread = _of_checkpoint(past, attempts, number, holder, folder)
    own = of_died(died(attempts, number), holder, folder, thread.resumes.usage if thread.resumes else None)
    return replace(thread, resumes=own) if own is not None else thread


def _of_checkpoint(
    past: Past, attempts: Sequence[AttemptRow], number: int, holder: tuple[str | None, str | None], folder: Path
) -> Thread:
    last = past.checkpoint
    held = read_record(last).get("conversation") if last is not None else None
    if last is None or not isinstance(held, Mapping) or not traits(holder[0]).keeps_conversation:
        return Thread()
    if (held.get("runner"), held.get("agent")) != holder:
        return Thread(lost=_OTHER_AGENT.format(iteration=last["iteration"]))
    for attempt in attempts:
        if last["attempt"] < attempt["number"] < number and attempt["error_code"] == CONVERSATION_LOST:
            return Thread(lost=attempt["error_message"] or "It could not be resumed.")
    usage = Usage(**{name: held["usage"].get(name, 0) for name in asdict(Usage())})
    conversation = PastConversation(last["session_id"], file_of(folder, last["attempt"]), usage)
    return Thread(conversation, continues=last["iteration"])


def recorded(
    conversation: Thread, holder: tuple[str | None, str | None], usage: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The conversation for the record of an iteration; None: its runner keeps none.

    Args:
        usage: The usage of this iteration's worker alone.
    """
    if not traits(holder[0]).keeps_conversation:
        return None
    before = asdict(conversation.resumes.usage) if conversation.resumes else {}
    total = {name: before.get(name, 0) + usage.get(name, 0) for name in asdict(Usage())}
    return {
        "runner": holder[0],
        "agent": holder[1],
        "continues": conversation.continues,
        "lost": conversation.lost,
        "usage": total,
    }


def actions(log: Path, runner: str | None) -> list[str]:
    """The last texts, tool calls and tool errors of an agent, as a person reads them; none of a runner that has no agent.

    Args:
        log: The output of its attempt.
    """
    if not traits(runner).keeps_conversation or not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - READ_OF_LOG))
        if file.tell():
            file.readline()  # the rest of one that begins before
        lines = readable(file.read().decode(errors="replace")).splitlines()
    return [redact(line)[:LONGEST_ACTION] for line in lines[-MOST_ACTIONS:]]


def introduction(conversation: Thread, worktree: Path) -> str:
    """The first paragraph of the feedback to its agent; empty for a new conversation."""
    if conversation.resumes is not None:
        return f"Go on with the task in this conversation. You work in the folder {worktree}: another one that it names is gone."
    return (
        f"The conversation of the iterations before is lost, and this text has to do: {conversation.lost}"
        if conversation.lost
        else ""
    )
