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
    found = [
        f"{file.relative_to(here.parents[1])}:{number}: {line.strip()}"
        for file in sorted(here.parents[1].rglob("*.py"))
        if file != here
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if inside.search(re.sub(r"\"[^\"]*\"|'[^']*'", "", line))
    ]
    assert not found
