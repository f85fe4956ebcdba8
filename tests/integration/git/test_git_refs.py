"""Refs against a real repository."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

import pytest

from corral.core.errors import GitFailed, InvalidInput, NotFound
from corral.git import refs
from corral.git.process.command import open_checkout, open_repository
from tests.conftest import commit, git


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    "text",
    ["--output=pwned", "-c", "@{-1}", "main@{0}", "HEAD:README.md", "main\n", "a..b", "refs/heads/--x", ":/first", ""],
)
def test_a_users_text_cannot_be_more_than_a_commit(repo: Path, text: str) -> None:
    git(repo, "update-ref", "refs/heads/--x", "HEAD")
    with pytest.raises(InvalidInput):
        refs.resolve(open_checkout(repo), text)
    assert not (repo / "pwned").exists()


def test_what_a_user_names_is_resolved(repo: Path) -> None:
    me, first = open_checkout(repo), git(repo, "rev-parse", "HEAD")
    second = commit(repo, {"x": "1"})
    git(repo, "tag", "-a", "v1", "-m", "x")
    assert {refs.resolve(me, t) for t in ("main", "HEAD", "refs/heads/main", "v1", second, second[:10])} == {second}
    assert refs.resolve(me, "HEAD~1") == first
    for missing in ("nope", "f" * 40):
        with pytest.raises(NotFound):
            refs.resolve(me, missing)


def test_contents_that_are_not_there_are_an_error_of_git(repo: Path) -> None:
    me = open_repository(repo / ".git")
    blob = git(repo, "hash-object", "-w", "README.md")
    assert refs.contents(me, [blob]) == [(repo / "README.md").read_bytes()]
    with pytest.raises(GitFailed, match="f is missing"):
        refs.contents(me, [blob, "f" * 40])


def test_a_ref_moves_only_from_where_it_is_said_to_be(repo: Path) -> None:
    me, first = open_repository(repo / ".git"), git(repo, "rev-parse", "HEAD")
    second = commit(repo, {"x": "1"})
    name = "refs/corral/test/ü"
    assert refs.compare_and_swap(me, name, first, "")
    assert not refs.compare_and_swap(me, name, second, "")
    assert not refs.compare_and_swap(me, name, second, second)
    assert refs.read(me, name) == first
    assert refs.compare_and_swap(me, name, second, first)
    git(repo, "pack-refs", "--all")
    assert refs.read(me, name) == second
    assert not refs.delete(me, name, first)
    assert refs.delete(me, name, second)
    assert refs.read(me, name) is None
    with pytest.raises(GitFailed):
        refs.compare_and_swap(me, name, "f" * 40, "")


def test_ancestry_and_differences(repo: Path) -> None:
    me, first = open_checkout(repo), git(repo, "rev-parse", "HEAD")
    second = commit(repo, {"a b/\n ü": "1", "README.md": "new\n"})
    git(repo, "checkout", "-q", "--orphan", "other")
    other = commit(repo, {"z": "1"})
    assert refs.is_ancestor(me, first, second) and not refs.is_ancestor(me, second, first)
    assert refs.merge_base(me, second, first) == first and refs.merge_base(me, first, other) is None
    assert sorted(refs.changed_paths(me, first, second)) == ["README.md", "a b/\n ü"]
    assert refs.show_file(me, second, "a b/\n ü") == b"1"
    assert refs.show_file(me, second, "nope") is None and refs.show_file(me, second, "src") is None
    with pytest.raises(GitFailed):
        refs.show_file(me, "f" * 40, "README.md")
    with pytest.raises(GitFailed):
        refs.is_ancestor(me, first, "f" * 40)


def test_a_ref_is_read_from_wherever_it_is_stored(repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    me, sha = open_repository(repo / ".git"), commit(repo, {"x": "1"})
    for name in ("packed", "packed-too", "moved", "deleted", "folder/one"):
        git(repo, "branch", name)
    git(repo, "tag", "-a", "-m", "told", "told")
    git(repo, "pack-refs", "--all")
    later = commit(repo, {"x": "2"})
    git(repo, "update-ref", "refs/heads/moved", later)
    git(repo, "update-ref", "-d", "refs/heads/deleted")
    git(repo, "symbolic-ref", "refs/heads/other", "refs/heads/packed")
    tag, real = git(repo, "rev-parse", "refs/tags/told"), os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path))  # no git is run
    assert [refs.read(me, f"refs/heads/{name}") for name in ("packed", "moved", "main", "folder/one")] == [
        sha, later, later, sha
    ]  # fmt: skip
    assert refs.read(me, "refs/tags/told") == tag
    for missing in ("deleted", "folder", "pack", "acked", "never", "main/below"):
        assert refs.read(me, f"refs/heads/{missing}") is None
    monkeypatch.setenv("PATH", real)
    assert refs.read(me, "refs/heads/other") == sha


def test_listing_and_holding(repo: Path) -> None:
    me, sha = open_checkout(repo), commit(repo, {"x": "1"})
    git(repo, "update-ref", "refs/corral/mq/1", sha)
    (row,) = refs.listing(me, "refs/corral/mq/")
    assert (row.name, row.sha) == ("refs/corral/mq/1", sha)
    assert abs((datetime.now(timezone.utc) - row.created_at).total_seconds()) < 600
    assert refs.holder(me, sha) is not None
    assert refs.holder(me, sha, besides="refs/corral/mq/1") == "refs/heads/main"
    git(repo, "update-ref", "-d", "refs/corral/mq/1")
    assert refs.holder(me, sha, besides="refs/heads/main") is None


def test_the_default_branch_is_what_the_main_checkout_has(repo: Path, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "w"))
    assert refs.default_branch(open_checkout(tmp_path / "w")) == "refs/heads/main"
    git(repo, "checkout", "-q", "--detach")
    assert refs.default_branch(open_checkout(repo)) is None
