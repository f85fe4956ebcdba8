"""Which tests prove which requirement: ``python -m tests.requirements [--all]``, and among the checks of ``./install.sh --test``.

Tests that are marked slow prove nothing here: ``--test`` does not run them, and has to prove every requirement, and every promise
of ``docs/security.md``.

The scenarios of the coordination, agent mail and task documents are listed whole, as are the faults of git, the threats and the
invariants of landing, so that one without a test is seen; of the others whatever a test names.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

SCENARIOS = {
    "coordination": {"HANDOFF": 5, "DISCOVER": 3, "TEAM": 2, "HOOK": 3, "HEARTBEAT": 4, "SESSION": 2, "MCP": 2},
    "agent mail": {"REGISTER": 2, "RESERVE": 3, "MESSAGE": 3, "DELEGATE": 1},
    "tasks": {"GETTASK": 3, "CANCEL": 2, "LOCKKEY": 6, "FEATURE": 3},
    "reliability": {"G": 30, "X": 19, "I": 12},
}
"""How many scenarios each document has under each prefix; they are numbered from 1."""


class Promise(NamedTuple):
    """A row of the table of ``docs/security.md``: its number (empty: as the row above), and the tests that prove it."""

    row: str
    text: str
    tests: list[str]


def promises() -> list[Promise]:
    """Every row, in order; a test is ``file::function``, or a file."""
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (X\d+|) \| (.+?) \| (?:T[1-5].*?) \| (.+) \|$", page, re.MULTILINE)
    return [Promise(row, text, re.findall(r"`([^`]+)`", tests)) for row, text, tests in rows]


@dataclass
class Collected:
    """A pytest plugin that notes what ``--test`` runs of what is collected.

    Attributes:
        names: The tests that are not slow, and their files; the cases of a parametrized test count as one.
        tests: Every requirement that a test names by its mark ``req``, with those of them.
    """

    names: set[str] = field(default_factory=set)
    tests: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note who proves what."""
        for item in items:
            name, is_run = item.nodeid.split("[")[0], item.get_closest_marker("slow") is None
            if is_run:
                self.names |= {name, name.partition("::")[0]}
            for requirement in [argument for mark in item.iter_markers("req") for argument in mark.args]:
                if name not in self.tests[requirement] and is_run:
                    self.tests[requirement].append(name)


def collect() -> Collected:
    """What the tests are, without running one."""
    collected = Collected()
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", str(ROOT / "tests")], [collected]
        )
    if code != pytest.ExitCode.OK:
        raise SystemExit(output.getvalue()[-2000:] + "\nThe tests could not be collected.")
    return collected


def scenario(prefix: str, number: int) -> str:
    """How a test names it."""
    return f"{prefix}{number}" if len(prefix) == 1 else f"{prefix}-{number}"


def scenarios() -> list[str]:
    """Every requirement of these documents, in their order."""
    return [
        scenario(prefix, number)
        for document in SCENARIOS.values()
        for prefix, count in document.items()
        for number in range(1, count + 1)
    ]


def table(tests: dict[str, list[str]]) -> list[str]:
    """A line for each document and prefix: how many tests each scenario has, and which have none."""
    lines = []
    for document, prefixes in SCENARIOS.items():
        for prefix, count in prefixes.items():
            numbers = [len(tests.get(scenario(prefix, number), ())) for number in range(1, count + 1)]
            shown = "  ".join(f"{number}:{many or 'NONE'}" for number, many in enumerate(numbers, 1))
            lines.append(f"{document:<13} {prefix:<10} {shown}")
    others = sorted(set(tests) - set(scenarios()))
    many = sum(len(tests[requirement]) for requirement in others)
    lines.append(f"{'others':<13} {len(others)} requirements, {many} tests")
    return lines


def main() -> int:
    """Print what there is; exit code 1 where a requirement or a promise has no test.

    ``--table``: a line for each prefix. ``--all``: the other requirements too, with their tests.
    """
    collected = collect()
    tests = collected.tests
    named = [*scenarios(), *sorted(set(tests) - set(scenarios()))]
    missing = [requirement for requirement in named if not tests.get(requirement)]
    unproven = [promise for promise in promises() if not collected.names & set(promise.tests)]
    if "--table" in sys.argv[1:]:
        print("\n".join(table(tests)))
        print(f"{'security':<13} {len(promises())} promises")
    else:
        for requirement in named if "--all" in sys.argv[1:] else scenarios():
            print(requirement, *tests.get(requirement, ["NO TEST"]), sep="\n    ")
    print(f"without a test: {', '.join((*missing, *(promise.text for promise in unproven))) or 'none'}")
    return 1 if missing or unproven else 0


if __name__ == "__main__":
    sys.exit(main())
