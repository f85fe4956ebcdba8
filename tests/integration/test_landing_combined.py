"""Remotes, stacks, freezes, shapes and reverts together."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.landing import reverts, steering
from corral.store.rows.merges import MergeRow
from tests.conftest import commit, git
from tests.integration.landing_world import World
from tests.integration.test_landing_remote import Origin
from tests.integration.test_landing_stacked import begun, states, submit


@pytest.fixture
def origin(world: World, tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin.git", world.root)


def files(world: World, ref: str = "main") -> set[str]:
    return set(git(world.root, "ls-tree", "-r", "--name-only", ref).split())


def reverted(world: World, merge_id: str) -> MergeRow:
    undo = reverts.submit(world.db, world.repo(), merge_id, session_id=None, now=world.now())
    assert undo.conflicts == []
    row = world.finish(undo.merge["merge_id"])
    assert row["state"] == "landed", row["reason"]
    return row


@pytest.mark.parametrize("style", ["merge", "squash", "rebase", "fast-forward"])
def test_a_stack_lands_on_a_remote_in_each_shape_and_is_taken_back(world: World, origin: Origin, style: str) -> None:
    world.landing = Landing.model_validate({"remote": "origin", "verify": ["true"], "reruns": 0, "style": style})
    if style != "fast-forward":
        origin.push({"theirs.txt": "x\n"})
    begun(world, "parent", {"same.txt": "one\n"})
    begun(world, "child", {"same.txt": "one\ntwo\n"}, "parent")
    begun(world, "grandchild", {"grandchild.txt": "x\n"}, "child")
    before = world.tip(), origin.tip()
    world.db.write(lambda conn: steering.freeze(conn, "main", "A release.", "Ann", world.now()))
    ids = submit(world, "grandchild", "child", "parent")
    world.run()
    assert (world.tip(), origin.tip()) == before and all(
        world.merge(merge_id)["candidate_sha"] for merge_id in ids.values()
    )
    world.db.write(lambda conn: steering.thaw(conn, "main", world.now()))
    world.run()
    assert set(states(world, ids).values()) == {"landed"}, [
        world.merge(merge_id)["reason"] for merge_id in ids.values()
    ]
    assert world.tip() == origin.tip() and (world.root / "same.txt").read_text() == "one\ntwo\n"
    own = [git(world.root, "diff", "--name-only", *(str(world.merge(ids[name])[key]) for key in ("tip_sha", "landed_sha")))
           for name in ("parent", "child", "grandchild")]  # fmt: skip
    assert own == ["same.txt", "same.txt", "grandchild.txt"], "each brought its own work alone"

    undo = reverted(world, ids["child"])
    assert (world.root / "same.txt").read_text() == "one\n" and "grandchild.txt" in files(world)
    assert world.tip() == origin.tip() and undo["reverts"] == ids["child"]
    reverted(world, undo["merge_id"])
    assert (world.root / "same.txt").read_text() == "one\ntwo\n" and world.tip() == origin.tip()


@pytest.mark.parametrize("style", ["squash", "rebase"])
def test_a_child_lands_its_own_after_its_parent_landed_in_another_shape(
    world: World, origin: Origin, style: str
) -> None:
    world.landing = Landing.model_validate({"remote": "origin", "verify": ["true"], "reruns": 0, "style": style})
    begun(world, "parent", {"same.txt": "one\n"})
    begun(world, "child", {"same.txt": "one\ntwo\n"}, "parent")
    commit(world.root, {"mine.txt": "x\n"})
    world.land("parent")
    commit(world.root, {"same.txt": "ONE\n\n\n\n"}, "main goes on from it")
    commit(world.root, {"same.txt": "one\n"}, "and back")
    ids = submit(world, "child")
    world.run()
    assert states(world, ids) == {"child": "landed"}, world.merge(ids["child"])["reason"]
    assert (world.root / "same.txt").read_text() == "one\ntwo\n" and world.tip() == origin.tip()


def test_a_revert_that_fell_behind_is_made_anew_where_only_fast_forwards_land(world: World) -> None:
    world.landing = Landing(style="fast-forward")
    world.branch("feature", {"f.txt": "x\n"})
    landed = world.land("feature")
    commit(world.root, {"mine.txt": "x\n"})
    late = reverts.submit(world.db, world.repo(), landed["merge_id"], session_id=None, now=world.now()).merge
    commit(world.root, {"mine.txt": "y\n"}, "while it waits")
    assert world.finish(late["merge_id"])["state"] == "conflict"
    reverted(world, landed["merge_id"])
    assert "f.txt" not in files(world) and (world.root / "mine.txt").read_text() == "y\n"
