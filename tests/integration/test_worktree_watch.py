"""The watch of what git writes about worktrees: it comes back with its folder, and says where the system refuses it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest
from watchdog.observers import Observer

from corral.config.paths import find_project
from corral.core.needs import Fault, Need
from corral.daemon import worktree_watch
from corral.daemon.worktree_watch import WorktreeWatch
from tests.conftest import git
from tests.support.coordinated import eventually

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


class World:
    """A watch that is driven by hand, and what it told."""

    def __init__(self, root: Path) -> None:
        self.root, self.heard, self.faults = root, list[tuple[str, str]](), dict[str, Need]()
        fault, project = Fault(self.faults, "watch", "unwatched_worktrees"), find_project(root, initialised=False)
        self.watch = WorktreeWatch(project, lambda *what: self.heard.append(what), fault, lambda: NOW)

    def add(self) -> None:
        git(self.root, "worktree", "add", "-q", "--detach", str(self.root.with_name("n1")))


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo)
    made.add()
    yield made
    made.watch.stop()


def test_it_follows_a_folder_that_was_made_anew_with_the_same_inode(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worktree_watch, "folder_id", lambda _folder: "1:1")
    (world.root / ".claude" / "worktrees").mkdir(parents=True)
    world.watch.follow()
    git(world.root, "worktree", "remove", str(world.root.with_name("n1")))
    eventually(lambda: world.heard.count(("", "")) == 2)  # the entry, and the folder of them all
    world.add()
    world.watch.follow()
    world.heard.clear()
    git(world.root.with_name("n1"), "commit", "-q", "--allow-empty", "-m", "x")
    assert eventually(lambda: ("n1", "log") in world.heard)


def test_a_refusal_of_the_system_is_shown_until_it_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, "inotify watch limit reached")

    with monkeypatch.context() as patched:
        patched.setattr(Observer, "schedule", refuse)
        world.watch.follow()
    (need,) = world.faults.values()
    assert "inotify watch limit reached" in need.what and "max_user_watches" in need.remedy
    world.watch.follow()
    assert world.faults == {}
