"""A house with a warm pool, tasks in it, and all that a task can see of its worktree."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from corral.core.states import WorktreeState
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.pool.state import overview
from tests.integration.supervision import House, settings_with

Open = Callable[..., House]


def houses(root: Path) -> Iterator[Open]:
    """For a fixture: opens houses with a pool of two, one after the other, and closes them in the end."""
    opened: list[House] = []

    def open_house(**sections: Any) -> House:
        while opened:
            opened.pop().close()
        sections = {"tasks": {"max_retries": 0}, **sections}
        sections["worktrees"] = {"pool_size": 2, "pool_min_files": 0, **sections.get("worktrees", {})}
        opened.append(House(root, settings_with(**sections)))
        return opened[-1]

    yield open_house
    for home in opened:
        home.close()


_LOOK = """
import json, os, stat, subprocess, sys
def git(*args):
    done = subprocess.run(["git", *args], capture_output=True, text=True)
    return [done.returncode, done.stdout.replace(os.path.basename(os.getcwd()), "HERE")]
tree = {}
for folder, folders, files in os.walk("."):
    for name in folders + files:
        path = os.path.relpath(os.path.join(folder, name))
        mode = os.lstat(path).st_mode
        is_plain = stat.S_ISREG(mode) and path != ".git"
        said = open(path, newline="").read() if is_plain else os.readlink(path) if stat.S_ISLNK(mode) else ""
        tree[path] = [oct(mode), said]
entry = subprocess.check_output(["git", "rev-parse", "--git-dir"], text=True).strip()
looks = ("status --porcelain --ignored --branch", "ls-files -v --stage", "for-each-ref refs/worktree refs/bisect",
         "config --worktree --list", "rev-parse --verify ORIG_HEAD", "symbolic-ref HEAD", "rev-parse HEAD", "stash list",
         "submodule status", "sparse-checkout list", "rev-parse --verify MERGE_HEAD", "log --walk-reflogs --format=%H HEAD")
json.dump({
    "tree": tree, "entry": sorted(set(os.listdir(entry)) - {"logs"}), "git": {one: git(*one.split()) for one in looks},
    "env": sorted(name for name in os.environ if name.startswith(("CORRAL", "GIT"))), "place": os.getcwd(),
    "inode": os.stat(".").st_ino,
}, open(sys.argv[1], "w"))
"""


def look(into: Path) -> str:
    """The command of a task that writes down all it can see of its worktree."""
    script = into.with_suffix(".py")
    script.write_text(_LOOK)
    return f"{sys.executable} {script} {into}"


def run(house: House, command: str, status: str = "completed", **fields: Any) -> dict[str, Any]:
    """Run a task to its end, and until its worktree is given back."""
    detail = house.until_status(house.submit(command, **fields), status)
    house.settle()
    return detail


def seen(house: House, into: Path) -> dict[str, Any]:
    """What the next task sees, with the place and the inode of its worktree apart."""
    run(house, look(into))
    content: dict[str, Any] = json.loads(into.read_text())
    return content


def apart(facts: dict[str, Any]) -> dict[str, Any]:
    """What two tasks must see alike."""
    return {name: value for name, value in facts.items() if name not in ("place", "inode")}


def pooled(house: House) -> list[WorktreeRow]:
    return house.db.read(lambda conn: worktree_rows.listing(conn, states=(WorktreeState.POOLED,)))


def counted(house: House, which: Literal["not_kept", "not_used"]) -> dict[str, int]:
    """The reasons why worktrees were ``not_kept`` or ``not_used``, and how often."""
    return {row["reason"]: row["count"] for row in overview(house.worktree_context)[which]}


def used(house: House) -> int:
    return int(overview(house.worktree_context)["used"])


def inode(row: WorktreeRow) -> int:
    return int(str(row["folder_id"]).rpartition(":")[2])
