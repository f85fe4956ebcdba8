"""What a criterion of a loop does to its checkout: it does not land, and decides nothing but its own verdict."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit_all, git
from tests.integration.running import find_marked
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put

Coordinate = Callable[..., Coordinated]


def looped(house: Coordinated, *args: str) -> str:
    return str(house.json("loop", "start", *args)["task_id"])


def landed(house: Coordinated, task_id: str) -> list[dict[str, Any]]:
    """Wait until a loop has landed; returns its iterations."""
    house.run("wait", task_id, "--timeout", "80", check=False)
    status = house.json("loop", "status", task_id)
    rows: list[dict[str, Any]] = house.json("loop", "history", task_id)
    assert (status["status"], (status["merge"] or {}).get("state")) == ("completed", "landed"), [
        r["evaluations"] for r in rows
    ]
    return rows


def left_of_judging(house: Coordinated, root: Path) -> list[str]:
    """Worktrees that git, or the disk beside the worker's, still has for judging."""
    known = [line for line in git(root, "worktree", "list").splitlines() if "judge@" in line]
    place = Path(house.json("worktree", "create", "seen")["path"]).parent
    house.run("worktree", "remove", "seen")
    return known + [path.name for path in place.iterdir() if "judge" in path.name]


@pytest.mark.req("FR-LOOP-002")
def test_nothing_that_a_criterion_writes_lands_or_meets_a_later_iteration(coordinate: Coordinate, repo: Path) -> None:
    (repo / ".gitignore").write_text(".corral/\n*.cache\n")
    (repo / "f0.txt").write_text("as it was\n")
    commit_all(repo, "a file")
    before = git(repo, "rev-parse", "HEAD")
    house = coordinate(repo)
    work = "ls > seen-$CORRAL_ITERATION.txt; echo $CORRAL_ITERATION > n.txt"
    test = (
        "grep -q 'as it was' f0.txt && test ! -e report.xml && test ! -e old.cache || exit 9; "
        "echo tampered > f0.txt; echo x > report.xml; echo x > old.cache; rm n.txt; "
        "git add -A && git -c user.name=c -c user.email=c@c commit -qm 'by the criterion'; test $CORRAL_ITERATION = 3"
    )
    rows = landed(house, looped(house, "--command", work, "--test", test))
    codes = [row["evaluations"][0]["value"] for row in rows]
    assert codes == [{"exit_code": 1}, {"exit_code": 1}, {"exit_code": 0}], "each began with the files of its commit"
    assert git(repo, "show", "main:f0.txt") == "as it was" and git(repo, "show", "main:n.txt") == "3"
    made = set(git(repo, "ls-tree", "--name-only", "main").split()) - set(
        git(repo, "ls-tree", "--name-only", before).split()
    )
    assert made == {"n.txt", "seen-1.txt", "seen-2.txt", "seen-3.txt"}
    assert "report.xml" not in git(repo, "show", "main:seen-3.txt"), "nor does the worker meet it"
    assert "by the criterion" not in git(repo, "log", "--format=%s", "--all")
    assert not left_of_judging(house, repo)


@pytest.mark.req("FR-LOOP-002")
def test_what_a_formatter_makes_of_the_work_neither_lands_nor_is_what_the_next_criterion_judges(
    shared_house: Coordinated,
) -> None:
    house, repo = shared_house, shared_house.root
    formatter = "sed -i.orig 's/  */ /g' code.txt && rm code.txt.orig && echo built > built.txt && ! grep '  ' code.txt"
    task_id = looped(
        house,
        *("--command", "printf 'a   b\\n' > code.txt", "--test", formatter),
        *("--threshold", "grep -c '   ' code.txt", "--target", ">=1"),
    )
    (only,) = landed(house, task_id)
    assert [evaluation["verdict"] for evaluation in only["evaluations"]] == ["converged", "converged"]
    assert git(repo, "show", "main:code.txt") == "a   b" and "built.txt" not in git(
        repo, "ls-tree", "--name-only", "main"
    )


