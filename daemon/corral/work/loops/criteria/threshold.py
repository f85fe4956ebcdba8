"""The criterion ``threshold``: a number that a command prints, compared with a target."""

from __future__ import annotations

import json
import math
import operator
import re
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from corral.work.loops.criteria.place import Evaluation, Place, last_lines
from corral.work.loops.spec import ThresholdCriterion, Verdict

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\bnan\b", re.IGNORECASE)
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_COMPARE: Mapping[str, Callable[[float, float], bool]] = MappingProxyType(
    {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "==": operator.eq}
)
_SEARCH_S = 10.0
# In a process of its own: a pattern can take for ever, and would hold up every thread of this one.
_SEARCH = (
    "import re, sys; text = sys.stdin.read(); found = list(re.finditer(sys.argv[1], text, re.MULTILINE)); "
    "print((found[-1].group(1) if found[-1].re.groups else found[-1].group(0)) if found else '')"
)


def evaluate(criterion: ThresholdCriterion, place: Place) -> Evaluation:
    """Measure, and compare."""
    ran = place.shell(criterion.command, criterion.timeout_s)
    if ran.reason or ran.exit_code != 0:
        reason = ran.reason or f"It ended with exit code {ran.exit_code}, so that its number is not trusted."
        return Evaluation("threshold", Verdict.INCONCLUSIVE, None, f"{reason}\n{last_lines(ran.output)}".strip())
    try:
        value = _number(criterion, ran.output, place)
    except ValueError as error:
        text = f"There is no number: {error}."
        return Evaluation("threshold", Verdict.INCONCLUSIVE, None, f"{text}\n{last_lines(ran.output)}".strip())
    sign, target = criterion.comparison
    is_met = _COMPARE[sign](value, target)
    score = -abs(value - target) if sign == "==" else value if sign.startswith(">") else -value
    verdict = Verdict.CONVERGED if is_met else Verdict.NOT_CONVERGED
    comparison = f"{value:g} {'meets' if is_met else 'does not meet'} {criterion.target.strip()}"
    return Evaluation("threshold", verdict, value, comparison, score)


def _number(criterion: ThresholdCriterion, output: str, place: Place) -> float:
    if criterion.path is not None:
        return as_number(at_path(_json_in(output), criterion.path))
    if criterion.pattern is not None:
        search = place.run([sys.executable, "-I", "-c", _SEARCH, criterion.pattern], _SEARCH_S, stdin=output.encode())
        if search.reason or search.exit_code != 0:
            raise ValueError(f"the pattern could not be searched for: {search.reason or last_lines(search.output, 1)}")
        if not search.output.strip():
            raise ValueError("the pattern was not found")
        return as_number(search.output.strip())
    numbers = _NUMBER.findall(output)
    if not numbers:
        raise ValueError("nothing like one was printed")
    return as_number(numbers[-1])


def as_number(measured: Any) -> float:
    """A measured number.

    Raises:
        ValueError: It is none, or one that nothing can be compared with.
    """
    if isinstance(measured, bool) or not isinstance(measured, (str, int, float)):
        raise ValueError(f"{str(measured)[:80]!r} is none")
    try:
        value = float(measured)
    except ValueError:
        raise ValueError(f"{str(measured)[:80]!r} is none") from None
    except OverflowError:
        raise ValueError("it is too large") from None
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be compared")
    return value


def _json_in(output: str) -> Any:
    """The JSON that was printed: all of it, or the last line that is JSON."""
    for text in (output, *reversed(output.splitlines())):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            continue
    raise ValueError("no JSON was printed")


def at_path(value: Any, path: str) -> Any:
    """The value at a path such as ``$.totals[0].coverage``.

    Raises:
        ValueError: There is nothing.
    """
    for name, index in _STEP.findall(path.removeprefix("$")):
        try:
            value = value[int(index)] if index else value[name]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"there is no {path} in the JSON that was printed") from None
    return value
