"""The daemon's supervisor is killed while a worktree goes into the warm pool or comes out of it; the next one puts it right."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.git.checkouts import salvage
from corral.work.merges.store import merges
from tests.conftest import commit, git, worktrees_in
from tests.integration import pooling
from tests.integration.pooling import Open, pooled, run, used
from tests.integration.supervision import IMPATIENT, House, in_a_process

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

SETTINGS = IMPATIENT.model_copy(
    update={"worktrees": IMPATIENT.worktrees.model_copy(update={"pool_size": 3, "pool_min_files": 0})}
)
INTO = (
    "pool.begun",
    "pool.cleaned",
    "worktree.moving",
    "worktree.renamed",
    "worktree.moved",
    "pool.sealed",
    "pool.kept",
)
OUT_OF = (
    "pool.taken",
    "worktree.moving",
    "worktree.renamed",
    "worktree.moved",
    "pool.branched",
    "pool.attached",
    "pool.filled",
    "worktree.added",
)


@pytest.fixture
def house(repo: Path) -> Iterator[Open]:
    yield from pooling.houses(repo)


def work(number: int) -> dict[str, Any]:
    return {"title": f"work {number}", "command": f"ls > seen-{number}.txt; touch ignored.log; echo x >> README.md"}


def live(root: Path, number: int, **extra: str) -> int:
    """Be a daemon with a warm pool until one task is through; returns how the process ended."""
    child = in_a_process(root, [work(number)], SETTINGS=SETTINGS.model_dump_json(exclude_unset=True), **extra)
    child.communicate(timeout=60)
    return child.returncode


def check(root: Path, house: House, numbers: list[int]) -> None:
    """Every task is through at its first attempt, and of worktrees there are the kept ones, whole."""
    house.until(house.idle, 60)
    rows = {row["title"]: row for row in house.db.read(merges.listing)}
    assert sorted(rows) == [f"work {number}" for number in numbers]
    for row in rows.values():
        assert row["task_id"] is not None and row["base_sha"] is not None
        assert house.detail(row["task_id"])["attempts"] == 1
        assert git(root, "rev-parse", f"refs/heads/{row['branch']}") == row["head_sha"]
        number = row["title"].removeprefix("work ")
        assert git(root, "diff", "--name-only", row["base_sha"], row["head_sha"]).split() == [
            "README.md",
            f"seen-{number}.txt",
        ]
        seen = {*git(root, "show", f"{row['head_sha']}:seen-{number}.txt").split(), ".gitignore"}
        assert seen == {*git(root, "ls-tree", "--name-only", row["base_sha"]).split(), f"seen-{number}.txt"}
    names = {row["name"] for row in pooled(house)}
    assert {path.name for path in worktrees_in(root)} == names
    listed = git(root, "worktree", "list", "--porcelain").split("\n\n")[1:]
    assert {Path(entry.splitlines()[0].removeprefix("worktree ")).name for entry in listed} == names
    assert all("detached" in entry and "locked" not in entry for entry in listed)
    for kept in pooled(house):
        assert git(Path(kept["path"]), "--no-optional-locks", "status", "--porcelain", "--ignored") == ""

    def branches() -> list[str]:
        return sorted(git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads/corral").split())

    # The branch of a start that was killed is swept away, after its task has ended perhaps.
    house.until(lambda: branches() == sorted(row["branch"] for row in rows.values()), 30)
    assert salvage.listing(house.worktree_context.repo) == [], "all work is on the branches"
    assert git(root, "fsck", "--connectivity-only", "--no-dangling") == "" and git(root, "status", "--porcelain") == ""


@pytest.mark.req("FR-QUEUE-005")
@pytest.mark.parametrize("point", INTO)
def test_killed_while_a_worktree_goes_into_the_pool(repo: Path, house: Open, point: str) -> None:
    commit(repo, {".gitignore": "*.log\n"})
    assert live(repo, 1, CORRAL_CRASH_AT=point) == -signal.SIGKILL, "the point was never reached"
    home = house()
    check(repo, home, [1])
    assert len(pooled(home)) == (point == "pool.kept")
    run(home, **{k: v for k, v in work(2).items() if k == "command"}, title="work 2")
    check(repo, home, [1, 2])
    assert used(home) == (point == "pool.kept")


@pytest.mark.req("FR-QUEUE-005")
@pytest.mark.parametrize("point", OUT_OF)
def test_killed_while_a_worktree_comes_out_of_the_pool(repo: Path, house: Open, point: str) -> None:
    commit(repo, {".gitignore": "*.log\n", "old.txt": "x\n"})
    assert live(repo, 1) == 0
    git(repo, "rm", "-q", "old.txt")
    commit(repo, {"new.txt": "x\n"})
    assert live(repo, 2, CORRAL_CRASH_AT=point) == -signal.SIGKILL, "the point was never reached"
    home = house()
    check(repo, home, [1, 2])
    run(home, **{k: v for k, v in work(3).items() if k == "command"}, title="work 3")
    check(repo, home, [1, 2, 3])
