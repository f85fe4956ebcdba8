"""The warm pool: a worktree that is given back is the next task's, and nothing of the last one is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.models.states import WorktreeState
from corral.store.merges import merges
from corral.store.rows.tasks import WorktreeRow
from corral.store.tasks import worktrees as worktree_rows
from corral.work.worktrees.pool.state import overview
from tests.conftest import commit, git
from tests.integration.supervision import House, settings_with

Open = Callable[..., House]


@pytest.fixture
def house(repo: Path) -> Iterator[Open]:
    opened: list[House] = []

    def open_house(root: Path = repo, **sections: Any) -> House:
        sections = {"worktrees": {"pool_size": 2}, "tasks": {"max_retries": 0}, **sections}
        opened.append(House(root, settings_with(**sections)))
        return opened[-1]

    yield open_house
    for one in opened:
        one.close()


def run(one: House, command: str, status: str = "completed") -> dict[str, Any]:
    """Run a task to its end, and until its worktree is given back."""
    detail = one.until_status(one.submit(command), status)
    one.settle()
    return detail


def pooled(one: House) -> list[WorktreeRow]:
    return one.db.read(lambda conn: worktree_rows.listing(conn, states=(WorktreeState.POOLED,)))


def inode(row: WorktreeRow) -> str:
    return str(row["folder_id"]).rpartition(":")[2]


WHERE = "stat -c %i . > ../../../../where; pwd >> ../../../../where"


def where(repo: Path) -> list[str]:
    """The inode and the path of the worktree that the last task with :data:`WHERE` ran in."""
    return (repo.parent / "where").read_text().split()


def test_a_worktree_given_back_is_the_next_tasks(house: Open, repo: Path) -> None:
    one = house()
    first = run(one, f"{WHERE}; echo new > new.txt")
    old_inode, old_path = where(repo)
    (kept,) = pooled(one)
    assert overview(one.grounds)["not_kept"] == []
    assert inode(kept) == old_inode and kept["branch"] is None and not Path(old_path).exists()
    assert (
        Path(kept["path"]).name == kept["name"]
        and git(Path(kept["path"]), "--no-optional-locks", "status", "--porcelain", "--ignored") == ""
    )
    commit(repo, {"later.txt": "later\n"})
    second = run(one, f"{WHERE}; ls > ../../../../ls; git log --format=%s -1; echo two > two.txt")
    assert overview(one.grounds)["not_used"] == [{"reason": "none was kept", "count": 1}]
    assert where(repo)[0] == old_inode and where(repo)[1] not in (old_path, kept["path"])
    assert (repo.parent / "ls").read_text().split() == ["README.md", "later.txt", "src"]
    requests = {row["task_id"]: row for row in one.db.read(merges.listing)}
    for detail, name in ((first, "new.txt"), (second, "two.txt")):
        request = requests[detail["task_id"]]
        assert git(repo, "rev-parse", f"refs/heads/{request['branch']}") == request["head_sha"]
        assert git(repo, "diff", "--name-only", request["base_sha"], request["head_sha"]) == name
    assert overview(one.grounds)["used"] == 1 and overview(one.grounds)["kept"] == 2
