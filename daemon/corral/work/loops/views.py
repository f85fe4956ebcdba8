"""Loops: show their state and history, stop and resume them, and land an iteration."""

from __future__ import annotations

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.errors import Conflict, NotFound
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.states import TERMINAL_TASKS, TaskStatus
from corral.git import refs
from corral.store.rows.loops import IterationRow
from corral.store.rows.tasks import TaskRow
from corral.work.loops import store as loop_rows
from corral.work.loops.history import Past, bounds, read_record
from corral.work.loops.history import read as read_past
from corral.work.loops.spec import LoopSpec
from corral.work.merges import settling as app_merges
from corral.work.merges.diffs import between
from corral.work.merges.store import of_tasks
from corral.work.tasks import submitting as app_tasks
from corral.work.tasks import tasks
from corral.work.tasks.store import outcomes
from corral.work.tasks.store import tasks as task_rows

LISTED = 500
"""Loops that a list shows at most."""


def find(conn: Connection, loop_id: str) -> Past:
    """A loop by its task's id, number, or the beginning of its id; also one whose task was deleted.

    Raises:
        NotFound: No such task, or it is no loop.
        InvalidInput: Several ids begin like that.
    """
    try:
        task_id = tasks.find(conn, loop_id)["task_id"]
    except NotFound as error:
        task_ids = loop_rows.with_prefix(conn, loop_id.lower()) if len(loop_id) > 3 and loop_id.isascii() else []
        if len(task_ids) != 1:
            raise NotFound(f"There is no loop {loop_id!r}.", remedy="`corral loop list` shows the loops.") from error
        task_id = task_ids[0]
    past = read_past(conn, task_id)
    if past is None:
        remedy = "`corral loop list` shows the loops; `corral task detail` shows a task."
        raise NotFound(f"The task {task_id} is no loop.", cause="It was submitted without `loop`.", remedy=remedy)
    return past


def status(conn: Connection, services: Services, loop_id: str) -> Payload:
    """Where a loop stands: its task's state, how many iterations of how many, the last verdict, the best iteration.

    ``counted_iterations`` and ``elapsed_s`` are what counts for its limits: since it was last resumed.
    """
    past = find(conn, loop_id)
    task = task_rows.get(conn, past.loop["task_id"])
    merge = of_tasks.decisive(conn, past.loop["task_id"])
    return {**_summary(services, past, task), "merge": merge and {name: merge[name] for name in ("merge_id", "state")}}


def _summary(services: Services, past: Past, task: TaskRow | None) -> Payload:
    limits, best = bounds(services.settings().loops, past.spec), past.best()
    running = task is not None and task["status"] == TaskStatus.RUNNING
    return {
        "task_id": past.loop["task_id"],
        "title": past.loop["title"],
        "status": task["status"] if task else "deleted",
        "error_code": task["error_code"] if task else None,
        "error_message": task["error_message"] if task else None,
        "iterations": past.next_iteration - 1,
        "counted_iterations": len(past.counted),
        "running_iteration": past.next_iteration if running else None,
        "max_iterations": limits.max_iterations,
        "timeout_s": limits.timeout_s,
        "elapsed_s": round(past.elapsed_s, 3),
        "verdict": past.rows[-1]["verdict"] if past.rows else None,
        "best": best and {"iteration": best["iteration"], "head_sha": best["head_sha"], "verdict": best["verdict"]},
        "until": past.loop["spec"]["until"],
        "any": past.spec.any,
        "target": past.loop["target"],
        "created_at": past.loop["created_at"],
    }


def listing(conn: Connection, services: Services) -> list[Payload]:
    """The loops, the newest first."""
    loops = loop_rows.listing(conn, LISTED)
    return [_summary(services, find(conn, loop["task_id"]), task_rows.get(conn, loop["task_id"])) for loop in loops]


def history(conn: Connection, loop_id: str) -> list[Payload]:
    """The completed iterations, each with its evaluation, the first one first."""
    past = find(conn, loop_id)
    best = past.best()
    return [_entry(row, is_best=best is not None and row["iteration"] == best["iteration"]) for row in past.rows]


def _entry(row: IterationRow, *, is_best: bool) -> Payload:
    record = read_record(row)
    shown = ("kind", "verdict", "value", "evidence")
    own = ("attempt", "session_id", "base_sha", "head_sha", "ended_at")
    return {
        "iteration": row["iteration"],
        "started_at": row["started_at"],
        "duration_s": row["duration_s"],
        "verdict": row["verdict"],
        "evaluations": [{name: evaluation.get(name) for name in shown} for evaluation in record["evaluations"]],
        "actions": record["actions"],
        "result": record["result"],
        "usage": record["usage"],
        "conversation": record["conversation"]
        and {name: record["conversation"].get(name) for name in ("continues", "lost")},
        "best": is_best,
        "told": record["feedback"],
        "damaged": bool(record.get("is_damaged")),
        **{name: row[name] for name in own},  # type: ignore[literal-required]
    }


async def stop(services: Services, loop_id: str, reason: str) -> Payload:
    """Stop a loop; what its iterations made stays, and it can be resumed."""
    task_id = (await services.store.read(find, loop_id)).loop["task_id"]
    await app_tasks.cancel(services, task_id, reason=reason)
    return await services.store.read(status, services, task_id)


