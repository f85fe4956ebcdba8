"""The checkpoint that each iteration of a loop leaves: its commit on a ref, and its row.

Invariant: the commit of a completed iteration is on a ref (:func:`pin`) before its row says so, and the row is written in the
transaction that ends its attempt: after a kill at any point the loop goes on from the last completed iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlalchemy import Connection

from corral.core.errors import GitFailed
from corral.core.logs import logger
from corral.core.states import RETURNED_MERGES, MergeState
from corral.git import refs
from corral.git.land import candidates
from corral.store.rows import required
from corral.store.rows.loops import IterationRow
from corral.store.rows.tasks import TaskRow
from corral.work.loops import store as loop_rows
from corral.work.loops.history import Past, read_record
from corral.work.merges.store import of_tasks
from corral.work.workers.collect import committer
from corral.work.worktrees.allocation import WorktreeContext

log = logger("loops")
PREFIX = "refs/corral/loops/"


def is_readable(row: IterationRow) -> bool:
    """Whether the record of a checkpoint is whole."""
    return not read_record(row).get("is_damaged")


def past_of(context: WorktreeContext, task_id: str) -> Past | None:
    """The loop of a task with its completed iterations; None: it is no loop.

    A damaged checkpoint (its commit is gone, or its record cannot be read) is passed over: the loop goes on from the one before.
    """

    def look(conn: Connection) -> Past | None:
        return read(conn, task_id, partial(_is_sound, context))

    return context.db.read(look)


def read(conn: Connection, task_id: str, is_sound: Callable[[IterationRow], bool] = is_readable) -> Past | None:
    """The loop of a task, without a look at git."""
    loop = loop_rows.get(conn, task_id)
    if loop is None:
        return None
    rows, merge = loop_rows.iterations(conn, task_id), of_tasks.decisive(conn, task_id)
    came_back = merge is not None and merge["state"] in (*RETURNED_MERGES, MergeState.CANCELLED)
    return Past(loop, rows, [row for row in rows if is_sound(row)], merge if came_back else None)


def _is_sound(context: WorktreeContext, row: IterationRow) -> bool:
    if refs.exists(context.repo, row["head_sha"]) and is_readable(row):
        return True
    log.warning("checkpoint_damaged", task_id=row["task_id"], iteration=row["iteration"], head_sha=row["head_sha"])
    return False


def start_sha(past: Past | None, tip: str) -> str:
    """The commit that a task's attempt starts at: the tip of its target, or the loop's last checkpoint."""
    if past is None:
        return tip
    return past.checkpoint["head_sha"] if past.checkpoint is not None else past.loop["base_sha"] or tip


def begin_at(context: WorktreeContext, task: TaskRow, past: Past | None, tip: str) -> str:
    """The commit that a new worktree starts at: one whose merge request came back has its target's changes merged in.

    Where they conflict it starts without them, and :func:`conflict` keeps it from converging until they are merged.
    """
    start = start_sha(past, tip)
    built = None if past is None or past.returned is None else _merged(context, task, start, tip)
    return built.sha if isinstance(built, candidates.Candidate) else start


def conflict(context: WorktreeContext, task: TaskRow, head: str) -> str | None:
    """Why the work would come back from the queue once more; None: it merges with its target."""
    target = required(task["target"])
    tip = refs.read(context.repo, refs.branch_ref(target))
    built = None if tip is None else _merged(context, task, head, tip)
    if not isinstance(built, candidates.Conflicted):
        return None
    return (
        f"It conflicts with {target} in {built.in_words}. Run `git merge {target}` in this worktree, and resolve that."
    )


def _merged(
    context: WorktreeContext, task: TaskRow, head: str, tip: str
) -> candidates.Candidate | candidates.Conflicted | None:
    identity = committer(context.repo, task)
    return candidates.build(context.repo, tip, head, f"Merge the target of {task['title']}", identity, context.clock())


def pin(context: WorktreeContext, past: Past, row: IterationRow) -> None:
    """Hold the commit of an iteration, and of the best one so far, on refs that last as long as the history.

    Raises:
        GitFailed: Another process changed a ref meanwhile.
    """
    best = past.with_row(row).best()
    heads = {str(row["iteration"]): row["head_sha"], "best": (best or row)["head_sha"]}
    for name, sha in heads.items():
        ref = f"{PREFIX}{row['task_id']}/{name}"
        tip = refs.read(context.repo, ref)
        if tip != sha and not refs.compare_and_swap(context.repo, ref, sha, tip or ""):
            raise GitFailed(f"{ref} changed while an iteration was being recorded.")
