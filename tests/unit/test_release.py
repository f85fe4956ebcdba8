"""What keeps a commit from being released."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.release import not_installed, not_ready


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "code.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@b.test", "commit", "--quiet", "--message", "one")
    return tmp_path


def git(repo: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=repo, check=True)


def test_a_clean_main_without_the_tag_is_ready(repo: Path) -> None:
    git(repo, "tag", "v1.2.2")
    assert list(not_ready(repo, "1.2.3")) == []


def test_every_reason_is_told_at_once(repo: Path) -> None:
    git(repo, "tag", "v1.2.3")
    git(repo, "switch", "--quiet", "--create", "fix")
    (repo / "code.py").write_text("changed")
    (repo / "new.py").write_text("")
    assert list(not_ready(repo, "1.2.3")) == [
        "fix is checked out, not main",
        "not committed: code.py, new.py",
        "the tag v1.2.3 exists",
    ]


def test_no_branch_is_not_main(repo: Path) -> None:
    git(repo, "switch", "--quiet", "--detach")
    assert list(not_ready(repo, "1.2.3")) == ["no branch is checked out, not main"]


def test_a_lock_file_with_a_package_that_has_left_is_told() -> None:
    lock = "PyYAML==6.0.2\njaraco.classes==3.4.0\nfastapi==0.165.0\ntyper==0.29.2\n"
    (reason,) = not_installed(lock, ["pyyaml", "jaraco_classes"])
    assert "pins fastapi, typer," in reason
    assert not [*not_installed(lock, ["pyyaml", "jaraco_classes", "FastAPI", "typer"])]
