"""The house: what a folder shows at one level, and how long a module may be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import corral

pytestmark = pytest.mark.one_python

PACKAGE = Path(corral.__file__).parent
MOST_MODULES = 15
MOST_LINES = 400
FOLDERS = sorted(folder for folder in [PACKAGE, *PACKAGE.rglob("*")] if folder.is_dir() and [*folder.glob("*.py")])


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(PACKAGE)))
def test_a_folder_shows_what_one_look_takes_in_and_says_what_it_holds(folder: Path) -> None:
    modules = [file.name for file in folder.glob("*.py") if not file.name.startswith("__")]
    assert len(modules) <= MOST_MODULES or folder.parent.name == "migrations", sorted(modules)
    if folder.parent.name != "migrations" and folder.name != "migrations":
        assert (folder / "__init__.py").read_text(encoding="utf-8").startswith('"""'), "it does not say what it holds"


def test_no_module_is_long() -> None:
    long = {
        str(file.relative_to(PACKAGE)): lines
        for file in PACKAGE.rglob("*.py")
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > MOST_LINES
    }
    assert not long


def test_no_test_reaches_into_private_parts() -> None:
    """What a test can only see from inside says nothing to a caller, and breaks when the inside is mended."""
    inside = re.compile(
        r"(?<![\w.\"'])(?!self\b|cls\b|os\b|sys\b|pytest\b)[a-z]\w*(?:\.\w+)*\._(?!asdict|replace|exit)[a-z]\w*"
    )
    here = Path(__file__)
    found = [
        f"{file.relative_to(here.parents[1])}:{number}: {line.strip()}"
        for file in sorted(here.parents[1].rglob("*.py"))
        if "mutations" not in file.parts and file != here
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if inside.search(re.sub(r"\"[^\"]*\"|'[^']*'", "", line))
    ]
    assert not found
