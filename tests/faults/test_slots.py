"""Verifications side by side: what happens to one slot, or between two of them, is nobody's fault."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import insert, select

from corral.config.sections.sharing import Landing
from corral.core.instants import iso
from corral.core.remedies import remedy_in
from corral.landing import requests
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.observe.view.needs_of_landing import unverified_merges
from corral.store.schema import agent_sessions, verification_runs
from corral.work.merges.store import runs
from tests.conftest import commit_on, git
from tests.integration.landing_world import World, why
from tests.integration.test_landing_verification import gone, wait_for
from tests.support.coordinated import Coordinated, eventually

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
    world.step_until(lambda: seen.exists() and len(seen.read_text().split()) == 2)
    place = VerificationWorktree(world.db, world.places, world.repo(), str(slot)).path
    shutil.rmtree(place)
    git(world.root, "worktree", "prune", "--expire=now")
    world.slots = slot  # so that what lost the first one needs it
    gate.touch()
    world.run()
    assert states(world, *ids) == ["landed"] * 2 and world.pause() is None
    assert world.events().count("worktree.replaced") == 1
    assert {world.receipt(merge_id)["status"] for merge_id in ids} == {"passed"}
    assert str(place) in seen.read_text().split()[2:] or slot == 2, "what was verified in the other one is not lost"


FULL = "dd if=/dev/zero of=/dev/full count=1 || exit 1"


class Gated:
    """Verifications that end when they are told to; on ``release`` a command follows."""

    def __init__(self, world: World, place: Path, then: str) -> None:
        self.world, self._place = world, place
        self._seen = place / "seen"
        busy = f"echo $$ > {place}/pid-$CORRAL_MERGE_ID; {until_there(f'{place}/go-$CORRAL_MERGE_ID')}"
        number = f"n=$(wc -l < {self._seen}); echo $$ > {place}/pid-$n; {until_there(f'{place}/go-$n')}"
        command = f"echo $PWD >> {self._seen}; {number}; {then}"
        of_release = Landing(verify=[command], reruns=0)
        world.settings_of = lambda target: of_release if target.endswith("/release") else Landing(verify=[busy])

    def ends(self, run: str) -> None:
        """Let a run end: of another target by the request's id, of ``release`` by its number."""
        pid = int(wait_for(self._place / f"pid-{run}"))
        (self._place / f"go-{run}").touch()
        assert gone(pid)

    def ends_of(self, merge_id: str) -> None:
        """Let the run of another target begin, and end."""
        self.world.step_until(lambda: (self._place / f"pid-{merge_id}").exists())
        self.ends(merge_id)
        self.world.step_until(lambda: self.world.merge(merge_id)["state"] == "landed")

    def until(self, *slots: str) -> None:
        """Step until the runs of ``release`` have been in these slots."""
        self.world.step_until(lambda: self._slots() == [*slots])

    def _slots(self) -> list[str]:
        return [Path(line).name for line in self._seen.read_text().split()] if self._seen.exists() else []

    def let_all_end(self, *runs: str) -> None:
        for run in (*runs, *map(str, range(1, 30))):
            (self._place / f"go-{run}").touch()


@pytest.mark.req("I5")
def test_what_fails_in_one_slot_alone_is_tried_in_another_one(world: World) -> None:
    world.landing = Landing(verify=[f"case $PWD in */1) {FULL};; esac"], reruns=0)
    merge_id = submitted(world, "fills")
    world.run(skip=False)
    assert states(world, merge_id) == ["landed"] and "target.paused" not in world.events()


@pytest.mark.req("I5")
def test_what_is_red_in_one_slot_alone_is_not_blamed_by_a_control_of_another_one(world: World, tmp_path: Path) -> None:
    gated = Gated(world, tmp_path, "case $PWD in */2) exit 1;; esac")
    before = submitted(world, "before", "release")
    gated.until("1")
    gated.ends("1")
    world.step_until(lambda: world.merge(before)["state"] == "landed")
    busy = submitted(world, "busy")
    world.step_until(lambda: world.merge(busy)["state"] == "verifying")
    merge_id = submitted(world, "innocent", "release")
    gated.until("1", "2")
    gated.ends_of(busy)
    gated.ends("2")
    gated.until("1", "2", "2")
    gated.ends("3")
    world.step_until(lambda: world.merge(merge_id)["state"] == "held")
    assert "release at" in why(world.merge(merge_id)) and "control run" in why(world.merge(merge_id))
    gated.let_all_end()
    requests.retry(world.db, world.repo(), merge_id, now=world.now())
    world.run()
    assert states(world, merge_id) == ["landed"], "it is tried where the tip was green"


@pytest.mark.req("I5")
def test_what_always_fails_meets_its_control_in_one_slot_and_comes_back(world: World, tmp_path: Path) -> None:
    """A run of another target has meanwhile been green in the slot where it failed first."""
    gated = Gated(world, tmp_path, f"test ! -e bad.txt || {FULL}")
    bad = submitted(world, "bad", "release")
    gated.until("1")
    gated.ends("1")
    gated.until("1", "2")
    other = submitted(world, "other")
    gated.ends_of(other)
    gated.ends("2")
    gated.until("1", "2", "2")
    gated.ends("3")
    world.run(skip=False)
    assert states(world, bad) == ["failed"] and "happened twice" in why(world.merge(bad))


