"""After the worker of an iteration: commit and evaluate its work, and close its attempt.

Invariant: only the criteria say that a loop has converged, never the work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from corral.config.links import make_own_folder
from corral.core.crash import crash_point
from corral.core.errors import CorralError
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.redaction import redact
from corral.core.states import WorktreePurpose
from corral.git import diffs, refs
from corral.git.checkouts import status
from corral.git.land import candidates
from corral.runners.protocol import Finished, HasApiAccess
from corral.runners.tags import PROJECT_MARK, TASK_MARK
from corral.store.rows import required
from corral.store.rows.loops import IterationRow
from corral.store.rows.tasks import TaskRow, WorktreeRow
from corral.work.loops import continuing, evaluating, history
from corral.work.loops.evaluating import READ_NO_FILES, SLICE_S, Evaluation, Place, Unwanted
from corral.work.loops.history import OWN_KINDS, Past, bounds, feedback, models, pin, read_record, start_sha
from corral.work.loops.spec import CONDITION_FAILED, Verdict
from corral.work.tasks.attempts import INTERRUPTED, CollectedWork, Ending
from corral.work.tasks.store import attempts as attempt_rows
from corral.work.workers.collect import settle
from corral.work.worktrees import ownership
from corral.work.worktrees.allocation import Plan, WorktreeContext, allocate, environment, give_up, mark_ready

MOST_JUDGED = 100_000
"""Bytes of a patch that a judge sees."""
MOST_SAID = 10_000
"""Characters of a worker's result that a judge sees."""


def close(
    context: WorktreeContext,
    past: Past,
    task: TaskRow,
    worktree: WorktreeRow,
    finished: Finished,
    usage: Payload,
    *,
    elapsed_s: Callable[[], float],
    is_unwanted: Callable[[], bool],
    api: HasApiAccess | None = None,
) -> Ending:
    """Commit the work of an iteration, evaluate it, and return how its attempt ends: converged, going on, or at a limit.

    Args:
        finished: How its worker ended; one that failed is an iteration that has not converged.
        usage: The usage of its worker.
        elapsed_s: Seconds since the iteration began.
        is_unwanted: Whether the evaluation is not needed any more.
        api: Asks the Messages API for judges.

    Raises:
        PathReplaced: Something else stands in the worktree's place.
        CorralError: Git refused; the worktree is as it was.
    """
    start = start_sha(past, worktree["base_sha"])
    head = settle(context, task, worktree)
    if isinstance(head, Ending):
        return _without(head, finished, usage)
    crash_point("loop.committed")
    try:
        evaluations = _evaluations(context, past, task, finished, (start, head), elapsed_s, is_unwanted, api)
    except Unwanted:
        return Ending(False, INTERRUPTED, "Its evaluation was stopped.", usage=usage)
    crash_point("loop.evaluated")
    by_criteria = [evaluation.verdict for evaluation in evaluations if evaluation.kind not in OWN_KINDS]
    verdict = evaluating.together(by_criteria, any_=past.spec.any)
    if len(by_criteria) < len(evaluations) and verdict in (Verdict.CONVERGED, Verdict.INCONCLUSIVE):
        verdict = Verdict.NOT_CONVERGED
    conversation, holder = continuing.thread_of(context, task, past)
    held = continuing.recorded(conversation, holder, usage)
    log = context.project.logs_dir / "tasks" / task["task_id"] / f"{task['fencing_token']}.log"
    actions = continuing.actions(log, holder[0])
    usage = _with_judges(usage, evaluations)
    row = _row(context, past, task, finished, evaluations, (start, head), verdict, usage, elapsed_s(), held, actions)
    pin(context, past, row)
    crash_point("loop.pinned")
    return _ending(context, past.with_row(row), worktree, task, finished, usage)


def _without(ending: Ending, finished: Finished, usage: Payload) -> Ending:
    return Ending(False, ending.error_code, ending.error_message, False, finished.result, usage)


