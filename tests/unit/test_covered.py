"""The table of branches that tests take."""

from __future__ import annotations

from typing import Any

from tests.covered import by_package, table


def told(branches: tuple[int, int], lines: tuple[int, int]) -> dict[str, Any]:
    (covered_branches, num_branches), (covered_lines, num_statements) = branches, lines
    return {
        "summary": {
            "covered_branches": covered_branches,
            "num_branches": num_branches,
            "covered_lines": covered_lines,
            "num_statements": num_statements,
        }
    }


def test_files_are_summed_up_by_top_package_and_all_together() -> None:
    files = {
        "daemon/corral/work/tasks/one.py": told((1, 4), (10, 10)),
        "daemon/corral/work/two.py": told((2, 2), (0, 10)),
        "daemon/corral/core/three.py": told((0, 0), (5, 5)),
        "daemon/corral/__init__.py": told((0, 0), (1, 1)),
    }
    rows = [line.split() for line in table(by_package(files)).splitlines()]
    assert rows == [
        ["package", "branches", "of", "lines"],
        ["(itself)", "-", "0", "100.0%"],
        ["core", "-", "0", "100.0%"],
        ["work", "50.0%", "6", "50.0%"],
        ["all", "50.0%", "6", "61.5%"],
    ]
