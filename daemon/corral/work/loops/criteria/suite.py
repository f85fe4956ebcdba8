"""The criterion ``tests``: a command's exit code, with the numbers of its JUnit report or of its output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from corral.work.loops.criteria.place import Evaluation, Place, last_lines
from corral.work.loops.spec import TestsCriterion, Verdict

MOST_REPORT = 16 * 2**20
"""Bytes of a JUnit report that is read."""
_NAMES = 20
_COUNT = re.compile(r"\b(\d+) (?:tests? )?(failed|failures?|errors?|passed|passing|failing)\b")


def evaluate(criterion: TestsCriterion, place: Place) -> Evaluation:
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