@pytest.mark.req("FR-LOOP-002")
def test_what_one_criterion_builds_is_there_for_the_next_one_of_the_same_iteration(
    shared_house: Coordinated,
) -> None:
    house, repo = shared_house, shared_house.root
    task_id = looped(
        house,
        *("--command", "echo 7 > n.txt", "--test", "test ! -e out.txt && cp n.txt out.txt"),
        *("--threshold", "cat out.txt", "--target", ">=7"),
    )
    landed(house, task_id)
    assert "out.txt" not in git(repo, "ls-tree", "--name-only", "main")


@pytest.mark.req("FR-LOOP-002")
def test_bytecode_of_an_edit_in_the_same_second_decides_no_loop(coordinate: Coordinate, repo: Path) -> None:
    (repo / ".gitignore").write_text(".corral/\n__pycache__/\n")
    commit_all(repo, "ignore bytecode")
    house = coordinate(repo)
    ids = []
    for number in (1, 2, 3):
        # Both edits have one size and one time: bytecode of the first would be taken for that of the second. Each is a file
        # of its own, or git would take it for unchanged too, where both are made in one second.
        work = f"echo VALUE = $CORRAL_ITERATION > new; touch -d @1700000000 new; mv new mod{number}.py"
        test = f"python3 -c 'import sys, mod{number}; print(mod{number}.VALUE); sys.exit(mod{number}.VALUE != 2)'"
        ids.append(looped(house, "--command", work, "--test", test, "--max-iterations", "4"))
    for task_id in ids:
        rows = landed(house, task_id)
        assert [row["verdict"] for row in rows] == ["not_converged", "converged"]


@pytest.mark.req("FR-LOOP-006")
def test_the_daemon_is_killed_while_it_judges_and_the_next_one_leaves_nothing_of_that(
    coordinate: Coordinate, repo: Path, tmp_path: Path
) -> None:
    house = coordinate(repo)
    judging, go = tmp_path / "judging", tmp_path / "go"
    test = f"echo half > half.txt; pwd > {judging}; test -e {go} || sleep 300; test ! -e half.orig"
    task_id = looped(house, "--command", "echo $CORRAL_ITERATION > n.txt", "--test", test)
    eventually(lambda: judging.exists() and judging.read_text())
    place = Path(judging.read_text().strip())
    assert place.is_dir() and place.name.startswith("judge@") and find_marked(task_id)
    assert place.name not in {row["name"] for row in house.json("worktree", "list")}, "it is no place to work in"
    refused = house.run("worktree", "remove", place.name, check=False)
    assert refused.returncode != 0 and "Corral's own" in refused.stderr and place.is_dir()
    house.kill_daemon()
    assert place.is_dir() and find_marked(task_id)
    go.touch()
    house.run("status")
    eventually(lambda: not place.exists())
    (only,) = landed(house, task_id)
    assert only["verdict"] == "converged"
    assert "half.txt" not in git(repo, "ls-tree", "--name-only", "main")
    assert not find_marked(task_id) and not left_of_judging(house, repo)
    assert not house.worktrees_in_use()
    assert not [saved for saved in house.json("worktree", "recover") if "judge" in saved["name"]], (
        "it holds nobody's work"
    )


@pytest.mark.req("FR-LOOP-007")
def test_a_loop_that_is_stopped_while_it_is_judged_ends_the_criterion_and_leaves_nothing(
    coordinate: Coordinate, repo: Path, tmp_path: Path
) -> None:
    house = coordinate(repo)
    judging = tmp_path / "judging"
    test = f"chmod -R a-w .; pwd > {judging}; sleep 300"
    task_id = looped(house, "--command", "mkdir -p d; echo 1 > d/n.txt", "--test", test)
    eventually(lambda: judging.exists() and judging.read_text())
    place = Path(judging.read_text().strip())
    house.run("loop", "stop", task_id, "--reason", "enough")
    eventually(lambda: house.json("loop", "status", task_id)["status"] == "cancelled")
    eventually(lambda: not find_marked(task_id) and not place.exists())
    assert not left_of_judging(house, repo)
    house.run("uninstall", "--yes")
    assert not (repo / ".corral").exists()


