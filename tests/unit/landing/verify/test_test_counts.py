"""The numbers that known runners print, from their real output."""

from __future__ import annotations

import pytest

from corral.landing.verify.test_counts import count

OUTPUTS = {
    "pytest": ("....\n============ 1 failed, 3 passed, 2 skipped, 1 warning in 0.12s ============\n", 4),
    "pytest -q": ("....   [100%]\n4 passed in 0.01s\n", 4),
    "pytest coloured": ("\x1b[32m\x1b[32m\x1b[1m4 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\x1b[0m\n", 4),
    "pytest, a slow one": ("===== 4 passed, 1 xfailed in 75.20s (0:01:15) =====\n", 5),
    "pytest, none": ("============ no tests ran in 0.01s ============\n", 0),
    "pytest, all skipped": ("============ 3 skipped in 0.01s ============\n", 0),
    "pytest, errors": ("============ 2 errors in 0.01s ============\n", 2),
    "unittest": ("...\n------\nRan 3 tests in 0.002s\n\nOK\n", 3),
    "unittest, some skipped": ("Ran 3 tests in 0.002s\n\nFAILED (failures=1, skipped=1)\n", 2),
    "unittest, none": ("\n------\nRan 0 tests in 0.000s\n\nOK\n", 0),
    "unittest, none (3.12)": ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", 0),
    "go -v": (
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/x (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\n",
        3,
    ),
    "go": ("ok  \texample.test/a\t0.003s\n?   \texample.test/b\t[no test files]\n", None),
    "go, none": ("?   \texample.test/b\t[no test files]\nok  \texample.test/c\t0.003s [no tests to run]\n", 0),
    "cargo": (
        "running 2 tests\n..\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\n"
        "   Doc-tests x\n\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n",
        2,
    ),
    "jest": (
        "Test Suites: 1 passed, 1 total\nTests:       1 failed, 1 skipped, 5 passed, 7 total\nSnapshots:   0 total\n",
        6,
    ),
    "jest, none": ("No tests found, exiting with code 0\n", 0),
    "vitest": (" Test Files  1 passed (1)\n      Tests  1 failed | 4 passed (5)\n   Start at  10:00:00\n", 5),
    "mocha": ("\n  5 passing (12ms)\n  1 pending\n  2 failing\n\n", 7),
    "node --test": ("TAP version 13\nok 1 - a\n1..1\n# tests 3\n# pass 2\n# fail 1\n# skipped 0\n", 3),
    "node --test, spec": ("✔ a (0.5ms)\nℹ tests 1\nℹ pass 1\nℹ fail 0\n", 1),
    "maven": (
        "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0.05 s - in a.ATest\n"
        "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.05 s - in a.BTest\n"
        "[INFO] Results:\n[INFO] \n[WARNING] Tests run: 5, Failures: 0, Errors: 0, Skipped: 1\n",
        4,
    ),
    "maven, none": ("[INFO] --- maven-surefire-plugin:3.0.0:test (default-test) @ a ---\n[INFO] No tests to run.\n", 0),
    "maven, one module without": (
        "[INFO] No tests to run.\n[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\n",
        2,
    ),
    "minitest": ("Finished in 0.00s, 0.0 runs/s.\n\n14 runs, 31 assertions, 1 failures, 0 errors, 2 skips\n", 12),
    "minitest, none": ("\n0 runs, 0 assertions, 0 failures, 0 errors, 0 skips\n", 0),
    "test-unit": ("3 tests, 4 assertions, 0 failures, 0 errors, 0 pendings, 0 omissions, 0 notifications\n", 3),
    "cucumber, minitest loaded": (
        "2 scenarios (2 passed)\n5 steps (5 passed)\n\n0 runs, 0 assertions, 0 failures, 0 errors\n",
        2,
    ),
    "exunit": ("Finished in 0.03 seconds\n1 doctest, 3 tests, 0 failures, 1 skipped\n", 2),
    "exunit, one app without": ("There are no tests to run\n\n3 tests, 0 failures\n", 3),
    "exunit, none": ("There are no tests to run\n", 0),
    "clojure": ("Ran 3 tests containing 9 assertions.\n0 failures, 0 errors.\n", 3),
    "clojure, none": ("Ran 0 tests containing 0 assertions.\n0 failures, 0 errors.\n", 0),
    "dotnet": (
        "No test is available in /a/b.dll. Make sure that test discoverer & executors are registered\n"
        "Passed!  - Failed:     0, Passed:     7, Skipped:     1, Total:     8, Duration: 22 ms - a.Tests.dll (net8.0)\n",
        7,
    ),
    "dotnet, none": (
        "No test is available in /a/b.dll. Make sure that test discoverer & executors are registered\n",
        0,
    ),
    "swift": (
        "\t Executed 0 tests, with 0 failures (0 unexpected) in 0.0 seconds\n✔ Test run with 31 tests in 4 suites passed.\n",
        31,
    ),
    "swift, XCTest": (
        "\t Executed 3 tests, with 0 failures\n\t Executed 3 tests, with 0 failures (0 unexpected)\n",
        None,
    ),
    "swift, none": ("\t Executed 0 tests, with 0 failures (0 unexpected) in 0.000 (0.000) seconds\n", 0),
    "meson, none": ("ninja: no work to do.\nNo tests defined.\n", 0),
    "gradle": ("5 tests completed, 1 failed, 1 skipped\n", 4),
    "gradle, none": ("> Task :test NO-SOURCE\nBUILD SUCCESSFUL in 1s\n", 0),
    "rspec": ("Finished in 0.01 seconds\n5 examples, 0 failures, 1 pending\n", 4),
    "phpunit": ("OK (5 tests, 10 assertions)\n", 5),
    "phpunit, red": ("FAILURES!\nTests: 5, Assertions: 10, Failures: 1, Skipped: 1.\n", 4),
    "phpunit, none": ("No tests executed!\n", 0),
    "ctest": ("100% tests passed, 0 tests failed out of 5\n", 5),
    "ctest, none": ("No tests were found!!!\n", 0),
    "TAP": ("TAP version 13\n1..3\nok 1 a\nnot ok 2 b\nok 3 c # SKIP no network\n", 2),
    "TAP, none": ("1..0 # skipped\n", 0),
    "plain": ("summary: \n3 passed, 1 failed\n", 4),
    "plain tests": ("3 tests passed, 0 tests failed\n", 3),
    "two runners": ("3 passed in 0.01s\nTests:       2 passed, 2 total\n", 5),
    "no runner": ("all good\n", None),
    "a linter": ("All checks passed!\n", None),
    "a compiler": ("Compiling 12 files\n3 warnings\n", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("output", "expected"), OUTPUTS.values(), ids=list(OUTPUTS))
def test_what_ran_is_counted(output: str, expected: int | None) -> None:
    assert count(output) == expected


def test_carriage_returns_change_nothing() -> None:
    assert count("4 passed in 0.01s\r\n") == 4


def test_a_long_hostile_line_is_read_in_time() -> None:
    assert count("1 passed, " * 30_000 + "x") is None
