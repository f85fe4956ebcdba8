"""Looking at a checkout, and committing what is left in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.core.errors import Conflict
from corral.git import commits
from corral.git.checkouts import status
from corral.git.process.command import Identity, open_checkout
from tests.conftest import commit, git

ME = Identity("Me", "me@x")


def test_every_change_is_seen_under_its_real_name(repo: Path) -> None:
    (repo / "deep/er").mkdir(parents=True)
    for name in ("deep/er/new\nline ü", "deep/er/sp ace"):
        (repo / name).write_text("x")
    (repo / os.fsdecode(b"latin-\xe9")).write_text("x")
    (repo / "src/a.py").write_text("changed\n")
    (repo / "src/b.py").unlink()
    git(repo, "mv", "README.md", "READ ME")
    (repo / ".gitignore").write_text("*.log\n")
    (repo / "x.log").write_text("ignored")
    git(repo, "config", "status.showUntrackedFiles", "no")
    git(repo, "config", "status.renames", "copies")
    assert {(c.path, c.code) for c in status.changes(open_checkout(repo))} == {
        ("deep/er/new\nline ü", "??"), ("deep/er/sp ace", "??"), (os.fsdecode(b"latin-\xe9"), "??"), (".gitignore", "??"),
        ("src/a.py", ".M"), ("src/b.py", ".D"), ("README.md", "D."), ("READ ME", "A."),
    }  # fmt: skip


def test_differences_between_two_looks(repo: Path) -> None:
    me = open_checkout(repo)
    (repo / "src/a.py").write_text("dirty before\n")
    before = status.look(me)
    assert status.differences(before, status.look(me)) == []
    (repo / "src/a.py").write_text("dirty again, longer\n")
    (repo / "new/er").mkdir(parents=True)
    (repo / "new/er/f").write_text("1")
    commit(repo, {"src/b.py": "committed\n"})
    assert status.differences(before, status.look(me)) == ["new/er/f", "src/a.py", "src/b.py"]


def test_a_reverted_and_a_deleted_file_differ(repo: Path) -> None:
    me = open_checkout(repo)
    (repo / "src/a.py").write_text("dirty\n")
    before = status.look(me)
    git(repo, "checkout", "-q", "src/a.py")
    (repo / "src/b.py").unlink()
    after = status.look(me)
    assert after.files == {"src/b.py": None}
    assert status.differences(before, after) == ["src/a.py", "src/b.py"]


def test_the_first_commit_of_a_repository_is_a_difference(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "new")
    me = open_checkout(tmp_path / "new")
    before = status.look(me)
    assert before.head is None
    commit(tmp_path / "new", {"a": "1"})
    assert status.differences(before, status.look(me)) == ["a"]


def test_looking_writes_nothing(repo: Path) -> None:
    os.utime(repo / "src/a.py", (1, 1))
    index = (repo / ".git/index").read_bytes()
    status.look(open_checkout(repo))
    assert (repo / ".git/index").read_bytes() == index


def test_leftovers_are_committed_whole_but_for_the_excluded(repo: Path) -> None:
    git(repo, "config", "commit.gpgSign", "true")
    (repo / "src/a.py").write_text("changed\n")
    (repo / "src/b.py").unlink()
    (repo / "new/er").mkdir(parents=True)
    (repo / "new/er/ü\n").write_text("x")
    (repo / "node_modules/x").mkdir(parents=True)
    (repo / "node_modules/x/y").write_text("x")
    (repo / ".env[1]").write_text("secret")
    sha = commits.commit_leftovers(
        open_checkout(repo), "Left over", {"Corral-Task": "t1"}, lambda: ME, exclude=["node_modules", ".env[1]"]
    )
    assert sha == git(repo, "rev-parse", "main")
    assert (
        git(repo, "log", "-1", "--format=%an <%ae> %cn|%s|%(trailers:key=Corral-Task,valueonly)")
        == "Me <me@x> Me|Left over|t1"
    )
    assert git(repo, "-c", "core.quotePath=false", "diff", "--name-only", "-z", "HEAD~1", "HEAD").split("\0")[:3] == [
        "new/er/ü\n", "src/a.py", "src/b.py",
    ]  # fmt: skip
    assert {c.path for c in status.changes(open_checkout(repo))} == {"node_modules/x/y", ".env[1]"}
    assert (
        commits.commit_leftovers(open_checkout(repo), "x", {}, lambda: ME, exclude=["node_modules", ".env[1]"]) is None
    )


def test_a_repository_inside_is_left_alone(repo: Path) -> None:
    for name in ("empty", "full"):
        git(repo, "init", "-q", name)
    commit(repo / "full", {"f": "1"})
    assert commits.commit_leftovers(open_checkout(repo), "x", {}, lambda: ME) is None
    (repo / "mine").write_text("x")
    assert commits.commit_leftovers(open_checkout(repo), "x", {}, lambda: ME)
    assert git(repo, "ls-tree", "-r", "--name-only", "HEAD").split() == ["README.md", "mine", "src/a.py", "src/b.py"]


def test_an_unresolved_conflict_is_not_committed(repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "side")
    commit(repo, {"src/a.py": "side\n"})
    git(repo, "checkout", "-q", "main")
    commit(repo, {"src/a.py": "main\n"})
    git(repo, "merge", "side", check=False)
    with pytest.raises(Conflict) as caught:
        commits.commit_leftovers(open_checkout(repo), "x", {}, lambda: ME)
    assert caught.value.details["paths"] == ["src/a.py"]
