"""Evaluate all criteria of an iteration, and combine their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from corral.core.errors import CorralError
from corral.core.logs import logger
from corral.core.redaction import redact
from corral.work.loops.criteria import custom, judge, suite, threshold
from corral.work.loops.criteria.place import Evaluation, Place
from corral.work.loops.spec import LoopSpec, Verdict

log = logger("loops")

READ_NO_FILES = frozenset({"judge"})
"""The kinds of criteria that need no checkout: they get the work as text."""

Evaluate = Callable[[Any, Place], Evaluation]
KINDS: Mapping[str, Evaluate] = MappingProxyType(
    {"tests": suite.evaluate, "threshold": threshold.evaluate, "custom": custom.evaluate, "judge": judge.evaluate}
)


def evaluate(
    spec: LoopSpec,
    facts: Mapping[str, Any],
    place: Callable[[str], Place],
    kinds: Mapping[str, Evaluate] = KINDS,
) -> list[Evaluation]:
    """Ask each criterion; an error of one is inconclusive.

    Args:
        facts: The iteration.
        place: Gives the place for the next criterion, which is of this kind.

    Raises:
        Unwanted: The evaluation was stopped.
    """
    evaluations: list[Evaluation] = []
    for criterion in spec.until:
        try:
            evaluation = kinds[criterion.kind](criterion, place(criterion.kind))
        except (CorralError, OSError, ValueError) as error:
            why = str(error)
            if isinstance(error, CorralError):
                why = error.message if error.cause == error.default_cause else f"{error.message} {error.cause}"
            evaluation = Evaluation(criterion.kind, Verdict.INCONCLUSIVE, None, f"It could not be evaluated: {why}")
        evidence = redact(evaluation.evidence)
        fields = {"kind": evaluation.kind, "verdict": str(evaluation.verdict), "value": evaluation.value}
        log.info(
            "criterion_evaluated",
            task_id=facts["task_id"],
            iteration=facts["iteration"],
            evidence=evidence[:500],
            **fields,
        )
        evaluations.append(replace(evaluation, evidence=evidence))
    return evaluations


def together(verdicts: Iterable[Verdict], *, any_: bool) -> Verdict:
    """The verdict of all criteria together.

    Args:
        any_: One that has converged is enough.
    """
    known: Sequence[Verdict] = [*verdicts]
    if Verdict.FAILED in known:
        return Verdict.FAILED
    enough = any if any_ else all
    if enough(verdict is Verdict.CONVERGED for verdict in known):
        return Verdict.CONVERGED
    return Verdict.NOT_CONVERGED if Verdict.NOT_CONVERGED in known else Verdict.INCONCLUSIVE
