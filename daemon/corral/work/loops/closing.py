"""After the worker of an iteration: commit and evaluate its work, and close its attempt.

Invariant: only the criteria say that a loop has converged, never the work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
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
from corral.work.loops.history import OWN_KINDS, Bounds, Past, bounds, feedback, models, pin, read_record, start_sha
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


@dataclass(frozen=True)
class Iteration:
    """An iteration whose worker has ended; :meth:`close` evaluates it.

    Attributes:
        finished: How its worker ended; one that failed is an iteration that has not converged.
        usage: The usage of its worker.
        elapsed_s: Seconds since the iteration began.
        is_unwanted: Whether the evaluation is not needed any more.
        api: Asks the Messages API for judges.
    """

    context: WorktreeContext
    past: Past
    task: TaskRow
    worktree: WorktreeRow
    finished: Finished
    usage: Payload
    elapsed_s: Callable[[], float]
    is_unwanted: Callable[[], bool]
    api: HasApiAccess | None = None

    @property
    def _bounds(self) -> Bounds:
        return bounds(self.context.settings().loops, self.past.spec)

    @property
    def _start(self) -> str:
        return start_sha(self.past, self.worktree["base_sha"])

    def close(self) -> Ending:
        """Commit the work, evaluate it, and return how its attempt ends: converged, going on, or at a limit.

        Raises:
            PathReplaced: Something else stands in the worktree's place.
            CorralError: Git refused; the worktree is as it was.
        """
        context, past, task, result = self.context, self.past, self.task, self.finished.result
        head = settle(context, task, self.worktree)
        if isinstance(head, Ending):
            return Ending(False, head.error_code, head.error_message, False, result, self.usage)
        crash_point("loop.committed")
        try:
            evaluations = self._evaluations(head)
        except Unwanted:
            return Ending(False, INTERRUPTED, "Its evaluation was stopped.", usage=self.usage)
        crash_point("loop.evaluated")
        row = self._row(head, evaluations)
        pin(context, past, row)
        crash_point("loop.pinned")
        return self._ending(past.with_row(row), _with_judges(self.usage, evaluations))

    def _evaluations(self, head: str) -> list[Evaluation]:
        context, past, task, finished = self.context, self.past, self.task, self.finished
        evaluations: list[Evaluation] = []
        if not finished.success:
            message = str(finished.error_message)
            evaluations.append(Evaluation("work", Verdict.NOT_CONVERGED, finished.exit_code, message))
        if past.returned is not None and (why := history.conflict(context, task, head)) is not None:
            evaluations.append(Evaluation("landing", Verdict.NOT_CONVERGED, None, why))
        settings = context.settings().loops

        def left_s() -> float:
            return self._bounds.timeout_s - past.elapsed_s - self.elapsed_s()

        def bounded_s() -> float:
            return max(SLICE_S, min(left_s(), settings.criterion_timeout_s))

        if left_s() <= 0:
            text = "The time of the loop was over before it could be evaluated."
            late = (Evaluation(criterion.kind, Verdict.INCONCLUSIVE, None, text) for criterion in past.spec.until)
            return [*evaluations, *late]
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
            "base_sha": self._start,
            "head_sha": head,
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
            is_unwanted=self.is_unwanted,
            facts=facts,
            work=lambda: self._work(head),
            worker_models=models(past, finished.result, model),
            judge_model=settings.judge_model,
        )
        if self.api is not None:
            place = replace(place, access=self.api.access)

        def place_for(kind: str) -> Place:
            if kind in READ_NO_FILES:
                return replace(place, timeout_s=bounded_s())
            checkout = judging.checkout()
            added = {**checkout.env, **marks}
            return replace(place, folder=checkout.path, prove=checkout.prove, added=added, timeout_s=bounded_s())

        with closing(JudgingCheckout(context, task, head, self.is_unwanted, lambda: left_s() <= 0)) as judging:
            return [*evaluations, *evaluating.evaluate(past.spec, facts, place_for)]

    def _origin(self, head: str, start: str) -> str:
        """The commit since which the loop's changes count: where it began, or the newest of its target that is merged in."""
        past, repo = self.past, self.context.repo
        tip = refs.read(repo, refs.branch_ref(required(self.task["target"])))
        common = refs.merge_base(repo, tip, head) if tip is not None and past.returned is not None else None
        return common or past.loop["base_sha"] or start

    def _work(self, head: str) -> str:
        """The material of a judge: all that the loop has changed so far, and the report of its last worker."""
        changed = diffs.between(self.context.repo, self._origin(head, self._start), head, most=MOST_JUDGED)
        cut = "\n(The rest of the change is not shown.)" if changed.truncated else ""
        report = json.dumps(self.finished.result, ensure_ascii=False)[:MOST_SAID]
        return redact(f"The change as a patch:\n{changed.patch}{cut}\n\nThe report of the worker:\n{report}")

    def _row(self, head: str, evaluations: Sequence[Evaluation]) -> IterationRow:
        context, past, task = self.context, self.past, self.task
        by_criteria = [evaluation.verdict for evaluation in evaluations if evaluation.kind not in OWN_KINDS]
        verdict = evaluating.together(by_criteria, any_=past.spec.any)
        if len(by_criteria) < len(evaluations) and verdict in (Verdict.CONVERGED, Verdict.INCONCLUSIVE):
            verdict = Verdict.NOT_CONVERGED
        conversation, holder = continuing.thread_of(context, task, past)
        log = context.project.logs_dir / "tasks" / task["task_id"] / f"{task['fencing_token']}.log"
        record: dict[str, Any] = {
            "evaluations": [
                {**asdict(evaluation), "verdict": str(evaluation.verdict), "usage": dict(evaluation.usage)}
                for evaluation in evaluations
            ],
            "actions": continuing.actions(log, holder[0]),
            "result": self.finished.result,
            "usage": _with_judges(self.usage, evaluations),
            "conversation": continuing.recorded(conversation, holder, self.usage),
            "feedback": feedback(past, self._bounds),
        }
        duration_s, now = self.elapsed_s(), context.clock()
        return IterationRow(
            task_id=task["task_id"],
            iteration=past.next_iteration,
            attempt=task["fencing_token"],
            session_id=required(task["session_id"]),
            base_sha=self._start,
            head_sha=head,
            verdict=str(verdict),
            is_success=self.finished.success,
            record=json.dumps(record),
            duration_s=round(duration_s, 3),
            started_at=task["started_at"] or iso(now),
            ended_at=iso(now),
        )

    def _ending(self, past: Past, usage: Payload) -> Ending:
        """How the attempt of the newest iteration ends.

        Args:
            past: The loop with this iteration.
        """
        row = past.rows[-1]
        result = {**summary(past), "last": self.finished.result}
        if row["verdict"] == Verdict.CONVERGED.value:
            return Ending(True, result=result, usage=usage, to_land=self._to_land(row["head_sha"]), iteration=row)
        if row["verdict"] == Verdict.FAILED.value:
            over: tuple[str, str] | None = (CONDITION_FAILED, "A condition of the loop said that it has failed.")
        else:
            over = past.end(self._bounds)
        if over is None:
            return Ending(False, result=result, usage=usage, iteration=row, goes_on=True)
        best = past.best()
        is_wanted = (
            past.spec.land_best and over[0] != CONDITION_FAILED
        )  # what a condition calls failed lands by no default
        lands = self._to_land(best["head_sha"]) if is_wanted and best else None
        return Ending(False, *over, retryable=False, result=result, usage=usage, iteration=row, to_land=lands)

    def _to_land(self, head: str) -> CollectedWork | None:
        base = self._origin(head, self.worktree["base_sha"])
        if head == base or not self.past.spec.land:
            return None
        merge_id = new_id()
        candidates.hold(self.context.repo, merge_id, head)
        return CollectedWork(merge_id, required(self.worktree["branch"]), required(self.task["target"]), base, head)


def _with_judges(usage: Payload, evaluations: Sequence[Evaluation]) -> Payload:
    """The usage of the worker and of its judges together."""
    total = dict(usage)
    for evaluation in evaluations:
        for name, number in evaluation.usage.items():
            total[name] = total.get(name, 0) + number
    return total


def summary(past: Past) -> Payload:
    """The iterations so far, for the task's result."""
    best = past.best()
    best_iteration = best and {"iteration": best["iteration"], "head_sha": best["head_sha"], "verdict": best["verdict"]}
    return {"iterations": past.next_iteration - 1, "best": best_iteration}


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
        self.context.db.write(mark_ready, row["worktree_id"], provided)
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
