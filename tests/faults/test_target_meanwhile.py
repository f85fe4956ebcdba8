"""A person does something to the target while its verification runs, or between the verdict and the move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.landing import requests
from corral.work.merges.store import intents
from tests.conftest import commit, git
from tests.integration.landing_world import World, in_a_process, why

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

VERIFY = "test -d . && echo '1 passed in 0.01s'"


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    """The person's last commit is their own; main is checked out."""
    commit(repo, {"mine.txt": "x\n"})
    made = World(repo, landing=Landing(verify=[VERIFY], reruns=0))
    made.branch("feature", {"feature.txt": "x\n"}, "main~1")
    yield made
    made.close()


def resets(root: Path) -> None:
    git(root, "reset", "-q", "--hard", "HEAD~1")


def renames(root: Path) -> None:
    git(root, "branch", "-m", "main", "trunk")


def deletes(root: Path) -> None:
    git(root, "switch", "-q", "--detach")
    git(root, "branch", "-q", "-D", "main")


Deed = Callable[[Path], None]
DEEDS = pytest.mark.parametrize("deed", [resets, renames, deletes], ids=lambda deed: deed.__name__)


def refs(root: Path) -> str:
    return git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/") + git(
        root, "rev-parse", "HEAD"
    )


def check(world: World, merge_id: str, deed: Deed, seen: str) -> None:
    """Nothing of the person's moved; what was to land waits, or lands on what the person made of the target."""
    merge = world.merge(merge_id)
    assert world.db.read(intents.listing) == []
    if deed is not resets:
        assert merge["state"] == "held" and "There is no branch main any more" in why(merge)
        assert refs(world.root) == seen and not (world.root / "feature.txt").exists()
        git(world.root, *(["branch", "-m", "trunk", "main"] if deed is renames else ["switch", "-q", "-c", "main"]))
        merge = world.finish(merge_id)
    assert merge["state"] == "landed", merge["reason"]
    assert world.receipt(merge_id)["tree"] == git(world.root, "rev-parse", "main^{tree}")
    assert (world.root / "mine.txt").exists() == (deed is not resets), "what the person took off stays off"
    assert git(world.root, "status", "--porcelain") == "" and (world.root / "feature.txt").exists()


@pytest.mark.req("G9", "I2")
@DEEDS
def test_while_it_is_verified(world: World, tmp_path: Path, deed: Deed) -> None:
    gate = tmp_path / "gate"
    world.landing = Landing(verify=[f"while ! test -e {gate}; do sleep 0.02; done; {VERIFY}"], reruns=0)
    merge_id = world.submit("feature")
    world.until(merge_id, "verifying")
    deed(world.root)
    seen = refs(world.root)
    gate.touch()
    world.run()
    check(world, merge_id, deed, seen)


@pytest.mark.req("G9", "I2", "I7")
@DEEDS
def test_between_the_verdict_and_the_landing(world: World, deed: Deed) -> None:
    merge_id = world.submit("feature")
    world.queue.stop(world.now())
    assert in_a_process(world.root, VERIFY, CORRAL_CRASH_AT="landing.intent_stored").wait(60) == -9
    deed(world.root)
    seen = refs(world.root)
    world.queue = world.new_queue()
    world.queue.recover(world.now())
    world.run()
    check(world, merge_id, deed, seen)


@pytest.mark.req("I1", "I4")
def test_two_targets_that_share_commits_are_judged_and_moved_each_by_itself(world: World, tmp_path: Path) -> None:
    """The candidate of both is one commit, verified for each at the same time by rules of their own."""
    gate = tmp_path / "gate"
    git(world.root, "branch", "release")
    world.branch("both", {"both.txt": "x\n"})
    waits = f"while ! test -e {gate}; do sleep 0.02; done; {VERIFY}"
    rules = {"main": [waits], "release": [waits, "test ! -e both.txt"], "next": [waits]}
    world.settings_of = lambda target: Landing(verify=rules[target.rpartition("/")[2]], reruns=0)
    world.slots, before = 3, world.tip()
    git(world.root, "branch", "next")
    ids = {target: world.submit("both", target) for target in rules}
    for merge_id in ids.values():
        world.until(merge_id, "verifying")
    assert len({world.merge(merge_id)["candidate_sha"] for merge_id in ids.values()}) == 1
    requests.cancel(world.db, world.repo(), ids["next"], on_settled=lambda *_: None, now=world.now())
    world.queue.step(world.now())
    gate.touch()
    world.run()
    states = {target: world.merge(merge_id)["state"] for target, merge_id in ids.items()}
    assert states == {"main": "landed", "release": "failed", "next": "cancelled"}
    assert world.tip() == world.merge(ids["main"])["head_sha"] and world.tip("release") == world.tip("next") == before
    assert "release at" in why(world.merge(ids["release"])) and "without it passed" in why(world.merge(ids["release"]))
    git(world.root, "branch", "-f", "release", "main")  # a person brings it there
    requests.retry(world.db, world.repo(), ids["release"], now=world.now())
    world.run()
    assert world.merge(ids["release"])["state"] == "landed" and "had it already" in why(world.merge(ids["release"]))
    assert world.receipt(ids["release"])["status"] == "unverified", "what main's rules proved proves nothing here"
    assert world.held_refs() == []
