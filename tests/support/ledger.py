"""Where the time of a run goes: the slowest files at its end, and the tests that take long without a reason written beside them.

``-p tests.support.ledger``. A test that may take long is marked ``@pytest.mark.slow("why")``.
"""

from __future__ import annotations

from collections import Counter

import pytest

SHOWN = 15
"""Files."""
LONG_S = 30.0
"""From here on a test needs a reason."""

_files: Counter[str] = Counter()
_tests: Counter[str] = Counter()
_with_reason: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up set-up, call and tear-down, of all workers."""
    _files[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]
    _tests[report.nodeid] += report.duration  # type: ignore[assignment]
    if "slow" in report.keywords:
        _with_reason.add(report.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print both lists."""
    total = sum(_files.values())
    terminalreporter.section(f"slowest files, of {total:.0f} s of all workers together")
    for file, seconds in _files.most_common(SHOWN):
        terminalreporter.write_line(f"{seconds:7.1f} s  {seconds / max(total, 1e-9):5.1%}  {file}")
    unexplained = [(test, s) for test, s in _tests.most_common() if s > LONG_S and test not in _with_reason]
    if unexplained:
        terminalreporter.section(f"over {LONG_S:g} s without @pytest.mark.slow(reason)")
        for test, seconds in unexplained:
            terminalreporter.write_line(f"{seconds:7.1f} s  {test}")
