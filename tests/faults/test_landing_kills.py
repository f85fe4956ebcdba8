"""The queue is killed at every named point, and at random; the next one finishes or undoes what was begun."""

from __future__ import annotations

import random
import subprocess
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import select, update

from corral.config.sections.sharing import Landing
from corral.git.checkouts.worktrees import repair
from corral.git.land import receipt_notes
from corral.store.schema import worktrees
from corral.work.merges.store import intents, receipts
from corral.work.merges.wire import covered_by
from corral.work.worktrees import store as worktree_rows
from tests.conftest import commit, git
from tests.integration.landing_world import World, fingerprint, in_a_process, why
from tests.support.coordinated import eventually
from tests.support.examples import examples
from tests.support.files import executable

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

BEFORE = (
    "queue.candidate_built",
    "queue.candidate_held",
    "queue.candidate_stored",
    "queue.verifying_stored",
    "verification.intended",
    "verification.folder_made",
    "verification.added",
    "queue.verification_started",
)
"""Points where nothing yet depends on whether the target is checked out somewhere."""
POINTS = (
    "queue.verdict_stored",
    "landing.before_intent",
    "landing.intent_stored",
    "landing.target_moved",
    "landing.tip_kept",
    "landing.receipt_noted",
    "landing.outcome_stored",
    "landing.branch_retired",
)
IN_THE_CHECKOUT = (
    "landing.index_locked",
    "landing.noted",
    "landing.index_copied",
    "landing.forwarded",
    "landing.index_written",
    "landing.note_removed",
    "landing.unlocked",
)
VERIFY = "test -f seed.txt && echo '1 passed in 0.01s'"


def prepare(root: Path, *, checked_out: bool, branches: int = 1) -> tuple[World, list[str], str]:
    """A world whose branches are true merges, in a checkout with dirt that does not overlap."""
    world = World(root, landing=Landing(verify=[VERIFY], reruns=0))
    names = [f"corral/task-{number}" for number in range(branches)]
    for number, name in enumerate(names):
        world.own_branch(name, {f"new-{number}.txt": "x\n"})
    base = commit(root, {"seed.txt": "x\n"})
    if not checked_out:
        git(root, "switch", "-q", "-c", "elsewhere")
    (root / "src/a.py").write_text("mine\n")
    (root / "untracked.txt").write_text("mine\n")
    (root / "README.md").write_text("staged\n")
    git(root, "add", "README.md")
    return world, [world.submit(name) for name in names], base


def check(world: World, merge_ids: list[str], base: str, heads: list[str]) -> None:
    """Every invariant that a finished queue has to show."""
    rows = [world.merge(merge_id) for merge_id in merge_ids]
    assert [row["state"] for row in rows] == ["landed"] * len(rows), rows
    log = git(world.root, "log", "--first-parent", "--format=%H %T", f"{base}..main").splitlines()
    assert sorted(line.split()[0] for line in log) == sorted(row["landed_sha"] or "" for row in rows), (
        "each landed once"
    )
    trees = [line.split()[1] for line in log]
    for place, line in enumerate(log):
        sha, tree = line.split()
        row = next(row for row in rows if row["landed_sha"] == sha)
        receipt = world.db.read(lambda conn, row=row: receipts.get(conn, row["receipt_id"]))  # type: ignore[misc]
        assert receipt is not None
        assert receipt["status"] == "passed" and receipt["tree"] in trees[: place + 1], (
            "tested, or covered by a later one"
        )
        assert covered_by(row, receipt) is None or receipt["tree"] != tree
        assert receipt_notes.check(world.repo(), sha).is_proven, "every clone can check it"
        assert git(world.root, "rev-parse", f"{sha}^2") == row["head_sha"], "the pinned head was merged"
    proven = {world.receipt(merge_id)["tree"] for merge_id in merge_ids}
    moves = git(world.root, "reflog", "show", "--format=%H %T", "main").splitlines()
    moved = {move.split()[1] for move in moves[: [move.split()[0] for move in moves].index(base)]}
    assert moved == proven, "the target only ever moved to what was tested"
    for head in heads:
        git(world.root, "merge-base", "--is-ancestor", head, "main")
    assert world.db.read(intents.listing) == []
    assert world.held_refs() == []
    assert git(world.root, "branch", "--list", "corral/*") == ""
    git(world.root, "fsck", "--connectivity-only", "--no-dangling")
    assert world.db.read(lambda conn: conn.exec_driver_sql("PRAGMA integrity_check").scalar()) == "ok"


