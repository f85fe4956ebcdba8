"""The criterion ``custom``: the user's own condition, which says whether to go on."""

from __future__ import annotations

import json
import sys

from corral.work.loops.criteria.place import Evaluation, Place, Ran, last_lines
from corral.work.loops.spec import CustomCriterion, Verdict

_VERDICTS = {0: Verdict.NOT_CONVERGED, 1: Verdict.CONVERGED, 2: Verdict.FAILED}
_RAISED = 70
_TRACEBACK = "Traceback (most recent call last):"
# An exception must not end it with 1, which means "converged". It must return one of the three.
_CALL = f"""
import json, runpy, sys, traceback
try:
    answer = runpy.run_path(sys.argv[1])[sys.argv[2]](json.load(sys.stdin))
    if isinstance(answer, bool) or answer not in (0, 1, 2):
        raise TypeError(f"the function returned {{answer!r}}, not 0 (go on), 1 (converged) or 2 (failed)")
except BaseException:
    sys.stdout.flush()
    traceback.print_exc()
    answer = {_RAISED}
sys.stdout.flush()
sys.exit(int(answer))
"""


def evaluate(criterion: CustomCriterion, place: Place) -> Evaluation:
    """Ask the condition; it gets the iteration as JSON on its standard input."""
    ran = _run(criterion, place)
    evidence = last_lines(ran.output)
    if ran.reason:
        return Evaluation("custom", Verdict.INCONCLUSIVE, None, f"{ran.reason}\n{evidence}".strip())
    raised = ran.exit_code == _RAISED or (ran.exit_code == 1 and _TRACEBACK in ran.output)
    verdict = None if raised else _VERDICTS.get(ran.exit_code or 0)
    if verdict is None:
        text = (
            f"It raised an error: {last_lines(ran.output, 1)}"
            if raised
            else f"Exit code {ran.exit_code} is none of 0, 1 and 2."
        )
        return Evaluation("custom", Verdict.INCONCLUSIVE, ran.exit_code, f"{text}\n{evidence}".strip())
    return Evaluation("custom", verdict, ran.exit_code, evidence or f"It returned {ran.exit_code}.")


def _run(criterion: CustomCriterion, place: Place) -> Ran:
    facts = json.dumps(place.facts).encode()
    if criterion.command is not None:
        return place.shell(criterion.command, criterion.timeout_s, stdin=facts)
    file, _, name = (criterion.function or "").rpartition(":")
    return place.run([sys.executable, "-c", _CALL, file, name], criterion.timeout_s, stdin=facts)
