"""Worktrees for people and sessions: made whole or not at all, given back without losing anything, found again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from corral.coordination.sessions import registry as session_registry
from corral.core.errors import Conflict, CorralError, InvalidInput, NotFound, WorkAtRisk
from corral.core.states import WorktreeState
from corral.git.checkouts import salvage
from corral.store.schema import worktrees as worktree_table
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import begin_reclaim
from corral.work.worktrees.removal import tidy_branches
from tests.conftest import commit, git, worktrees_of
from tests.integration.supervision import House, houses, utc_now
from tests.support.files import put

Open = Callable[..., House]


@pytest.fixture
def house(repo: Path) -> Iterator[Open]:
    yield from houses(repo)


def create(house: House, name: str = "mine", session_id: str | None = None, base: str | None = None) -> dict[str, Any]:
    return house.worktrees.create(name, session_id=session_id, base=base)


def test_a_worktree_starts_at_the_targets_tip_on_its_own_branch(house: Open, repo: Path) -> None:
    made = create(house())
    path = Path(made["path"])
    assert path == worktrees_of(repo) / "mine" and made["state"] == "ready"
    assert git(path, "rev-parse", "HEAD") == git(repo, "rev-parse", "main")
    assert git(path, "symbolic-ref", "HEAD") == "refs/heads/corral/mine"
    assert int(made["env"]["PORT"]) == made["port_base"]
    assert git(repo, "status", "--porcelain") == ""


def test_asking_twice_gives_the_same_one_and_another_asker_is_refused(house: Open) -> None:
    home = house()
    first = create(home, session_id="s1")
    assert create(home, session_id="s1")["worktree_id"] == first["worktree_id"]
    with pytest.raises(Conflict, match="mine"):
        create(home, session_id="s2")


def test_a_base_of_ones_own(house: Open, repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    commit(repo, {"later.txt": "x\n"})
    made = create(house(), base=first)
    assert made["base_sha"] == first and not (Path(made["path"]) / "later.txt").exists()


@pytest.mark.parametrize("name", ["../out", "a/b", "-x", "", "x..y", "x.lock", "a b"])
def test_a_name_that_is_no_name_changes_nothing(house: Open, name: str) -> None:
    home = house()
    with pytest.raises(InvalidInput):
        create(home, name)
    assert home.worktrees.listing() == []


def test_a_folder_that_stands_there_is_not_touched(house: Open, repo: Path) -> None:
    home = house()
    create(home, "other")
    folder = worktrees_of(repo) / "mine"
    put(folder / "precious.txt", "x")
    with pytest.raises(Conflict, match="exists already"):
        create(home)
    assert (folder / "precious.txt").read_text() == "x"
    assert [row["name"] for row in home.worktrees.listing()] == ["other"]


def test_a_branch_of_that_name_is_left_alone(house: Open, repo: Path) -> None:
    git(repo, "branch", "corral/mine")
    assert create(house())["branch"] == "corral/mine-2"


def test_removing_keeps_commits_on_the_branch_and_salvages_the_rest(house: Open, repo: Path) -> None:
    home = house()
    made = create(home)
    sha = commit(Path(made["path"]), {"done.txt": "x\n"})
    gone = home.worktrees.remove("mine")
    assert gone["removed"] and not Path(made["path"]).exists()
    assert git(repo, "rev-parse", "corral/mine") == sha

    other = create(home, "other")
    (Path(other["path"]) / "loose.txt").write_text("loose\n")
    gone = home.worktrees.remove("other")
    assert gone["removed"] and git(repo, "show", f"{gone['salvage_ref']}:loose.txt") == "loose"


def test_a_clean_worktree_leaves_nothing_behind(house: Open, repo: Path) -> None:
    home = house()
    create(home)
    home.worktrees.remove("mine")
    assert git(repo, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]


def test_what_was_salvaged_comes_back_in_a_worktree_of_its_own(house: Open) -> None:
    home = house()
    made = create(home)
    (Path(made["path"]) / "src" / "a.py").write_text("changed\n")
    home.worktrees.remove("mine")
    (saved,) = home.worktrees.salvaged()
    assert saved["name"] == "mine" and saved["files"] == ["src/a.py"]
    back = home.worktrees.recover("mine")
    again = home.worktrees.recover(saved["ref"])
    assert (back["name"], again["name"]) == ("mine-recovered", "mine-recovered-2")
    for row in (back, again):
        assert (Path(row["path"]) / "src" / "a.py").read_text() == "changed\n" and row["state"] == "ready"
    with pytest.raises(NotFound):
        home.worktrees.recover("nobody")


def test_nobodys_floor_is_pulled_away(house: Open) -> None:
    home = house()
    made = create(home)
    arrival = session_registry.Arrival(session_id="s1", worktree=made["path"])
    home.db.write(lambda conn: session_registry.register(conn, arrival, utc_now()))
    with pytest.raises(WorkAtRisk, match="works in mine"):
        home.worktrees.remove("mine")
    home.db.write(lambda conn: session_registry.end(conn, "s1", "over", utc_now()))
    assert home.worktrees.remove("mine")["removed"]


def test_an_ended_subagents_worktree_goes_and_another_sessions_stays(house: Open) -> None:
    home = house()
    create(home, "sub", session_id="agent")
    kept = create(home, "other", session_id="else")
    home.worktrees.release_subagent("agent")
    assert [row["name"] for row in home.worktrees.listing()] == ["other"]
    assert home.worktrees.own_folders(WorktreeState.READY) == [Path(kept["path"])]
    assert home.worktrees.give_back(Path(kept["path"])).stays is None and home.worktrees.listing() == []
    assert "was not made by Corral" in str(home.worktrees.give_back(Path("/nowhere")).stays)


def test_a_worktree_in_which_another_session_works_is_not_given_back(house: Open) -> None:
    home = house()
    path = create(home, "both", session_id="s1")["path"]
    for session_id in ("s1", "s2"):
        arrival = session_registry.Arrival(session_id=session_id, worktree=path)
        row = home.db.write(partial(session_registry.register, arrival=arrival, now=utc_now()))
    assert f"{row['agent_name']} works in both" in str(home.worktrees.give_back(Path(path), {"s1"}).stays)
    assert Path(path).exists()
    home.db.write(lambda conn: session_registry.end(conn, "s2", "over", utc_now()))
    assert home.worktrees.give_back(Path(path), {"s1"}).stays is None


def test_an_ended_sessions_worktree_goes_to_one_of_those_that_ask_at_once(house: Open) -> None:
    home = house()
    create(home, "same", session_id="s1")
    with pytest.raises(Conflict, match="taken"):  # of a session that is only just starting nothing is known yet
        create(home, "same", session_id="s2")
    home.db.write(lambda conn: session_registry.register(conn, session_registry.Arrival(session_id="s1"), utc_now()))
    home.db.write(lambda conn: session_registry.end(conn, "s1", "over", utc_now()))
    before = home.db.read(lambda conn: worktree_rows.live_by_name(conn, "same"))
    assert before is not None
    heir = home.worktrees.inherit(before, "s2")
    assert heir is not None and heir["session_id"] == "s2"
    with pytest.raises(Conflict, match="another session") as refused:
        home.worktrees.inherit(before, "s3")
    assert "same-2 is free" in refused.value.remedy


def test_a_setup_that_fails_leaves_nothing_and_says_which_command(house: Open, repo: Path) -> None:
    home = house(worktrees={"setup": ["echo begin", "exit 7"]})
    with pytest.raises(CorralError, match="exit 7") as failed:
        create(home)
    assert "7" in failed.value.cause
    assert home.worktrees.listing() == [] and not (worktrees_of(repo) / "mine").exists()
    assert git(repo, "for-each-ref", "--format=%(refname)").split() == ["refs/heads/main"]


def test_a_folder_deleted_by_hand_is_forgotten(house: Open, repo: Path) -> None:
    import shutil

    home = house()
    made = create(home)
    shutil.rmtree(made["path"])
    assert home.worktrees.remove("mine")["removed"]
    assert len(git(repo, "worktree", "list").splitlines()) == 1
    assert create(home)["state"] == "ready"


def test_a_restart_finishes_what_was_going(house: Open, repo: Path) -> None:
    home = house()
    going, staying = create(home, "going"), create(home, "staying")
    (Path(going["path"]) / "loose.txt").write_text("x\n")
    row = home.db.read(lambda conn: worktree_rows.live_by_name(conn, "going"))
    assert row is not None
    begin_reclaim(home.worktree_context, row)
    next_one = house()
    next_one.until(lambda: [row["name"] for row in next_one.worktrees.listing()] == ["staying"])
    assert Path(staying["path"]).exists() and not Path(going["path"]).exists()
    assert [saved.files for saved in salvage.listing(home.worktree_context.repo)] == [["loose.txt"]]


def test_how_far_a_checkout_is_behind(house: Open, repo: Path) -> None:
    home = house()
    made = create(home)
    assert home.worktrees.commits_behind(made["path"]) == 0
    commit(repo, {"x.txt": "1\n"})
    commit(repo, {"x.txt": "2\n"})
    assert home.worktrees.commits_behind(f"{made['path']}/src") == 2
    assert home.worktrees.commits_behind("/") is None and home.worktrees.commits_behind(None) is None


def test_a_repository_without_a_commit_is_told_so(tmp_path: Path) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    house = House(root)
    try:
        detail = house.until_status(house.submit("true"), "failed")
        assert detail["error_code"] == "not_found" and "no commit" in detail["error_message"]
    finally:
        house.close()


@pytest.mark.req("G2")
def test_a_branch_that_a_dead_daemons_git_made_after_all_goes_and_no_other(house: Open, repo: Path) -> None:
    home = house()
    for name in ("task-1-1", "task-2-1", "mine"):
        create(home, name)
        home.worktrees.remove(name)
    made_for_tasks = update(worktree_table).where(worktree_table.c.name != "mine").values(purpose="task")
    home.db.write(lambda conn: conn.execute(made_for_tasks))
    for name in ("task-1-1", "task-2-1", "mine", "task-of-somebody"):
        git(repo, "branch", f"corral/{name}")
    side = git(repo, "commit-tree", "-p", "main", "-m", "work", "main^{tree}")
    git(repo, "branch", "-f", "corral/task-2-1", side)
    tidy_branches(home.worktree_context)
    left = git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/corral").split()
    assert left == ["corral/mine", "corral/task-2-1", "corral/task-of-somebody"]
