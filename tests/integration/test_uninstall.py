"""`corral uninstall`: everything goes but what somebody may still want."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psutil

from corral.faces.cli.project.claude_settings import MARK
from tests.conftest import commit, git
from tests.integration.claude_settings import settings_of
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put


def test_uninstall_takes_everything_away_keeps_what_was_saved_and_lets_it_be_prepared_again(house: Coordinated) -> None:
    house.carry_out("hello", "echo hello > hello.txt")
    made = Path(house.json("worktree", "create", "mine")["path"])
    (made / "half.txt").write_text("half")
    house.run("worktree", "remove", "mine")
    (saved,) = house.json("worktree", "recover")
    pid = house.running_pid()
    assert "refs/notes/corral" in house.run("uninstall", "--yes").stdout
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    assert git(house.root, "status", "--porcelain", "--ignored") == ""
    assert not (house.root / ".corral").exists()
    assert git(house.root, "show", f"{saved['ref']}:half.txt") == "half"
    assert len(git(house.root, "worktree", "list").splitlines()) == 1
    assert not (house.root / ".git" / "worktrees").exists() or not list((house.root / ".git" / "worktrees").iterdir())
    assert [item.name for item in (house.root / ".git").iterdir() if "corral" in item.name] == []
    assert git(house.root, "fsck", "--no-dangling") == ""
    assert house.run("uninstall", "--yes", check=False).returncode == 3

    house.run("init", "--yes", "--no-check", "--verify", "true")  # it can be prepared again
    house.carry_out("hello", "echo again > again.txt")
    assert (house.root / "again.txt").is_file()


def test_uninstall_refuses_and_does_nothing_while_work_is_open_and_keeps_what_is_on_a_branch(
    house: Coordinated,
) -> None:
    task = house.submit("long", "sleep 600")
    eventually(lambda: house.json("task", "detail", task)["status"] == "running")
    done = house.run("uninstall", "--yes", "--json", check=False)
    assert done.returncode == 4
    error = json.loads(done.stderr)["error"]
    assert error["name"] == "work_at_risk"
    assert any(task in risk["what"] for risk in error["details"]["at_risk"])
    assert house.json("task", "detail", task)["status"] == "running"
    assert MARK in settings_of(house.root).read_text()
    house.run("task", "cancel", task)
    house.run("wait", task, "--timeout", "30", check=False)

    made = Path(house.json("worktree", "create", "half")["path"])
    (made / "half.txt").write_text("half")
    done = house.run("uninstall", "--yes", check=False)
    assert done.returncode == 4
    assert "half" in done.stderr
    assert (made / "half.txt").read_text() == "half"
    house.run("worktree", "remove", "half")

    (house.root / "README.md").write_text("mine\n")
    clash = house.submit("clash", "echo theirs > README.md")
    eventually(lambda: any(merge["state"] == "held" for merge in house.json("merge", "list")))
    assert house.run("uninstall", "--yes", check=False).returncode == 4
    assert (house.root / ".corral" / "corral.db").is_file()
    (house.root / "README.md").write_text("hello\n")
    house.run("wait", clash, "--timeout", "60")

    whole = house.json("worktree", "create", "whole")
    sha = commit(Path(whole["path"]), {"done.txt": "done\n"})
    house.run("uninstall", "--yes")
    assert (house.root / "README.md").read_text() == "theirs\n"
    assert git(house.root, "rev-parse", whole["branch"]) == sha
    assert not Path(whole["path"]).exists()


def test_uninstall_leaves_no_verification_worktree_where_the_target_has_another_name_now(house: Coordinated) -> None:
    house.carry_out("hello", "echo hello > hello.txt")
    git(house.root, "branch", "-m", "main", "trunk")
    assert len(git(house.root, "worktree", "list").splitlines()) == 2
    house.run("uninstall", "--yes")
    assert len(git(house.root, "worktree", "list").splitlines()) == 1


def test_worktrees_of_the_users_own_are_never_touched(house: Coordinated, tmp_path: Path) -> None:
    own = tmp_path / "own"
    git(house.root, "worktree", "add", "-q", str(own), "-b", "own")
    (own / "half.txt").write_text("half")
    away = tmp_path / "on a stick"
    git(house.root, "worktree", "add", "-q", str(away), "-b", "away")
    away.rename(tmp_path / "unplugged")
    house.carry_out("hello", "echo hello > hello.txt")
    assert house.worktrees_in_use() == []
    assert house.run("worktree", "remove", "own", check=False).returncode == 3
    house.run("uninstall", "--yes")
    assert (own / "half.txt").read_text() == "half"
    listed = git(house.root, "worktree", "list")
    assert str(own) in listed and str(away) in listed


def test_a_worktrees_root_outside_is_emptied_and_nothing_else_of_it(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere"
    put(outside / "mine.txt", "mine")
    house = coordinate(config=f"worktrees: {{root: {outside}}}")
    house.carry_out("hello", "echo hello > hello.txt")
    house.run("worktree", "create", "there")
    assert (outside / "there" / "README.md").is_file()
    own = house.root / ".corral/worktrees/own"
    git(house.root, "worktree", "add", "-q", "-b", "own", str(own))
    put(own / "half.txt", "half")
    put(house.root / ".corral/state/notes.md", "mine")
    house.run("uninstall", "--yes")
    assert [item.name for item in outside.iterdir()] == ["mine.txt"]
    assert (own / "half.txt").read_text() == "half", "in Corral's folder, but no worktree of Corral's"
    assert len(git(house.root, "worktree", "list").splitlines()) == 2
    assert (house.root / ".corral/state/notes.md").is_file()
    assert house.run("uninstall", "--yes", check=False).returncode == 3
