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
MOST_MODULES = 7


@pytest.fixture
def walks(house: Coordinated) -> dict[str, list[str]]:
    path = f"{TOP}{os.pathsep}{TOP / 'daemon'}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.walks", str(house.root)],
        cwd=TOP, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_a_request_goes_through_few_modules_and_enters_each_once(walks: dict[str, list[str]]) -> None:
    document = (TOP / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(walks) == 5
    for name, modules in walks.items():
        assert 3 < len(modules) <= MOST_MODULES, (name, modules)
        assert len(set(modules)) == len(modules), (name, modules)
        assert f"| {name} | {' → '.join(f'`{module}`' for module in modules)} |" in document, (name, modules)
