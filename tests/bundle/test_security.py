"""What docs/security.md promises has its tests, each row of the matrix."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (X\d+|) \| (.+?) \| (T[1-5].*?) \| (.+) \|$", PAGE, re.MULTILINE)


def test_every_row_is_there_once() -> None:
    assert [row for row, *_ in ROWS if row] == [f"X{number}" for number in range(1, 20)]


def test_every_promise_names_tests_that_exist() -> None:
    for row, promise, _against, tests in ROWS:
        named = re.findall(r"`([^`]+)`", tests)
        assert named, (row, promise)
        for test in named:
            file, _, function = test.partition("::")
            text = (ROOT / file).read_text(encoding="utf-8")
            assert not function or f"def {function}(" in text, test
