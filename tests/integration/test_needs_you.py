"""What needs a person stands first, with the reason and what to type; it goes when the reason has gone."""

from __future__ import annotations

from typing import Any

from corral.git.checkouts import index_lock
from corral.git.land import halfway
from corral.git.process.command import open_checkout
from tests.conftest import commit_on, git
from tests.support.coordinated import Coordinated, eventually


def test_a_held_landing_stands_first_in_the_status_until_it_lands(house: Coordinated) -> None:
    commit_on(house.root, "side", {"src/a.py": "a = 2\n"})
    (house.root / "src" / "a.py").write_text("a = 3\n")
    house.run("merge", "submit", "side")

    def told() -> (
        dict[str, Any] | None
    ):  # right after the commands above git's rest is waited for, and that is told first
        needs = house.json("status")["needs_you"]
        return next((need for need in needs if "overlap" in need["what"]), None)

    need = eventually(told)
    assert need["kind"] == "held_merge" and "'side'" in need["what"]
    shown = house.run("status").stdout.splitlines()
    assert shown[0] == "needs you 1" and "overlap" in shown[1] and shown[2].strip() == need["remedy"]
    assert need["remedy"].startswith("Commit them: git -C ")
    assert "What to do: Commit them: git -C " in house.run("merge", "detail", need["ids"]["merge_id"]).stdout

    git(house.root, "restore", "src/a.py")
    eventually(lambda: house.json("status")["needs_you"] == [])


def test_a_checkout_that_cannot_be_cleared_of_a_killed_landing_is_named_until_it_can(house: Coordinated) -> None:
    house.stop()
    old = git(house.root, "rev-parse", "main")
    git(house.root, "worktree", "add", "-q", "-b", "release", str(house.root.parent / "release"))
    there = open_checkout(house.root.parent / "release")
    assert index_lock.take(there)
    halfway.write_note(there, old, git(house.root, "commit-tree", f"{old}^{{tree}}", "-p", old, "-m", "x"))
    index = there.git_dir / "index"
    whole = index.read_bytes()
    index.write_bytes(b"damaged")
    house.run("daemon", "start")
    need = eventually(lambda: house.json("status")["needs_you"])[0]
    assert need["kind"] == "stuck_checkout" and str(there.work_tree) in need["what"] and "index file" in need["what"]
    index.write_bytes(whole)
    git(house.root, "branch", "side", git(house.root, "commit-tree", f"{old}^{{tree}}", "-p", old, "-m", "side"))
    house.run("merge", "submit", "side")  # the queue looks at once
    eventually(lambda: house.json("status")["needs_you"] == [])
    assert not index_lock.path(there).exists()
