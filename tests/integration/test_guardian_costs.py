"""What the guardian does at each turn's end, counted; and what it says where it cannot save."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from corral.config.model import Settings
from corral.config.paths import find_project
from corral.coordination.edits.runtime_state import RuntimeState
from corral.coordination.sessions import registry
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions
from corral.core.errors import DatabaseUnavailable
from corral.core.instants import iso
from corral.core.needs import Need
from corral.git.checkouts import private, salvage
from corral.git.process import process
from corral.git.process.command import open_repository
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.guardian.guardian import MOST_REPLACED, Guardian
from tests.conftest import commit, git

THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)


class World:
    """A guardian that is driven by hand, and a worktree."""

    def __init__(self, root: Path) -> None:
        commit(root, {".gitignore": "*.db\n.corral/\n.claude/\n", "a.txt": "1\n"})
        project = find_project(root, initialised=False)
        project.home.mkdir(exist_ok=True)
        open_schema(project.database)
        self.db, self.now, self.faults = Database(project.database), THEN, dict[str, Need]()
        self.repo = open_repository(project.common_dir)
        settings = Settings()
        context = WorktreeContext(self.db, project, self.repo, lambda: settings, self.tick, "world")
        self.nudges: list[None] = []
        self.guardian = Guardian(context, RuntimeState(), self.faults, lambda: self.nudges.append(None))
        self.top = root / ".claude" / "worktrees" / "n1"
        git(root, "worktree", "add", "-q", "-b", "n1", str(self.top))

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def saved(self) -> set[str]:
        """The refs of what is saved of the worktree."""
        kept = {salvaged.ref for salvaged in salvage.listing(self.repo, "n1")}
        return kept | {copy.ref for copy in private.listing(self.repo, "n1")}

    def turn(self) -> None:
        self.guardian.ended(str(self.top), "a turn ended")
        self.guardian.step(self.now)


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo)
    yield made
    made.db.close()


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands of git that were run."""
    commands: list[str] = []
    execute = process.execute

    def counted(argv: list[str], *how: Any, **more: Any) -> Any:
        commands.append(" ".join(argv))
        return execute(argv, *how, **more)

    monkeypatch.setattr(process, "execute", counted)
    return commands


def test_a_turn_that_changed_nothing_costs_one_git_and_no_turn_costs_none(world: World, ran: list[str]) -> None:
    (world.top / "a.txt").write_text("2\n")
    (world.top / "my.db").write_text("1")
    world.turn()
    assert len(ran) > 1 and private.listing(world.repo, "n1")
    ran.clear()
    world.turn()
    assert len(ran) == 1
    ran.clear()
    world.guardian.step(world.now)
    assert ran == []


def test_where_nothing_can_be_stored_a_person_is_told_and_the_caller_goes_on(world: World) -> None:
    (world.top / "a.txt").write_text("2\n")
    (world.top / "my.db").write_text("1")
    objects = world.repo.common_dir / "objects"
    away = objects.with_name("away")
    objects.rename(away)
    objects.write_text("in the way")
    saved = world.guardian.before_release(world.top, "its session leaves it")
    assert saved.problem and saved.ref is None
    (need,) = world.faults.values()
    assert str(world.top) in need.what and "could not be saved" in need.what
    objects.unlink()
    away.rename(objects)
    again = world.guardian.before_release(world.top, "its session leaves it")
    assert again.problem is None and again.ref and again.ignored_files == 1
    assert world.faults == {}


def test_what_can_be_saved_is_saved_and_the_rest_is_said(world: World) -> None:
    (world.top / "a.txt").write_text("2\n")
    (world.top / "my.db").write_text("1")
    (world.repo.common_dir / private.FOLDER).write_text("in the way")
    saved = world.guardian.before_release(world.top, "its session leaves it")
    assert saved.ref and saved.problem and private.FOLDER in saved.problem
    assert len(world.faults) == 1


