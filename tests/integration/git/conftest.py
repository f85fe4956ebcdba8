"""A repository as git sees it, and a place for a worktree of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.git.process.command import Git, open_repository


@pytest.fixture
def me(repo: Path) -> Git:
    return open_repository(repo / ".git")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "wts" / "w 1 ü"
