"""Worktrees that a test makes, and what is there after it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from corral.git.checkouts import worktrees
from corral.git.process.command import Git
from tests.conftest import git

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)


def head(repo: Path) -> str:
    return git(repo, "rev-parse", "HEAD")


def add(me: Git, repo: Path, place: Path) -> Path:
    worktrees.add(me, place, "corral/w1", head(repo))
    return place


def branches(repo: Path) -> list[str]:
    return git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()


def nothing_stays(repo: Path, place: Path) -> None:
    assert not place.exists() and branches(repo) == ["main"]
    assert len(git(repo, "worktree", "list").splitlines()) == 1
    assert not list((repo / ".git/worktrees").glob("*")) if (repo / ".git/worktrees").exists() else True
