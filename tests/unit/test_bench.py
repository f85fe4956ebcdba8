"""The bench renders its table. No time is asserted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bench.measure import Measure, table

pytestmark = pytest.mark.one_python

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("measure", "verdict"),
    [
        (Measure("x", 4.0, "ms", limit=5), "met"),
        (Measure("x", 6.0, "ms", limit=5), "MISSED"),
        (Measure("x", 6.0, "ms", floor=2.0, limit=5, above=True), "met"),
        (Measure("x", 4.0, "ms", floor=2.0, limit=5, ratio=1.5), "MISSED"),
        (Measure("x", 4000, "/s", floor=10_000, limit=3000, ratio=1 / 3), "met"),
        (Measure("x", 4000, "/s", floor=15_000, limit=3000, ratio=1 / 3), "MISSED"),
        (Measure("x", 1.0, "ms", floor=2.0), "-"),
    ],
)
def test_a_budget_is_met_by_figure_and_by_ratio(measure: Measure, verdict: str) -> None:
    assert measure.verdict == verdict
    assert verdict in table([measure]).splitlines()[1]


def test_a_section_prints_its_lines_in_one_table() -> None:
    argv = [sys.executable, "-m", "bench", "claims", "--quick"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    heading, *lines = done.stdout.splitlines()
    assert heading.split()[:6] == ["what", "budget", "floor", "measured", "ratio", "verdict"]
    assert [line.split(",")[0] for line in lines] == ["task claim", "task complete", "claims"]


NAMED = {*(f"NFR-PERF-00{number}" for number in range(1, 8)), "SUP-NFR2"}


def test_every_budget_of_the_requirements_has_its_line() -> None:
    sections = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "bench").glob("*.py"))
    assert {
        name for name in NAMED if f'"{name}"' in sections or f'"{name} ' in sections or f' {name}"' in sections
    } == NAMED


def test_a_line_names_the_requirement_that_its_budget_is_of() -> None:
    line = table([Measure("x", 1.0, "ms", limit=2, proves="NFR-PERF-001")]).splitlines()[1]
    assert line.split()[-1] == "NFR-PERF-001"
