"""Landed work is taken back by a request of its own: the work of exactly one request, without a checkout, and back again."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.errors import Conflict, InvalidInput
from corral.core.instants import parse
from corral.landing import requests, reverts
from corral.work.merges.store import runs
from tests.conftest import commit, git
from tests.integration.landing_world import World, fingerprint, in_a_process, why


def _reverted(world: World, merge_id: str, now: datetime | None = None) -> reverts.Revert:
    return reverts.submit(world.db, world.repo(), merge_id, session_id=None, now=now or world.now())


def _files(world: World) -> set[str]:
    return set(git(world.root, "ls-tree", "-r", "--name-only", "main").split())


def test_of_a_batch_one_members_work_is_taken_back_and_back_again(world: World) -> None:
    world.landing = Landing(verify=["echo '1 passed in 0.01s'"])
    world.db.write(lambda conn: runs.set_batch(conn, "main", 4))
    commit(world.root, {"shared.txt": "a\nb\nc\nd\ne\nf\ng\n"})
    for name, text in (
        ("one", "ONE\nb\nc\nd\ne\nf\ng\n"),
        ("two", "a\nb\nc\nTWO\ne\nf\ng\n"),
        ("three", "a\nb\nc\nd\ne\nf\nTHREE\n"),
    ):
        world.branch(name, {"shared.txt": text, f"{name}.txt": "x\n"})
    ids = {name: world.submit(name) for name in ("one", "two", "three")}
    world.run()
    assert {world.merge(merge_id)["state"] for merge_id in ids.values()} == {"landed"}
    mine = commit(world.root, {"mine.txt": "x\n"})
    (world.root / "shared.txt").write_text("dirty\n")
    (world.root / "untracked.txt").write_text("mine\n")
    before = fingerprint(world.root)

    undo = _reverted(world, ids["two"])
    assert undo.merge["title"] == 'Revert "two"' and undo.conflicts == [] and fingerprint(world.root) == before
    assert _reverted(world, ids["two"]).merge["merge_id"] == undo.merge["merge_id"], "it is queued once"
    git(world.root, "checkout", "-q", "--", "shared.txt")
    row = world.finish(undo.merge["merge_id"])
    assert row["state"] == "landed" and world.receipt(row["merge_id"])["status"] == "passed"
    assert git(world.root, "show", "main:shared.txt").split() == ["ONE", "b", "c", "d", "e", "f", "THREE"]
    assert _files(world) >= {"one.txt", "three.txt", "mine.txt"} and "two.txt" not in _files(world)
    git(world.root, "merge-base", "--is-ancestor", mine, "main")
    assert git(world.root, "branch", "--list", "corral/*") == "", "its branch goes as that of a task"
    with pytest.raises(Conflict, match="was taken back already") as refused:
        _reverted(world, ids["two"])
    assert refused.value.remedy.endswith(f"corral merge revert {row['merge_id'][:8]}")

    again = _reverted(world, undo.merge["merge_id"])
    assert again.merge["title"] == 'Reapply "two"'
    world.run()
    assert world.merge(again.merge["merge_id"])["state"] == "landed" and "two.txt" in _files(world)
    world.run()
    assert _reverted(world, ids["two"]).conflicts == [], "what came back can be taken back"


def test_a_merge_commit_and_a_fast_forward_are_reverted_against_what_the_target_was(world: World) -> None:
    world.branch("first", {"first.txt": "x\n"})
    forwarded = world.land("first")
    assert forwarded["landed_sha"] == forwarded["head_sha"]
    world.branch("wide", {"wide.txt": "x\n"})
    git(world.root, "switch", "-q", "wide")
    git(world.root, "merge", "-q", "--no-edit", "main")
    commit(world.root, {"wider.txt": "x\n"})
    git(world.root, "switch", "-q", "main")
    commit(world.root, {"mine.txt": "x\n"})
    merged = world.land("wide")
    for row in (merged, forwarded):
        _reverted(world, row["merge_id"])
        world.run()
    assert not _files(world) & {"first.txt", "wide.txt", "wider.txt"} and "mine.txt" in _files(world)


def test_a_revert_that_conflicts_is_told_and_comes_back_with_the_paths(world: World) -> None:
    world.branch("first", {"same.txt": "first\n"})
    first = world.land("first")
    commit(world.root, {"same.txt": "second\n"})
    undo = _reverted(world, first["merge_id"])
    assert [(item.path, item.kind) for item in undo.conflicts] == [("same.txt", "modify/delete")]
    row = world.finish(undo.merge["merge_id"])
    assert row["state"] == "conflict" and "same.txt" in why(row)
    git(world.root, "switch", "-q", "-c", "resolved", row["head_sha"])
    git(world.root, "merge", "-q", "-X", "theirs", "main", check=False)
    git(world.root, "rm", "-q", "same.txt")
    git(world.root, "commit", "-q", "-m", "resolved")
    git(world.root, "switch", "-q", "main")
    resolved = world.land("resolved")
    assert (resolved["state"], resolved["reverts"]) == ("landed", first["merge_id"]), "it is the revert, resolved"
    assert "resolved" in git(world.root, "branch", "--list", "resolved"), "and yet somebody's own branch"
    with pytest.raises(Conflict, match="was taken back already"):
        _reverted(world, first["merge_id"])
    _reverted(world, resolved["merge_id"])
    world.run()
    assert (world.root / "same.txt").exists()
    again = _reverted(world, first["merge_id"], parse(undo.merge["created_at"])).merge  # in the same second
    requests.cancel(world.db, world.repo(), again["merge_id"], on_settled=lambda *_: None, now=world.now())
    git(world.root, "merge", "-q", "-s", "ours", "--no-edit", again["branch"])
    world.branch("later", {"later.txt": "x\n"})
    assert world.land("later")["reverts"] is None


def test_what_did_not_land_or_is_gone_cannot_be_taken_back(world: World) -> None:
    world.branch("byhand", {"gone.txt": "x\n"})
    by_hand = world.land("byhand")
    git(world.root, "rm", "-q", "gone.txt")
    git(world.root, "commit", "-q", "-m", "taken back by hand")
    with pytest.raises(InvalidInput, match="has nothing any more"):
        _reverted(world, by_hand["merge_id"])
    base = world.tip()
    merge_id = world.offer("open", {"open.txt": "x\n"})
    with pytest.raises(Conflict, match="brought nothing") as refused:
        _reverted(world, merge_id)
    assert "corral merge cancel" in refused.value.remedy
    world.run()
    git(world.root, "reset", "-q", "--hard", base)
    with pytest.raises(Conflict, match="has no more what"):
        _reverted(world, merge_id)
    past = world.offer("past", {"past.txt": "x\n"})
    git(world.root, "merge", "-q", "--ff-only", "past")
    assert world.finish(past)["state"] == "landed"
    _reverted(world, past)
    world.run()
    assert "past.txt" not in _files(world), "what came past the queue is taken back from where it began"


@pytest.mark.faults
def test_a_revert_that_was_killed_half_way_is_queued_once_when_it_is_asked_for_again(repo: Path) -> None:
    world = World(repo)
    world.branch("first", {"first.txt": "x\n"})
    merge_id = world.land("first")["merge_id"]
    world.close()
    killed = in_a_process(repo, merge_id, does="revert", CORRAL_CRASH_AT="reverts.branch_made")
    assert killed.wait(60) == -9 and git(repo, "branch", "--list", "corral/revert-*") != ""
    git(repo, "gc", "--prune=now", "-q")
    again = World(repo)
    again.queue.recover(again.now())
    undo = _reverted(again, merge_id)
    again.run()
    assert again.merge(undo.merge["merge_id"])["state"] == "landed" and "first.txt" not in _files(again)
    assert git(repo, "branch", "--list", "corral/*") == "" and again.held_refs() == []
    again.close()
