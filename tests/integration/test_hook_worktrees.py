"""Worktrees that hooks/hook.py gives the client: the daemon's, or plain git's where there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundle.listener import coordinate, listening
from tests.conftest import commit, commit_on, git
from tests.integration.hooking import fire, silent
from tests.support.files import put


def made(done: subprocess.CompletedProcess[bytes]) -> Path:
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.decode().splitlines()
    return Path(line)


def test_the_daemons_worktree_is_the_one_that_is_used(repo: Path, tmp_path: Path) -> None:
    reply = {
        "hookSpecificOutput": {"hookEventName": "WorktreeCreate", "worktreePath": os.fspath(tmp_path / "wörk tree")}
    }
    with listening(coordinate(repo), lambda *_: reply):
        assert made(fire(repo, "WorktreeCreate", name="x")) == tmp_path / "wörk tree"
    assert "worktree-x" not in git(repo, "branch")


def test_where_nothing_is_coordinated_plain_git_makes_one(repo: Path) -> None:
    path = made(fire(repo / "src", "WorktreeCreate", name="feature/x"))
    assert path == repo / ".claude" / "worktrees" / "feature+x"
    assert git(path, "branch", "--show-current") == "worktree-feature+x"
    assert (path / "src" / "a.py").exists()
    assert made(fire(repo, "WorktreeCreate", name="feature/x")) == path  # as the client does: a second one is the first


@pytest.mark.parametrize(("answer", "why"), [({}, "corral doctor"), ({"systemMessage": "x-2 is free"}, "x-2 is free")])
def test_where_the_daemon_gives_none_there_is_no_worktree_beside_its_own(
    repo: Path, answer: dict[str, str], why: str
) -> None:
    with listening(coordinate(repo), lambda _event, _body: answer):
        done = fire(repo, "WorktreeCreate", name="x")
    assert (done.returncode, done.stdout) == (3, b"") and why in done.stderr.decode()
    assert not (repo / ".claude").exists()


def test_a_git_environment_that_was_inherited_does_not_lead_to_another_repository(
    repo: Path, make_repo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo("other")
    monkeypatch.setenv("GIT_DIR", os.fspath(other / ".git"))
    path = made(fire(repo, "WorktreeCreate", name="x"))
    monkeypatch.delenv("GIT_DIR")
    assert "worktree-x" in git(repo, "branch")
    assert "worktree-x" not in git(other, "branch")
    assert path.parent.parent.parent == repo


def test_a_plain_worktree_starts_from_what_is_published(repo: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(repo, "clone", "-q", ".", os.fspath(clone))
    published = git(clone, "rev-parse", "HEAD")
    commit(clone, {"local.txt": "x"})
    path = made(fire(clone, "WorktreeCreate", name="x"))
    assert git(path, "rev-parse", "HEAD") == published


def test_a_branch_that_exists_is_used_and_not_reset(repo: Path) -> None:
    mine = commit_on(repo, "worktree-x", {"mine.txt": "x"})
    path = made(fire(repo, "WorktreeCreate", name="x"))
    assert git(path, "rev-parse", "HEAD") == mine


def test_a_worktree_that_cannot_be_made_is_an_error_with_gits_own_words(repo: Path) -> None:
    put(repo / ".claude" / "worktrees", "in the way")
    done = fire(repo, "WorktreeCreate", name="x")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"fatal" in done.stderr


def test_a_plain_worktree_is_removed_only_when_nothing_is_lost(repo: Path) -> None:
    path = made(fire(repo, "WorktreeCreate", name="x"))
    (path / "unsaved.txt").write_text("work")
    assert fire(path, "WorktreeRemove", worktree_path=os.fspath(path)).returncode != 0
    assert (path / "unsaved.txt").exists()
    (path / "unsaved.txt").unlink()
    assert fire(path, "WorktreeRemove", worktree_path=os.fspath(path)).returncode == 0
    assert not path.exists()
    assert "worktree-x" in git(repo, "branch")


def test_a_coordinated_worktree_is_removed_by_the_daemon_alone(repo: Path) -> None:
    path = made(fire(repo, "WorktreeCreate", name="x"))
    coordinate(repo)
    assert silent(fire(path, "WorktreeRemove", worktree_path=os.fspath(path)))
    assert path.exists()
