"""Worktrees of tasks and of verification stand beside the repository: nothing of a person's checkout is above them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, git, verified_in, worktrees_in, worktrees_of
from tests.support.coordinated import Coordinated, eventually

SEARCHES_UPWARD = """
import os, sys
here = os.getcwd()
while not os.path.exists(os.path.join(here, "settings.txt")):
    if here == os.path.dirname(here):
        sys.exit("no settings.txt")
    here = os.path.dirname(here)
print("1 passed")
"""


@pytest.fixture
def searching(make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]) -> Coordinated:
    """A project whose test finds its settings as npm, pytest or Cargo do: in this folder or in one above."""
    files = {"settings.txt": "x\n", "search.py": SEARCHES_UPWARD}
    return coordinate(make_repo("shop", files), verify=("python3 search.py",))


def _checks(house: Coordinated, name: str) -> list[dict[str, Any]]:
    return [check for check in house.json("doctor", check=False) if check["check"] == name]


def test_a_candidate_without_its_settings_is_red_though_the_checkout_has_them(searching: Coordinated) -> None:
    searching.carry_out("removes", "git rm -q settings.txt", check=False)
    (merge,) = searching.json("merge", "list")
    assert merge["state"] == "failed" and "no settings.txt" in merge["reason"]
    searching.carry_out("innocent", "echo x > x.txt")
    assert git(searching.root, "show", "main:x.txt") == "x"


def test_a_suite_that_fails_below_hidden_folders_is_green(coordinate: Callable[..., Coordinated]) -> None:
    refuses_hidden = "! pwd | grep -q '/[.]'"
    house = coordinate(verify=(refuses_hidden,))
    house.carry_out("works", f"{refuses_hidden} && echo x > x.txt")
    assert git(house.root, "show", "main:x.txt") == "x"
    assert not (house.root / ".corral" / "worktrees").exists() and not (house.root / ".corral" / "verify").exists()


def test_init_and_doctor_say_where_and_what_is_found_above(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    house = Coordinated(make_repo("shop"))
    above = [house.root.parent / "package.json", Path(os.environ["HOME"]) / "package.json"]
    for file in above:
        file.write_text("{}")
    try:
        shown = house.run("init", "--yes", "--no-check", "--verify", "test -e README.md").stdout
        assert f"will stand in {worktrees_of(house.root)}." in shown and str(above[0]) in shown
        where, warning = _checks(house, "worktrees")
        assert str(worktrees_of(house.root)) in where["message"]
        assert warning["status"] == "warning" and str(above[0]) in warning["message"]
        assert "worktrees.root" in warning["remedy"]
        needs = house.json("status")["needs_you"]
        assert [need["remedy"] for need in needs if need["kind"] == "place_of_worktrees"] == [warning["remedy"]]
        house.carry_out("lands", "echo x > x.txt")
        (merge,) = house.json("merge", "list")
        assert house.json("merge", "detail", merge["merge_id"])["receipt"]["note"] == f"above its worktree: {above[0]}"
        above[1].unlink()
        (where,) = _checks(house, "worktrees")
        home = Path(os.environ["HOME"]) / "corral-worktrees"
        assert f"in {home}/shop-" in where["message"] and str(above[0]) in where["message"]
        assert "place_of_worktrees" not in [need["kind"] for need in house.json("status")["needs_you"]]
    finally:
        house.stop()
        for file in above:
            file.unlink(missing_ok=True)


def test_uninstall_takes_the_folder_away_and_keeps_what_is_somebodys(searching: Coordinated) -> None:
    searching.carry_out("lands", "echo x > x.txt")
    assert verified_in(searching.root).exists()
    (worktrees_of(searching.root) / "notes.txt").write_text("a person's\n")
    shown = searching.run("uninstall", "--yes").stdout
    assert f"{worktrees_of(searching.root)} stays" in shown
    assert worktrees_in(searching.root) == [worktrees_of(searching.root) / "notes.txt"]
    (worktrees_of(searching.root) / "notes.txt").unlink()
    searching.run("init", "--yes")
    searching.run("uninstall", "--yes")
    assert not worktrees_of(searching.root).exists()


def test_after_a_move_old_worktrees_stay_and_new_ones_are_beside_the_new_place(
    coordinate: Callable[..., Coordinated], at: Callable[[Path], Coordinated], tmp_path: Path
) -> None:
    house = coordinate(verify=("test -e README.md",))
    old = Path(house.json("worktree", "create", "mine")["path"])
    (old / "unsaved.txt").write_text("x\n")
    house.stop()
    place = shutil.move(house.root, tmp_path / "moved")
    moved = at(Path(place))
    (row,) = moved.json("worktree", "list")
    assert row["path"] == str(old) and git(old, "status", "--porcelain") == "?? unsaved.txt"
    new = Path(moved.json("worktree", "create", "other")["path"])
    assert new == worktrees_of(moved.root) / "other"
    moved.run("worktree", "remove", "mine")
    eventually(lambda: not old.parent.exists())


def test_a_folder_that_moves_with_its_repository_goes_on(
    coordinate: Callable[..., Coordinated], at: Callable[[Path], Coordinated], tmp_path: Path
) -> None:
    house = coordinate(verify=("test -e README.md",))
    old = Path(house.json("worktree", "create", "mine")["path"])
    commit(old, {"x.txt": "x\n"})
    house.stop()
    (tmp_path / "new").mkdir()
    for path in (house.root, worktrees_of(house.root)):
        shutil.move(path, tmp_path / "new" / path.name)
    moved = at(tmp_path / "new" / house.root.name)
    (row,) = moved.json("worktree", "list")
    assert Path(row["path"]) == worktrees_of(moved.root) / "mine"
    assert git(Path(row["path"]), "log", "-1", "--format=%h", "--", "x.txt")
    assert moved.json("worktree", "remove", "mine")["removed"]


@pytest.mark.req("X5")
def test_a_folder_put_in_its_place_is_not_touched(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    house = coordinate(verify=("test -e README.md",))
    place = Path(house.json("worktree", "create", "mine")["path"])
    shutil.move(worktrees_of(house.root), tmp_path / "aside")
    shutil.copytree(tmp_path / "aside", worktrees_of(house.root))
    worktrees_of(house.root).chmod(0o700)
    refused = house.run("worktree", "remove", "mine", check=False)
    assert refused.returncode == 4 and "is not the folder of worktrees that Corral made" in refused.stderr
    assert (place / "README.md").exists() and (tmp_path / "aside" / "mine" / "README.md").exists()
    house.carry_out("lands", "echo x > x.txt")
    assert git(house.root, "show", "main:x.txt") == "x"


def test_work_of_a_database_that_is_gone_is_told_with_what_lands_it(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    tree = Path(house.json("worktree", "create", "left")["path"])
    house.run("daemon", "restart")
    kinds = [need["kind"] for need in house.json("status")["needs_you"]]
    assert "unknown_worktree" not in kinds
    commit(tree, {"left.txt": "x\n"})
    house.run("daemon", "stop")
    for file in (house.root / ".corral").glob("corral.db*"):
        file.unlink()
    house.run("daemon", "start")
    (need,) = [need for need in house.json("status")["needs_you"] if need["kind"] == "unknown_worktree"]
    assert str(tree) in need["what"] and "corral merge submit corral/left" in need["remedy"]
    house.run("merge", "submit", "corral/left")
    house.run("wait", "--all")
    assert git(house.root, "show", "main:left.txt") == "x"
    git(house.root, "worktree", "remove", str(tree))
    assert "unknown_worktree" not in [need["kind"] for need in house.json("status")["needs_you"]]