def _evaluations(
    context: WorktreeContext,
    past: Past,
    task: TaskRow,
    finished: Finished,
    span: tuple[str, str],
    elapsed_s: Callable[[], float],
    is_unwanted: Callable[[], bool],
    api: HasApiAccess | None,
) -> list[Evaluation]:
    evaluations: list[Evaluation] = []
    if not finished.success:
        evaluations.append(Evaluation("work", Verdict.NOT_CONVERGED, finished.exit_code, str(finished.error_message)))
    if past.returned is not None and (why := history.conflict(context, task, span[1])) is not None:
        evaluations.append(Evaluation("landing", Verdict.NOT_CONVERGED, None, why))
    settings = context.settings().loops

    def left_s() -> float:
        return bounds(settings, past.spec).timeout_s - past.elapsed_s - elapsed_s()

    def bounded_s() -> float:
        return max(SLICE_S, min(left_s(), settings.criterion_timeout_s))

    if left_s() <= 0:
        text = "The time of the loop was over before it could be evaluated."
        return [
            *evaluations,
            *(Evaluation(criterion.kind, Verdict.INCONCLUSIVE, None, text) for criterion in past.spec.until),
        ]
    folder = make_own_folder(context.project.logs_dir / "tasks" / task["task_id"], context.project.root)
    marks = {
        PROJECT_MARK: context.project_id,
        TASK_MARK: task["task_id"],
        "CORRAL_ITERATION": str(past.next_iteration),
    }
    facts = {
        "task_id": task["task_id"],
        "title": task["title"],
        "iteration": past.next_iteration,
        "result": finished.result,
        "base_sha": span[0],
        "head_sha": span[1],
        "last_evaluation": read_record(past.checkpoint)["evaluations"] if past.checkpoint else [],
    }
    with context.db.reading() as conn:
        model = attempt_rows.model_of(conn, task["task_id"], task["fencing_token"])
    place = Place(
        folder=folder,
        environ=os.environ,
        added=marks,
        logs=folder,
        label=f"{task['fencing_token']}.criterion",
        timeout_s=0.0,
        is_unwanted=is_unwanted,
        facts=facts,
        work=lambda: _work(context, past, task, finished, span),
        worker_models=models(past, finished.result, model),
        judge_model=context.settings().loops.judge_model,
    )
    if api is not None:
        place = replace(place, access=api.access)

    def place_for(kind: str) -> Place:
        if kind in READ_NO_FILES:
            return replace(place, timeout_s=bounded_s())
        checkout = judging.checkout()
        return replace(
            place, folder=checkout.path, prove=checkout.prove, added={**checkout.env, **marks}, timeout_s=bounded_s()
        )

    with closing(JudgingCheckout(context, task, span[1], is_unwanted, lambda: left_s() <= 0)) as judging:
        return [*evaluations, *evaluating.evaluate(past.spec, facts, place_for)]


def _origin(context: WorktreeContext, past: Past, task: TaskRow, start: str, head: str) -> str:
    """The commit since which the loop's changes count: where it began, or the newest of its target that is merged in."""
    tip = refs.read(context.repo, refs.branch_ref(required(task["target"])))
    common = refs.merge_base(context.repo, tip, head) if tip is not None and past.returned is not None else None
    return common or past.loop["base_sha"] or start


def _work(context: WorktreeContext, past: Past, task: TaskRow, finished: Finished, span: tuple[str, str]) -> str:
    """The material of a judge: all that the loop has changed so far, and the report of its last worker."""
    changed = diffs.between(context.repo, _origin(context, past, task, span[0], span[1]), span[1], most=MOST_JUDGED)
    cut = "\n(The rest of the change is not shown.)" if changed.truncated else ""
    report = json.dumps(finished.result, ensure_ascii=False)[:MOST_SAID]
    return redact(f"The change as a patch:\n{changed.patch}{cut}\n\nThe report of the worker:\n{report}")


def _with_judges(usage: Payload, evaluations: list[Evaluation]) -> Payload:
    """The usage of the worker and of its judges together."""
    total = dict(usage)
    for evaluation in evaluations:
        for name, number in evaluation.usage.items():
            total[name] = total.get(name, 0) + number
    return total


def _row(
    context: WorktreeContext,
    past: Past,
    task: TaskRow,
    finished: Finished,
    evaluations: list[Evaluation],
    span: tuple[str, str],
    verdict: Verdict,
    usage: Payload,
    duration_s: float,
    conversation: Payload | None,
    actions: list[str],
) -> IterationRow:
    records = [
        {**asdict(evaluation), "verdict": str(evaluation.verdict), "usage": dict(evaluation.usage)}
        for evaluation in evaluations
    ]
    record: dict[str, Any] = {
        "evaluations": records,
        "actions": actions,
        "result": finished.result,
        "usage": usage,
        "conversation": conversation,
        "feedback": feedback(past, bounds(context.settings().loops, past.spec)),
    }
    now = context.clock()
    return IterationRow(
        task_id=task["task_id"],
        iteration=past.next_iteration,
        attempt=task["fencing_token"],
        session_id=required(task["session_id"]),
        base_sha=span[0],
        head_sha=span[1],
        verdict=str(verdict),
        is_success=finished.success,
        record=json.dumps(record),
        duration_s=round(duration_s, 3),
        started_at=task["started_at"] or iso(now),
        ended_at=iso(now),
    )


