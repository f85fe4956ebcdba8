"""The iterations of a loop: which is the best, which limits are used up, and where the loop goes on. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection

from corral.config.sections.work import Loops
from corral.core.errors import GitFailed
from corral.core.logs import logger
from corral.core.states import RETURNED_MERGES, MergeState
from corral.git import refs
from corral.git.land import candidates
from corral.store.rows import required
from corral.store.rows.loops import IterationRow, LoopRow
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import TaskRow
from corral.work.loops import store as loop_rows
from corral.work.loops.spec import (
    CRITERIA_INCONCLUSIVE,
    MAX_ITERATIONS_EXCEEDED,
    PLATEAU,
    TIMEOUT_EXCEEDED,
    LoopSpec,
    ThresholdCriterion,
    Verdict,
)
from corral.work.merges.store import of_tasks
from corral.work.workers.collect import committer
from corral.work.worktrees.allocation import WorktreeContext

OWN_KINDS = ("work", "landing")
"""The kinds of evaluations that Corral makes itself, without a criterion of the user."""
MOST_INCONCLUSIVE = 3
"""Iterations in a row whose evaluation came to no verdict, until the loop ends."""


@dataclass(frozen=True)
class Bounds:
    """The limits of a loop: iterations (None: any number) and seconds."""

    max_iterations: int | None
    timeout_s: float


def bounds(settings: Loops, spec: LoopSpec) -> Bounds:
    """The limits of a loop: its own, else those of the settings."""
    most = settings.max_iterations if spec.max_iterations is None else spec.max_iterations
    return Bounds(most if isinstance(most, int) else None, spec.timeout_s or settings.timeout_s)


@dataclass(frozen=True)
class Past:
    """A loop and its completed iterations.

    Attributes:
        sound: Those whose checkpoint is whole; the loop goes on from the last of them.
        returned: Its merge request, where that came back from the queue or was cancelled.
    """

    loop: LoopRow
    rows: Sequence[IterationRow]
    sound: Sequence[IterationRow]
    returned: MergeRow | None = None

    @property
    def checkpoint(self) -> IterationRow | None:
        """The last iteration that it can go on from."""
        return self.sound[-1] if self.sound else None

    @property
    def spec(self) -> LoopSpec:
        """Its criteria and its limits."""
        return LoopSpec.model_validate(self.loop["spec"])

    @property
    def next_iteration(self) -> int:
        """The number of the next iteration, from 1."""
        return self.rows[-1]["iteration"] + 1 if self.rows else 1

    @property
    def counted(self) -> list[IterationRow]:
        """The iterations that count for its limits: those since a person last resumed it."""
        return [row for row in self.rows if row["iteration"] > self.loop["counted_from"]]

    @property
    def elapsed_s(self) -> float:
        """Seconds that the counted iterations took, with their evaluations."""
        return sum(row["duration_s"] for row in self.counted)

    def best(self) -> IterationRow | None:
        """The best iteration; of equal ones the last."""
        return max(self.sound, key=lambda row: (rank(row), row["iteration"]), default=None)

    def with_row(self, row: IterationRow) -> Past:
        """The same with one more iteration."""
        return Past(self.loop, [*self.rows, row], [*self.sound, row], self.returned)

    def end(self, bounds: Bounds) -> tuple[str, str] | None:
        """The limit that ends it now: an error code and a line for a person; None: it goes on."""
        counted, spent = self.counted, self.elapsed_s
        if spent >= bounds.timeout_s:
            return TIMEOUT_EXCEEDED, f"It took {spent:.0f} s, and {bounds.timeout_s:g} s are allowed."
        if bounds.max_iterations is not None and len(counted) >= bounds.max_iterations:
            text = f"It has not converged within {bounds.max_iterations} iteration{'s' * (bounds.max_iterations != 1)}."
            return MAX_ITERATIONS_EXCEEDED, text
        last = [row["verdict"] for row in counted[-MOST_INCONCLUSIVE:]]
        if len(last) == MOST_INCONCLUSIVE and set(last) == {Verdict.INCONCLUSIVE.value}:
            text = f"No criterion came to a verdict in {MOST_INCONCLUSIVE} iterations in a row: {evidence(counted[-1])}"
            return CRITERIA_INCONCLUSIVE, text[:500]
        return self._plateau(counted)

    def _plateau(self, counted: Sequence[IterationRow]) -> tuple[str, str] | None:
        for place, criterion in enumerate(self.spec.until):
            allowed = criterion.plateau if isinstance(criterion, ThresholdCriterion) else None
            scores = [score for row in counted if (score := _score(row, place)) is not None]
            if allowed is not None and len(scores) > allowed and max(scores[-allowed:]) <= max(scores[:-allowed]):
                text = f"What `{criterion.target}` measures has not become better in {allowed} iterations."  # type: ignore[union-attr]
                return PLATEAU, text
        return None


def is_judged(loop: LoopRow) -> bool:
    """Whether a model judges its iterations."""
    return any(criterion.get("kind") == "judge" for criterion in loop["spec"]["until"])


def read_record(row: IterationRow) -> dict[str, Any]:
    """The record of an iteration: its evaluations, actions, result, use and feedback; empty ones where it was damaged."""
    nothing: dict[str, Any] = {
        "evaluations": [], "actions": [], "result": None, "usage": {}, "feedback": "", "conversation": None
    }  # fmt: skip
    try:
        record = json.loads(row["record"])
    except (ValueError, RecursionError):
        return {**nothing, "is_damaged": True}
    return {**nothing, **record} if _is_whole(record) else {**nothing, "is_damaged": True}


def _is_whole(record: Any) -> bool:
    """Whether a record has the types of its fields; missing fields count as empty."""
    if not isinstance(record, dict):
        return False
    evaluations, actions, conversation = (
        record.get("evaluations", []),
        record.get("actions", []),
        record.get("conversation"),
    )
    return (
        isinstance(evaluations, list)
        and all(isinstance(evaluation, dict) for evaluation in evaluations)
        and isinstance(actions, list)
        and isinstance(record.get("usage", {}), dict)
        and isinstance(record.get("feedback", ""), str)
        and (conversation is None or (isinstance(conversation, dict) and isinstance(conversation.get("usage"), dict)))
    )


def models(past: Past, result: Any, requested: str | None) -> frozenset[str]:
    """The models that did the work of a loop so far, as its workers say.

    Args:
        result: The result of the newest worker.
        requested: The model that it was asked to use.
    """
    results = [result, *(read_record(row)["result"] for row in past.sound)]
    named = [result.get("model") for result in results if isinstance(result, dict)]
    return frozenset(name for name in (requested, *named) if isinstance(name, str))


def rank(row: IterationRow) -> tuple[float, ...]:
    """The key by which iterations are compared, from their evaluations: more is better."""
    evaluations = _by_criteria(row)
    converged = sum(evaluation.get("verdict") == Verdict.CONVERGED.value for evaluation in evaluations)
    scores = [evaluation.get("score") for evaluation in evaluations]
    known = [float(score) if isinstance(score, (int, float)) else -math.inf for score in scores]
    return (
        float(row["verdict"] == Verdict.CONVERGED.value),
        float(row["verdict"] != Verdict.FAILED.value),
        float(converged),
        *known,
        float(row["is_success"]),
    )


def _by_criteria(row: IterationRow) -> list[Mapping[str, Any]]:
    """The evaluations of an iteration that the user's criteria made."""
    return [evaluation for evaluation in read_record(row)["evaluations"] if evaluation.get("kind") not in OWN_KINDS]


