"""Which tests prove which requirement: ``python -m tests.requirements [--all]``, and at the end of ``./install.sh --test``.

Tests that are marked slow prove nothing here: ``--test`` does not run them, and has to prove every requirement.

The scenarios of the coordination, agent mail and task documents are listed whole, as are the faults of git, the threats and the
invariants of landing, so that one without a test is seen; of the others whatever a test names.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SCENARIOS = {
    "coordination": {"HANDOFF": 5, "DISCOVER": 3, "TEAM": 2, "HOOK": 3, "HEARTBEAT": 4, "SESSION": 2, "MCP": 2},
    "agent mail": {"REGISTER": 2, "RESERVE": 3, "MESSAGE": 3, "DELEGATE": 1},
    "tasks": {"GETTASK": 3, "CANCEL": 2, "LOCKKEY": 6, "FEATURE": 3},
    "reliability": {"G": 30, "X": 19, "I": 12},
}
"""How many scenarios each document has under each prefix; they are numbered from 1."""


class Collected:
    """A pytest plugin that notes the marks ``req`` of what is collected.

    Attributes:
        tests: Every requirement that is named, with the tests that are not slow.
    """

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = defaultdict(list)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note who proves what; the cases of a parametrized test count as one."""
        for item in items:
            name = item.nodeid.split("[")[0]
            for mark in item.iter_markers("req"):
                for requirement in mark.args:
                    if name not in self.tests[requirement] and item.get_closest_marker("slow") is None:
                        self.tests[requirement].append(name)


def collect() -> dict[str, list[str]]:
    """Every requirement that a test names, with those tests."""
    found = Collected()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", str(ROOT / "tests")], [found]
        )
    if code != pytest.ExitCode.OK:
        raise SystemExit(said.getvalue()[-2000:] + "\nThe tests could not be collected.")
    return dict(found.tests)


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
    """Print what there is; exit code 1 where a requirement has no test.

    ``--table``: a line for each prefix. ``--all``: the other requirements too, with their tests.
    """
    tests = collect()
    named = [*scenarios(), *sorted(set(tests) - set(scenarios()))]
    missing = [requirement for requirement in named if not tests.get(requirement)]
    if "--table" in sys.argv[1:]:
        print("\n".join(table(tests)))
    else:
        for requirement in named if "--all" in sys.argv[1:] else scenarios():
            print(requirement, *tests.get(requirement, ["NO TEST"]), sep="\n    ")
    print(f"without a test: {', '.join(missing) or 'none'}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
