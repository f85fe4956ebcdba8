"""Verifications side by side: what happens to one slot, or between two of them, is nobody's fault."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import select

from corral.config.sections.sharing import Landing
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.store.schema import verification_runs
from corral.work.merges.store import runs
from tests.conftest import git
from tests.integration.landing_world import PAUSE_S, World, why
from tests.integration.test_landing_verification import gone, wait_for
from tests.support.coordinated import Coordinated

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    made = World(repo)
    made.slots = 2
    git(repo, "branch", "release")
    yield made
    made.close()


def until_there(file: str) -> str:
    """A command that waits for a file; it gives up by itself."""
    return f"i=0; while ! test -e {file} && test $i -lt 2000; do sleep 0.02; i=$((i+1)); done"


def step_until(world: World, true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        world.queue.step(world.now())
        time.sleep(PAUSE_S)


def submitted(world: World, name: str, target: str = "main") -> str:
    world.branch(name, {f"{name}.txt": "x\n"}, target)
    return world.submit(name, target)


def states(world: World, *merge_ids: str) -> list[str]:
    return [world.merge(merge_id)["state"] for merge_id in merge_ids]


@pytest.mark.req("G3", "G27")
@pytest.mark.parametrize("slot", [1, 2])
def test_a_slot_whose_worktree_is_deleted_under_it_is_made_again_and_the_other_goes_on(
    world: World, tmp_path: Path, slot: int
) -> None:
    gate, seen = tmp_path / "gate", tmp_path / "seen"
    world.landing = Landing(verify=[f"echo $PWD >> {seen}; {until_there(str(gate))}; test -f README.md"], reruns=0)
    world.db.write(lambda conn: runs.set_batch(conn, "main", 2))
    ids = [submitted(world, "a"), submitted(world, "b")]
    step_until(world, lambda: seen.exists() and len(seen.read_text().split()) == 2)
    place = VerificationWorktree(world.db, world.places, world.repo(), str(slot)).path
    shutil.rmtree(place)
    git(world.root, "worktree", "prune", "--expire=now")
    gate.touch()
    world.run()
    assert states(world, *ids) == ["landed"] * 2 and world.pause() is None
    assert world.events().count("worktree.replaced") == 1
    assert {world.receipt(one)["status"] for one in ids} == {"passed"}
    assert str(place) in seen.read_text().split()[2:] or slot == 2, "what was verified in the other one is not lost"


@pytest.mark.req("I5")
def test_what_fails_in_one_slot_alone_sends_nobody_back(world: World, tmp_path: Path) -> None:
    """Both runs of the candidate meet a full disk; that of the target, which is green, is in the other slot."""
    seen = tmp_path / "seen"
    busy = f"echo $$ > {tmp_path}/pid-$CORRAL_MERGE_ID; {until_there(f'{tmp_path}/go-$CORRAL_MERGE_ID')}"
    number = f"n=$(wc -l < {seen}); echo $$ > {tmp_path}/pid-$n; {until_there(f'{tmp_path}/go-$n')}"
    fills = f"echo $PWD >> {seen}; {number}; case $PWD in */2) dd if=/dev/zero of=/dev/full count=1 || exit 1;; esac"
    world.settings_of = lambda target: Landing(verify=[busy if target.endswith("/main") else fills], reruns=0)

    def ends(run: str) -> None:
        (tmp_path / f"go-{run}").touch()
        assert gone(int(wait_for(tmp_path / f"pid-{run}")))

    def slots() -> list[str]:
        return [Path(line).name for line in seen.read_text().split()] if seen.exists() else []

    first, merge_id = submitted(world, "first"), submitted(world, "fills", "release")
    step_until(world, lambda: slots() == ["2"])
    ends(first)
    ends("1")
    step_until(world, lambda: slots() == ["2", "1"])
    second = submitted(world, "second")
    ends("2")
    step_until(world, lambda: slots() == ["2", "1", "2"])
    ends("3")
    step_until(world, lambda: len(slots()) == 4)
    assert states(world, first, merge_id) == ["landed", "verifying"], why(world.merge(merge_id))
    for run in (second, *map(str, range(4, 20))):
        (tmp_path / f"go-{run}").touch()
    world.spend(120)
    assert states(world, second, merge_id) == ["landed"] * 2


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.req("G27", "I5")
def test_a_port_that_another_slot_has_blames_nobody_and_the_next_run_one_at_a_time(
    world: World, tmp_path: Path, port: int
) -> None:
    met = tmp_path / "met"
    code = (
        f"import os, socket, time; s = socket.socket(); s.bind(('127.0.0.1', {port})); end = time.monotonic() + 30\n"
        f"while not os.path.exists('{met}') and time.monotonic() < end: time.sleep(0.02)"
    )
    world.landing = Landing(verify=[f'python3 -c "{code}" || {{ touch {met}; exit 1; }}'], reruns=0)
    ids = [submitted(world, "one"), submitted(world, "two", "release")]
    step_until(world, lambda: any(world.merge(one)["reason"] for one in ids))
    waits = next(row for row in map(world.merge, ids) if row["reason"])
    assert waits["state"] == "queued" and "may have had that port" in why(waits) and "$CORRAL_PORTS" in why(waits)
    ids += [submitted(world, "three"), submitted(world, "four", "release")]
    world.spend(120)
    assert states(world, *ids) == ["landed"] * 4
    ran = world.db.read(lambda conn: conn.execute(select(verification_runs).order_by("run_id")).mappings().all())
    assert ran[0]["ended_at"] > ran[1]["started_at"]
    assert all(one["ended_at"] <= other["started_at"] for one, other in pairwise(ran[1:])), "one at a time"


@pytest.mark.req("I5")
def test_a_change_that_takes_its_own_port_twice_comes_back(world: World, port: int) -> None:
    twice = f"import socket; s = [socket.socket() for _ in 'ab']; [one.bind(('127.0.0.1', {port})) for one in s]"
    world.landing = Landing(verify=[f'test ! -e bad.txt || python3 -c "{twice}"'], reruns=0)
    bad, good = submitted(world, "bad"), submitted(world, "good")
    world.run()
    assert states(world, bad, good) == ["failed", "landed"]
    assert "Address already in use" in why(world.merge(bad)) and "happened twice" in why(world.merge(bad))


@pytest.mark.req("G27")
def test_each_slot_has_ports_of_its_own(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    """Each run has its first port until the other one has its own."""
    code = (
        "import glob, os, socket, time; s = socket.socket(); base = os.environ['CORRAL_PORT_BASE']; "
        f"s.bind(('127.0.0.1', int(base))); open('{tmp_path}/has-' + base, 'w'); end = time.monotonic() + 30\n"
        f"while len(glob.glob('{tmp_path}/has-*')) < 2: assert time.monotonic() < end; time.sleep(0.02)"
    )
    house = coordinate(verify=(f'python3 -c "{code}"',))
    first = 10_000 + os.getpid() % 500 * 40  # not those of the same test in another process
    house.configure(f"landing: {{slots: 2}}\nworktrees: {{port_first: {first}}}\n")
    git(house.root, "branch", "release")
    tasks = [house.submit(name, f"echo x > {name}.txt", "--target", name) for name in ("main", "release")]
    assert house.run("wait", *tasks, "--timeout", "60").returncode == 0
    assert len(list(tmp_path.glob("has-*"))) == 2
