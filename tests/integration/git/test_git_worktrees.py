"""Worktrees: made whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.core.errors import Conflict, GitFailed, InvalidInput, Unsupported
from corral.git.checkouts import listing, whole, worktrees
from corral.git.process.command import Git, open_checkout, open_repository
from tests.conftest import commit, git
from tests.integration.git.places import add, branches, head, nothing_stays
from tests.support.files import executable, put


def test_a_new_worktree_is_whole(me: Git, repo: Path, place: Path) -> None:
    config = (repo / ".git/config").read_bytes()
    add(me, repo, place)
    assert git(place, "status", "--porcelain", "--branch") == "## corral/w1"
    assert (place / "src/a.py").read_text() == "a = 1\n"
    assert (repo / ".git/config").read_bytes() == config
    entry = listing.entries(me)[1]
    assert (entry.path, entry.branch, entry.locked, entry.head) == (place, "refs/heads/corral/w1", None, head(repo))
    assert listing.checkout_of(me, "refs/heads/corral/w1") == place
    assert listing.checkout_of(me, "refs/heads/main") == repo
    assert listing.checkout_of(me, "refs/heads/none") is None


def test_a_detached_worktree(me: Git, repo: Path, place: Path) -> None:
    worktrees.add_detached(me, place, head(repo))
    assert not (place / "src").exists(), "its files are the caller's to lay out"
    whole.lay_out(lambda: open_checkout(place), head(repo))
    assert open_checkout(place).branch() is None and git(place, "status", "--porcelain") == ""
    assert branches(repo) == ["main"]


def test_in_a_bare_repository(repo: Path, tmp_path: Path, place: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "b.git")
    bare = open_repository(tmp_path / "b.git")
    worktrees.add(bare, place, "x", head(repo))
    assert git(place, "status", "--porcelain") == "" and listing.entries(bare)[0].bare


@pytest.mark.parametrize("taken", ["branch", "folder", "file", "branch folder"])
def test_what_exists_is_not_touched(me: Git, repo: Path, place: Path, taken: str) -> None:
    if taken == "branch":
        git(repo, "branch", "corral/w1")
    elif taken == "branch folder":
        git(repo, "branch", "corral")
    elif taken == "folder":
        put(place / "precious", "x")
    else:
        put(place, "x")
    before = branches(repo)
    with pytest.raises(Conflict):
        add(me, repo, place)
    assert branches(repo) == before
    assert taken in ("branch", "branch folder") or place.exists()


@pytest.mark.req("X5")
@pytest.mark.req("X6")
def test_hostile_arguments_make_nothing(me: Git, repo: Path, place: Path) -> None:
    for branch in ("--x", "a/--output=x", "a\nb"):
        with pytest.raises(InvalidInput):
            worktrees.add(me, place, branch, head(repo))
    with pytest.raises(InvalidInput):
        worktrees.add(me, place, "x", "HEAD")
    with pytest.raises(GitFailed):
        worktrees.add(me, place, "x", "f" * 40)
    nothing_stays(repo, place)


@pytest.mark.req("G2")
def test_a_filter_that_fails_leaves_nothing(me: Git, repo: Path, place: Path) -> None:
    commit(repo, {".gitattributes": "*.bin filter=lost\n", "z.bin": "x"})
    git(repo, "config", "filter.lost.smudge", "false")
    git(repo, "config", "filter.lost.required", "true")
    with pytest.raises(GitFailed):
        add(me, repo, place)
    nothing_stays(repo, place)


@pytest.mark.req("G2", "X9")
def test_a_failing_hook_is_not_run(me: Git, repo: Path, place: Path) -> None:
    executable(repo / ".git/hooks/post-checkout", "#!/bin/sh\nexit 1\n")
    add(me, repo, place)


@pytest.mark.req("G14")
def test_a_shared_core_worktree_is_refused(me: Git, repo: Path, place: Path) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(repo, "config", "core.worktree", str(repo))
    with pytest.raises(Unsupported, match="would work on"):
        add(me, repo, place)
    nothing_stays(repo, place)


@pytest.mark.req("G19")
@pytest.mark.parametrize("sparse", [False, True])
def test_a_sparse_checkout_is_inherited_where_that_is_asked_for(me: Git, repo: Path, place: Path, sparse: bool) -> None:
    git(repo, "sparse-checkout", "set", "--no-cone", "/README.md")
    worktrees.add(me, place, "corral/w1", head(repo), sparse=sparse)
    assert (place / "README.md").exists() and (place / "src").exists() is not sparse
    assert git(place, "status", "--porcelain") == ""
