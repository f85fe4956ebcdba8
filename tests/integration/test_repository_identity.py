"""A database belongs to one repository: copies begin anew, moved repositories go on, and a person may adopt."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.conftest import commit, git, worktrees_of
from tests.integration.hooking import fire, logged
from tests.support.coordinated import Coordinated, eventually


def copied(source: Path, target: Path) -> Path:
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    return target


def held_task(house: Coordinated, folder: Path, title: str = "long") -> str:
    """A task that counts its runs in ``runs`` and works until ``go`` exists."""
    runs, go = folder / f"{title}-runs", folder / f"{title}-go"
    script = f"echo $$ >> {runs}; while [ ! -e {go} ]; do sleep 0.1; done; echo done > {title}.txt"
    task = house.submit(title, script)
    eventually(lambda: runs.exists() and runs.read_text().strip())
    return task


def needs(house: Coordinated) -> dict[str, dict[str, str]]:
    return {need["kind"]: need for need in house.json("status")["needs_you"]}


def pointers(root: Path) -> dict[str, str]:
    """Both files of every linked worktree of a repository, and of every folder of Corral's."""
    files = [
        *root.glob(".git/worktrees/*/gitdir"),
        *worktrees_of(root).glob("*/.git"),
        *worktrees_of(root).glob("verification-*/*/.git"),
    ]
    return {str(file): file.read_text() for file in files}


@pytest.mark.req("X2")
def test_a_copy_made_of_hard_links_has_a_daemon_of_its_own_and_stops_none_of_the_original(
    house: Coordinated, at: Callable[[Path], Coordinated], tmp_path: Path
) -> None:
    task = held_task(house, tmp_path)
    daemon, worker = house.daemon_pid(), int((tmp_path / "long-runs").read_text())
    subprocess.run(["cp", "-al", str(house.root), str(tmp_path / "copy")], check=True)
    copy = at(tmp_path / "copy")
    assert fire(copy.root, "PreToolUse").stdout == b"" and "another repository's" in logged(copy.root)[-1]
    assert "not running" in copy.run("daemon", "stop").stdout
    refused = copy.run("task", "list", check=False).stderr
    assert "in use by another repository's daemon" in refused and "hard link" in refused
    for file in (copy.root / ".corral").glob("corral.db*"):
        file.unlink()
    assert copy.json("task", "list") == [] and copy.daemon_pid() not in (None, daemon)
    copy.stop()
    assert house.daemon_pid() == daemon and psutil.pid_exists(worker)
    (tmp_path / "long-go").touch()
    assert house.json("wait", task, "--timeout", "60")["done"] is True
    house.stop()
    house.run("daemon", "start")


@pytest.mark.req("X2")
def test_a_copy_of_a_repository_at_work_begins_with_an_empty_queue_and_touches_nothing_of_the_original(
    house: Coordinated, at: Callable[[Path], Coordinated], tmp_path: Path
) -> None:
    task = held_task(house, tmp_path)
    later = house.submit("later", f"echo x >> {tmp_path}/later-runs; echo later > later.txt", "--wait-for", task)
    worker = int((tmp_path / "long-runs").read_text())
    git(house.root, "worktree", "add", "-q", "-b", "aside", str(tmp_path / "linked"))
    before = pointers(house.root)
    copy = at(copied(house.root, tmp_path / "copy"))

    shown = copy.json("status")
    assert sum(shown["tasks"].values()) == 0 and copy.json("task", "list") == []
    need = needs(copy)["foreign_database"]
    (aside,) = (copy.root / ".corral").glob("corral.db.of-*")
    assert str(aside) in need["what"] and f"corral daemon adopt {aside}" in need["remedy"]
    assert "project.database_set_aside" in [event["kind"] for event in shown["recent"]]

    assert copy.json("worktree", "list") == []
    copy.carry_out("own", "echo own > own.txt")
    assert git(copy.root, "show", "main:own.txt") == "own"
    tokens = {(place / ".corral/run/token").read_text() for place in (house.root, copy.root)}
    assert len(tokens) == 2, "whoever may ask the one daemon may not ask the other"
    copy.run("daemon", "restart")
    assert "foreign_database" in needs(copy), "until somebody decides"

    assert psutil.pid_exists(worker) and pointers(house.root) == before
    (tmp_path / "long-go").touch()
    house.run("wait", task, later, "--timeout", "60")
    assert git(house.root, "show", "main:long.txt") == "done"
    for runs in ("long-runs", "later-runs"):
        assert len((tmp_path / runs).read_text().split()) == 1, "each task ran once"


