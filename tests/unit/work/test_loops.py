"""Loops, the pure part: verdicts together, the best iteration, limits, reading numbers and votes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from corral.runners.messages.api import Answer
from corral.runners.messages.judge import read_vote
from corral.store.rows.loops import IterationRow, LoopRow
from corral.work.loops.evaluating import as_number, at_path, read_junit, together
from corral.work.loops.history import Bounds, Past, feedback, is_readable, models
from corral.work.loops.spec import LoopSpec, ThresholdCriterion, Verdict

YES, NO, UNSURE, FAILED = Verdict.CONVERGED, Verdict.NOT_CONVERGED, Verdict.INCONCLUSIVE, Verdict.FAILED
MEASURED = {"until": [{"kind": "threshold", "command": "x", "target": ">=9", "plateau": 2}]}


@pytest.mark.req("FR-LOOP-002")
@pytest.mark.parametrize(
    ("verdicts", "all_", "any_"),
    [
        ([YES, YES], YES, YES),
        ([YES, NO], NO, YES),
        ([YES, UNSURE], UNSURE, YES),
        ([NO, UNSURE], NO, NO),
        ([UNSURE, UNSURE], UNSURE, UNSURE),
        ([YES, FAILED], FAILED, FAILED),
    ],
)
def test_verdicts_together(verdicts: list[Verdict], all_: Verdict, any_: Verdict) -> None:
    assert together(verdicts, any_=False) is all_ and together(verdicts, any_=True) is any_


def row(number: int, score: float | None, verdict: Verdict = NO, duration_s: float = 1.0, **more: Any) -> IterationRow:
    evaluation = {"kind": "threshold", "verdict": str(verdict), "score": score, "evidence": f"is {score}"}
    fields: dict[str, Any] = {
        "task_id": "t",
        "iteration": number,
        "attempt": number,
        "session_id": "s",
        "base_sha": "0" * 40,
        "head_sha": f"{number:040x}",
        "verdict": str(verdict),
        "is_success": True,
        "record": json.dumps({"evaluations": [evaluation]}),
        "duration_s": duration_s,
        "started_at": "",
        "ended_at": "",
    }
    return IterationRow(**{**fields, **more})  # type: ignore[typeddict-item]


def past(*rows: IterationRow, counted_from: int = 0, spec: dict[str, Any] | None = None) -> Past:
    loop = LoopRow(
        task_id="t",
        title="T",
        spec=spec or MEASURED,
        target="main",
        base_sha=None,
        counted_from=counted_from,
        created_at="",
    )
    return Past(loop, rows, rows)


@pytest.mark.req("FR-LOOP-003")
def test_the_best_is_the_one_with_the_best_number_and_of_equal_ones_the_last() -> None:
    def best(*scores: float | None) -> int:
        iteration = past(*(row(number, score) for number, score in enumerate(scores, 1))).best()
        assert iteration is not None
        return iteration["iteration"]

    assert (best(1, 3, 2), best(3, 3, 2), best(None, -5, None)) == (2, 2, 2)
    assert past().best() is None


@pytest.mark.req("FR-LOOP-003", "FR-LOOP-007")
def test_limits_count_since_it_was_resumed() -> None:
    rows = [row(number, number) for number in range(1, 5)]
    assert past(*rows).end(Bounds(5, 100)) is None
    assert past(*rows).end(Bounds(4, 100)) == ("max_iterations_exceeded", "It has not converged within 4 iterations.")
    assert past(*rows).end(Bounds(None, 4))[0] == "timeout_exceeded"  # type: ignore[index]
    assert past(*rows, counted_from=1).end(Bounds(4, 4)) is None
    assert past(*rows).end(Bounds(None, 100)) is None


@pytest.mark.req("FR-LOOP-002")
def test_a_plateau_ends_it_and_so_do_evaluations_without_a_verdict() -> None:
    def end(*scores: float | None) -> str | None:
        verdicts = [UNSURE if score is None else NO for score in scores]
        rows = (row(number, score, verdicts[number - 1]) for number, score in enumerate(scores, 1))
        ending = past(*rows).end(Bounds(None, 1000))
        return ending and ending[0]

    assert end(1, 2, 2, 3, 3) is None and end(1, 3, 2, 3) == "plateau_reached"
    assert end(1, None, None) is None and end(1, None, None, None) == "criteria_inconclusive"


@pytest.mark.req("FR-LOOP-006")
def test_a_damaged_record_is_read_around() -> None:
    for record in ("{not json", "[]", '{"evaluations": 5}', '{"evaluations": ["x"]}', '{"conversation": {}}'):
        assert not is_readable(row(2, 5, record=record)), record
    damaged = row(2, 5, record="{not json")
    assert past(row(1, 1), damaged).end(Bounds(None, 100)) is None
    assert "is 1" in feedback(Past(past().loop, [row(1, 1), damaged], [row(1, 1)]), Bounds(9, 9))
    assert "iteration 3 of at most 9" in feedback(Past(past().loop, [row(1, 1), damaged], [row(1, 1)]), Bounds(9, 9))


@pytest.mark.req("FR-LOOP-002")
def test_the_models_of_all_iterations_did_the_work() -> None:
    rows = [row(1, 1, record=json.dumps({"result": {"model": "a"}})), row(2, 1, record=json.dumps({"result": "text"}))]
    assert models(past(*rows), {"model": "b"}, "c") == {"a", "b", "c"}
    assert models(past(), None, None) == set()


@pytest.mark.parametrize(
    ("target", "read"),
    [
        (">=0.9", (">=", 0.9)),
        ("< 200", ("<", 200)),
        ("90%", (">=", 0.9)),
        ("=1e3", ("==", 1000)),
        (">-.5", (">", -0.5)),
    ],
)
def test_targets(target: str, read: tuple[str, float]) -> None:
    assert ThresholdCriterion(command="x", target=target).comparison == read


@pytest.mark.parametrize("value", ["nan", "inf", True, None, {}, "a lot", 10**400])
def test_what_cannot_be_compared_is_no_number(value: Any) -> None:
    with pytest.raises(ValueError, match=r"none|compared|large"):
        as_number(value)


def test_a_number_in_json() -> None:
    assert at_path({"totals": [{"coverage": 0.5}]}, "$.totals[0].coverage") == 0.5
    for path in ("$.totals[1].coverage", "$.other", "$.totals.coverage"):
        with pytest.raises(ValueError, match="there is no"):
            at_path({"totals": [{"coverage": 0.5}]}, path)


def test_a_junit_report_is_counted_and_a_hostile_one_refused(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    cases = '<testcase classname="a" name="b"><failure/></testcase><testcase name="c"><skipped/></testcase><testcase/>'
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert read_junit(tmp_path, report) == {"tests": 2, "failed": 1, "skipped": 1, "names": ["a.b"]}
    report.write_text('<!DOCTYPE x [<!ENTITY a "b">]><testsuite>&a;</testsuite>')
    with pytest.raises(ValueError, match="entities"):
        read_junit(tmp_path, report)
    (tmp_path / "link.xml").symlink_to("/etc/hostname")
    with pytest.raises(ValueError, match="outside"):
        read_junit(tmp_path, tmp_path / "link.xml")


@pytest.mark.parametrize(
    "wrong",
    [
        {"until": []},
        {"until": [{"kind": "tests"}]},
        {"until": [{"kind": "tests", "command": "x", "junit": "../x"}]},
        {"until": [{"kind": "custom"}]},
        {"until": [{"kind": "custom", "command": "x", "function": "a.py:f"}]},
        {"until": [{"kind": "custom", "function": "a.py"}]},
        {"until": [{"kind": "threshold", "command": "x", "target": ">1", "pattern": "a", "path": "b"}]},
        {"until": [{"kind": "judge", "rubric": "x", "votes": 0}]},
        {"until": [{"kind": "tests", "command": "x"}], "max_iterations": 0},
        {"until": [{"kind": "tests", "command": "x"}], "timeout_s": float("nan")},
    ],
)
def test_a_wrong_loop_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        LoopSpec.model_validate(wrong)


def said(text: str, stop_reason: str = "end_turn") -> Answer:
    return Answer("m", [{"type": "text", "text": text}], stop_reason, {})


@pytest.mark.req("FR-LOOP-002")
def test_only_a_structured_answer_is_a_vote() -> None:
    good = json.dumps({"meets_rubric": True, "score": 0.5, "reasons": "r"})
    assert read_vote(said(good)) == {"meets": True, "score": 0.5, "reasons": "r"}
    for answer in (
        said("converged"),
        said(good, "refusal"),
        said('{"meets_rubric": "yes", "score": 1}'),
        said('{"meets_rubric": true, "score": 7}'),
        said("[]"),
    ):
        with pytest.raises(ValueError, match="model"):
            read_vote(answer)
