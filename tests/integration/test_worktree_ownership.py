"""A worktree is known by what it is: what was put in its place is not touched, and Corral says so."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from corral.config.inodes import folder_id
from corral.core.errors import Conflict, FolderLinked, InvalidInput, PathReplaced
from corral.core.states import WorktreeState
from corral.git.checkouts import identity as worktree_identity
from corral.git.process.command import open_checkout
from corral.store.rows.tasks import WorktreeRow
from corral.store.schema import worktrees as worktree_table
from corral.work.worktrees import ownership, residue
from corral.work.worktrees import store as worktree_rows
from tests.conftest import commit, git, worktrees_in, worktrees_of
from tests.integration import taken_places
from tests.integration.git.test_git_wrapper import shim
from tests.integration.supervision import House, houses
from tests.integration.taken_places import Take, state
from tests.support.files import put

Open = Callable[..., House]

EACH = pytest.mark.parametrize("take", taken_places.ALL, ids=lambda take: take.__name__)


@pytest.fixture
def house(repo: Path) -> Iterator[Open]:
    yield from houses(repo)


def create(house: House, name: str = "mine") -> Path:
    return Path(house.worktrees.create(name, session_id=None, base=None)["path"])


def row_of(house: House, name: str = "mine") -> WorktreeRow:
    row = house.db.read(lambda conn: worktree_rows.live_by_name(conn, name))
    assert row is not None
    return row


def test_a_folder_that_a_failing_git_took_away_is_made_and_recorded_again(
    house: Open, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, failed = house(), tmp_path / "failed"
    # Its inode stays in use, so that the folder which is made next has another one.
    fail = f"touch {failed}; mv {worktrees_of(repo)}/mine {tmp_path}/taken"
    with monkeypatch.context() as patched:
        shim(
            tmp_path / "bin",
            patched,
            f'case " $* " in *" worktree add "*) test -e {failed} || {{ {fail}; exit 128; }};; esac; exec "$REAL" "$@"',
        )
        place = create(home)
    assert failed.exists() and row_of(home)["folder_id"] == folder_id(place)
    assert home.worktrees.remove("mine")["removed"] and not place.exists()


@pytest.mark.req("X5")
@EACH
def test_removing_does_not_touch_what_stands_in_its_place(house: Open, repo: Path, take: Take) -> None:
    home = house()
    place = create(home)
    kept = take(repo, place)
    before = state(kept), git(repo, "for-each-ref")
    answer = home.worktrees.remove("mine")
    assert not answer["removed"] and answer["state"] == "ready"
    why, what_to_do = answer["note"].splitlines()
    assert str(place) in why and ("mv " in what_to_do or "git worktree repair" in what_to_do)
    assert home.worktrees.give_back(place).stays == answer["note"]
    assert place not in home.worktrees.own_folders(WorktreeState.READY)
    assert (state(kept), git(repo, "for-each-ref")) == before


@pytest.mark.req("X5")
@EACH
def test_a_task_whose_worktree_was_replaced_fails_and_lands_nothing(
    house: Open, repo: Path, tmp_path: Path, take: Take
) -> None:
    home = house(tasks={"max_retries": 0})
    gate = tmp_path / "gate"
    task = home.submit(f"touch ready; while ! test -e {gate}; do sleep 0.02; done; cd /")
    home.until(lambda: any(worktrees_of(repo).glob("*/ready")))
    (place,) = worktrees_in(repo)
    kept = take(repo, place)
    before = state(kept), git(repo, "for-each-ref")
    gate.touch()
    detail = home.until_status(task, "dead", "failed")
    assert detail["error_code"] == "path_replaced" and str(place) in detail["error_message"]
    assert detail["merge"] is None
    home.settle()
    assert row_of(home, place.name)["state"] == "reclaiming" and str(place) in (row_of(home, place.name)["note"] or "")
    assert (state(kept), git(repo, "for-each-ref")) == before


@EACH
def test_a_restart_does_not_touch_it_either(house: Open, repo: Path, take: Take) -> None:
    first = house()
    for_task, in_use = create(first, "for-task"), create(first, "in-use")
    of_task = update(worktree_table).where(worktree_table.c.name == "for-task").values(purpose="task")
    first.db.write(lambda conn: conn.execute(of_task))
    kept = take(repo, for_task)
    before = state(kept)
    in_use.rename(repo.parent / "in-use")
    put(in_use / "notes.txt", "mine\n")
    next_one = house()
    next_one.until(lambda: all(row_of(next_one, name)["note"] for name in ("for-task", "in-use")))
    assert row_of(next_one, "in-use")["state"] == "ready"
    assert state(kept) == before and (in_use / "notes.txt").read_text() == "mine\n"


def test_what_was_moved_away_frees_the_name_and_what_came_back_is_used_again(house: Open, repo: Path) -> None:
    home = house()
    place = create(home)
    kept = taken_places.link(repo, place)
    before = state(kept)
    assert not home.worktrees.remove("mine")["removed"]
    place.unlink()
    (repo.parent / "moved-away").rename(place)
    assert ownership.check_ready(home.worktree_context, row_of(home)) and row_of(home)["note"] is None
    assert home.worktrees.remove("mine")["removed"] and not place.exists()
    assert create(home) == place and state(kept) == before


def test_a_users_worktree_that_was_moved_on_by_hand_keeps_its_entry(house: Open, repo: Path) -> None:
    home = house()
    place = create(home)
    taken_places.moved_worktree(repo, place)
    place.rename(repo.parent / "mine-again")
    assert home.worktrees.remove("mine")["removed"]
    git(repo, "worktree", "repair", str(repo.parent / "mine-again"))
    assert git(repo.parent / "mine-again", "symbolic-ref", "HEAD") == "refs/heads/users-branch"


def test_a_row_without_a_record_needs_its_branch_and_then_is_recorded(house: Open, repo: Path) -> None:
    home = house()
    place = create(home)
    forget = update(worktree_table).values(folder_id=None)
    home.db.write(lambda conn: conn.execute(forget))
    git(place, "switch", "-q", "-c", "elsewhere")
    with pytest.raises(PathReplaced):
        ownership.prove(home.worktree_context, row_of(home))
    git(place, "switch", "-q", "corral/mine")
    ownership.prove(home.worktree_context, row_of(home))
    assert row_of(home)["folder_id"] == folder_id(place)


def test_a_worker_may_switch_branches_in_its_own_worktree(house: Open, repo: Path) -> None:
    home = house()
    place = create(home)
    git(place, "switch", "-q", "-c", "elsewhere")
    (place / "more.txt").write_text("x\n")
    gone = home.worktrees.remove("mine")
    assert gone["removed"] and git(repo, "show", f"{gone['salvage_ref']}:more.txt") == "x"


def test_a_device_that_was_mounted_anew_is_no_other_folder(house: Open) -> None:
    home = house()
    place = create(home)
    inode = str(place.stat().st_ino)
    own = worktree_identity.OwnWorktree(place, home.project.root, f"4711:{inode}", "corral/mine")
    worktree_identity.prove(home.worktree_context.repo, own)
    other = worktree_identity.OwnWorktree(place, home.project.root, f"{place.stat().st_dev}:4711", "corral/mine")
    with pytest.raises(PathReplaced):
        worktree_identity.prove(home.worktree_context.repo, other)


@pytest.mark.req("X18")
@pytest.mark.parametrize("linked", [".corral/logs", ".corral/logs/worktrees"])
def test_nothing_is_written_through_a_link(house: Open, repo: Path, tmp_path: Path, linked: str) -> None:
    home = house(worktrees={"setup": ["true"]})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (repo / linked).parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(repo / linked, ignore_errors=True)
    (repo / linked).symlink_to(elsewhere)
    with pytest.raises(FolderLinked, match=linked) as refused:
        create(home)
    assert "mkdir" in refused.value.remedy
    assert list(elsewhere.iterdir()) == [] and home.worktrees.listing() == []


def test_a_root_that_a_person_named_may_be_reached_through_a_link(house: Open, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "named").symlink_to(tmp_path / "disk")
    home = house(worktrees={"root": str(tmp_path / "named" / "wt")})
    place = create(home)
    assert (tmp_path / "disk" / "wt" / "mine" / "README.md").exists()
    (place / "loose.txt").write_text("x\n")
    assert home.worktrees.remove("mine")["removed"] and not place.exists()


def test_two_projects_with_one_root_keep_out_of_each_others_folders(
    house: Open, make_repo: Callable[..., Path], repo: Path, tmp_path: Path
) -> None:
    shared = {"worktrees": {"root": str(tmp_path / "shared")}}
    one, other = house(repo, **shared), house(make_repo("other"), **shared)
    place = create(one)
    (place / "loose.txt").write_text("mine\n")
    with pytest.raises(Conflict, match="exists already") as refused:
        create(other)
    assert f"a worktree of {repo / '.git'}" in refused.value.cause
    assert other.worktrees.listing() == [] and (place / "loose.txt").exists()
    assert git(other.project.root, "for-each-ref", "refs/heads/corral") == ""
    # one whose folder became the other project's worktree
    theirs = create(other, "theirs")
    shutil.move(theirs, tmp_path / "moved")
    git(repo, "worktree", "add", "-q", "-b", "taken", str(theirs))
    commit(theirs, {"x.txt": "x\n"})
    before = state(theirs)
    assert not other.worktrees.remove("theirs")["removed"] and state(theirs) == before


@pytest.mark.parametrize("written", [str.lower, str.upper])
def test_no_worktree_is_called_as_the_folder_where_merges_are_verified(
    house: Open, written: Callable[[str], str]
) -> None:
    home = house()
    with pytest.raises(InvalidInput, match="cannot be the name of a worktree"):
        create(home, written(home.worktree_context.places.verification))


def test_residue_is_not_followed_out_of_the_worktree(repo: Path, tmp_path: Path) -> None:
    commit(repo, {".gitignore": "deps/\ndeps\n"})
    put(tmp_path / "elsewhere" / "precious.txt", "x\n")
    (repo / "deps").symlink_to(tmp_path / "elsewhere")
    checkout = open_checkout(repo)
    residue.remove(checkout, repo, None, ["deps/brought"])
    assert (tmp_path / "elsewhere" / "precious.txt").exists() and not (repo / "deps").is_symlink()


def test_residue_is_all_that_is_not_of_the_commit(repo: Path) -> None:
    commit(repo, {".gitignore": "*.pyc\n/deps/\n", "src/a.txt": "a\n"})
    checkout, before = open_checkout(repo), _entries(repo)
    put(repo / "new/app/.gitignore", "/target\n")  # a run made it, and `git clean` takes it away, but not what it names
    put(repo / "new/app/target/x", "x\n")
    put(repo / "gone/__pycache__/a.pyc", "x\n")
    git(repo, "clean", "-ffdq")
    put(repo / "deps/brought/x", "x\n")
    git(repo, "init", "-q", "src")
    os.mkfifo(repo / "src/pipe")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(repo):
        server.bind("src/app.sock")
    residue.remove(checkout, repo, None, ["deps/brought"])
    assert _entries(repo) - before == {"deps", "deps/brought", "deps/brought/x"}
    assert before <= _entries(repo)


def _entries(top: Path) -> set[str]:
    paths = (str(path.relative_to(top)) for path in top.rglob("*"))
    return {path for path in paths if not path.startswith(".git/")}
