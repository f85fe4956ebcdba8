"""Requests that were begun on the work of others before that had landed: they land behind it, whatever becomes of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from corral.config.sections.sharing import Landing
from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.services import Services
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.remedies import remedy_in
from corral.core.states import MergeState, ReceiptStatus
from corral.landing import requests
from corral.work.merges import diffs
from corral.work.merges.store import merges, receipts
from corral.work.tasks import tasks
from corral.work.tasks.store import dependencies
from corral.work.tasks.wire import read_submissions
from corral.work.worktrees import store as worktrees
from tests.conftest import commit, git
from tests.integration.landing_world import World, listed, why


def task(world: World, name: str) -> str:
    """The id of the task that is called so."""
    item = read_submissions([{"title": name, "command": "true", "idempotency_key": name}])
    (row,) = world.db.write(lambda conn: tasks.submit_batch(conn, item, world.now(), TaskRules()))
    return str(row["task_id"])


def begun(world: World, name: str, files: dict[str, str], on: str | None = None) -> str:
    """A branch of a task that is called like it, begun on the branch of another one; returns its head."""
    base, sha, at = world.tip(on or "main"), world.branch(name, files, on or "main"), iso(world.now())
    row = {
        "worktree_id": new_id(), "name": name, "path": "/nowhere", "branch": name, "base_sha": base,
        "task_id": task(world, name), "purpose": "task", "state": "removed", "provision": {}, "created_at": at, "removed_at": at,
        "stacked_on": {task(world, on): base} if on else {},
    }  # fmt: skip
    world.db.write(lambda conn: worktrees.create(conn, row))
    return sha


def submit(world: World, *names: str) -> dict[str, str]:
    return {name: world.submit(name, task_id=task(world, name)) for name in names}


def states(world: World, ids: dict[str, str]) -> dict[str, str]:
    return {name: world.merge(merge_id)["state"] for name, merge_id in ids.items()}


@pytest.mark.req("I10")
@pytest.mark.req("I11")
def test_a_stack_of_five_lands_by_one_verification_in_its_order_with_one_slot(world: World, tmp_path: Path) -> None:
    world.landing = Landing(verify=[f"echo run >> {tmp_path}/runs"])
    before, on = world.tip(), None
    world.branch("other", {"other.txt": "x\n"})
    for number in range(5):
        begun(world, f"t{number}", {f"t{number}.txt": "x\n"}, on)
        on = f"t{number}"
    ids = submit(world, "t4", "t3", "t2", "t1", "t0")
    ids["other"] = world.submit("other")
    world.run()
    assert set(states(world, ids).values()) == {"landed"}
    assert (tmp_path / "runs").read_text().split() == ["run"] * 2, "one for the stack, one for what stands by itself"
    order = git(world.root, "rev-list", "--topo-order", "--reverse", f"{before}..main").split()
    assert [sha for sha in order if sha in {world.tip(sha) for sha in order[:5]}] == [
        world.merge(ids[f"t{number}"])["head_sha"] for number in range(5)
    ]


@pytest.mark.req("I10")
def test_a_parent_that_comes_back_parks_what_was_begun_on_it_and_says_what_to_type(world: World) -> None:
    world.landing = Landing(verify=["! grep -q bad parent.txt"], reruns=0)
    begun(world, "parent", {"parent.txt": "bad\n"})
    begun(world, "child", {"child.txt": "x\n"}, "parent")
    begun(world, "grandchild", {"grandchild.txt": "x\n"}, "child")
    world.branch("other", {"other.txt": "x\n"})
    ids = submit(world, "parent", "child", "grandchild")
    ids["other"] = world.submit("other")
    world.run()
    held = {"parent": "failed", "child": "held", "grandchild": "held", "other": "landed"}
    assert states(world, ids) == held
    for name in ("child", "grandchild"):
        reason = why(world.merge(ids[name]))
        assert "'parent'" in reason and "ended as failed" in reason, "what came back, and not what lies between"
        assert f"corral merge retry {ids['parent'][:8]} --follow-branch" in remedy_in(reason)
        assert f"corral merge cancel {ids[name][:8]}" in remedy_in(reason)
        assert (ids[name], "held") in world.settled, "their dependents are told"
        assert git(world.root, "rev-parse", name) == world.merge(ids[name])["head_sha"], "the work is kept"
    world.run()
    assert states(world, ids) == held and world.events().count("merge.held") == 2, "and it is said once"
    side = world.root.parent / "fix"
    git(world.root, "worktree", "add", "-q", str(side), "parent")
    commit(side, {"parent.txt": "good\n"}, "fix")
    row = requests.retry(world.db, world.repo(), ids["parent"], now=world.now(), follow_branch=True)
    world.db.write(lambda conn: merges.approve(conn, ids["parent"], row["head_sha"], world.now()))
    world.run()
    assert set(states(world, ids).values()) == {"landed"}
    assert (world.root / "parent.txt").read_text() == "good\n" and (world.root / "grandchild.txt").exists()


def test_what_was_begun_on_work_that_its_target_lost_waits_for_what_is_decided_about_that(world: World) -> None:
    before = world.tip()
    begun(world, "parent", {"parent.txt": "x\n"})
    begun(world, "child", {"child.txt": "x\n"}, "parent")
    submit(world, "parent")
    world.run()
    git(world.root, "reset", "-q", "--hard", before)
    ids = submit(world, "child")
    world.run()
    reason = why(world.merge(ids["child"]))
    assert "ended as missing" in reason
    assert "`corral status` has the commands" in remedy_in(reason)
    assert "retry" not in remedy_in(reason), "which landed work refuses"


def test_one_that_is_queued_behind_another_says_so_and_gives_its_place_to_nobody(world: World) -> None:
    world.landing = Landing(approve="always")
    begun(world, "parent", {"parent.txt": "x\n"})
    begun(world, "child", {"child.txt": "x\n"}, "parent")
    parent = world.submit("parent", task_id=task(world, "parent"), approved=False)
    child = world.submit("child", task_id=task(world, "child"))
    world.run()
    assert (world.merge(parent)["state"], world.merge(child)["state"]) == ("held", "queued")
    shown = {row["merge_id"]: row["reason"] for row in listed(world.db)}
    assert shown[child] == f"It lands behind parent ({parent[:8]}, held)."
    world.db.write(lambda conn: merges.approve(conn, parent, world.merge(parent)["head_sha"], world.now()))
    world.run()
    assert (world.merge(parent)["state"], world.merge(child)["state"]) == ("landed", "landed")


def _land_squashed(world: World, merge_id: str) -> None:
    """What a queue that squashes leaves: the work on the target, without its commits."""
    git(world.root, "merge", "-q", "--squash", world.merge(merge_id)["branch"])
    git(world.root, "commit", "-q", "-m", "squashed")
    tip, now = world.tip(), world.now()

    def end(conn: object) -> None:
        receipt = receipts.add(conn, tree="t", fingerprint="f", status=ReceiptStatus.UNVERIFIED, now=now)  # type: ignore[arg-type]
        landed = {"landed_sha": tip, "receipt_id": receipt["receipt_id"]}
        assert merges.finish(conn, merge_id, MergeState.LANDED, now=now, **landed)  # type: ignore[arg-type]

    world.db.write(end)


@pytest.mark.req("I10")
def test_what_was_begun_on_work_that_landed_squashed_is_merged_without_it(world: World) -> None:
    begun(world, "parent", {"parent.txt": "one\n"})
    begun(world, "child", {"parent.txt": "one\ntwo\n"}, "parent")
    ids = submit(world, "parent", "child")
    _land_squashed(world, ids["parent"])
    commit(world.root, {"later.txt": "x\n"}, "later")
    world.run()
    assert states(world, ids) == {"parent": "landed", "child": "landed"}
    assert (world.root / "parent.txt").read_text() == "one\ntwo\n" and (world.root / "later.txt").exists()


@pytest.mark.req("I10")
def test_what_was_begun_on_work_that_was_done_anew_lands_on_that_and_brings_nothing_of_the_old(world: World) -> None:
    first = begun(world, "parent", {"parent.txt": "old\n", "extra.txt": "old\n"})
    begun(world, "child", {"child.txt": "x\n"}, "parent")
    ids = submit(world, "parent", "child")
    world.db.write(lambda conn: merges.finish(conn, ids["parent"], MergeState.FAILED, now=world.now(), reason="red"))
    world.queue.step(world.now())
    assert states(world, ids) == {"parent": "failed", "child": "held"}
    parts = cast("Services", SimpleNamespace(db=world.db, git=world.repo()))
    assert [file["path"] for file in diffs.of_merge(parts, ids["child"])["files"]] == ["child.txt"], "its own alone"
    begun(world, "again", {"parent.txt": "new\n"})
    ids["again"] = world.submit("again", task_id=task(world, "parent"))
    world.run()
    assert states(world, ids) == {"parent": "failed", "child": "landed", "again": "landed"}
    assert (world.root / "parent.txt").read_text() == "new\n" and (world.root / "child.txt").exists()
    assert not (world.root / "extra.txt").exists(), first


def test_what_was_begun_on_work_that_nobody_wants_any_more_lands_without_it(world: World) -> None:
    begun(world, "parent", {"parent.txt": "old\n"})
    begun(world, "child", {"child.txt": "x\n"}, "parent")
    child = submit(world, "child")["child"]
    assert world.finish(child)["state"] == "landed"
    assert (world.root / "child.txt").exists() and not (world.root / "parent.txt").exists()


@pytest.mark.req("I10")
def test_the_work_of_a_task_lands_behind_that_of_one_that_it_waited_for_although_it_was_not_begun_on_it(
    world: World,
) -> None:
    for name in ("parent", "child"):
        begun(world, name, {f"{name}.txt": "x\n"})
    ids = [task(world, name) for name in ("child", "parent")]
    world.db.write(lambda conn: dependencies.create(conn, ids[0], ids[1:]))
    world.landing = Landing(approve="always")
    child = world.submit("child", task_id=task(world, "child"))
    parent = world.submit("parent", task_id=task(world, "parent"), approved=False)
    assert world.finish(child)["state"] == "queued"
    world.db.write(lambda conn: merges.approve(conn, parent, world.merge(parent)["head_sha"], world.now()))
    world.run()
    assert (world.merge(parent)["state"], world.merge(child)["state"]) == ("landed", "landed")
