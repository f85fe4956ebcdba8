"""Commits that somebody makes directly on a target: verified when they are seen, and a red one pauses the target."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.config.sections.sharing import Landing
from corral.core.states import ReceiptStatus
from corral.landing import reverts, steering
from corral.store.rows.merges import DirectTipRow
from corral.work.merges.store import direct_tips, receipts
from tests.conftest import commit, git
from tests.integration.landing_world import World, in_a_process, listed

VERIFY = "! ls | grep -q broke && echo '1 passed in 0.01s'"
"""It names no file, which a person would have to approve."""


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo, landing=Landing(verify=[VERIFY], reruns=1))
    made.branch("first", {"first.txt": "x\n"})
    assert made.land("first")["state"] == "landed"
    yield made
    made.close()


def tip_row(world: World) -> DirectTipRow | None:
    return world.db.read(lambda conn: direct_tips.of(conn, "main"))


def why_red(world: World) -> str:
    """Why the target is paused; empty: it is not."""
    row = tip_row(world)
    return (row["reason"] or "") if row is not None else ""


def broken(world: World) -> str:
    """A commit by somebody else that breaks the target."""
    (world.root / "broken.txt").write_text("x\n")
    git(world.root, "add", "broken.txt")
    git(world.root, "commit", "-q", "-m", "faster", "--author", "Bea Fast <bea@example.org>")
    return world.tip()


def test_a_green_commit_is_verified_and_stops_nobody(world: World) -> None:
    commit(world.root, {"mine.txt": "x\n"})
    world.queue.step(world.now())
    assert tip_row(world) is not None, "it is verified although nothing is queued"
    world.step_until(lambda: tip_row(world) is None)
    assert [kind for kind in world.events() if kind.startswith("target.")] == []
    logs = [*(world.project.logs_dir / "merges").glob("tip-*/*.log")]
    assert len(logs) == 1 and "1 passed" in logs[0].read_text()
    world.queue.step(world.now())
    again = world.new_queue()
    again.recover(world.now())
    again.step(world.now())
    assert tip_row(world) is None and len([*(world.project.logs_dir / "merges").glob("tip-*/*.log")]) == 1, "and once"


def test_a_red_commit_pauses_its_target_says_whose_it_is_and_a_repair_passes(world: World) -> None:
    world.slots = 2
    bad = broken(world)
    world.branch("waits", {"waits.txt": "x\n"})
    world.skip(-1)  # it was queued before anybody saw the commit
    waits = world.submit("waits")
    world.skip(1)
    world.step_until(lambda: why_red(world))
    world.step_until(lambda: world.merge(waits)["state"] == "queued")
    row = tip_row(world)
    assert row is not None
    assert f"{bad[:12]} 'faster' by Bea Fast" in str(row["reason"]) and "failed with exit code 1" in str(row["reason"])
    (shown,) = [line for line in listed(world.db) if line["merge_id"] == waits]
    assert shown["state"] == "queued" and shown["reason"] == row["reason"]
    assert [kind for kind in world.events() if kind.startswith("target.")] == ["target.paused"]
    again = world.new_queue()
    again.recover(world.now())
    world.queue = again
    world.spend(10)
    assert world.tip() == bad and world.merge(waits)["state"] == "queued", "a restart forgets nothing"
    git(world.root, "switch", "-q", "-c", "repair")
    git(world.root, "rm", "-q", "broken.txt")
    git(world.root, "commit", "-q", "-m", "repair")
    git(world.root, "switch", "-q", "main")
    repair = world.submit("repair")
    world.until(repair, "landed")
    world.until(waits, "landed")
    assert world.receipt(waits)["status"] == "passed" and tip_row(world) is None
    assert world.events().count("target.resumed") == 1


def test_the_pause_ends_by_itself_when_somebody_makes_the_target_green_again(world: World) -> None:
    bad = broken(world)
    world.step_until(lambda: why_red(world))
    git(world.root, "commit", "-q", "--allow-empty", "-m", "nothing")
    world.step_until(lambda: "'nothing'" in why_red(world))
    assert "'faster' by Bea Fast" in why_red(world), "the first one still counts"
    git(world.root, "revert", "--no-edit", bad)
    world.step_until(lambda: tip_row(world) is None)
    assert [kind for kind in world.events() if kind.startswith("target.")] == ["target.paused", "target.resumed"]
    broken(world)
    world.queue.step(world.now())
    assert tip_row(world) is not None
    git(world.root, "reset", "-q", "--hard", "HEAD~1")
    world.step_until(lambda: tip_row(world) is None)


@pytest.mark.parametrize("is_red_since", [True, False], ids=["red since", "too old"])
def test_a_green_run_that_would_let_no_request_land_does_not_speak_for_a_tip(world: World, is_red_since: bool) -> None:
    green = world.receipt(world.settled[0][0])
    tree, fingerprint, red = green["tree"], green["fingerprint"], ReceiptStatus.FAILED
    if is_red_since:
        world.db.write(
            lambda conn: receipts.add(
                conn, tree=tree, fingerprint=fingerprint, status=red, exit_code=1, now=world.now()
            )
        )
    else:
        world.skip(2 * 86400)
    commit(world.root, {"mine.txt": "x\n"}, "mine")
    git(world.root, "revert", "--no-edit", "HEAD")
    assert world.tip("main^{tree}") == tree
    world.queue.step(world.now())
    world.step_until(lambda: tip_row(world) is None)
    assert len([*(world.project.logs_dir / "merges").glob(f"tip-{world.tip()[:8]}*/*.log")]) == 1, "it was verified"


def test_a_revert_repairs_what_was_broken_by_a_request_that_bypassed_its_verification(world: World) -> None:
    urgent = world.offer("urgent", {"broken.txt": "x\n"})
    head = world.merge(urgent)["head_sha"]
    world.db.write(lambda conn: steering.bypass(conn, world.merge(urgent), head, "Now.", "Ann", world.now()))
    world.until(urgent, "landed")
    world.step_until(lambda: why_red(world))
    assert "Ann let it land without a verification: Now." in why_red(world)
    undo = reverts.submit(world.db, world.repo(), urgent, session_id=None, now=world.now())
    world.until(undo.merge["merge_id"], "landed")
    world.step_until(lambda: tip_row(world) is None)


def test_a_red_tip_is_verified_again_when_a_person_says_so_and_chance_is_run_again_by_itself(
    world: World, tmp_path: Path
) -> None:
    runs, chance = tmp_path / "runs", tmp_path / "chance"
    world.landing = Landing(
        verify=[f"echo x >> {runs}; test -e {chance}; echo '1 passed in 0.01s'; test -e {chance}"], reruns=1
    )
    commit(world.root, {"mine.txt": "x\n"})
    world.step_until(lambda: why_red(world))
    assert len(runs.read_text().split()) == 2, "red takes two runs"
    world.spend(5)
    assert len(runs.read_text().split()) == 2, "and is not run all the time"
    chance.touch()
    world.skip(1)
    assert world.db.write(lambda conn: steering.thaw(conn, "main", world.now())) == (False, True)
    world.step_until(lambda: tip_row(world) is None)
    assert world.events().count("target.resumed") == 1


def test_a_tip_that_cannot_be_verified_is_tried_three_times_and_pauses_nothing(world: World, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    world.landing = Landing(verify=[f"echo x >> {runs}; kill -9 $$"], reruns=1)
    commit(world.root, {"mine.txt": "x\n"})
    for _ in range(8):
        world.spend(60)
        time.sleep(0.2)
        world.skip(300)
    row = tip_row(world)
    assert row is not None and row["reason"] is None and row["tries"] == 3
    assert len(runs.read_text().split()) == 3


@pytest.mark.faults
def test_a_commit_is_looked_at_although_the_daemon_was_killed_when_it_saw_it(repo: Path) -> None:
    world = World(repo, landing=Landing(verify=[VERIFY], reruns=0))
    world.branch("first", {"first.txt": "x\n"})
    world.land("first")
    broken(world)
    world.offer("next", {"next.txt": "x\n"})
    world.close()
    assert in_a_process(repo, VERIFY, CORRAL_CRASH_AT="direct_commits.seen").wait(60) == -9
    again = World(repo, landing=Landing(verify=[VERIFY], reruns=0))
    again.queue.recover(again.now())
    again.step_until(lambda: why_red(again))
    again.close()