@pytest.mark.req("I4", "I7")
@pytest.mark.parametrize("point", ["landing.intent_stored", "push.sent", "push.stored", "landing.target_moved"])
def test_killed_while_it_is_pushed(repo: Path, tmp_path: Path, point: str) -> None:
    """The next start looks at the remote, and finishes or pushes again; there it lands once, in one move."""
    world, merge_ids, base = prepare(repo, checked_out=True)
    heads = [world.merge(merge_id)["head_sha"] for merge_id in merge_ids]
    origin = tmp_path / "origin.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(origin))
    git(origin, "config", "core.logAllRefUpdates", "always")
    git(repo, "remote", "add", "origin", str(origin))
    world.close()
    assert in_a_process(repo, VERIFY, "origin", CORRAL_CRASH_AT=point).wait(60) == -9, f"{point} was not reached"
    arrived = git(origin, "rev-parse", "main") != base
    assert arrived == (point != "landing.intent_stored")
    again = World(repo, landing=Landing(verify=[VERIFY], reruns=0, remote="origin"))
    again.queue.recover(again.now())
    again.run()
    check(again, merge_ids, base, heads)
    assert git(origin, "rev-parse", "main") == again.tip()
    assert len(git(origin, "reflog", "show", "--format=%H", "main").splitlines()) == 1
    again.close()


@pytest.mark.req("I4", "I7")
def test_killed_when_the_remote_has_refused(repo: Path, tmp_path: Path) -> None:
    world, merge_ids, base = prepare(repo, checked_out=True)
    heads = [world.merge(merge_id)["head_sha"] for merge_id in merge_ids]
    origin = tmp_path / "origin.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(origin))
    git(repo, "remote", "add", "origin", str(origin))
    refuses = executable(origin / "hooks" / "pre-receive", "#!/bin/sh\necho not today >&2; exit 1\n")
    world.close()
    assert in_a_process(repo, VERIFY, "origin", CORRAL_CRASH_AT="push.refused").wait(60) == -9
    again = World(repo, landing=Landing(verify=[VERIFY], reruns=0, remote="origin"))
    again.queue.recover(again.now())
    again.spend(4)
    assert again.merge(merge_ids[0])["state"] == "held" and "not today" in why(again.merge(merge_ids[0]))
    assert again.tip() == git(origin, "rev-parse", "main") == base and again.db.read(intents.listing) == []
    refuses.unlink()
    again.spend(60)
    check(again, merge_ids, base, heads)
    assert git(origin, "rev-parse", "main") == again.tip()
    again.close()


@pytest.mark.req("I7", "G3")
def test_killed_when_what_took_the_place_of_its_worktree_was_set_aside(repo: Path, tmp_path: Path) -> None:
    world, merge_ids, base = prepare(repo, checked_out=True)
    heads, place = [world.merge(merge_id)["head_sha"] for merge_id in merge_ids], world.verification_worktree.path
    world.close()
    takes = f'test -e {tmp_path}/once || {{ touch {tmp_path}/once; mv "$PWD" "$PWD.moved"; mkdir "$PWD"; }}; {VERIFY}'
    assert in_a_process(repo, takes, CORRAL_CRASH_AT="verification.set_aside").wait(60) == -9
    again = World(repo, landing=Landing(verify=[VERIFY], reruns=0))
    again.queue.recover(again.now())
    again.run()
    check(again, merge_ids, base, heads)
    (kept,) = [str(row["note"]) for row in again.db.read(worktree_rows.noted)]
    assert f"{place}.moved" in kept and place.is_dir() and not list(place.iterdir()), "a person finds both"
    assert again.verification_worktree.path != place and (again.verification_worktree.path / "seed.txt").exists()
    again.close()


@pytest.mark.req("I7")
def test_killed_when_it_has_kept_what_a_rewound_target_lost(repo: Path) -> None:
    world, (merge_id,), base = prepare(repo, checked_out=True)
    world.run()
    tip = world.tip()
    world.close()
    git(repo, "reset", "-q", "--soft", base)
    assert in_a_process(repo, VERIFY, CORRAL_CRASH_AT="rewinds.refs_moved").wait(60) == -9
    assert git(repo, "for-each-ref", "--format=%(objectname)", "refs/corral/landed/lost/") == tip
    again = World(repo, landing=Landing(verify=[VERIFY], reruns=0))
    for _ in range(2):
        again.queue.recover(again.now())
        again.queue.step(again.now())
    (rewind,) = again.queue.rewinds.open["main"]
    assert [row["merge_id"] for row in rewind.requests] == [merge_id] and rewind.lost_sha == tip
    assert again.events().count("target.rewound") == 1, "told once, although the refs were moved before"
    again.close()