def _ending(
    context: WorktreeContext, past: Past, worktree: WorktreeRow, task: TaskRow, finished: Finished, usage: Payload
) -> Ending:
    """How the attempt of the newest iteration ends."""
    row = past.rows[-1]
    result = {**summary(past), "last": finished.result}
    if row["verdict"] == Verdict.CONVERGED.value:
        landing = _to_land(context, past, worktree, task, row["head_sha"])
        return Ending(True, result=result, usage=usage, to_land=landing, iteration=row)
    if row["verdict"] == Verdict.FAILED.value:
        over: tuple[str, str] | None = (CONDITION_FAILED, "A condition of the loop said that it has failed.")
    else:
        over = past.end(bounds(context.settings().loops, past.spec))
    if over is None:
        return Ending(False, result=result, usage=usage, iteration=row, goes_on=True)
    best = past.best()
    is_wanted = past.spec.land_best and over[0] != CONDITION_FAILED  # what a condition calls failed lands by no default
    lands = _to_land(context, past, worktree, task, best["head_sha"]) if is_wanted and best else None
    return Ending(False, *over, retryable=False, result=result, usage=usage, iteration=row, to_land=lands)


def summary(past: Past) -> Payload:
    """The iterations so far, for the task's result."""
    best = past.best()
    best_iteration = best and {"iteration": best["iteration"], "head_sha": best["head_sha"], "verdict": best["verdict"]}
    return {"iterations": past.next_iteration - 1, "best": best_iteration}


def _to_land(
    context: WorktreeContext, past: Past, worktree: WorktreeRow, task: TaskRow, head: str
) -> CollectedWork | None:
    base = _origin(context, past, task, worktree["base_sha"], head)
    if head == base or not past.spec.land:
        return None
    merge_id = new_id()
    candidates.hold(context.repo, merge_id, head)
    return CollectedWork(merge_id, required(worktree["branch"]), required(task["target"]), base, head)


# -- Where the criteria of an iteration run: a clean checkout of its commit, made for them and thrown away after them.
#
# Invariant: what a criterion writes does not land, and is not there when the next iteration is judged. The work is
# committed on its branch before, and the worktree that it was made in is not used.

PREFIX = "judge@"
"""Begins the names of these worktrees: no name that a person or a session may give holds an ``@``."""


@dataclass(frozen=True)
class Checkout:
    """A checkout that is ready for a criterion.

    Attributes:
        env: The variables of a process in it.
        prove: Raises PathReplaced if it is not Corral's any more.
    """

    path: Path
    env: Mapping[str, str]
    prove: Callable[[], None]


@dataclass
class JudgingCheckout:
    """The checkout of one iteration; :meth:`close` removes it.

    Attributes:
        task: The attempt whose work is judged.
        commit: The work.
        is_unwanted: Whether the evaluation is not needed any more; asked while setup commands run.
        is_over: Whether the time of the loop is over; the same.
    """

    context: WorktreeContext
    task: TaskRow
    commit: str
    is_unwanted: Callable[[], bool]
    is_over: Callable[[], bool]
    _made: int = 0
    _row: WorktreeRow | None = None
    _ready: tuple[Checkout, status.Seen] | None = None

    def checkout(self) -> Checkout:
        """The checkout, made now if a criterion needs it for the first time, or if the one before changed a tracked file.

        Other files stay from one criterion of an iteration to the next, such as a build that is measured after its tests.

        Raises:
            Unwanted: The evaluation was stopped.
            CorralError: It could not be made, or not be made usable.
            OSError: The same.
        """
        if self._ready is not None and self._is_unchanged(self._ready[1]):
            return self._ready[0]
        self.close()
        self._made += 1
        number = f"-{self._made}" if self._made > 1 else ""
        name = f"{PREFIX}{self.task['task_id'][:13]}-{self.task['fencing_token']}{number}"
        plan = Plan(name, None, self.commit, WorktreePurpose.VERIFY, task_id=self.task["task_id"])
        try:
            self._row, provided = allocate(self.context, plan, is_unwanted=lambda: self.is_unwanted() or self.is_over())
        except (CorralError, OSError):
            if self.is_unwanted():
                raise Unwanted from None
            raise
        row = self._row
        self.context.db.write(lambda conn: mark_ready(conn, row["worktree_id"], provided))
        path = Path(row["path"])
        checkout = Checkout(
            path, environment(self.context, path, provided), partial(ownership.prove_remains, self.context, row)
        )
        self._ready = checkout, status.look(ownership.prove(self.context, row), untracked=False)
        crash_point("loop.judging")
        return checkout

    def _is_unchanged(self, before: status.Seen) -> bool:
        assert self._row is not None
        try:
            return status.look(ownership.prove(self.context, self._row), untracked=False) == before
        except CorralError:  # a criterion has made something else of it: the next one gets another
            return False

    def close(self) -> None:
        """Remove the checkout, if there is one."""
        if self._row is not None:
            give_up(self.context, self._row, reason="its iteration was judged")
        self._row = self._ready = None
