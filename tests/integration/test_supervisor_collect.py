"""What a worker made is found wherever it left it, and no branch but the task's own is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.git.checkouts import salvage
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import merges
from tests.conftest import commit, commit_on, git
from tests.integration.supervision import IMPATIENT, House

SIDE = "git switch -q -c side && echo 1 > s.txt && git add s.txt && git commit -q -m s"
AWAY = "git checkout -q --detach && echo {0} > {0}.txt && git add . && git commit -q -m {0} && git switch -q -"


@pytest.fixture
def house(repo: Path) -> Iterator[House]:
    made = House(repo, IMPATIENT)
    yield made
    made.close()


def requests(house: House) -> list[MergeRow]:
    house.settle()
    return house.db.read(merges.listing)


def test_leftovers_are_never_committed_on_a_branch_of_the_users(house: House, repo: Path) -> None:
    git(repo, "branch", "feature")
    ahead = commit_on(repo, "ahead", {"ahead.txt": "a\n"})
    before = git(repo, "rev-parse", "feature")
    for branch in ("feature", "ahead"):
        task_id = house.submit(f"git switch -q {branch} && echo leftover > {branch}-left.txt")
        detail = house.until_status(task_id, "completed")
        merge = next(row for row in requests(house) if row["task_id"] == task_id)
        assert git(repo, "rev-parse", f"refs/heads/{detail['branch']}") == merge["head_sha"]
        assert git(repo, "show", f"{merge['head_sha']}:{branch}-left.txt") == "leftover"
    assert (git(repo, "rev-parse", "feature"), git(repo, "rev-parse", "ahead")) == (before, ahead)


def test_a_branch_of_the_users_outlives_a_worktree_that_ended_on_it(house: House, repo: Path) -> None:
    git(repo, "branch", "feature")
    task_id = house.submit("git switch -q feature && echo half > half.txt; exit 1")
    house.until_status(task_id, "dead")
    house.settle()
    assert house.worktrees.listing() == []
    assert git(repo, "rev-parse", "feature") == git(repo, "rev-parse", "main")
    (saved,) = salvage.listing(house.worktree_context.repo)
    assert saved.files == ["half.txt"]


def test_commits_on_another_branch_are_the_tasks_work(house: House, repo: Path) -> None:
    base = git(repo, "rev-parse", "HEAD")
    detail = house.until_status(house.submit(f"{SIDE} && git switch -q -"), "completed")
    (merge,) = requests(house)
    assert merge["head_sha"] == git(repo, "rev-parse", "side") == git(repo, "rev-parse", detail["branch"])
    assert git(repo, "diff", "--name-only", base, merge["head_sha"]) == "s.txt"
    assert house.worktrees.listing() == [] and salvage.listing(house.worktree_context.repo) == []


def test_commits_on_no_branch_at_all_are_the_tasks_work(house: House, repo: Path) -> None:
    house.until_status(house.submit(AWAY.format("one")), "completed")
    (merge,) = requests(house)
    assert git(repo, "show", f"{merge['head_sha']}:one.txt") == "one"


def test_what_was_left_in_several_places_is_named_and_kept(house: House, repo: Path) -> None:
    detail = house.until_status(house.submit(f"{SIDE} && git switch -q - && {AWAY.format('two')}"), "failed")
    assert detail["error_code"] == "left_elsewhere" and requests(house) == []
    (saved,) = salvage.listing(house.worktree_context.repo)
    assert git(repo, "show", f"{saved.sha}:two.txt") == "two"
    assert "refs/heads/side" in detail["error_message"] and saved.ref in detail["error_message"]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("git switch -q feature && git switch -q -", id="a look at somebody's branch"),
        pytest.param(f"{SIDE} && git switch -q - && git branch -q -D side", id="a branch that was deleted"),
        pytest.param("echo x > x && git add x && git commit -q -m x && git reset -q --hard HEAD~1", id="reset"),
    ],
)
def test_what_was_only_looked_at_or_given_up_is_nothing_to_merge(house: House, repo: Path, command: str) -> None:
    commit_on(repo, "feature", {"feature.txt": "f\n"})
    house.until_status(house.submit(command), "completed")
    assert requests(house) == []


@pytest.mark.parametrize("pushed", [True, False])
def test_a_commit_of_a_submodule_that_nobody_else_has_does_not_land(house: House, repo: Path, pushed: bool) -> None:
    git(repo, "config", "--global", "protocol.file.allow", "always")
    git(repo.parent, "init", "-q", "lib")
    commit(repo.parent / "lib", {"l": "1"})
    git(repo, "submodule", "--quiet", "add", f"file://{repo.parent}/lib", "lib")
    git(repo, "commit", "-q", "-m", "with lib")
    inside = f"git commit -q -am work{' && git push -q origin HEAD:refs/heads/side' if pushed else ''}"
    task_id = house.submit(f"git submodule --quiet update --init && cd lib && echo PRECIOUS > l && {inside}")
    detail = house.until_status(task_id, "completed" if pushed else "failed")
    assert len(requests(house)) == pushed
    if not pushed:
        assert detail["error_code"] == "submodule_unpublished" and "lib" in detail["error_message"]
        (kept,) = house.worktrees.listing()
        assert "lib" in kept["note"] and Path(kept["path"], "lib", "l").read_text() == "PRECIOUS\n"
