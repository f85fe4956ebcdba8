"""Several requests in one chain: verified side by side, landed in one move, and each judged by itself where one is red."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from corral.config.sections.sharing import Landing
from corral.git.process import process
from corral.store.rows.merges import VerificationRunRow
from corral.work.merges.store import runs
from corral.work.merges.wire import detail
from tests.conftest import git
from tests.integration.landing_world import World, in_a_process, why


def _grown(world: World, batch: int) -> None:
    """A target on which so many requests make one chain by now."""
    world.db.write(lambda conn: runs.set_batch(conn, "main", batch))


def _submitted(world: World, *names: str, **files: dict[str, str]) -> dict[str, str]:
    for name in names:
        world.branch(name, files.get(name, {f"{name}.txt": "x\n"}))
    return {name: world.submit(name) for name in names}


def _wait(file: Path) -> str:
    return f"while [ ! -e {file} ]; do sleep 0.05; done"


def _states(world: World, ids: dict[str, str]) -> dict[str, str]:
    return {name: world.merge(merge_id)["state"] for name, merge_id in ids.items()}


def _shown(world: World, merge_id: str) -> Any:
    return detail(world.merge(merge_id), world.receipt(merge_id))["receipt"]


def _running(world: World) -> list[VerificationRunRow]:
    return world.db.read(runs.running)


def test_what_nothing_verifies_lands_in_one_move_and_with_few_gits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.landing = Landing()
    git(world.root, "commit", "-q", "--allow-empty", "-m", "so that a merge is needed")
    names = [f"part{number}" for number in range(8)]
    ids = _submitted(world, *names)
    gits, before, real = list[str](), world.tip(), process.execute

    def counted(argv: Sequence[str], *args: Any, **how: Any) -> process.Finished:
        gits.append(argv[4])
        return real(argv, *args, **how)

    monkeypatch.setattr(process, "execute", counted)
    world.run()
    monkeypatch.undo()
    assert set(_states(world, ids).values()) == {"landed"}
    moves = git(world.root, "reflog", "show", "--format=%H", "main").splitlines()
    assert moves[1] == before and moves[0] == world.tip(), "in one move"
    receipts = [_shown(world, merge_id) for merge_id in ids.values()]
    assert {receipt["status"] for receipt in receipts} == {"unverified"}
    assert len({receipt["tree"] for receipt in receipts}) == len(names), "each is about its own tree"
    assert len(gits) <= 8 * len(names), gits


@pytest.mark.req("I1")
@pytest.mark.req("I12")
def test_a_chain_is_verified_side_by_side_and_lands_in_one_move(world: World, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    world.landing = Landing(verify=[f"while [ ! -e {gate} ]; do sleep 0.05; done; pwd >> {tmp_path}/places"])
    world.slots = 3
    _grown(world, 6)
    before = world.tip()
    ids = _submitted(world, "a", "b", "c", "d", "e", "f")
    world.queue.step(world.now())
    at_work = _running(world)
    assert [len(run["members"]) for run in at_work] == [6, 4, 2]
    gate.touch()
    world.run()
    assert set(_states(world, ids).values()) == {"landed"}
    assert len(set((tmp_path / "places").read_text().split())) <= 3, "each slot has a worktree of its own"
    moves = git(world.root, "reflog", "show", "--format=%H", "main").split()
    landed = moves[: moves.index(before)]
    assert len(landed) <= 3 and landed[0] == world.tip()
    verified = {world.receipt(merge_id)["tree"] for merge_id in ids.values()}
    trees = {git(world.root, "rev-parse", f"{tip}^{{tree}}") for tip in landed}
    assert trees == verified, "the target was only ever at a verified tree"
    shas = [world.merge(merge_id)["landed_sha"] for merge_id in ids.values()]
    assert len(set(shas)) == 6, "each knows its own commit"
    shown = {name: _shown(world, merge_id) for name, merge_id in ids.items()}
    covered = {name: receipt["covered_by"] for name, receipt in shown.items() if receipt["status"] == "covered"}
    assert set(covered.values()) <= set(landed) and len(covered) == 6 - len(landed)
    assert {receipt["status"] for receipt in shown.values()} == {"covered", "passed"}
    assert len(git(world.root, "rev-list", "--first-parent", f"{before}..main").split()) == 6


@pytest.mark.req("I5")
@pytest.mark.req("I6")
def test_the_broken_one_of_a_chain_is_out_with_evidence_and_the_others_land(world: World) -> None:
    world.landing = Landing(verify=["test ! -e broken.txt"], reruns=1)
    world.slots = 2
    _grown(world, 5)
    ids = _submitted(world, "a", "b", "broken", "c", "d", broken={"broken.txt": "x\n"})
    world.run()
    assert _states(world, ids) == {"a": "landed", "b": "landed", "broken": "failed", "c": "landed", "d": "landed"}
    assert "failed with exit code 1" in why(world.merge(ids["broken"]))
    assert "without it passed" in why(world.merge(ids["broken"]))
    assert not (world.root / "broken.txt").exists()


@pytest.mark.req("I5")
def test_who_joins_a_broken_head_waits_for_one_run_of_it(world: World, tmp_path: Path) -> None:
    joined, ran, again = (tmp_path / name for name in ("joined", "ran", "again"))
    alone = (
        f"if [ -e bad.txt ] && [ ! -e other.txt ]; then echo >> {ran}; [ $(wc -l < {ran}) = 1 ] || {_wait(again)}; fi"
    )
    world.landing = Landing(verify=[f"{alone}; {_wait(joined)}; test ! -e bad.txt"], reruns=1)
    world.slots = 2
    ids = _submitted(world, "head", head={"bad.txt": "x\n"})
    world.queue.step(world.now())
    assert [len(run["members"]) for run in _running(world)] == [1]
    ids |= _submitted(world, "other")
    world.queue.step(world.now())
    joined.touch()
    world.until(ids["other"], "landed")
    assert world.merge(ids["head"])["state"] != "failed", "it is judged beside, by itself"
    again.touch()
    world.run()
    assert _states(world, ids) == {"head": "failed", "other": "landed"}


@pytest.mark.req("I6")
def test_of_two_that_break_only_together_exactly_the_later_one_is_out(world: World) -> None:
    world.landing = Landing(verify=["test ! -e left.txt || test ! -e right.txt"], reruns=0)
    world.slots = 2
    _grown(world, 4)
    ids = _submitted(world, "left", "other", "right", "last")
    world.run()
    assert _states(world, ids) == {"left": "landed", "other": "landed", "right": "failed", "last": "landed"}


@pytest.mark.req("I5")
def test_a_conflict_with_a_neighbour_that_does_not_land_sends_nobody_back(world: World) -> None:
    world.landing = Landing(verify=["! grep -q bad shared.txt"], reruns=0)
    _grown(world, 4)
    ids = _submitted(world, "bad", "good", bad={"shared.txt": "bad\n"}, good={"shared.txt": "good\n"})
    world.run()
    assert _states(world, ids) == {"bad": "failed", "good": "landed"}
    late = _submitted(world, "one", "two", one={"other.txt": "one\n"}, two={"other.txt": "two\n"})
    world.run()
    assert _states(world, late) == {"one": "landed", "two": "conflict"}, "and one with what landed does"


@pytest.mark.req("X12")
def test_who_changes_the_rules_lands_before_those_behind_are_judged_by_them(world: World) -> None:
    strict = Landing(approve_paths=["infra/**"])
    world.settings_of = lambda _target: strict if (world.root / ".corral/rules").exists() else Landing()
    (world.project.home / ".gitignore").write_text("")
    _grown(world, 4)
    rules = {".corral/config.yaml": "landing: {approve_paths: [infra/**]}\n", ".corral/rules": "x\n"}
    world.branch("rules", rules)
    world.branch("infra", {"infra/x": "x\n"})
    first, second = world.submit("rules"), world.submit("infra", approved=False)
    world.run()
    assert (world.merge(first)["state"], world.merge(second)["state"]) == ("landed", "held")


def test_a_file_of_the_persons_keeps_only_those_waiting_that_touch_it(world: World) -> None:
    world.landing = Landing(verify=["true"])
    _grown(world, 4)
    ids = _submitted(world, "a", "touching", "b", touching={"notes.txt": "theirs\n"})
    (world.root / "notes.txt").write_text("mine, not committed\n")
    world.run()
    world.watch(3)
    world.run()
    assert _states(world, ids) == {"a": "landed", "touching": "held", "b": "landed"}
    assert (world.root / "notes.txt").read_text() == "mine, not committed\n"
    (world.root / "notes.txt").unlink()
    world.watch(15)
    assert world.finish(ids["touching"])["state"] == "landed"


def test_only_where_a_daemon_dies_again_is_the_chain_taken_apart(world: World) -> None:
    _grown(world, 4)
    ids = _submitted(world, "a", "b", "c")
    world.queue.stop(world.now())
    for batch in (4, 1):
        assert in_a_process(world.root, "true", CORRAL_CRASH_AT="queue.verifying_stored").wait(60) != 0
        world.new_queue().recover(world.now())
        assert world.db.read(lambda conn: runs.batch(conn, "main")) == batch
    world.queue = world.new_queue()
    world.landing = Landing(verify=["true"])
    world.spend(30)
    assert set(_states(world, ids).values()) == {"landed"}


@pytest.mark.req("I11")
def test_a_target_that_is_slow_to_verify_does_not_hold_another_one(world: World, tmp_path: Path) -> None:
    slow = Landing(verify=[f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"])
    git(world.root, "branch", "release")
    world.settings_of = lambda target: slow if target.endswith("/main") else Landing(verify=["true"])
    world.slots = 2
    world.branch("a", {"a.txt": "x\n"})
    world.branch("b", {"b.txt": "x\n"})
    first, second = world.submit("a"), world.submit("b", "release")
    world.until(first, "verifying")
    world.until(second, "landed")
    assert world.merge(first)["state"] == "verifying"
    (tmp_path / "go").touch()
    world.until(first, "landed")