@pytest.mark.req("X2")
def test_a_copy_lands_and_goes_without_touching_a_checkout_of_the_original(
    house: Coordinated, at: Callable[[Path], Coordinated], tmp_path: Path
) -> None:
    first = house.submit("first", "echo first > first.txt")
    house.run("wait", first, "--timeout", "60")  # the original has a verification worktree
    git(house.root, "checkout", "-q", "-b", "elsewhere")
    linked = tmp_path / "linked"
    git(house.root, "worktree", "add", "-q", str(linked), "main")
    (linked / ".claude").mkdir()
    settings = Path(shutil.copy(house.root / ".claude/settings.local.json", linked / ".claude")).read_bytes()
    hook = Path(house.json("guard", "install")["hook"])
    copy = at(copied(house.root, tmp_path / "copy"))
    old = git(linked, "rev-parse", "main")
    tip = commit(linked, {"landed.txt": "it was being landed when the copy was made\n"})
    git(copy.root, "fetch", "-q", str(house.root), tip)
    (copy.root / ".git/worktrees/linked/corral.landing").write_text(f"{old}\0{tip}")
    before, guard = pointers(house.root), hook.read_bytes()
    copy.carry_out("own", "echo own > own.txt")
    assert git(copy.root, "show", "main:own.txt") == "own"
    assert git(house.root, "rev-parse", "main") == tip and pointers(house.root) == before
    assert git(linked, "status", "--porcelain") == ""
    copy.run("uninstall", "--yes")
    assert hook.read_bytes() == guard and not (copy.root / ".git/hooks/pre-commit").exists()
    assert (linked / ".claude/settings.local.json").read_bytes() == settings


@pytest.mark.req("X2")
def test_a_moved_repository_goes_on_with_its_queue_and_its_worktrees(
    house: Coordinated, at: Callable[[Path], Coordinated], tmp_path: Path
) -> None:
    place = Path(house.json("worktree", "create", "keep")["path"])
    (place / "unsaved.txt").write_text("only here\n")
    task = held_task(house, tmp_path)
    later = house.submit("later", "echo later > later.txt", "--wait-for", task)
    linked = tmp_path / "linked"
    git(house.root, "worktree", "add", "-q", "-b", "aside", str(linked))
    theirs = (linked / ".git").read_text()
    worker = psutil.Process(int((tmp_path / "long-runs").read_text()))
    house.kill_daemon()
    moved = at(house.root.rename(tmp_path / "moved"))
    worktrees_of(house.root).rename(worktrees_of(moved.root))
    copied(moved.root, house.root)  # somebody else's repository at the former place
    before = pointers(house.root)

    assert "foreign_database" not in needs(moved)
    assert "project.moved" in [event["kind"] for event in moved.json("status")["recent"]]
    (row,) = [row for row in moved.json("worktree", "list") if row["name"] == "keep"]
    assert Path(row["path"]) == worktrees_of(moved.root) / "keep"
    assert git(Path(row["path"]), "status", "--porcelain") == "?? unsaved.txt"
    assert git(Path(row["path"]), "rev-parse", "--git-common-dir") == str(moved.root / ".git")
    (tmp_path / "long-go").touch()
    moved.run("wait", task, later, "--timeout", "60")
    assert git(moved.root, "show", "main:later.txt") == "later"
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert moved.json("worktree", "remove", "keep")["removed"]
    salvaged = moved.json("worktree", "recover")
    assert "unsaved.txt" in [
        file for saved_work in salvaged if saved_work["name"] == "keep" for file in saved_work["files"]
    ]
    assert (linked / ".git").read_text() == theirs, "a worktree that Corral did not make is the user's to repair"
    assert pointers(house.root) == before


