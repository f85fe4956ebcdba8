"""The warm pool as people see it: its command, the list of worktrees, removal, a moved repository, uninstalling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import git, worktrees_in, worktrees_of
from tests.support.coordinated import Coordinated, eventually

SMALL_TREES = "worktrees: {pool_min_files: 0}"


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    return coordinate(config=SMALL_TREES)


def keep_one(house: Coordinated) -> str:
    house.carry_out("hello", "echo hello > hello.txt")
    (row,) = eventually(lambda: house.json("worktree", "pool")["worktrees"])
    return str(row["name"])


def test_the_pool_is_shown_used_trimmed_by_a_changed_setting_and_removed_by_uninstalling(house: Coordinated) -> None:
    assert "No worktree is kept." in house.run("worktree", "pool").stdout
    name = keep_one(house)
    shown = house.run("worktree", "pool").stdout
    assert name in shown and "bounds: 1 of 4 worktrees" in shown and "1 kept, 0 used" in shown
    assert "not used: 1 × none was kept" in shown
    (row,) = house.json("worktree", "list")
    assert (row["name"], row["state"], row["branch"]) == (name, "pooled", None)
    assert house.json("status")["needs_you"] == []
    house.run("worktree", "remove", name)
    assert house.json("worktree", "list") == [] and not Path(row["path"]).exists()
    assert house.json("worktree", "pool")["worktrees"] == []

    # A person gets a kept one, and recovers what they left in one.
    keep_one(house)
    made = house.json("worktree", "create", "mine")
    assert house.json("worktree", "pool")["used"] == 1
    assert git(Path(made["path"]), "branch", "--show-current") == "corral/mine"
    assert git(Path(made["path"]), "rev-parse", "HEAD") == git(house.root, "rev-parse", "main")
    house.run("worktree", "remove", "mine")
    name = keep_one(house)
    (worktrees_of(house.root) / name / "note.txt").write_text("a person's\n")
    house.run("worktree", "remove", name)
    back = house.json("worktree", "recover", name)
    assert (Path(back["path"]) / "note.txt").read_text() == "a person's\n"
    house.run("worktree", "remove", back["name"])

    # A changed setting takes effect at once.
    keep_one(house)
    config = house.root / ".corral" / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("pool_min_files", "pool_size"))
    eventually(lambda: house.json("worktree", "list") == [])
    assert worktrees_in(house.root) == []
    config.write_text(text)
    eventually(lambda: house.json("worktree", "pool")["most"] == 4)

    keep_one(house)
    house.run("uninstall", "--yes")
    assert len(git(house.root, "worktree", "list").splitlines()) == 1
    assert [entry.name for entry in (house.root / ".corral").iterdir()] == ["config.yaml.kept"], "no commit has it"


def test_the_pool_of_a_moved_repository_is_used_at_its_new_place(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=SMALL_TREES)
    name = keep_one(house)
    house.stop()
    moved = Coordinated(house.root.rename(tmp_path / "moved"))
    worktrees_of(house.root).rename(worktrees_of(moved.root))
    try:
        (row,) = moved.json("worktree", "list")
        assert (row["name"], row["path"]) == (name, str(worktrees_of(moved.root) / name))
        moved.carry_out("again", "echo again > again.txt")
        assert eventually(lambda: len(moved.json("worktree", "pool")["worktrees"])) == 1
        assert moved.worktrees_in_use() == []
    finally:
        moved.stop()