async def resume(
    services: Services, loop_id: str, max_iterations: int | str | None, timeout_s: float | None
) -> Payload:
    """Let a loop that was stopped, failed or ended at its limits go on from its last completed iteration.

    Its limits count from there, as after a retry of its task.

    Args:
        max_iterations: A new limit; None: the same.
        timeout_s: A new limit; None: the same.

    Raises:
        Conflict: It has not ended, or it has converged.
    """
    now, settings = services.now(), services.settings()

    def act(conn: Connection) -> Payload:
        past = find(conn, loop_id)
        task_id = past.loop["task_id"]
        task = tasks.find(conn, task_id)
        if task["status"] not in TERMINAL_TASKS:
            raise Conflict(
                f"The loop {task_id} is {task['status']}: it continues automatically.",
                cause="Only a loop that has ended is resumed.",
                remedy="Nothing to do.",
            )
        if task["status"] == TaskStatus.COMPLETED and past.returned is None:
            remedy = "Submit a new loop. One whose merge request came back from the queue can be resumed."
            text = f"The loop {task_id} has converged: there is nothing to resume."
            raise Conflict(text, cause="It has met its criteria.", remedy=remedy)
        limits = {"max_iterations": max_iterations, "timeout_s": timeout_s}
        spec = {**past.loop["spec"], **{name: value for name, value in limits.items() if value is not None}}
        loop_rows.change(conn, task_id, {"spec": LoopSpec.model_validate(spec).stored()})
        tasks.retry(conn, task_id, now, settings.tasks)
        return status(conn, services, task_id)

    answer = await services.store.write(act)
    services.nudge("supervisor")
    return answer


async def land(services: Services, loop_id: str, iteration: int | None) -> Payload:
    """Put what an iteration made into the queue of its target, although the loop has not converged.

    Args:
        iteration: None: the best one.

    Raises:
        NotFound: No such iteration.
        Conflict: The loop has not ended.
    """
    past, task = await services.store.read(_with_task, loop_id)
    task_id = past.loop["task_id"]
    if task is not None and task["status"] not in TERMINAL_TASKS:
        raise Conflict(
            f"The loop {task_id} is {task['status']}.",
            cause="What an iteration made is queued once the loop has ended.",
            remedy=f"Stop it first: corral loop stop {task_id[:8]}",
        )
    row = _iteration(past, iteration)
    name = f"corral/loop-{task_id[:8]}-{row['iteration']}"
    ref = refs.branch_ref(name)

    def make_branch() -> None:
        _require(services, past, row["head_sha"])
        if refs.read(services.git, ref) != row["head_sha"]:
            refs.make_branch(services.git, ref, row["head_sha"])

    await services.work(make_branch)
    own = task["task_id"] if task else None
    title = past.loop["title"]
    queued = await app_merges.submit(services, name, past.loop["target"], session_id=None, task_id=own, title=title)
    now = iso(services.now())
    await services.store.write(outcomes.dismiss_task, task_id, now)  # its end needs nobody any more
    return queued


def _with_task(conn: Connection, loop_id: str) -> tuple[Past, TaskRow | None]:
    past = find(conn, loop_id)
    return past, task_rows.get(conn, past.loop["task_id"])


def diff(services: Services, loop_id: str, before: int | None, after: int | None, most: int | None) -> Payload:
    """The changes between two iterations; touches git.

    Args:
        before: None: the one before ``after``; 0: where the loop began.
        after: None: the last one.
        most: Bytes of the patch; None: only the numbers of lines.
    """
    with services.db.reading() as conn:
        past = find(conn, loop_id)
    if not past.rows:
        raise NotFound(
            "No iteration has been completed yet.",
            cause="The first one has not ended, or the loop stopped before that.",
            remedy="`corral loop status` says where it stands.",
        )
    last = _iteration(past, past.rows[-1]["iteration"] if after is None else after)
    first = last["iteration"] - 1 if before is None else before
    start = past.rows[0]["base_sha"] if first == 0 else _iteration(past, first)["head_sha"]
    for sha in (start, last["head_sha"]):
        _require(services, past, sha)
    about = {"task_id": past.loop["task_id"], "before": first, "after": last["iteration"]}
    return {**about, **between(services.git, start, last["head_sha"], most)}


def _require(services: Services, past: Past, sha: str) -> None:
    """Refuse an iteration whose commit is gone."""
    if not refs.exists(services.git, sha):
        raise NotFound(
            f"The commit {sha[:12]} of the loop {past.loop['task_id']} is gone.",
            cause="Retention deletes the commits of a loop that has landed (`retention.salvage_days`) or whose task is gone.",
            remedy="`corral loop history` still shows the iterations.",
        )


def _iteration(past: Past, number: int | None) -> IterationRow:
    row = past.best() if number is None else next((row for row in past.rows if row["iteration"] == number), None)
    if row is None:
        task_id = past.loop["task_id"]
        there_are = f"1 to {past.rows[-1]['iteration']}" if past.rows else "none"
        what = "completed iteration" if number is None else f"iteration {number}"
        raise NotFound(
            f"The loop {past.loop['task_id']} has no {what}.",
            cause=f"There are: {there_are}.",
            remedy=f"Choose one of them: corral loop history {task_id}",
        )
    return row
