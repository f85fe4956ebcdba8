"""Which tests failed, from what runners print and write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.landing.verify import failed_tests

PYTEST = """\
=================== short test summary info ====================
FAILED tests/test_a.py::test_one - AssertionError: assert 1 - 2
\x1b[31mERROR\x1b[0m tests/test_b.py
FAILED tests/test_a.py::test_two[a b-3]
FAILED tests/test_a.py::test_one - AssertionError: assert 1 - 2
2 failed, 1 error in 0.10s
"""
TAP = "ok 1 - fine\nnot ok 2 - adds up # time=3ms\nnot ok 3 - later # skip not yet\nnot ok 4\n    not ok 1 - inner\n"
JUNIT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="a.B" name="works"/><testcase classname="a.B" name="breaks"><failure message="x"/></testcase>
<testcase name="alone"><error/></testcase><testcase classname="a.B" name="left out"><skipped/></testcase>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    "output, expected",
    [
        (PYTEST, ("tests/test_a.py::test_one", "tests/test_b.py", "tests/test_a.py::test_two[a b-3]")),
        (TAP, ("adds up",)),
        ("make: *** [all] Error 1\nFAILED: it did not link\n", ()),
        ("FAILED a.py::" + "x" * 200_000, ("a.py::" + "x" * 494,)),
    ],
)
def test_the_output_names_them(output: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    assert failed_tests.of_run(output, tmp_path, [], 0) == expected


def test_a_report_of_this_run_counts_and_no_older_one_nor_what_a_link_leads_to(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "out").mkdir(parents=True)
    (tree / "out/now.xml").write_text(JUNIT)
    (tree / "out/old.xml").write_text(JUNIT.replace("breaks", "broke once"))
    os.utime(tree / "out/old.xml", (1, 1))
    (tmp_path / "theirs.xml").write_text(JUNIT.replace("breaks", "is theirs"))
    (tree / "out/link.xml").symlink_to(tmp_path / "theirs.xml")
    (tree / "out/bad.xml").write_text("<testsuite><testcase")
    (tree / "out/entities.xml").write_text('<!DOCTYPE x [<!ENTITY e "e">]>' + JUNIT.replace("breaks", "&e;"))
    (tree / "elsewhere").symlink_to(tmp_path)
    patterns = ["out/*.xml", "elsewhere/*.xml", "../*.xml"]
    assert failed_tests.of_run(PYTEST, tree, patterns, 1000) == ("a.B::breaks", "alone")
    assert failed_tests.of_run(TAP, tree, ["none/*.xml"], 1000) == ("adds up",)
