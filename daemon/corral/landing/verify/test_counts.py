"""How many tests ran, as the output of known runners tells it. Pure.

Tests that were skipped did not run. A runner that is known and ran nothing counts zero, which is not green; an output
that no runner here explains counts None: the exit code alone speaks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class _Runner:
    """``line`` finds each report in the output; ``ran`` says how many tests it reports, None if it does not tell."""

    name: str
    line: re.Pattern[str]
    ran: Callable[[re.Match[str]], int] | int | None
    fallback: bool = False


def _line(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]*{pattern}", re.MULTILINE)


def _total(match: re.Match[str]) -> int:
    """Of a report that gives a total, and perhaps how many of it were skipped."""
    return max(0, int(match["total"]) - int(match.groupdict().get("skipped") or 0))


def _sum_of(*words: str) -> Callable[[re.Match[str]], int]:
    """Of a report such as ``1 failed, 3 passed, 2 skipped``: the numbers before these words."""
    pattern = re.compile(rf"(\d+) (?:{'|'.join(words)})\b")
    return lambda match: sum(int(number) for number in pattern.findall(match.group(0)))


def _labelled(match: re.Match[str]) -> int:
    """Of a report such as ``Failed: 1, Passed: 3``."""
    return sum(map(int, re.findall(r"(?:Failed|Passed): +(\d+)", match.group(0))))


_PYTEST_WORDS = "passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?|rerun|subtests passed"

_RUNNERS = (
    _Runner(
        "pytest",
        _line(rf"(?:=+ )?(?:\d+ (?:{_PYTEST_WORDS})(?:, )?)+ in [\d.]+s"),
        _sum_of("passed", "failed", "errors?", "xfailed", "xpassed"),
    ),
    _Runner("pytest", _line(r"(?:=+ )?no tests (?:ran|collected)"), 0),
    _Runner(
        "unittest",
        _line(
            r"Ran (?P<total>\d+) tests? in [\d.]+s\s+(?:OK|FAILED|NO TESTS RAN)[^\n]*?(?:skipped=(?P<skipped>\d+)|$)"
        ),
        _total,
    ),
    _Runner("go", _line(r"--- (?:PASS|FAIL): "), 1),
    _Runner("go", _line(r"ok\s+\S+\s+(?:[\d.]+s|\(cached\))(?:\s+coverage:[^\n\[]*)?[ \t]*$"), None),
    _Runner("go", _line(r"(?:\?\s+\S+\s+\[no test files\]|ok\s+\S+\s+[^\n]*\[no tests to run\])"), 0),
    _Runner(
        "cargo",
        _line(r"test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed"),
        _sum_of("passed", "failed"),
    ),
    _Runner("jest", _line(r"Tests:\s+[^\n]*\b\d+ total"), _sum_of("passed", "failed")),
    _Runner("jest", _line(r"No tests found, exiting with code"), 0),
    _Runner("vitest", _line(r"Tests\s+\d+ (?:passed|failed|skipped)[^\n]*\(\d+\)"), _sum_of("passed", "failed")),
    _Runner("vitest", _line(r"No test files found"), 0),
    _Runner("mocha", _line(r"\d+ passing(?: \(|$)"), _sum_of("passing")),
    _Runner("mocha", _line(r"\d+ failing$"), _sum_of("failing")),
    _Runner("node", _line(r"(?:#|ℹ) (?:pass|fail) (?P<total>\d+)$"), _total),
    _Runner(
        "maven",
        _line(r"(?:\[\w+\] +)?Tests run: (?P<total>\d+), Failures: \d+, Errors: \d+, Skipped: (?P<skipped>\d+)[ \t]*$"),
        _total,
    ),
    _Runner("maven", _line(r"(?:\[\w+\] +)?No tests to run\.[ \t]*$"), 0),
    _Runner(
        "gradle", _line(r"(?P<total>\d+) tests? completed(?:, \d+ failed)?(?:, (?P<skipped>\d+) skipped)?"), _total
    ),
    _Runner("gradle", _line(r"> Task \S*:test NO-SOURCE"), 0),
    _Runner("rspec", _line(r"(?P<total>\d+) examples?, \d+ failures?(?:, (?P<skipped>\d+) pending)?"), _total),
    _Runner(
        "minitest",
        _line(r"(?P<total>\d+) (?:runs|tests), \d+ assertions, \d+ failures, \d+ errors(?:, (?P<skipped>\d+) skips)?"),
        _total,
    ),
    # Where minitest is only loaded, it reports nothing of its own at the end of Cucumber's run.
    _Runner("cucumber", _line(r"(?P<total>\d+) scenarios?(?: \(|$)"), _total),
    _Runner(
        "exunit",
        _line(r"(?:\d+ \w+, )*(?P<total>\d+) tests?, \d+ failures?(?:[^\n]*?(?P<skipped>\d+) skipped)?"),
        _total,
    ),
    _Runner("exunit", _line(r"There are no tests to run[ \t]*$"), 0),
    _Runner("clojure", _line(r"Ran (?P<total>\d+) tests containing \d+ assertions"), _total),
    _Runner("dotnet", _line(r"(?:Passed|Failed|Skipped)! +- Failed: +\d+, Passed: +\d+[^\n]*"), _labelled),
    _Runner("dotnet", _line(r"Total tests: (?P<total>\d+)"), _total),
    _Runner("dotnet", _line(r"No test (?:is available in|matches the given testcase filter) "), 0),
    _Runner("swift", _line(r"Executed 0 tests, with 0 failures"), 0),
    _Runner("swift", _line(r"Executed [1-9]\d* tests?, with "), None),  # of each suite, and of those around it
    _Runner("swift", _line(r"\W*Test run with (?P<total>\d+) tests? "), _total),
    _Runner("meson", _line(r"No tests defined\.[ \t]*$"), 0),
    _Runner("phpunit", _line(r"OK \((?P<total>\d+) tests?, \d+ assertions?\)"), _total),
    _Runner("phpunit", _line(r"Tests: (?P<total>\d+), Assertions: \d+(?:[^\n]*Skipped: (?P<skipped>\d+))?"), _total),
    _Runner("phpunit", _line(r"No tests executed!"), 0),
    _Runner("ctest", _line(r"\d+% tests passed, \d+ tests failed out of (?P<total>\d+)"), _total),
    _Runner("ctest", _line(r"No tests were found!!!"), 0),
    _Runner("TAP", re.compile(r"^(?:not )?ok \d+(?![^\n]*# (?:SKIP|skip))", re.MULTILINE), 1, fallback=True),
    _Runner("TAP", re.compile(r"^1\.\.0\b", re.MULTILINE), 0, fallback=True),
    _Runner(
        "tests",
        _line(r"\d+ (?:tests? )?passed, \d+ (?:tests? )?failed\b"),
        _sum_of("(?:tests? )?passed", "(?:tests? )?failed"),
        True,
    ),
)


def plain(output: str) -> str:
    """An output without colours and carriage returns."""
    return _ANSI.sub("", output).replace("\r\n", "\n")


def count(output: str) -> int | None:
    """The number of tests that one command ran, by its output.

    Returns:
        The sum over all reports of known runners; None if there is no report, or one that does not tell.
    """
    text = plain(output)
    for fallback in (False, True):
        reports = [
            runner.ran(match) if callable(runner.ran) else runner.ran
            for runner in _RUNNERS
            if runner.fallback is fallback
            for match in runner.line.finditer(text)
        ]
        if not reports:
            continue
        total = sum(filter(None, reports))
        return None if None in reports and total == 0 else total
    return None