@pytest.mark.req("I5", "I9")
def test_who_always_meets_a_bad_slot_is_blamed_by_nobody_and_told_to_a_person(world: World, tmp_path: Path) -> None:
    """Both runs of the candidate are in the slot that fails, since the other one is taken; that of the target is not."""
    gated = Gated(world, tmp_path, f"case $PWD in */2) {FULL};; esac")
    git(world.root, "branch", "other")
    busy, merge_id = submitted(world, "busy-0"), submitted(world, "fills", "release")
    slots = list[str]()
    for tries in (1, 2, 3):
        gated.until(*slots, "2")
        gated.ends_of(busy)
        gated.ends(str(len(slots) + 1))
        gated.until(*slots, "2", "1")
        beside = submitted(world, f"beside-{tries}", "other")
        world.step_until(lambda beside=beside: world.merge(beside)["state"] == "verifying")  # type: ignore[misc]
        busy = submitted(world, f"busy-{tries}")
        gated.ends(str(len(slots) + 2))
        world.step_until(lambda busy=busy: world.merge(busy)["state"] == "verifying")  # type: ignore[misc]
        gated.ends(beside)
        slots += ["2", "1", "2"]
        gated.until(*slots)
        gated.ends(str(len(slots)))
        world.step_until(lambda tries=tries: world.merge(merge_id)["tries"] == tries)  # type: ignore[misc]
        if tries < 3:
            world.skip(300)
    merge = world.merge(merge_id)
    assert merge["state"] == "queued" and merge["not_before_at"] is not None, "its waits grow"
    assert "in slot 2 and in slot 2, while release without it passed in slot 1, so it may be the slot" in why(merge)
    assert str(VerificationWorktree(world.db, world.places, world.repo(), "2").path) in remedy_in(why(merge))
    assert world.pause("release") is None, "the others on its target are not kept"
    services = cast(Any, SimpleNamespace())
    (need,) = world.db.read(lambda conn: list(unverified_merges(services, conn)))
    assert "it may be the slot" in need.what and need.remedy == remedy_in(why(merge))
    gated.let_all_end(busy)
    world.spend(600)
    assert states(world, busy, merge_id) == ["landed"] * 2


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
    world.step_until(lambda: any(world.merge(merge_id)["reason"] for merge_id in ids))
    waits = next(row for row in map(world.merge, ids) if row["reason"])
    assert waits["state"] == "queued" and "may have had that port" in why(waits) and "$CORRAL_PORTS" in why(waits)
    ids += [submitted(world, "three"), submitted(world, "four", "release")]
    world.queue.stop(world.now())
    world.queue = world.new_queue()
    world.queue.recover(world.now())
    world.spend(120)
    assert states(world, *ids) == ["landed"] * 4
    ran = world.db.read(lambda conn: conn.execute(select(verification_runs).order_by("run_id")).mappings().all())
    assert ran[0]["ended_at"] > ran[1]["started_at"]
    assert all(run["ended_at"] <= other["started_at"] for run, other in pairwise(ran[1:])), "one at a time"


@pytest.mark.req("I5")
@pytest.mark.parametrize("at_work", [False, True], ids=["by itself", "beside agents"])
def test_a_change_that_takes_its_own_port_twice_comes_back(world: World, port: int, at_work: bool) -> None:
    if at_work:  # all the while
        values = {"session_id": "s", "agent_name": "a", "agent_type": "claude", "status": "active", "capabilities": []}
        values |= {"started_at": iso(world.now()), "last_heartbeat": iso(world.now() + timedelta(days=1))}
        world.db.write(lambda conn: conn.execute(insert(agent_sessions).values(values)))
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


@pytest.mark.req("G27", "I5")
def test_a_port_that_an_agent_at_work_has_blames_nobody(
    coordinate: Callable[..., Coordinated], tmp_path: Path, port: int
) -> None:
    bind = f"import socket; s = socket.socket(); s.bind(('127.0.0.1', {port}))"
    serve = f"{bind}; open('{tmp_path}/has', 'w')\nimport os, time\nwhile not os.path.exists('{tmp_path}/go'): time.sleep(0.02)"
    house = coordinate(verify=(f'python3 -c "{bind}"',))
    server = house.submit("Serve", f'python3 -c "{serve}"')
    eventually(lambda: (tmp_path / "has").exists())
    commit_on(house.root, "innocent", {"innocent.txt": "x\n"})
    merge_id = house.json("merge", "submit", "innocent")["merge_id"]
    shown = eventually(lambda: (row := house.ask("GET", f"/merges/{merge_id}"))["reason"] and row)
    assert (
        shown["state"] == "queued" and "An agent was at work meanwhile, and may have had that port" in shown["reason"]
    )
    (tmp_path / "go").touch()
    house.run("wait", server, "--timeout", "60", check=False)
    house.run("merge", "retry", merge_id)
    assert eventually(lambda: house.ask("GET", f"/merges/{merge_id}")["state"] == "landed")
