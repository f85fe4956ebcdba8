"""The house: tests look at it from outside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.one_python


def test_no_test_reaches_into_private_parts() -> None:
    """What a test can only see from inside says nothing to a caller, and breaks when the inside is mended."""
    inside = re.compile(
        r"(?<![\w.\"'])(?!self\b|cls\b|os\b|sys\b|pytest\b)[a-z]\w*(?:\.\w+)*\._(?!asdict|replace|exit)[a-z]\w*"
    )
    here = Path(__file__)
    places = [
        f"{file.relative_to(here.parents[1])}:{number}: {line.strip()}"
        for file in sorted(here.parents[1].rglob("*.py"))
        if file != here
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if inside.search(re.sub(r"\"[^\"]*\"|'[^']*'", "", line))
    ]
    assert not places


def test_a_test_kills_at_every_named_point() -> None:
    """By its whole name, or by its last word behind the noun's, where a test kills at all points of a noun."""
    tests, package = Path(__file__).parents[1], Path(__file__).parents[2] / "daemon" / "corral"
    points = {
        point
        for file in package.rglob("*.py")
        for point in re.findall(r'crash_point\("([^"]+)"\)', file.read_text(encoding="utf-8"))
    }
    assert len(points) > 50
    killing = [
        text for text in (file.read_text(encoding="utf-8") for file in tests.rglob("*.py")) if _KILLS.search(text)
    ]
    names = {name for text in killing for name in re.findall(r'"([\w.]+)"', text)}
    nouns = {noun for text in killing for noun in re.findall(r'f"(\w+)\.\{', text)}
    missing = {point for point in points - names if not (point.split(".")[0] in nouns and point.split(".")[1] in names)}
    assert not missing


_KILLS = re.compile(r"CRASH_AT|corral\.core\.crash")
