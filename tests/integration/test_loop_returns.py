"""A loop that has converged, and comes back from the queue: it goes on from what it has achieved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit_all, git
from tests.support.coordinated import Coordinated, eventually

Coordinate = Callable[..., Coordinated]

ACHIEVE = "touch $WAITS/at-work; until test -f $WAITS/moved; do sleep 0.05; done; echo mine > shared.txt; echo 1 > achieved.txt"
RESOLVE = (
    "cp $CORRAL_FEEDBACK_FILE told.txt; git add told.txt; git commit -qm told; "
    "git merge -q main; echo both > shared.txt; git add -A; git commit -qm resolved"
)


def converged_and_returned(house: Coordinated, repo: Path, waits: Path, later: str) -> str:
    """A loop whose target moved, while it was at work, in a way that conflicts with it; then ``later`` is its command."""
    (repo / "shared.txt").write_text("base\n")
    commit_all(repo, "base")
    command = f"WAITS={waits}; case $CORRAL_ITERATION in 1) {ACHIEVE};; *) {later};; esac"
    task_id = str(house.json("loop", "start", "--command", command, "--test", "grep 1 achieved.txt")["task_id"])
    eventually(lambda: (waits / "at-work").exists())
    (repo / "shared.txt").write_text("theirs\n")
    (repo / "news.txt").write_text("news\n")
    commit_all(repo, "theirs")
    (waits / "moved").touch()
    eventually(lambda: (house.json("loop", "status", task_id)["merge"] or {}).get("state") == "conflict")
    return task_id


def landed(house: Coordinated, task_id: str) -> list[dict[str, Any]]:
    eventually(lambda: (house.json("loop", "status", task_id)["merge"] or {}).get("state") == "landed")
    return list(house.json("loop", "history", task_id))


@pytest.mark.req("FR-LOOP-001", "FR-LOOP-006")
def test_it_goes_on_from_what_it_has_achieved_and_converges_only_once_it_merges(
    coordinate: Coordinate, repo: Path, tmp_path: Path
) -> None:
    house = coordinate(repo)
    later = f"test $CORRAL_ITERATION = 2 || {{ {RESOLVE}; }}"
    task_id = converged_and_returned(house, repo, tmp_path, later)
    house.run("task", "retry", task_id)
    rows = landed(house, task_id)
    assert [row["verdict"] for row in rows] == ["converged", "not_converged", "converged"]
    assert [evaluation["kind"] for evaluation in rows[1]["evaluations"]] == ["landing", "tests"]
    assert rows[1]["evaluations"][1]["verdict"] == "converged", "what it had achieved was there"
    assert "conflicts with main in shared.txt (content)" in rows[1]["evaluations"][0]["evidence"]
    assert rows[1]["base_sha"] == rows[0]["head_sha"]
    assert (
        "came back from the queue of main" in rows[1]["told"]
        and "In conflict: shared.txt (content)." in rows[1]["told"]
    )
    assert "Run `git merge main` in this worktree" in git(repo, "show", "main:told.txt")
    assert (git(repo, "show", "main:shared.txt"), git(repo, "show", "main:achieved.txt")) == ("both", "1")
    assert git(repo, "rev-parse", f"refs/corral/loops/{task_id}/1") == rows[0]["head_sha"]


@pytest.mark.req("FR-LOOP-006")
def test_a_target_that_merges_again_is_merged_in_before_it_is_evaluated_again(
    coordinate: Coordinate, repo: Path, tmp_path: Path
) -> None:
    house = coordinate(repo)
    task_id = converged_and_returned(house, repo, tmp_path, "cat news.txt > seen.txt")
    (repo / "shared.txt").write_text("base\n")
    git(repo, "commit", "-qam", "give it back")
    answer = house.json("loop", "resume", task_id, "--max-iterations", "1")
    assert answer["status"] in ("pending", "running")
    rows = landed(house, task_id)
    assert [row["verdict"] for row in rows] == ["converged", "converged"]
    assert (git(repo, "show", "main:seen.txt"), git(repo, "show", "main:shared.txt")) == ("news", "mine")
    # The one that came back has landed with it, and is the loop's again for the moment in which that is settled.
    merge_id = max(house.json("merge", "list"), key=lambda row: row["created_at"])["merge_id"]
    changed = {file["path"] for file in house.json("merge", "diff", merge_id, "--stat")["files"]}
    shown = (house.json("merge", "list"), git(repo, "log", "--graph", "--stat", "--format=%h %p %s", "main"), merge_id)
    assert changed == {"shared.txt", "achieved.txt", "seen.txt"}, shown