def _score(row: IterationRow, place: int) -> float | None:
    evaluations = _by_criteria(row)
    score = evaluations[place].get("score") if place < len(evaluations) else None
    return float(score) if isinstance(score, (int, float)) else None


def evidence(row: IterationRow) -> str:
    """The first evidence that an iteration is not good yet."""
    for evaluation in read_record(row)["evaluations"]:
        if evaluation.get("verdict") != Verdict.CONVERGED.value:
            return str(evaluation.get("evidence"))
    return ""


def feedback(past: Past, bounds: Bounds) -> str:
    """The feedback on the last iteration for the next one; empty before the first."""
    last = past.checkpoint
    if last is None:
        return ""
    most = f" of at most {past.loop['counted_from'] + bounds.max_iterations}" if bounds.max_iterations else ""
    lines = [
        f"This is iteration {past.next_iteration}{most} of a loop, in the worktree that the iterations before it worked in.",
        f"Iteration {last['iteration']} was evaluated: {last['verdict'].replace('_', ' ')}.",
    ]
    for evaluation in read_record(last)["evaluations"]:
        lines.append(f"\n- {evaluation.get('kind')}: {str(evaluation.get('verdict')).replace('_', ' ')}")
        lines += [f"  {line}" for line in str(evaluation.get("evidence", "")).splitlines()]
    if past.returned is not None and last["verdict"] == Verdict.CONVERGED.value:
        lines.append(_returned(past.returned))
    best = past.best()
    if best is not None and best["iteration"] != last["iteration"]:
        lines.append(f"\nThe best iteration so far is {best['iteration']}, commit {best['head_sha'][:12]}.")
    return "\n".join(lines)


def _returned(merge: MergeRow) -> str:
    paths = ", ".join(f"{path['path']} ({path['kind']})" for path in merge["conflicts"] or ())
    conflict, target = f" In conflict: {paths}." if paths else "", merge["target"]
    return (
        f"\nIts merge request came back from the queue of {target}: {merge['reason']}{conflict} Run `git merge {target}` in "
        "this worktree (it may be done already), resolve what conflicts, and keep what the loop has achieved."
    )


# -- The checkpoint that each iteration of a loop leaves: its commit on a ref, and its row.
#
# Invariant: the commit of a completed iteration is on a ref (`pin`) before its row says so, and the row is written in
# the transaction that ends its attempt: after a kill at any point the loop goes on from the last completed iteration.

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
