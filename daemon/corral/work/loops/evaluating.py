"""Evaluate all criteria of an iteration, and combine their verdicts."""

from __future__ import annotations

import json
import math
import operator
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

from corral.core.errors import CorralError, RunnerUnavailable
from corral.core.logs import logger
from corral.core.redaction import redact
from corral.runners.environment import verification_environment
from corral.runners.messages.usage import LATEST, plain_name
from corral.runners.process import Feed, end, spawn
from corral.runners.protocol import ApiAccess
from corral.runners.tags import PROJECT_MARK, TASK_MARK
from corral.work.loops.spec import (
    CustomCriterion,
    JudgeCriterion,
    LoopSpec,
    TestsCriterion,
    ThresholdCriterion,
    Verdict,
)

# -- Where a criterion's command runs: bounded in time and output, and no process of it survives

SLICE_S = 0.1
MOST_OUTPUT = 16 * 2**20
"""Bytes that a criterion may print."""
KEPT = 64 * 1024
"""Bytes that are read from the end of its output."""
EVIDENCE = 2000
"""Characters of an evaluation's evidence."""
_GRACE_S = 2.0
_NOT_RUN = (126, 127)
"""Exit codes of a shell that could not start the command."""
_KILLED = (137, 143)
"""Exit codes of a shell whose last command got SIGKILL or SIGTERM: that says nothing about the work."""


class Unwanted(Exception):
    """The evaluation is not needed any more: the loop was stopped, or the daemon stops."""


@dataclass(frozen=True)
class Evaluation:
    """The verdict of one criterion about an iteration.

    Attributes:
        value: The number, or the counts, that it measured; None: nothing.
        evidence: Why, for a person and for the next iteration.
        score: To compare iterations: more is better; None: it cannot be said.
    """

    kind: str
    verdict: Verdict
    value: Any = None
    evidence: str = ""
    score: float | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """How a command ended; ``reason`` says why there is no verdict of it, if there is none."""

    exit_code: int | None
    output: str
    reason: str = ""


def _no_access() -> ApiAccess:
    raise RunnerUnavailable("Nothing here can ask the Messages API.")


@dataclass(frozen=True)
class Place:
    """Where the criteria of one iteration are evaluated.

    Attributes:
        folder: The checkout of the iteration's commit, in which commands run.
        environ: The daemon's environment; what is no credential of it is passed on.
        added: Variables on top of it, the marks of the task among them.
        logs: The folder of their output.
        label: Begins the names of the logs.
        timeout_s: Seconds that each may take.
        is_unwanted: Whether the evaluation is not needed any more; asked again and again.
        facts: The iteration, for custom criteria.
        work: Makes the text of the work that a judge sees.
        access: Gives a judge its access to the Messages API; raises RunnerUnavailable.
        worker_models: The models that did the work.
        judge_model: The judge of the settings.
        prove: Raises PathReplaced if the folder is not Corral's any more: then there is no verdict.
    """

    folder: Path
    environ: Mapping[str, str]
    added: Mapping[str, str]
    logs: Path
    label: str
    timeout_s: float
    is_unwanted: Callable[[], bool]
    facts: Mapping[str, Any]
    work: Callable[[], str] = str
    access: Callable[[], ApiAccess] = _no_access
    worker_models: frozenset[str] = frozenset()
    judge_model: str | None = None
    prove: Callable[[], None] = lambda: None

    def shell(self, command: str, timeout_s: float | None, *, stdin: bytes = b"") -> Ran:
        """Run a command of the user's."""
        return self.run(["/bin/sh", "-c", command], timeout_s, stdin=stdin)

    def run(
        self, argv: Sequence[str], timeout_s: float | None, *, stdin: bytes = b"", more: Mapping[str, str] | None = None
    ) -> Ran:
        """Run a program, with a text as its standard input.

        Args:
            timeout_s: Its own limit; never more than that of the place.
            more: Further variables for it alone.

        Raises:
            Unwanted: The evaluation was stopped.
            RunnerUnavailable: It could not be started.
            PathReplaced: Something else stands in the folder's place, or was put there meanwhile.
        """
        self.prove()
        number = 1
        while (log := self.logs / f"{self.label}-{number}.log").exists():
            number += 1
        env = {**verification_environment(self.environ, self.added), **(more or {})}
        process = spawn(argv, cwd=self.folder, env=env, log=log, takes_input=True)
        feed = Feed(process)
        feed.send(stdin)
        feed.finish()
        allowed_s = min(timeout_s or self.timeout_s, self.timeout_s)
        try:
            reason = self._wait(process, feed, log, allowed_s)
        finally:
            feed.close()
            end(process, {name: env[name] for name in (PROJECT_MARK, TASK_MARK) if name in env}, grace_s=_GRACE_S)
        if reason is None:
            raise Unwanted
        self.prove()
        return _ran(process.returncode, _end_of(log), reason)

    def _wait(self, process: subprocess.Popen[bytes], feed: Feed, log: Path, allowed_s: float) -> str | None:
        """Wait in short slices; returns why it must be ended early, "" if it has ended itself, None if it is unwanted."""
        for _ in range(max(1, round(allowed_s / SLICE_S))):
            with suppress(subprocess.TimeoutExpired):
                process.wait(SLICE_S)
                return ""
            feed.flush()
            if log.stat().st_size > MOST_OUTPUT:
                return f"It printed more than {MOST_OUTPUT // 2**20} MB, and was ended."
            if self.is_unwanted():
                return None
        return f"It was not done after {round(allowed_s, 1):g} s, and was ended."


