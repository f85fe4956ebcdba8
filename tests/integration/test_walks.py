"""One request can be read from the edge to the row in a few files; docs/architecture.md names them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.coordinated import Coordinated

TOP = Path(__file__).parents[2]
MOST_MODULES = {"hook of an edit": 7, "POST /tasks": 7, "send_message": 7, "start of a task": 15, "landing": 9}
MOST_CLIMBS = 2
LAYERS = ("core", "config", "git", "store", "runners", "coordination", "work", "landing", "observe", "faces", "daemon")
"""From the lowest to the highest."""


@pytest.fixture
def walks(house: Coordinated) -> dict[str, list[str]]:
    path = f"{TOP}{os.pathsep}{TOP / 'daemon'}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.walks", str(house.root)],
        cwd=TOP, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


def climbs(modules: list[str]) -> int:
    """How often a walk goes up into a higher layer, or back into a module that it has left."""
    heights = [LAYERS.index(module.split("/")[0]) for module in modules]
    return sum(heights[at] > heights[at - 1] or modules[at] in modules[:at] for at in range(1, len(modules)))


def test_an_operation_goes_through_few_modules_and_hardly_climbs_back(walks: dict[str, list[str]]) -> None:
    document = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert walks.keys() == MOST_MODULES.keys()
    for name, modules in walks.items():
        assert 3 < len({*modules}) <= MOST_MODULES[name], (name, modules)
        assert climbs(modules) <= MOST_CLIMBS, (name, modules)
        assert f"| {name} | {' → '.join(f'`{module}`' for module in modules)} |" in document, (name, modules)
