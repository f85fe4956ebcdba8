"""Verification has a worktree of its own kind: no name leads to it, nobody shares it, and what takes its place is not touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.identifiers import NAME
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import store as worktree_rows
from tests.conftest import git, worktrees_of
from tests.integration import taken_places
from tests.integration.landing_world import World, why
from tests.integration.taken_places import Take, state

REPLACED = (taken_places.link, taken_places.another_repository, taken_places.copy)


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo, landing=Landing(verify=["test -f README.md"], reruns=0))
    yield made
    made.close()


def verify(world: World, name: str) -> str:
    """Submit a branch and look at it once; returns the merge's id."""
    merge_id = world.offer(name, {f"{name}.txt": "x\n"})
    world.run(skip=False)
    return merge_id


def row(world: World) -> WorktreeRow:
    worktree = world.db.read(lambda conn: worktree_rows.live_by_name(conn, "verify:1"))
    assert worktree is not None
    return worktree


def notes(world: World) -> list[str]:
    return [str(kept["note"]) for kept in world.db.read(worktree_rows.noted)]


def test_it_has_a_row_of_its_own_kind_and_a_name_nobody_can_ask_for(world: World) -> None:
    assert world.merge(verify(world, "one"))["state"] == "landed"
    place = world.verification_worktree.path
    assert place == worktrees_of(world.root) / "verification-world" / "1" and (place / "one.txt").exists()
    kept = row(world)
    assert (kept["purpose"], kept["state"], kept["path"]) == ("verify", "ready", str(place))
    assert kept["folder_id"] == f"{place.stat().st_dev}:{place.stat().st_ino}" and not NAME.fullmatch("verify:1")


@pytest.mark.parametrize("name", ["verify-1", "1"])
def test_a_worktree_that_a_person_calls_so_is_left_alone(world: World, name: str) -> None:
    own = worktrees_of(world.root) / name
    git(world.root, "worktree", "add", "-q", "--detach", str(own))
    (own / "README.md").write_text("unsaved\n")
    (own / "untracked.txt").write_text("mine\n")
    before = state(own)
    assert world.merge(verify(world, "one"))["state"] == "landed"
    assert state(own) == before


@pytest.mark.req("X5")
@pytest.mark.parametrize("take", REPLACED, ids=lambda take: take.__name__)
def test_what_stands_in_its_place_is_not_touched_and_blames_no_change(world: World, take: Take) -> None:
    verify(world, "one")
    place = world.verification_worktree.path
    kept = take(world.root, place)
    before = state(kept)
    assert world.merge(verify(world, "two"))["state"] == "landed", "what stands there stops nobody"
    assert state(kept) == before and row(world)["path"] != str(place) and row(world)["note"] is None
    assert [note for note in notes(world) if str(place) in note and str(row(world)["path"]) in note]
    place.unlink() if place.is_symlink() else place.rename(world.root.parent / "theirs")
    assert world.merge(verify(world, "three"))["state"] == "landed"
    assert notes(world) == [], "nothing of it is left"


def test_a_link_on_the_way_to_it_is_not_followed(world: World, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    world.places.establish(world.verification_worktree.path)
    world.verification_worktree.path.parent.symlink_to(tmp_path / "elsewhere")
    merge = world.merge(verify(world, "one"))
    assert merge["state"] == "queued" and "is a symbolic link" in why(merge)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_one_at_a_former_place_is_removed_and_the_next_run_takes_the_new_one(world: World, tmp_path: Path) -> None:
    chosen = world.places
    world.places = replace(chosen, configured=lambda: str(tmp_path / "former"))
    world.queue = world.new_queue()
    assert world.merge(verify(world, "one"))["state"] == "landed"
    former = world.verification_worktree.path
    assert former.is_relative_to(tmp_path / "former")
    world.places = chosen
    world.queue = world.new_queue()
    assert world.merge(verify(world, "two"))["state"] == "landed"
    assert world.verification_worktree.path == worktrees_of(world.root) / "verification-world" / "1"
    assert not former.exists() and str(former) not in git(world.root, "worktree", "list")


def test_two_projects_with_one_root_verify_apart(world: World, make_repo: Callable[..., Path], tmp_path: Path) -> None:
    other = World(make_repo("other"), landing=world.landing)
    try:
        for place, project_id in ((world, "first-project"), (other, "second-project")):
            place.places = replace(place.places, project_id=project_id, configured=lambda: str(tmp_path / "shared"))
            place.queue = place.new_queue()
            assert place.merge(verify(place, "one"))["state"] == "landed"
        assert world.verification_worktree.path != other.verification_worktree.path
        assert (
            world.verification_worktree.path.parents[1]
            == other.verification_worktree.path.parents[1]
            == tmp_path / "shared"
        )
    finally:
        other.close()