def test_a_checkout_whose_place_was_taken_gives_no_verdict_and_nobodys_files_are_touched(
    coordinate: Coordinate, repo: Path, tmp_path: Path
) -> None:
    house = coordinate(repo)
    mine = tmp_path / "mine"
    put(mine / "precious.txt", "precious\n")
    swap = f'here=$PWD; mv "$here" {tmp_path}/away && ln -s {mine} "$here"; true'
    task_id = looped(house, "--command", "echo 1 > n.txt", "--test", swap, "--max-iterations", "1")
    house.run("wait", task_id, "--timeout", "60", check=False)
    status = house.json("loop", "status", task_id)
    assert (status["status"], status["error_code"]) == ("failed", "max_iterations_exceeded")
    (only,) = house.json("loop", "history", task_id)
    assert only["verdict"] == "inconclusive" and "symbolic link" in only["evaluations"][0]["evidence"]
    assert [path.name for path in mine.iterdir()] == ["precious.txt"]
    (need,) = [need for need in house.json("status")["needs_you"] if need["kind"] == "kept_worktree"]
    assert "judge@" in need["what"] and "mv " in need["remedy"]


@pytest.mark.req("FR-LOOP-002")
def test_a_criterion_that_writes_into_the_workers_worktree_changes_nothing_that_lands(
    coordinate: Coordinate, repo: Path
) -> None:
    house = coordinate(repo)
    reach = "cd \"$(git worktree list --porcelain | sed -n 's/^worktree //p' | grep /task-)\" && echo x > planted.txt"
    test = f"({reach}); test $CORRAL_ITERATION = 2"
    landed(house, looped(house, "--command", "echo $CORRAL_ITERATION > n.txt", "--test", test))
    assert git(repo, "show", "main:n.txt") == "2"
    assert "planted.txt" not in git(repo, "ls-tree", "--name-only", "main")


@pytest.mark.req("FR-LOOP-002")
def test_the_checkout_has_what_a_worktree_has_files_setup_and_ports_of_its_own(
    coordinate: Coordinate, repo: Path
) -> None:
    (repo / ".gitignore").write_text(".corral/\n.env\nset-up.txt\n")
    (repo / ".worktreeinclude").write_text(".env\n")
    (repo / ".env").write_text("KEY=1\n")
    commit_all(repo, "needs a setup")
    house = coordinate(repo)
    house.configure(
        "worktrees: {setup: ['test ! -e set-up.txt && echo $CORRAL_PORT_BASE > set-up.txt'], ports_each: 3}\n"
    )
    work = "cat .env set-up.txt; echo $CORRAL_PORT_BASE > port.txt"
    test = "grep KEY .env && test $(cat set-up.txt) = $CORRAL_PORT_BASE && test $(cat port.txt) != $CORRAL_PORT_BASE"
    landed(house, looped(house, "--command", work, "--test", test))


def test_a_loop_in_a_bare_repository_is_judged_like_any_other(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    bare = tmp_path / "hub.git"
    git(tmp_path, "clone", "-q", "--bare", str(make_repo()), str(bare))
    house = Coordinated(bare)
    house.run("init", "--yes", "--no-check", "--verify", "test -f READM[E].md")
    try:
        work, test = "echo $CORRAL_ITERATION > n.txt", "echo tampered > README.md; test $(cat n.txt) = 2"
        landed(house, looped(house, "--command", work, "--test", test))
        assert "tampered" not in git(bare, "show", "main:README.md") and git(bare, "show", "main:n.txt") == "2"
        assert not left_of_judging(house, bare)
    finally:
        house.stop()


def test_nobody_can_ask_for_the_name_of_a_checkout_for_judging(shared_house: Coordinated) -> None:
    refused = shared_house.run("worktree", "create", "judge@1", check=False)
    assert refused.returncode == 2 and not os.path.lexists(shared_house.root / "judge@1")
