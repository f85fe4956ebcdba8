"""Salvage: the whole state, as one commit, without a trace in the worktree."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from corral.core.errors import Conflict, NotFound
from corral.git.checkouts import salvage
from corral.git.process.command import open_checkout, open_repository
from tests.conftest import commit, git

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)


def show(repo: Path, spec: str) -> str:
    return git(repo, "show", spec)


@pytest.mark.req("G12")
def test_everything_but_the_ignored_is_in_it_and_the_worktree_is_as_before(repo: Path) -> None:
    commit(repo, {".gitignore": "*.log\n", "gone": "x"})
    (repo / "src/a.py").write_text("staged\n")
    git(repo, "add", "src/a.py")
    (repo / "src/a.py").write_text("and changed again\n")
    (repo / "gone").unlink()
    (repo / "x.log").write_text("ignored")
    odd = os.fsdecode(b"deep/l\xe9\n")
    (repo / "deep").mkdir()
    (repo / odd).write_text("new")
    (repo / "link").symlink_to("src")
    before = ((repo / ".git/index").read_bytes(), git(repo, "status", "--porcelain"), git(repo, "rev-parse", "HEAD"))
    me = open_checkout(repo)
    saved = salvage.snapshot(me, "w1", AT, reason="session\nended")
    assert saved and saved.files == sorted(["src/a.py", "gone", odd, "link"])
    assert saved.ref == "refs/corral/salvage/w1/20260102T030405678901Z"
    assert before == (
        (repo / ".git/index").read_bytes(),
        git(repo, "status", "--porcelain"),
        git(repo, "rev-parse", "HEAD"),
    )
    assert show(repo, f"{saved.sha}:src/a.py") == "and changed again"
    assert show(repo, f"{saved.sha}^2:src/a.py") == "staged", "the index held something else"
    assert git(repo, "rev-parse", f"{saved.sha}^1") == before[2] == saved.base_sha
    assert me.run("ls-tree", "-r", "-z", "--name-only", saved.sha).text.split("\0")[:-1] == [
        ".gitignore", "README.md", odd, "link", "src/a.py", "src/b.py",
    ]  # fmt: skip
    (row,) = salvage.listing(open_repository(repo / ".git"), "w1")
    assert (row.name, row.ref, row.sha, row.reason, row.files) == (
        "w1",
        saved.ref,
        saved.sha,
        "session ended",
        saved.files,
    )
    assert row.at == AT.replace(microsecond=0)


def test_nothing_is_made_where_refs_hold_all_of_it(repo: Path) -> None:
    me = open_checkout(repo)
    assert salvage.snapshot(me, "w1", AT, reason="x") is None
    (repo / "only").write_text("excluded")
    assert salvage.snapshot(me, "w1", AT, reason="x", exclude=["only"]) is None
    assert salvage.snapshot(me, "w1", AT, reason="x", exclude=["only"], always=True)
    git(repo, "checkout", "-q", "--detach")
    assert salvage.snapshot(me, "w1", AT, reason="x", exclude=["only"]) is None
    lost = commit(repo, {"x": "1"})
    saved = salvage.snapshot(me, "w1", AT, reason="x", exclude=["only"])
    assert saved and saved.base_sha == lost and saved.files == []


def test_two_snapshots_of_one_instant_are_both_kept(repo: Path) -> None:
    me, refs = open_checkout(repo), set()
    for text in ("1", "2", "2"):
        (repo / "new").write_text(text)
        saved = salvage.snapshot(me, "w1", AT, reason="x")
        assert saved
        refs.add(saved.ref)
    assert len(refs) == 2
    (repo / "new").write_text("3")
    assert salvage.snapshot(me, "w2", AT + timedelta(seconds=1), reason="y")
    assert [s.name for s in salvage.listing(me)] == ["w1", "w1", "w2"]


def test_a_conflict_in_progress_and_a_first_commit_that_never_was(repo: Path, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "-b", "side")
    commit(repo, {"src/a.py": "side\n"})
    git(repo, "checkout", "-q", "main")
    commit(repo, {"src/a.py": "main\n"})
    git(repo, "merge", "side", check=False)
    saved = salvage.snapshot(open_checkout(repo), "w1", AT, reason="x")
    assert saved and "<<<<<<<" in show(repo, f"{saved.sha}:src/a.py")
    assert "UU src/a.py" in git(repo, "status", "--porcelain")
    git(tmp_path, "init", "-q", "new")
    (tmp_path / "new/f").write_text("x")
    fresh = open_checkout(tmp_path / "new")
    saved = salvage.snapshot(fresh, "w1", AT, reason="x")
    assert saved and saved.base_sha == "" and show(tmp_path / "new", f"{saved.sha}:f") == "x"
    assert [s.files for s in salvage.listing(fresh)] == [["f"]]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_does_not_lose_the_others(repo: Path) -> None:
    for name in ("a", "secret", "z"):
        (repo / name).write_text(name)
    (repo / "secret").chmod(0)
    saved = salvage.snapshot(open_checkout(repo), "w1", AT, reason="x")
    assert saved and {show(repo, f"{saved.sha}:{name}") for name in "az"} == {"a", "z"}
    assert "secret" in show(repo, f"{saved.sha}")


def test_a_special_file_does_not_stop_it(repo: Path) -> None:
    os.mkfifo(repo / "pipe")
    (repo / "z").write_text("z")
    saved = salvage.snapshot(open_checkout(repo), "w1", AT, reason="x")
    assert saved and show(repo, f"{saved.sha}:z") == "z"


def test_salvaged_work_comes_back_on_a_branch(repo: Path, tmp_path: Path) -> None:
    (repo / "new").write_text("work")
    me = open_checkout(repo)
    saved = salvage.snapshot(me, "w1", AT, reason="x")
    assert saved
    salvage.restore(me, saved.ref, tmp_path / "back", "corral/back")
    assert (tmp_path / "back/new").read_text() == "work" and git(tmp_path / "back", "status", "--porcelain") == ""
    assert git(tmp_path / "back", "branch", "--show-current") == "corral/back"
    with pytest.raises(Conflict):
        salvage.restore(me, saved.ref, tmp_path / "back2", "corral/back")
    for ref in ("refs/corral/salvage/none", "refs/heads/main", "--output=x"):
        with pytest.raises(NotFound):
            salvage.restore(me, ref, tmp_path / "back3", "other")
    assert not (tmp_path / "back2").exists() and not (tmp_path / "back3").exists()


@pytest.mark.req("G6")
def test_salvage_survives_the_hardest_garbage_collection(repo: Path) -> None:
    (repo / "new").write_text("work")
    saved = salvage.snapshot(open_checkout(repo), "w1", AT, reason="x")
    assert saved
    subprocess.run(["git", "gc", "-q", "--prune=now"], cwd=repo, check=True)
    assert show(repo, f"{saved.ref}:new") == "work"
