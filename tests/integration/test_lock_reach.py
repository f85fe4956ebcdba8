"""What a reservation of a glob, a file or a folder keeps from others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import git
from tests.support.coordinated import Coordinated, denied


def test_a_glob_keeps_only_what_it_covers_and_a_folder_on_disk_all_that_is_in_it(house: Coordinated) -> None:
    house.hook("SessionStart", "ann", source="startup")

    def reserve(path: str) -> None:
        house.ask("POST", "/locks/release", {"session_id": "ann"})
        house.ask("POST", "/locks/acquire", {"session_id": "ann", "paths": [path]})

    def conflicts(path: str) -> bool:
        answer = house.ask("POST", "/locks/check", {"session_id": "ben", "paths": [path]})
        return bool(answer[0]["locked"])

    reserve("**/*.py")
    assert denied(house.edit("ben", "src/readme.md")) is None
    assert "as part of **/*.py" in str(denied(house.edit("ben", "src/a.py")))
    assert not conflicts("README.md") and not conflicts("**/*.md") and conflicts("src") and conflicts("lib/")
    house.ask("POST", "/locks/release", {"session_id": "ben"})
    reserve("src")
    assert conflicts("**/*.py") and conflicts("src/x/y") and not conflicts("*.md")
    reserve("README.md")
    assert not conflicts("**/*.py") and conflicts("*.md")
    assert house.ask("POST", "/locks/release", {"session_id": "ann", "paths": ["README.md/"]})["released"]


@pytest.mark.req("G20")
def test_where_the_file_system_folds_names_a_file_is_held_in_every_spelling(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    root = make_repo("folds", {"src/Caf\u00e9.py": "x\n"})
    git(root, "config", "core.ignoreCase", "true")
    house = coordinate(root)
    house.hook("SessionStart", "ann", source="startup")
    house.ask("POST", "/locks/acquire", {"session_id": "ann", "paths": ["src/Caf\u00e9.py"]})
    for spelling in ("src/caf\u00e9.py", "SRC/Cafe\u0301.py", "Src/*.PY"):
        answer = house.ask("POST", "/locks/check", {"session_id": "ben", "paths": [spelling]})
        assert answer[0]["locked"], spelling
    assert not house.ask("POST", "/locks/check", {"session_id": "ben", "paths": ["src/cafe.py"]})[0]["locked"]
