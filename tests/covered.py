"""How many branches of the product the unit tests take, for each top package: ``python -m tests.covered [pytest arguments]``.

A number says where no test has been, never that what a test went through is right: nothing fails by it. No other run measures,
for it makes the tests slower. Without arguments: ``tests/unit``, all but the slow ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.run import NOT_SLOW, ROOT, WORKERS

PACKAGE = Path("daemon", "corral")
SUMS = ("num_branches", "covered_branches", "num_statements", "covered_lines")


def by_package(files: dict[str, Any]) -> dict[str, Counter[str]]:
    """The sums of each top package, from what coverage tells of each file (as ``coverage json`` writes it)."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for name, coverage in files.items():
        top, *rest = Path(name).relative_to(PACKAGE).parts
        sums[top if rest else "(itself)"].update({key: coverage["summary"][key] for key in SUMS})
    return dict(sorted(sums.items()))


def table(sums: dict[str, Counter[str]]) -> str:
    """Branches and lines in percent, and how many branches there are; the last row is of all."""
    whole = sum(sums.values(), Counter())
    rows = [f"{'package':<14} {'branches':>9} {'of':>7} {'lines':>7}"]
    for name, sums_of_package in [*sums.items(), ("all", whole)]:
        branches = _share(sums_of_package["covered_branches"], sums_of_package["num_branches"])
        lines = _share(sums_of_package["covered_lines"], sums_of_package["num_statements"])
        rows.append(f"{name:<14} {branches:>9} {sums_of_package['num_branches']:>7} {lines:>7}")
    return "\n".join(rows)


def _share(covered: int, there_are: int) -> str:
    return f"{covered / there_are:.1%}" if there_are else "-"


def main() -> int:
    """Run the tests, measured, and print the table; the exit code is that of the tests."""
    with tempfile.TemporaryDirectory(prefix="corral-covered-") as folder:
        data = f"--data-file={folder}/coverage"
        coverage = [sys.executable, "-m", "coverage"]
        which = sys.argv[1:] or [*NOT_SLOW, "tests/unit"]
        tests = subprocess.run([*coverage, "run", data, "-m", "pytest", "-q", *WORKERS, *which], cwd=ROOT).returncode
        subprocess.run([*coverage, "combine", "--quiet", data, folder], cwd=ROOT, check=True)
        subprocess.run([*coverage, "json", "--quiet", data, "-o", f"{folder}/told.json"], cwd=ROOT, check=True)
        print(table(by_package(json.loads(Path(folder, "told.json").read_text())["files"])))
    return tests


if __name__ == "__main__":
    sys.exit(main())
