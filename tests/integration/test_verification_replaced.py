"""No command can stop a target by what it puts in the place of the verification worktree; it is left, named, and counts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.store import events
from corral.work.worktrees import store as worktree_rows
from tests.conftest import commit
from tests.integration import taken_places
from tests.integration.landing_world import World, why
from tests.integration.taken_places import state

LINK = 'mv "$PWD" "$PWD.$$"; ln -s {own} "$PWD"'
WAYS = {
    "link": LINK,
    "folder": 'mv "$PWD" "$PWD.$$"; mkdir "$PWD"; echo theirs > "$PWD/theirs.txt"',
    "copy": 'mv "$PWD" "$PWD.$$"; cp -a "$PWD.$$" "$PWD"',
    "moved": 'mv "$PWD" "$PWD.$$"',
    "file": 'mv "$PWD" "$PWD.$$"; echo theirs > "$PWD"',
    "parent": 'mv "$(dirname "$PWD")" "$(dirname "$PWD").$$"; ln -s {own} "$(dirname "$PWD")"',
    "parent folder": 'd=$(dirname "$PWD"); mv "$d" "$d.$$"; mkdir "$d"; cp -a "$d.$$/." "$d"',
    "root": 'd=$(dirname "$(dirname "$PWD")"); mv "$d" "$d.$$"; ln -s {own} "$d"',
    "deleted": 'rm -rf "$PWD"',
    "git file": "rm .git",
}


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    commit(repo, {"check.sh": "test -f README.md\n"})
    made = World(repo, landing=Landing(verify=["sh check.sh"], reruns=0))
    yield made
    made.close()


def kept(world: World) -> list[str]:
    return [str(row["note"]) for row in world.db.read(worktree_rows.noted)]


@pytest.mark.req("X5")
@pytest.mark.parametrize("way", WAYS)
def test_a_branch_that_replaces_it_fails_and_the_others_land(world: World, way: str) -> None:
    own = taken_places.users_worktree(world.root)
    before, place = state(own), world.verification_worktree.path
    bad = world.offer("bad", {"check.sh": WAYS[way].format(own=shlex.quote(str(own))) + "\n"})
    others = [world.submit(name) for name in ("b", "c", "d") if world.branch(name, {f"{name}.txt": "x\n"})]
    for each in others:
        world.until(each, "landed")
    merge = world.until(bad, "failed", "landed")
    assert merge["state"] == "failed" and "lost its worktree" in why(merge)
    assert "while main without it passed" in why(merge) and state(own) == before
    replaced = [row["data"] for row in world.db.read(events.listing) if row["kind"] == "worktree.replaced"]
    assert len(replaced) == 2 and str(replaced[0]["path"]) == str(place)
    if way not in ("deleted", "git file"):
        assert str(replaced[1]["kept"]) in why(merge)
        assert all(Path(str(row["kept"])).is_dir() for row in replaced), "the worktree itself is kept"
        assert any(str(replaced[0]["kept"]) in note and "remove what you do not need" in note for note in kept(world))
    assert world.pause() is None


def test_what_a_stopped_run_left_does_not_stop_the_next_start(world: World) -> None:
    own = taken_places.users_worktree(world.root)
    done = world.root.parent / "done"
    bad = world.offer("bad", {"check.sh": LINK.format(own=own) + f"; touch {done}; sleep 60\n"})
    world.step_until(done.exists)
    world.queue.stop(world.now())
    world.queue = world.new_queue()
    world.queue.recover(world.now())
    good = world.offer("good", {"good.txt": "x\n"}, priority=9)
    world.until(good, "landed")
    assert world.merge(bad)["state"] != "landed" and len(kept(world)) == 1


def test_a_stranger_who_replaces_it_during_a_run_blames_nobody(world: World) -> None:
    runs, go = world.root.parent / "runs", world.root.parent / "go"
    wait = f"echo x >> {runs}; i=0; while test ! -e {go} && test $i -lt 600; do sleep 0.05; i=$((i+1)); done"
    world.landing = Landing(verify=[wait], reruns=0)
    good = world.offer("good", {"good.txt": "x\n"})
    world.step_until(runs.exists)
    place = world.verification_worktree.path
    place.rename(place.with_name("elsewhere"))
    place.symlink_to(world.root)
    go.touch()
    world.until(good, "landed")
    assert len(runs.read_text().split()) == 3
    assert str(place.with_name("elsewhere")) in kept(world)[0]


def test_a_setup_that_replaces_it_counts_like_a_command(world: World) -> None:
    own = taken_places.users_worktree(world.root)
    before = state(own)

    def prepare(place: Path) -> dict[str, str]:
        if (place / "evil.txt").exists():
            place.rename(place.with_name(f"{place.name}.old"))
            place.symlink_to(own)
        return {}

    world.prepare = prepare
    bad = world.offer("bad", {"evil.txt": "x\n"})
    good = world.offer("good", {"good.txt": "x\n"})
    world.until(good, "landed")
    merge = world.until(bad, "failed", "landed")
    assert "its setup, before any command ran, lost its worktree" in why(merge) and state(own) == before