def _ran(exit_code: int, output: str, reason: str) -> Ran:
    if reason:
        return Ran(None, output, reason)
    if exit_code in _NOT_RUN:
        return Ran(exit_code, output, f"It could not be run (exit code {exit_code}): {last_lines(output, 1)}")
    if exit_code < 0 or exit_code in _KILLED:
        return Ran(exit_code, output, f"It was killed (exit code {exit_code}).")
    return Ran(exit_code, output)


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - KEPT))
        return file.read(KEPT).decode(errors="replace")


def last_lines(output: str, most: int = 20) -> str:
    """The end of an output, as evidence."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    return "\n".join(lines[-most:])[-EVIDENCE:]


# -- The criterion ``threshold``: a number that a command prints, compared with a target

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


def by_number(criterion: ThresholdCriterion, place: Place) -> Evaluation:
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


# -- The criterion ``tests``: a command's exit code, with the numbers of its JUnit report or of its output

MOST_REPORT = 16 * 2**20
"""Bytes of a JUnit report that is read."""
_NAMES = 20
_COUNT = re.compile(r"\b(\d+) (?:tests? )?(failed|failures?|errors?|passed|passing|failing)\b")


def by_tests(criterion: TestsCriterion, place: Place) -> Evaluation:
    """Run the tests."""
    report = place.folder / criterion.junit if criterion.junit else None
    before = _stamp(report)
    ran = place.shell(criterion.command, criterion.timeout_s)
    if ran.reason:
        return Evaluation("tests", Verdict.INCONCLUSIVE, None, f"{ran.reason}\n{last_lines(ran.output)}".strip())
    counts: dict[str, Any] = _of_output(ran.output)
    note = ""
    if report is not None:
        try:
            if _stamp(report) == before:
                raise ValueError("the tests have not written it")
            counts = read_junit(place.folder, report)
        except (OSError, ValueError, ElementTree.ParseError) as error:
            text = f"The report {criterion.junit} cannot be read: {error}."
            return Evaluation("tests", Verdict.INCONCLUSIVE, None, f"{text}\n{last_lines(ran.output)}".strip())
        if counts["tests"] == 0:
            return Evaluation("tests", Verdict.INCONCLUSIVE, counts, "No test ran.")
        note = "".join(f"failed: {name}\n" for name in counts["names"])
    passed = ran.exit_code == 0
    failed = counts.get("failed")
    score = 0.0 if passed else -float(failed) if failed else None
    evidence = "" if passed else f"Exit code {ran.exit_code}.\n{note}"
    verdict = Verdict.CONVERGED if passed else Verdict.NOT_CONVERGED
    value = counts or {"exit_code": ran.exit_code}
    return Evaluation("tests", verdict, value, f"{evidence}{last_lines(ran.output)}".strip(), score)


def read_junit(worktree: Path, report: Path) -> dict[str, Any]:
    """The numbers of a JUnit report: ``tests, failed, skipped``, and the names of the first tests that failed.

    Raises:
        OSError: It cannot be read.
        ValueError: It is too large, outside of the worktree, or no report.
        ParseError: It is no XML.
    """
    if not report.resolve().is_relative_to(worktree.resolve()):
        raise ValueError("it is outside of the worktree")
    if report.stat().st_size > MOST_REPORT:
        raise ValueError(f"it has more than {MOST_REPORT // 2**20} MB")
    text = report.read_bytes()
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise ValueError("it declares entities")
    root = ElementTree.fromstring(text)
    if root.tag not in ("testsuites", "testsuite"):
        raise ValueError("it is no JUnit report")
    cases = list(root.iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    names = [".".join(filter(None, (case.get("classname"), case.get("name")))) for case in failed[:_NAMES]]
    return {"tests": len(cases) - skipped, "failed": len(failed), "skipped": skipped, "names": names}


def _of_output(output: str) -> dict[str, int]:
    """The last numbers of failed and passed tests that an output names; empty: none."""
    counts: dict[str, int] = {}
    for number, word in _COUNT.findall(last_lines(output, 5)):
        kind = "passed" if word.startswith("pass") else "failed"
        counts[kind] = counts.get(kind, 0) + int(number)
    return counts


def _stamp(report: Path | None) -> tuple[int, int] | None:
    try:
        status = report.stat() if report else None
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ino) if status else None


# -- The criterion ``judge``: a model votes whether the work meets a rubric; not the model that did it, unless allowed

MODELS = (LATEST["opus"], LATEST["sonnet"])
"""The judges, where neither the criterion nor the settings name one: the first that did not do the work."""
SILENCE_S = 60.0
# Isolated: neither the worktree nor a variable may put another module in place of its own.
_START = "import sys; sys.path += sys.argv[1:]; from corral.runners.messages.judge import main; main()"


def by_judges(criterion: JudgeCriterion, place: Place) -> Evaluation:
    """Let the model vote on the work."""
    model, refusal = _model(criterion, place)
    if refusal:
        return Evaluation("judge", Verdict.INCONCLUSIVE, None, refusal)
    access = place.access()
    order = {
        "model": model,
        "rubric": criterion.rubric,
        "work": place.work(),
        "votes": criterion.votes,
        "silence_s": SILENCE_S,
        "api_key": access.api_key,
        "base_url": access.base_url,
    }
    argv = [sys.executable, "-I", "-c", _START, *access.folders]
    ran = place.run(argv, criterion.timeout_s, stdin=json.dumps(order).encode())
    answer = _answer(ran.output) if not ran.reason and ran.exit_code == 0 else None
    if answer is None:
        text = ran.reason or "The judge ended without an answer."
        return Evaluation("judge", Verdict.INCONCLUSIVE, None, f"{text}\n{last_lines(ran.output, 3)}".strip())
    return _counted(criterion, model, answer)


def _model(criterion: JudgeCriterion, place: Place) -> tuple[str, str]:
    """The model that judges, and the reason if it must not."""
    workers = {plain_name(model) for model in place.worker_models}
    named = criterion.model or place.judge_model
    able = MODELS if named is None else (LATEST.get(named, named),)
    judge = next((model for model in able if criterion.same_model or plain_name(model) not in workers), None)
    if judge is not None:
        return judge, ""
    reason = f"{' and '.join(able)} did the work, and no model judges its own. "
    return able[0], f"{reason}Name another `model`, or set `same_model: true`."


def _answer(output: str) -> dict[str, Any] | None:
    """The answer, which is the last line of the output; None: there is no valid one."""
    try:
        answer = json.loads((output.splitlines() or [""])[-1])
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) and {"votes", "errors", "usage"} <= answer.keys() else None


def _counted(criterion: JudgeCriterion, model: str, answer: dict[str, Any]) -> Evaluation:
    votes, usage = answer["votes"], answer["usage"]
    meeting = sum(bool(vote["meets"]) for vote in votes)
    against = len(votes) - meeting
    reasons = "\n".join(f"- {'meets' if vote['meets'] else 'does not meet'} it: {vote['reasons']}" for vote in votes)
    faults = "\n".join(f"- no vote: {text}" for text in answer["errors"])
    verdict = Verdict.INCONCLUSIVE
    if max(meeting, against) > criterion.votes / 2:
        verdict = Verdict.CONVERGED if meeting > against else Verdict.NOT_CONVERGED
    score = sum(vote["score"] for vote in votes) / len(votes) if votes else None
    value = {"model": model, "meet": meeting, "do_not": against, "asked": criterion.votes, "score": score}
    head = f"{model}: {meeting} of {criterion.votes} votes say that it meets the rubric."
    return Evaluation("judge", verdict, value, "\n".join(filter(None, (head, reasons, faults))), score, usage)


# -- The criterion ``custom``: the user's own condition, which says whether to go on

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


def by_condition(criterion: CustomCriterion, place: Place) -> Evaluation:
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


log = logger("loops")

READ_NO_FILES = frozenset({"judge"})
"""The kinds of criteria that need no checkout: they get the work as text."""

Evaluate = Callable[[Any, Place], Evaluation]
KINDS: Mapping[str, Evaluate] = MappingProxyType(
    {"tests": by_tests, "threshold": by_number, "custom": by_condition, "judge": by_judges}
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
