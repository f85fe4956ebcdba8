"""Worktrees that a crash left halfway: finished, forgotten or salvaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from corral.core.errors import WorkAtRisk
from corral.git.checkouts import listing, salvage, status, worktrees
from corral.git.process.command import Git, open_checkout
from tests.conftest import commit, git
from tests.integration.git.places import add, branches, nothing_stays
from tests.support.files import put

# repair


def repair(me: Git, place: Path) -> bool:
    return worktrees.repair(me, place, "corral/w1")


def test_a_healthy_worktree_is_left_as_it_is(me: Git, repo: Path, place: Path) -> None:
    (add(me, repo, place) / "new").write_text("x")
    assert repair(me, place)
    assert [c.path for c in status.changes(open_checkout(place))] == ["new"]


@pytest.mark.req("G2")
def test_an_initialising_worktree_is_finished(me: Git, repo: Path, place: Path) -> None:
    git(repo, "branch", "corral/w1")
    git(repo, "worktree", "add", "-q", "--no-checkout", "--lock", "--reason", "initializing", str(place), "corral/w1")
    (place / "src").mkdir()
    (place / "src/a.py").write_text("half")
    (open_checkout(place).git_dir / "index.lock").touch()
    assert repair(me, place)
    assert git(place, "status", "--porcelain") == "" and listing.entries(me)[1].locked is None


@pytest.mark.req("G3")
def test_a_deleted_folder_is_forgotten_and_nothing_else(me: Git, repo: Path, place: Path, tmp_path: Path) -> None:
    add(me, repo, place)
    other = tmp_path / "other"
    git(repo, "worktree", "add", "-q", "-b", "other", str(other))
    shutil.rmtree(place)
    shutil.rmtree(other)
    assert not repair(me, place)
    assert branches(repo) == ["main", "other"], "an empty branch goes"
    assert [e.path for e in listing.entries(me)[1:]] == [other], "somebody else's entry stays"
    add(me, repo, place)
    commit(place, {"x": "1"})
    shutil.rmtree(place)
    assert not repair(me, place)
    assert branches(repo) == ["corral/w1", "main", "other"], "a branch with commits stays"


@pytest.mark.req("G3")
def test_what_only_the_entry_held_is_salvaged(me: Git, repo: Path, place: Path) -> None:
    add(me, repo, place.with_name("w1"))
    place = place.with_name("w1")
    git(place, "checkout", "-q", "--detach")
    lost = commit(place, {"x": "1"})
    (place / "staged").write_text("staged")
    git(place, "add", "staged")
    shutil.rmtree(place)
    assert not repair(me, place)
    (kept,) = salvage.listing(me, "w1")
    assert git(repo, "show", f"{kept.sha}:staged") == "staged"
    git(repo, "merge-base", "--is-ancestor", lost, kept.sha)


@pytest.mark.req("G4")
@pytest.mark.parametrize("lost", ["entry", "link", "entry and link"])
def test_a_folder_without_its_entry_gets_one_and_no_file_changes(me: Git, repo: Path, place: Path, lost: str) -> None:
    commit(add(me, repo, place), {"x": "1"})
    (place / "src/a.py").write_text("dirty\n")
    (place / "new").write_text("new")
    if "entry" in lost:
        shutil.rmtree(open_checkout(place).git_dir)
    if "link" in lost:
        (place / ".git").unlink()
    for _ in range(2):
        assert repair(me, place)
    assert {(c.path, c.code) for c in status.changes(open_checkout(place))} == {("src/a.py", ".M"), ("new", "??")}
    assert (place / "src/a.py").read_text() == "dirty\n"
    assert [p.name for p in place.parent.iterdir()] == [place.name]
    assert [e.path for e in listing.entries(me)] == [repo, place]


@pytest.mark.req("G4")
def test_a_folder_that_git_knows_nothing_of_is_never_removed(me: Git, place: Path) -> None:
    put(place / "precious", "x")
    with pytest.raises(WorkAtRisk):
        repair(me, place)
    assert (place / "precious").exists()


def test_an_orphan_branch_and_an_empty_folder_go(me: Git, repo: Path, place: Path) -> None:
    git(repo, "branch", "corral/w1")
    place.mkdir(parents=True)
    assert not repair(me, place)
    nothing_stays(repo, place)
    assert not repair(me, place)
