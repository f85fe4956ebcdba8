"""A landing waits for a moment of rest in a checkout that somebody works in, and no longer than it must."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from corral.git.checkouts import index_lock
from corral.git.process.command import open_checkout
from corral.landing.land import LONGEST_UNREST
from tests.conftest import GIT_ENV, git
from tests.integration.landing_world import World, why
from tests.support.coordinated import eventually


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo)
    made.rest_s = 1.0
    for number in range(3):
        made.branch(f"feature-{number}", {f"new-{number}.txt": "x\n"})
    made.skip(1)
    yield made
    made.close()


def add(world: World, name: str) -> None:
    """A person's `git add`, at the world's own time."""
    (world.root / name).write_text("mine\n")
    git(world.root, "add", name)
    at = world.now().timestamp()
    os.utime(world.root / ".git/index", (at, at))


@pytest.mark.req("G8")
def test_a_checkout_that_git_has_just_written_is_given_a_second(world: World) -> None:
    add(world, "mine.txt")
    merge_id = world.submit("feature-0")
    world.queue.step(world.now())
    held = world.merge(merge_id)
    assert held["state"] == "held" and "just been running" in why(held)
    world.skip(1.5)
    assert world.finish(merge_id)["state"] == "landed"
    assert git(world.root, "diff", "--cached", "--name-only") == "mine.txt"


def test_what_corral_writes_itself_is_not_waited_for(world: World) -> None:
    world.skipped -= timedelta(seconds=1)
    for name in ("index", "HEAD", "refs/heads/main"):
        os.utime(world.root / ".git" / name, (1, 1))
    ids = [world.submit(f"feature-{number}") for number in range(3)]
    world.run()
    assert [world.merge(merge_id)["state"] for merge_id in ids] == ["landed"] * 3
    assert "merge.held" not in world.events()


def test_a_checkout_that_never_rests_is_landed_in_after_a_while(world: World) -> None:
    merge_id, began = world.submit("feature-0"), world.now()
    while world.merge(merge_id)["state"] != "landed":
        assert world.now() - began < 2 * LONGEST_UNREST
        add(world, "mine.txt")
        due = world.queue.step(world.now())
        if due is not None and due > world.now():
            world.skip((due - world.now()).total_seconds())
    assert world.now() - began >= LONGEST_UNREST
    assert world.events().count("merge.held") == 1
    assert git(world.root, "diff", "--cached", "--name-only") == "mine.txt"


@pytest.mark.req("G8")
def test_a_commit_whose_editor_is_open_is_not_landed_under(world: World, tmp_path: Path) -> None:
    """Its HEAD was read before the editor: a landing in between would make the commit fail."""
    add(world, "mine.txt")
    env = {
        **os.environ,
        **GIT_ENV,
        "GIT_EDITOR": f"touch {tmp_path}/open; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo mine >",
    }
    committing = subprocess.Popen(["git", "commit", "-q"], cwd=world.root, env=env)
    eventually((tmp_path / "open").exists)
    merge_id = world.submit("feature-0")
    for _ in range(5):
        world.skip(LONGEST_UNREST.total_seconds())
        world.queue.step(world.now())
    held = world.merge(merge_id)
    assert held["state"] == "held" and f"git commit (process {committing.pid}) is running" in why(held)
    (tmp_path / "go").touch()
    assert committing.wait(30) == 0
    mine = git(world.root, "rev-parse", "main")
    world.skip(2)
    assert world.finish(merge_id)["state"] == "landed"
    assert (
        git(world.root, "log", "-1", "--format=%s", mine) == "mine" and git(world.root, "status", "--porcelain") == ""
    )
    git(world.root, "merge-base", "--is-ancestor", mine, "main")


@pytest.mark.req("G7")
@pytest.mark.parametrize("mine", ["nothing else", "a file of the user's", "a landed file changed"])
def test_what_a_git_that_nobody_saw_undid_is_put_right_if_it_is_provably_that(world: World, mine: str) -> None:
    """A git in a container reads the index before the landing, and writes it after."""
    index = world.root / ".git/index"
    if mine != "nothing else":
        add(world, "mine.txt")
        world.skip(2)
    before = index.read_bytes()
    assert world.land("feature-0")["state"] == "landed"
    index.write_bytes(before)
    if mine == "a landed file changed":
        (world.root / "new-0.txt").write_text("mine\n")
    world.skip(5)
    world.queue.step(world.now())
    status = {
        "nothing else": [],
        "a file of the user's": ["A  mine.txt"],
        "a landed file changed": ["A  mine.txt", "D  new-0.txt", "?? new-0.txt"],
    }
    assert git(world.root, "status", "--porcelain").splitlines() == status[mine]


@pytest.mark.req("G5")
def test_a_lock_of_a_look_back_that_was_killed_is_given_up_by_the_next_life(world: World) -> None:
    index = world.root / ".git/index"
    before = index.read_bytes()
    assert world.land("feature-0")["state"] == "landed"
    index.write_bytes(before)
    assert index_lock.take(open_checkout(world.root)), "what the look has when it is killed"
    world.skip(5)
    world.queue = world.new_queue()
    world.queue.recover(world.now())
    world.queue.step(world.now())
    assert not list((world.root / ".git").rglob("*.lock"))
    assert git(world.root, "status", "--porcelain") == ""


def test_what_the_user_takes_back_later_stays_taken_back(world: World) -> None:
    assert world.land("feature-0")["state"] == "landed"
    world.skip(5)
    world.queue.step(world.now())
    git(world.root, "rm", "-q", "--cached", "new-0.txt")
    world.skip(5)
    world.queue.step(world.now())
    assert git(world.root, "diff", "--cached", "--name-status") == "D\tnew-0.txt"