def test_copies_that_lack_a_file_are_kept_and_the_oldest_become_one(world: World) -> None:
    for number in range(MOST_REPLACED + 4):
        for old in world.top.glob("*.db"):
            old.unlink()
        (world.top / f"{number}.db").write_text(str(number))
        world.turn()
    kept = private.listing(world.repo, "n1")
    assert [copy.files for copy in kept][-1] == [f"{MOST_REPLACED + 3}.db"]
    assert len(kept) == MOST_REPLACED + 1
    every = {f"{number}.db" for number in range(MOST_REPLACED + 4)}
    assert {path for copy in kept for path in copy.files} == every, "the oldest become one, and nothing goes"
    (world.top / "more.db").write_text("x")
    world.turn()
    assert len(private.listing(world.repo, "n1")) == MOST_REPLACED + 1, (
        "one that has everything takes the place of the last"
    )


def test_a_worktree_that_is_gone_in_the_middle_is_nobodys_error(world: World) -> None:
    world.guardian.ended(str(world.top), "a turn ended")
    shutil.rmtree(world.top)
    world.guardian.step(world.now)
    assert world.guardian.before_release(world.top, "x").ref is None
    assert world.faults == {}


@pytest.mark.req("G12")
def test_a_worktree_made_again_under_a_name_takes_nothing_from_the_former(world: World, repo: Path) -> None:
    def work(text: str) -> None:
        (world.top / "a.txt").write_text(text)
        (world.top / "my.db").write_text(text)
        world.guardian.before_release(world.top, "its session leaves it")

    work("former")
    former = world.saved()
    git(repo, "worktree", "remove", "--force", str(world.top))
    git(repo, "worktree", "add", "-q", str(world.top), "n1")
    work("latter")
    assert len(former) == 2 and former < world.saved()


def test_what_a_removed_file_held_stays_and_removals_alone_add_nothing(world: World) -> None:
    (world.top / "a.txt").write_text("edited\n")
    world.turn()
    former = world.saved()
    (world.top / "a.txt").unlink()
    world.turn()
    (world.top / "b.txt").write_text("1\n")
    world.turn()
    assert former < world.saved() and len(world.saved()) == 2


@pytest.mark.req("G12")
def test_a_state_that_was_taken_while_the_worktree_was_being_deleted_hides_none_before_it(world: World) -> None:
    (world.top / "a.txt").write_text("edited\n")
    (world.top / "b.txt").write_text("new\n")
    world.turn()
    whole = world.saved()
    (world.top / "a.txt").unlink()
    world.turn()
    assert len(world.saved()) == 2
    git(world.top, "worktree", "remove", "--force", str(world.top))
    world.guardian.changed("", "")
    world.guardian.step(world.now)
    assert world.saved() == whole


def test_a_state_that_head_left_in_another_way_than_by_a_commit_stays(world: World) -> None:
    def edit_after_a_reset() -> None:
        git(world.top, "reset", "-q", "--hard")
        (world.top / "a.txt").write_text(f"edited at {world.tick()}\n")

    edit_after_a_reset()
    world.turn()
    first = world.saved()
    edit_after_a_reset()
    world.guardian.before_release(world.top, "its session leaves it")
    second = world.saved()
    edit_after_a_reset()
    world.turn()
    assert first < second < world.saved()


def test_a_notice_that_cannot_be_told_stops_no_save_and_is_told_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival = Arrival("s-1", cwd=str(world.top), worktree=str(world.top))
    world.db.write(lambda conn: registry.register(conn, arrival, THEN))
    world.turn()
    git(world.top, "reset", "-q", "--hard", git(world.top, "commit-tree", "-m", "x", "HEAD^{tree}"))
    (world.top / "a.txt").write_text("2\n")
    world.guardian.changed("n1", "HEAD")
    for function in ("live", "notify"):
        with monkeypatch.context() as patched:
            patched.setattr(sessions, function, Mock(side_effect=DatabaseUnavailable("locked")))
            with pytest.raises(DatabaseUnavailable):
                world.turn() if function == "live" else world.guardian.step(world.now)
        assert world.saved()
    world.guardian.step(world.now)
    (notice,) = world.db.write(lambda conn: sessions.take_notices(conn, "s-1", iso(THEN)))
    assert "HEAD of your worktree" in notice and "is saved" in notice
