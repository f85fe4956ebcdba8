"""The daemon of a loop is killed at every step of an iteration; the next one goes on from the last completed iteration."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from corral.work.loops import store as loop_rows
from corral.work.merges.store import merges
from corral.work.worktrees import store as worktree_rows
from tests.conftest import git
from tests.integration.running import find_marked
from tests.integration.supervision import IMPATIENT, House, in_a_process

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

LOOP: dict[str, Any] = {
    "title": "count",
    "command": "echo $CORRAL_ITERATION >> seen.txt",
    "loop": {"until": [{"kind": "tests", "command": "test $(wc -l < seen.txt) = 3"}]},
}


@pytest.mark.req("FR-LOOP-006")
@pytest.mark.parametrize(
    "point",
    ["task.claimed", "worktree.added", "task.start", "task.started", "loop.committed", "loop.judging", "loop.evaluated",
     "loop.pinned", "task.collected", "task.closed"],
)  # fmt: skip
def test_killed_at_every_step_of_an_iteration(repo: Path, point: str) -> None:
    child = in_a_process(repo, [LOOP], CORRAL_CRASH_AT=point)
    child.communicate(timeout=60)
    assert child.returncode == -signal.SIGKILL, "the point was never reached"
    for _ in range(2):  # and once more, in the middle of what the first restart does
        child = in_a_process(repo, [], CORRAL_CRASH_AT=point)
        child.communicate(timeout=60)
    house = House(repo, IMPATIENT)
    try:
        house.until(house.idle, 60)
        (task_id,) = {row["task_id"] for row in house.db.read(lambda conn: loop_rows.listing(conn, 9))}
        rows = house.db.read(lambda conn: loop_rows.iterations(conn, task_id))
        assert house.status(task_id) == "completed"
        assert [row["iteration"] for row in rows] == [1, 2, 3], "none is done twice, none is left out"
        (merge,) = house.db.read(merges.listing)
        assert git(repo, "show", f"{merge['head_sha']}:seen.txt").split() == ["1", "2", "3"]
        assert git(repo, "rev-parse", f"refs/corral/loops/{task_id}/best") == merge["head_sha"]
        assert not find_marked(task_id) and not house.db.read(worktree_rows.listing)
        assert (
            not [path for path in house.worktree_context.root.iterdir() if path.is_dir()]
            and git(repo, "worktree", "list").count("\n") == 0
        )
        assert git(repo, "status", "--porcelain") == ""
    finally:
        house.close()
