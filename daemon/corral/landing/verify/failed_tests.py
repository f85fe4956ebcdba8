"""Which tests failed, as JUnit XML, pytest's summary or TAP tells it.

What is read was written by a branch: it names tests, and decides nothing but whether a red run is repeated.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

from corral.landing.verify.test_counts import plain

MOST = 200
"""Tests that are named. Where more fail, it is no matter of chance."""
MOST_FILES = 200
MOST_BYTES = 8_000_000
_LONGEST = 500
"""Characters of a test's name."""
_PYTEST = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)
_TAP = re.compile(r"^not ok (?!.*# *(?:TO-?DO|SKIP))(?:\d+ *)?(?:- )?(.*?)(?: #.*)?$", re.MULTILINE | re.IGNORECASE)


def of_run(output: str, worktree: Path, reports: Sequence[str], since: float) -> tuple[str, ...]:
    """The tests that failed, each once, in order; empty: nothing tells.

    Args:
        output: Of the command that was red.
        reports: Patterns of its JUnit XML files in the worktree; what these name counts, if they name any.
        since: When it began, as its file system tells it: the worktree has files of earlier runs too.
    """
    by_report = (name for file in _files(worktree, reports, since) for name in of_junit(file))
    return _first(by_report) or _first(match[1] for match in _matches(plain(output)))


def of_junit(data: bytes) -> list[str]:
    """The failed test cases of a JUnit XML file; none if it is no such file."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        return []
    try:
        cases = list(ElementTree.fromstring(data).iter("testcase"))
    except (ElementTree.ParseError, ValueError):
        return []
    red = (case for case in cases if case.find("failure") is not None or case.find("error") is not None)
    return ["::".join(filter(None, (case.get("classname"), case.get("name")))) for case in red]


def _matches(output: str) -> Iterator[re.Match[str]]:
    yield from _PYTEST.finditer(output)
    yield from _TAP.finditer(output)


def _first(names: Iterator[str]) -> tuple[str, ...]:
    cut = (" ".join(name.split())[:_LONGEST] for name in names)
    return tuple(islice(dict.fromkeys(filter(None, cut)), MOST))


def _files(worktree: Path, patterns: Sequence[str], since: float) -> Iterator[bytes]:
    """The content of the regular files below the worktree that match, and of none that a link leads to."""
    top = worktree.resolve()
    for pattern in patterns:
        for path in islice(worktree.glob(pattern.lstrip("/")), MOST_FILES):
            if path.parent.resolve().is_relative_to(top):
                yield _content(path, since)


def _content(path: Path, since: float) -> bytes:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            return file.read(MOST_BYTES) if stat.S_ISREG(status.st_mode) and status.st_mtime >= since else b""
    except OSError:  # it is a link, a folder, or gone
        return b""
