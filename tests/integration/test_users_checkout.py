"""What lands meets the user's own checkout: exact to the byte, held where it is in the way, in the right name."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.conftest import GIT_ENV, commit, git
from tests.support.coordinated import Coordinated, eventually


def lands(house: Coordinated, command: str = "echo hello > hello.txt", *args: str) -> dict[str, Any]:
    """Submit a task, wait until it has landed, and return its detail."""
    task = house.submit("a task", command, *args)
    answer = house.json("wait", task, "--timeout", "60", check=False)
    assert answer["done"] is True, house.json("task", "detail", task)
    return dict(house.json("task", "detail", task))


def test_the_strangest_files_land_exactly_and_from_two_tasks_at_once(
    coordinate: Callable[..., Coordinated], make_repo: Callable[..., Path]
) -> None:
    root = make_repo(
        "repo",
        {"gone.txt": "gone\n", "old name.txt": "moved\n" * 20, "run.sh": "#!/bin/sh\n", "dir/kept.txt": "kept\n"},
    )
    house = coordinate(root)
    strange = (
        "printf 'x' > \"$(printf 'new\\nline.txt')\"; printf 'y' > \"$(printf 'latin-\\351.txt')\"; "
        "ln -s ../nowhere link; ln -s dir dirlink; printf 'bin\\000ary\\r\\n' > bin.dat; printf '' > empty"
    )
    changed = (
        "rm gone.txt; mv 'old name.txt' 'new name.txt'; chmod +x run.sh; printf 'no newline' > dir/added; mkdir void"
    )
    one, two = house.submit("strange", strange), house.submit("changed", changed)
    assert house.json("wait", one, two, "--timeout", "60")["done"] is True
    names = {os.fsencode(item.name) for item in root.iterdir()} - {b".git", b".corral", b".claude"}
    assert names == {
        b"new\nline.txt", b"latin-\xe9.txt", b"link", b"dirlink", b"bin.dat", b"empty", b"new name.txt", b"run.sh", b"dir",
    }  # fmt: skip
    assert os.readlink(root / "link") == "../nowhere" and os.readlink(root / "dirlink") == "dir"  # noqa: PTH115
    assert (root / "bin.dat").read_bytes() == b"bin\0ary\r\n"
    assert os.access(root / "run.sh", os.X_OK) and not os.access(root / "dir" / "kept.txt", os.X_OK)
    assert (root / "dir" / "added").read_bytes() == b"no newline"
    assert git(root, "status", "--porcelain", "--", ":!.corral", ":!.claude") == ""


# -- the user's checkout


def test_a_dirty_checkout_that_is_not_in_the_way_stays_as_it_is(house: Coordinated) -> None:
    (house.root / "README.md").write_text("mine\n")
    (house.root / "notes.txt").write_text("untracked\n")
    (house.root / "src" / "b.py").write_text("staged\n")
    git(house.root, "add", "src/b.py")
    lands(house, "echo 'a = 2' > src/a.py")
    assert (house.root / "src" / "a.py").read_text() == "a = 2\n"
    assert (house.root / "README.md").read_text() == "mine\n"
    assert sorted(
        git(house.root, "status", "--porcelain", "--", "README.md", "notes.txt", "src").splitlines()
    ) == sorted([" M README.md", "?? notes.txt", "M  src/b.py"]) or "M README.md" in git(
        house.root, "status", "--porcelain"
    )


def _lists(house: Coordinated, pattern: str) -> bool:
    return re.search(pattern, str(house.json("merge", "list"))) is not None


def test_a_landing_that_would_hit_the_users_work_is_held_and_goes_on_by_itself(house: Coordinated) -> None:
    for kind in ("modified", "untracked", "staged"):
        name = "new.txt" if kind == "untracked" else "README.md"
        (house.root / name).write_text("mine\n")
        if kind == "staged":
            git(house.root, "add", name)
        task = house.submit("clash", f"echo theirs, {kind} > {name}")
        held = f"overlap.*{name}"
        eventually(partial(_lists, house, held))
        assert (house.root / name).read_text() == "mine\n", kind
        over = house.run("wait", task, "--timeout", "1", "--json", check=False)
        assert over.returncode == 1, kind
        assert json.loads(over.stdout)["tasks"][0]["merge_state"] == "held", kind
        git(house.root, "stash", "push", "-q", "--include-untracked", "--", name)
        assert house.json("wait", task, "--timeout", "60")["done"] is True, kind
        assert (house.root / name).read_text() == f"theirs, {kind}\n"
        place = "stash@{0}^3:new.txt" if kind == "untracked" else "stash@{0}:README.md"
        assert git(house.root, "show", place) == "mine", kind


def test_the_user_commits_to_the_target_during_a_verification(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    began, go, seen = tmp_path / "began", tmp_path / "go", tmp_path / "seen"
    house = coordinate(
        verify=(f"touch {began}; ls >> {seen}; echo -- >> {seen}; until [ -e {go} ]; do sleep 0.05; done",)
    )
    task = house.submit("slow", "echo x > theirs.txt")
    eventually(began.exists)
    mine = commit(house.root, {"mine.txt": "mine\n"}, "mine")
    go.touch()
    assert house.json("wait", task, "--timeout", "60")["done"] is True
    git(house.root, "merge-base", "--is-ancestor", mine, "main")
    assert {"mine.txt", "theirs.txt"} <= {item.name for item in house.root.iterdir()}
    last = seen.read_text().split("--\n")[-2].split()
    assert {"mine.txt", "theirs.txt"} <= set(last), "what landed is what was verified"
    receipt = house.json("task", "detail", task)["merge"]["receipt"]
    assert receipt["tree"] == git(house.root, "rev-parse", "main^{tree}")


def test_a_target_that_is_deleted_while_a_task_runs_and_comes_back(house: Coordinated, tmp_path: Path) -> None:
    go = tmp_path / "go"
    tip = git(house.root, "rev-parse", "main")
    task = house.submit("slow", f"until [ -e {go} ]; do sleep 0.05; done; echo x > x.txt")
    eventually(lambda: house.json("task", "detail", task)["worktree"])
    git(house.root, "switch", "-q", "-c", "other")
    git(house.root, "branch", "-q", "-D", "main")
    go.touch()
    merge = eventually(
        lambda: next(
            (row for row in house.json("merge", "list") if row["state"] in ("failed", "held", "conflict")), None
        )
    )
    assert "main" in merge["reason"]
    assert git(house.root, "for-each-ref", "--format=%(refname)", "refs/heads/main") == "", "nobody makes it anew"
    branch = house.json("task", "detail", task)["branch"]
    assert git(house.root, "show", f"{branch}:x.txt") == "x"
    git(house.root, "branch", "main", tip)
    if merge["state"] != "held":
        house.run("merge", "retry", merge["merge_id"])
    eventually(lambda: house.json("merge", "detail", merge["merge_id"])["state"] == "landed")
    assert git(house.root, "show", "main:x.txt") == "x"


def test_a_target_that_a_linked_worktree_has_checked_out(house: Coordinated, tmp_path: Path) -> None:
    git(house.root, "switch", "-q", "-c", "other")
    linked = tmp_path / "linked"
    git(house.root, "worktree", "add", "-q", str(linked), "main")
    lands(house)
    assert (linked / "hello.txt").read_text() == "hello\n"
    assert git(linked, "status", "--porcelain") == ""
    assert not (house.root / "hello.txt").exists()
    (linked / "README.md").write_text("mine\n")
    task = house.submit("clash", "echo theirs > README.md")
    eventually(lambda: any(row["state"] == "held" for row in house.json("merge", "list")))
    assert (linked / "README.md").read_text() == "mine\n"

    def put_back() -> bool:  # the landing that is tried again may have the index at this very moment
        git(linked, "checkout", "-q", "--", "README.md", check=False)
        return (linked / "README.md").read_text() != "mine\n"

    eventually(put_back)
    assert house.json("wait", task, "--timeout", "60")["done"] is True


def test_what_lands_has_the_users_umask(repo: Path) -> None:
    house = Coordinated(repo)
    before = os.umask(0o027)
    try:
        house.run("init", "--yes", "--no-check", "--verify", "true")
        lands(house, "echo x > plain.txt; echo y > tool; chmod +x tool")
    finally:
        os.umask(before)
        house.stop()
    assert stat.S_IMODE((repo / "plain.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((repo / "tool").stat().st_mode) == 0o750


# -- who the commits are by


def test_commits_are_in_the_name_that_git_has_else_in_the_submitters_else_in_corrals(house: Coordinated) -> None:
    def author_of(command: str, **env: Any) -> str:
        made = house.run("task", "submit", "--title", "t", "--command", command, "--json", **env)
        house.run("wait", json.loads(made.stdout)["task_id"], "--timeout", "60")
        return git(house.root, "log", "-1", "--format=%an <%ae> %cn <%ce>")

    corral = "Corral <corral@localhost>"
    assert author_of("echo x > x.txt") == f"{corral} {corral}"
    author_of("echo y > y.txt && git add y.txt && git commit -q -m 'by hand'")
    assert git(house.root, "log", "-1", "--format=%an <%ae>", "--", "y.txt") == corral
    ada = {"GIT_AUTHOR_NAME": "Ada Löwe", "GIT_AUTHOR_EMAIL": "ada@example.test"}
    assert author_of("echo z > z.txt", **ada).startswith("Ada Löwe <ada@example.test> ")
    git(house.root, "config", "user.name", "Configured")
    git(house.root, "config", "user.email", "configured@example.test")
    assert author_of("echo a > a.txt", **GIT_ENV).startswith("Configured <configured@example.test> ")
