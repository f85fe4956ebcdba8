"""What of a definition an improvement may change, and what it recommends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.config.agents import AgentDefinition, parse_definition
from corral.work.agents.improving import Case, Proposal, Run, check_new, new_text, report, shares, was_cut_off
from corral.work.agents.judging import Judged

TEXT = """---
name: scribe
description: >
  Use it
  for notes.
tools:
  - Read
  - Bash
- Grep
model: sonnet
version: 1.0.0
hooks: {Stop: []}
---

Write.
"""
CASE = {"name": "x", "prompt": "x", "test": "true"}


def definition(text: str) -> AgentDefinition:
    parsed = parse_definition(text, Path("scribe.md"))
    assert parsed is not None
    return parsed


def proposal(**fields: Any) -> Proposal:
    return Proposal.model_validate(
        {"instructions": "Write well.", "changelog": "Well: é", "reason": "r", "cases": [CASE], **fields}
    )


BASE = definition(TEXT.replace("- Grep\n", ""))


@pytest.mark.req("FR-META-003")
def test_instructions_and_configuration_change_and_the_rest_stays() -> None:
    new = definition(new_text(BASE, proposal(description="Use it well.", model="opus", tools=["Read"])))
    check_new(BASE, new)
    assert (new.instructions, new.description, new.model, new.tools) == (
        "Write well.",
        "Use it well.",
        "opus",
        ["Read"],
    )
    assert (new.changelog, new.version, new.hooks) == ("Well: é", None, {"Stop": []})
    plain = definition(new_text(BASE, proposal()))
    assert (plain.description, plain.model, plain.tools) == (BASE.description, "sonnet", ["Read", "Bash"])


@pytest.mark.req("FR-META-003", "NFR-SEC-004")
def test_an_agent_gets_no_tool_that_it_has_not_and_a_program_no_model() -> None:
    with pytest.raises(ValueError, match="no tool 'Write'"):
        new_text(BASE, proposal(tools=["Read", "Write"]))
    program = definition("---\nname: scribe\ndescription: d\nrunner: note\ncommand: [sh]\n---\nWrite.\n")
    with pytest.raises(ValueError, match="is a program"):
        new_text(program, proposal(model="opus"))
    with pytest.raises(ValueError, match="hooks, which has to stay"):
        check_new(BASE, definition(TEXT.replace("- Grep\n", "").replace("hooks: {Stop: []}", "hooks: {Stop: [1]}")))
    with pytest.raises(ValueError, match="larger than 60 KB"):
        check_new(BASE, definition(new_text(BASE, proposal(instructions="é" * 40_000))))


def compared(old: int, new: int, judged: Judged | None = None, of: int = 6) -> Any:
    runs = [
        Run(0, turn, is_new, turn < good, 1.0, 10, 0.1)
        for is_new, good in ((False, old), (True, new))
        for turn in range(of)
    ]
    return report(runs, judged or Judged(), ["x"], of=("1.0.0", "1.1.0"))


@pytest.mark.req("FR-META-005")
def test_passed_cases_decide_then_the_judge_and_doubt_is_said() -> None:
    report = compared(0, 6)
    assert report["recommendation"] == "deploy" and report["chance"] == pytest.approx(2 / 924)
    assert "chance hardly explains" in report["why"]
    assert compared(6, 5, Judged(new=6))["recommendation"] == "drop" and "do not prove" in compared(6, 5)["why"]
    assert compared(6, 6)["recommendation"] == "iterate" and compared(6, 6, Judged(1, 1))["recommendation"] == "iterate"
    assert compared(6, 6, Judged(new=6))["recommendation"] == "deploy"
    assert compared(6, 6, Judged(old=6))["recommendation"] == "drop"
    assert compared(0, 0, Judged(new=6))["recommendation"] == "iterate", "nobody wants the better of two failures"


@pytest.mark.req("FR-META-005")
def test_what_the_api_ended_says_nothing_of_a_version_and_a_refusal_does() -> None:
    assert was_cut_off({"api_error_status": 529}) and was_cut_off({"api_error_status": None, "stop_reason": None})
    assert not was_cut_off({"api_error_status": None, "stop_reason": "refusal"})
    assert not was_cut_off({"exit_code": 3, "output": "x"}) and not was_cut_off(None)


def test_runs_and_judges_share_the_money() -> None:
    plain, judged = Case.model_validate(CASE), Case.model_validate({**CASE, "rubric": "r"})
    assert shares([plain, plain], 2, 8.0) == (1.0, 0.0)
    run, judge = shares([plain, judged], 2, 8.0)
    assert run * 8 + judge * 4 == pytest.approx(8.0) and judge > 0
