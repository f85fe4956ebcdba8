"""Finding a project while its files change."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from corral.config.paths import Checkout, find_checkout, find_guarded, find_project
from corral.core.errors import NotAProject
from tests.conftest import git


@pytest.fixture
def coordinated(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".corral").mkdir()
    (tmp_path / ".corral" / "config.yaml").touch()
    (tmp_path / ".corral" / "corral.db").touch()
    return tmp_path


def test_settings_that_a_landing_replaces_this_moment_are_found(
    coordinated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, looked = coordinated / ".corral" / "config.yaml", threading.Event()
    content = settings.read_bytes()
    settings.unlink()

    def put_back(_seconds: float) -> None:
        looked.set()
        settings.write_bytes(content)

    monkeypatch.setattr(time, "sleep", put_back)
    assert find_project(coordinated).root == coordinated.resolve() and looked.is_set()


@pytest.mark.parametrize("has_database", [True, False])
def test_settings_that_stay_away_are_told(
    coordinated: Path, monkeypatch: pytest.MonkeyPatch, has_database: bool
) -> None:
    (coordinated / ".corral" / "config.yaml").unlink()
    if not has_database:
        (coordinated / ".corral" / "corral.db").unlink()
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with pytest.raises(NotAProject, match="not coordinated"):
        find_project(coordinated)
    assert bool(slept) == has_database, "nothing is waited for where Corral never was"


def test_edits_are_checked_also_where_a_branch_is_checked_out_that_has_no_settings(coordinated: Path) -> None:
    (coordinated / ".corral" / "config.yaml").unlink()
    assert find_guarded(coordinated).root == coordinated.resolve()
    (coordinated / ".corral" / "corral.db").unlink()
    with pytest.raises(NotAProject, match="not coordinated"):
        find_guarded(coordinated)


def test_a_checkout_is_known_by_the_folder_and_not_by_its_spelling(coordinated: Path, tmp_path: Path) -> None:
    project, linked = find_project(coordinated), tmp_path / "linked"
    git(coordinated, "commit", "-q", "--allow-empty", "-m", "first")
    git(coordinated, "worktree", "add", "-q", str(linked))
    for top in (coordinated, linked):
        checkout = find_checkout(top)
        assert checkout is not None and project.known(checkout) == checkout
        another = tmp_path / f"another spelling of {top.name}"
        another.symlink_to(coordinated)
        git_dir = another / checkout.git_dir.relative_to(coordinated.resolve())
        spelled = Checkout(another, git_dir, another / ".git")
        assert project.known(spelled) == checkout
    foreign = tmp_path / "foreign"
    git(tmp_path, "init", "-q", str(foreign))
    assert project.known(find_checkout(foreign)) is None and project.known(None) is None
