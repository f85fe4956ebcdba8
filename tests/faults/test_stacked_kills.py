"""Tasks that begin on the work of others, and their landing, are killed at named points: the next daemon goes on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from corral.config.sections.sharing import Landing
from corral.work.merges.store import merges
from corral.work.tasks.store import dependencies
from tests.conftest import git
from tests.integration import landing_world, supervision
from tests.integration.landing_world import World
from tests.integration.supervision import House, settings_with
from tests.integration.test_landing_stacked import begun, submit

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

SETTINGS = settings_with(
    tasks={"max_retries": 0, "retry_initial_s": 0.1, "retry_max_s": 0.5, "unblock_on": "completed"},
    supervisor={"stop_grace_s": 1},
)


def _killed_at(repo: Path, point: str, *commands: str) -> tuple[House, str]:
    """The house after a daemon was killed at a point, and the last task, which waits for all others."""
    items: list[dict[str, Any]] = [{"title": f"t{place}", "command": text} for place, text in enumerate(commands)]
    items[-1]["wait_for"] = [f"#{place + 1}" for place in range(len(items) - 1)]
    child = supervision.in_a_process(repo, items, CORRAL_CRASH_AT=point, SETTINGS=SETTINGS.model_dump_json())
    output = child.communicate(timeout=60)[0]
    assert child.returncode == -signal.SIGKILL, "the point was never reached"
    return House(repo, SETTINGS), output.split()[-1]


@pytest.mark.req("I7")
def test_killed_when_the_merge_of_its_parents_is_made_a_task_begins_on_another_one(repo: Path) -> None:
    house, child = _killed_at(repo, "task.foundation_laid", "echo a > a.txt", "echo b > b.txt", "ls > seen.txt")
    try:
        house.until(house.idle, 60)
        (merge,) = (row for row in house.db.read(merges.listing) if row["task_id"] == child)
        assert {"a.txt", "b.txt"} <= set(git(repo, "show", f"{merge['head_sha']}:seen.txt").split())
        assert house.detail(child)["attempts"] == 1
    finally:
        house.close()


@pytest.mark.req("I7")
def test_killed_when_it_is_known_that_its_parents_do_not_merge_a_task_waits(repo: Path) -> None:
    house, child = _killed_at(repo, "task.clash_stored", "echo a > same.txt", "echo b > same.txt", "true")
    try:
        rows = house.db.read(merges.listing)
        house.until(lambda: house.status(child) == "waiting" and not house.supervisor.running_count(), 60)
        parents = house.db.read(lambda conn: dependencies.parent_states(conn, [child]))[child]
        assert {row["clashes_sha"] for row in parents} == {row["head_sha"] for row in rows}
        assert house.detail(child)["attempts"] == 0
    finally:
        house.close()


@pytest.mark.req("I7")
@pytest.mark.req("I10")
@pytest.mark.parametrize(
    "point", ["queue.candidate_built", "queue.verdict_stored", "landing.intent_stored", "landing.target_moved"]
)
def test_killed_while_a_stack_lands_all_of_it_lands_in_its_order(repo: Path, point: str) -> None:
    world, verify = World(repo, landing=Landing(reruns=0)), "true"
    before = world.tip()
    names = ["one", "two", "three"]
    for name, on in zip(names, [None, *names], strict=False):
        begun(world, name, {f"{name}.txt": "x\n"}, on)
    ids = submit(world, *reversed(names))
    world.close()
    killed = landing_world.in_a_process(repo, verify, CORRAL_CRASH_AT=point)
    assert killed.wait(60) == -signal.SIGKILL, "the point was never reached"
    again = landing_world.in_a_process(repo, verify)
    assert again.wait(60) == 0
    world = World(repo)
    try:
        rows = [world.merge(ids[name]) for name in names]
        assert [row["state"] for row in rows] == ["landed"] * 3
        order = git(repo, "rev-list", "--topo-order", "--reverse", f"{before}..main").split()
        assert [sha for sha in order if sha in {row["head_sha"] for row in rows}] == [row["head_sha"] for row in rows]
        assert world.held_refs() == []
        git(repo, "fsck", "--connectivity-only", "--no-dangling")
    finally:
        world.close()
