"""Where a task's branch begins: at the tip of its target, or on what its parents have finished but not landed.

With ``tasks.unblock_on: completed`` a dependent begins before its parents have landed: on the branch of one, on a merge of
several. What it began on stands in the row of its worktree (``stacked_on``), so that it lands behind that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.states import OPEN_MERGES, MergeState, TaskStatus
from corral.git import refs
from corral.git.land import candidates
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import TaskRow
from corral.work.merges.store import of_tasks
from corral.work.tasks.attempts import HAS_TO_WAIT, Ending
from corral.work.tasks.dependencies import standing
from corral.work.tasks.store import dependencies
from corral.work.workers.collect import committer
from corral.work.worktrees.allocation import WorktreeContext


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
    context.db.write(lambda conn: dependencies.clash(conn, task["task_id"], heads))
    crash_point("task.clash_stored")
    branches = " and ".join(merge["branch"] for merge in clashing)
    return Ending(
        False, HAS_TO_WAIT, f"{branches} conflict in {conflict.in_words}: it begins once one of them has landed."
    )
