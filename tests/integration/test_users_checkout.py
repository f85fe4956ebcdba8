"""What lands meets the user's own checkout: exact to the byte, with its rights, in the right name."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.conftest import GIT_ENV, git
from tests.support.coordinated import Coordinated


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


def test_what_lands_has_the_users_umask(repo: Path) -> None:
    house = Coordinated(repo)
    before = os.umask(0o027)
    try:
        house.run("init", "--yes", "--no-check", "--verify", "true")
        house.carry_out("a task", "echo x > plain.txt; echo y > tool; chmod +x tool")
    finally:
        os.umask(before)
        house.stop()
    assert stat.S_IMODE((repo / "plain.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((repo / "tool").stat().st_mode) == 0o750


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