def test_a_person_adopts_what_was_set_aside(
    house: Coordinated, at: Callable[[Path], Coordinated], tmp_path: Path
) -> None:
    place = Path(house.json("worktree", "create", "keep")["path"])
    (place / "unsaved.txt").write_text("only here\n")
    task = held_task(house, tmp_path)
    worker = psutil.Process(int((tmp_path / "long-runs").read_text()))
    before = pointers(house.root)
    copy = at(copied(house.root, tmp_path / "copy"))
    copy.carry_out("own", "echo own > own.txt", "--retries", "0")
    (aside,) = (copy.root / ".corral").glob("corral.db.of-*")

    refused = copy.run("daemon", "adopt", str(aside), "--yes", check=False)
    assert refused.returncode == 4 and "corral daemon stop" in refused.stderr
    copy.stop()
    refused = copy.run("daemon", "adopt", str(aside), "--yes", check=False, CORRAL_TASK_ID="some-task")
    assert refused.returncode == 1 and "person" in refused.stderr
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"garbage" * 1000)
    assert copy.run("daemon", "adopt", str(garbage), "--yes", check=False).returncode == 1
    answer = copy.json("daemon", "adopt", str(aside), "--yes")
    assert Path(answer["replaced"]).is_file() and not aside.exists()

    assert needs(copy) == {}
    rows = {row["title"]: row["status"] for row in copy.json("task", "list")}
    assert "own" not in rows and rows["long"] in ("interrupted", "pending", "running")
    assert "keep" not in [row["name"] for row in copy.json("worktree", "list")], "it is the original's, and stays there"
    eventually(lambda: len((tmp_path / "long-runs").read_text().split()) == 2)
    assert worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE
    (tmp_path / "long-go").touch()
    for here in (copy, house):
        here.run("wait", task, "--timeout", "60")
        assert git(here.root, "show", "main:long.txt") == "done"
    assert (place / "unsaved.txt").read_text() == "only here\n"
    assert {file: text for file, text in pointers(house.root).items() if "keep" in file} == {
        file: text for file, text in before.items() if "keep" in file
    }


def test_a_database_that_does_not_say_whose_it_is_is_used_only_where_nothing_in_it_would_be_executed(
    coordinate: Callable[..., Coordinated], at: Callable[[Path], Coordinated], tmp_path: Path
) -> None:
    house = coordinate()

    def forget_whose(root: Path) -> None:
        with sqlite3.connect(root / ".corral/corral.db") as conn:
            conn.execute("DELETE FROM project_identity")
            conn.execute("DELETE FROM worktrees WHERE purpose = 'verify' OR state = 'pooled'")
        conn.close()

    task = held_task(house, tmp_path)
    (tmp_path / "long-go").touch()
    house.run("wait", task, "--timeout", "60")
    house.stop()
    forget_whose(house.root)
    assert [row["title"] for row in house.json("task", "list")] == ["long"]
    assert "foreign_database" not in needs(house), "a start was killed before it said so"
    house.ask("POST", "/tasks", {"title": "waits for a session"})
    house.stop()
    forget_whose(house.root)
    assert needs(house)["foreign_database"]["what"].count("corral.db.of-unknown") == 1
    assert house.json("task", "list") == []


def test_a_folder_at_the_same_path_is_the_same_whatever_number_its_device_got(house: Coordinated) -> None:
    house.carry_out("first", "echo first > first.txt")
    house.stop()
    with sqlite3.connect(house.root / ".corral/corral.db") as conn:
        conn.execute("UPDATE project_identity SET folder_id = '99999' || substr(folder_id, instr(folder_id, ':'))")
    conn.close()
    assert [row["title"] for row in house.json("task", "list")] == ["first"]
    house.stop()
    (house.root / ".git").rename(house.root / "former")  # it stays, so that its inode is given to no other folder
    shutil.copytree(house.root / "former", house.root / ".git", symlinks=True)
    assert house.json("task", "list") == []
    assert "foreign_database" in needs(house), "a git directory that was restored is another one"