@pytest.mark.req("I1")
@pytest.mark.req("I2")
@pytest.mark.req("I4")
@pytest.mark.req("I7")
@pytest.mark.req("I8")
@pytest.mark.parametrize(
    ("point", "checked_out"),
    [*product((*BEFORE, *IN_THE_CHECKOUT), [True]), *product(POINTS, [True, False])],
    ids=lambda value: value if isinstance(value, str) else "checked-out" if value else "nowhere",
)
def test_killed_at(repo: Path, point: str, checked_out: bool) -> None:
    world, merge_ids, base = prepare(repo, checked_out=checked_out)
    heads = [world.merge(merge_id)["head_sha"] for merge_id in merge_ids]
    before, index = fingerprint(repo), git(repo, "diff", "--cached")
    world.close()
    killed = in_a_process(repo, VERIFY, CORRAL_CRASH_AT=point)
    assert killed.wait(60) == -9, f"{point} was not reached"
    if point in IN_THE_CHECKOUT[:-1]:
        assert (repo / ".git/index.lock").exists()
    git(repo, "gc", "--prune=now", "-q")
    again = World(repo, landing=Landing(verify=[VERIFY], reruns=0))
    again.queue.recover(again.now())
    again.run()
    check(again, merge_ids, base, heads)
    again.close()
    after = fingerprint(repo)
    assert after.pop("new-0.txt", None) == (b"x\n" if checked_out else None)
    assert after == before, "the user's files are as they were"
    assert git(repo, "diff", "--cached") == index
    assert left_in(repo / ".git") == set()


def left_in(git_dir: Path) -> set[str]:
    """What a landing has in a git directory only as long as it lasts, and every lock."""
    return {
        entry.name for entry in git_dir.iterdir() if entry.name.startswith("corral.landing") or entry.suffix == ".lock"
    }


@pytest.mark.req("I9")
def test_killed_again_and_again(repo: Path) -> None:
    """Kills at random instants of a queue with work left, until all has landed: exactly once."""
    verify = f"{VERIFY} && sleep 0.5"
    world, merge_ids, base = prepare(repo, checked_out=True, branches=6)
    heads = [world.merge(merge_id)["head_sha"] for merge_id in merge_ids]
    world.close()
    chance = random.Random(20)
    kills = 0
    alive = repo / ".corral" / "alive"
    while kills < examples(8, usual=4):
        alive.unlink(missing_ok=True)
        living = in_a_process(repo, verify)
        eventually(lambda living=living: alive.exists() or living.poll() is not None)  # type: ignore[misc]
        try:
            assert living.wait(chance.random()) == 0
            break
        except subprocess.TimeoutExpired:
            living.kill()
            living.wait()
            kills += 1
    assert kills >= 2, "six verifications take longer than two lives"
    assert in_a_process(repo, verify).wait(60) == 0
    again = World(repo, landing=Landing(verify=[verify], reruns=0))
    again.queue.recover(again.now())
    check(again, merge_ids, base, heads)
    landed = {again.merge(merge_id)["landed_sha"] for merge_id in merge_ids}
    assert set(git(repo, "log", "--first-parent", "--format=%H", f"{base}..main").split()) == landed
    again.close()


@pytest.mark.req("G5")
def test_what_cannot_be_tidied_keeps_nobody_from_landing_and_is_tidied_later(repo: Path) -> None:
    """The lock of a git that was killed while it deleted a ref stops every other deletion, until it is known to be stale."""
    world, merge_ids, base = prepare(repo, checked_out=True, branches=2)
    heads = [world.merge(merge_id)["head_sha"] for merge_id in merge_ids]
    git(repo, "pack-refs", "--all")
    lock = repo / ".git" / "packed-refs.lock"
    lock.touch()
    world.run()
    assert [world.merge(merge_id)["state"] for merge_id in merge_ids] == ["landed"] * 2
    assert len(world.held_refs()) == 2, "nothing could be deleted"
    at = world.now()
    due = world.queue.step(at)
    assert due is not None and due > at, "it looks again by itself"
    again = world.new_queue()
    again.recover(world.now())
    lock.unlink()
    for _ in range(3):
        due = due and world.queue.step(due)
    check(world, merge_ids, base, heads)
    assert due is None
    world.close()


@pytest.mark.req("G3")
def test_the_branch_of_a_worktree_whose_removal_was_killed_half_way_stays_until_it_is_gone(repo: Path) -> None:
    world, (merge_id,), _ = prepare(repo, checked_out=True)
    branch = world.merge(merge_id)["branch"]
    (row,) = world.db.read(lambda conn: conn.execute(select(worktrees)).mappings().all())
    place = repo.parent / "place"
    git(repo, "worktree", "add", "-q", str(place), branch)
    (place / ".git").unlink()  # a removal takes the files in any order; without this one git sees no worktree there
    known = {"state": "reclaiming", "removed_at": None, "path": str(place)}
    here = worktrees.c.worktree_id == row["worktree_id"]
    world.db.write(lambda conn: conn.execute(update(worktrees).where(here).values(**known)))
    assert world.finish(merge_id)["state"] == "landed"
    assert git(repo, "rev-parse", branch) == world.merge(merge_id)["head_sha"]
    assert repair(world.repo(), place, branch), "so what is left there can still be looked through"
    git(repo, "worktree", "remove", "-f", str(place))
    world.queue.step(world.now())
    assert git(repo, "branch", "--list", branch) == "" and world.held_refs() == []
    world.close()
