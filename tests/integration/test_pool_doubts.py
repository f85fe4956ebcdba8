"""A kept worktree is used only if nobody has touched it; else it is passed over, or removed with a person's work saved."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from corral.config.sections.work import Tasks
from corral.core.errors import Conflict, GitFailed
from corral.core.states import WorktreeState
from corral.git import refs
from corral.git.checkouts import salvage
from corral.git.process.command import Git, Outcome
from corral.store.rows.tasks import WorktreeRow
from corral.work.workers.sweeping import SWEEP_EVERY_S
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import trim_pool
from corral.work.worktrees.pool.state import SEAL, overview
from tests.conftest import commit, git, worktrees_in, worktrees_of
from tests.integration import pooling, taken_places
from tests.integration.pooling import Open, counted, inode, look, pooled, run, seen, used
from tests.integration.supervision import House
from tests.integration.taken_places import Take, state
from tests.support.files import put
from tests.support.programs import requires


@pytest.fixture
def house(repo: Path) -> Iterator[Open]:
    yield from pooling.houses(repo)


def keep_one(house: House) -> tuple[WorktreeRow, Path]:
    run(house, "true")
    (kept,) = pooled(house)
    return kept, Path(kept["path"])


def saved(house: House) -> set[str]:
    return {file for saved_work in salvage.listing(house.worktree_context.repo) for file in saved_work.files}


EDITS: dict[str, tuple[Callable[[Path], object], set[str], str]] = {
    "a tracked file": (
        lambda path: (path / "README.md").write_text("a person's\n"), {"README.md"}, "it was changed meanwhile"),
    "a new file": (lambda path: (path / "mine.txt").write_text("a person's\n"), {"mine.txt"}, "it was changed meanwhile"),
    "a new folder": (lambda path: (path / "src" / "mine").mkdir(), set(), "it was changed meanwhile"),
    "a mode": (lambda path: (path / "src").chmod(0o700), set(), "it was changed meanwhile"),
    "a commit": (lambda path: commit(path, {"mine.txt": "x"}), set(), "its HEAD was moved"),
    "a branch": (lambda path: git(path, "checkout", "-q", "-b", "mine"), set(), "its HEAD was moved"),
    "something staged": (
        lambda path: git(path, "update-index", "--add", "--cacheinfo", f"100644,{git(path, 'rev-parse', 'HEAD:README.md')},x"),
        set(), "it was changed meanwhile"),
    "a mark in the index": (
        lambda path: git(path, "update-index", "--assume-unchanged", "README.md"), set(), "its index was changed meanwhile"),
    "a merge": (
        lambda path: Path(git(path, "rev-parse", "--absolute-git-dir"), "MERGE_HEAD").write_text(git(path, "rev-parse", "HEAD")),
        set(), "git's entry of it holds MERGE_HEAD"),
}  # fmt: skip


def test_one_that_a_person_has_touched_is_not_used_and_their_work_is_saved(
    house: Open, repo: Path, tmp_path: Path
) -> None:
    home = house()
    keep_one(home)
    reasons = Counter({"none was kept": 1})
    for what, (edit, files, reason) in EDITS.items():
        (kept,) = pooled(home)  # of the task that looked last
        path = Path(kept["path"])
        edit(path)
        reasons[reason] += 1
        facts = seen(home, tmp_path / "found.json")
        assert used(home) == 0 and git(repo, "rev-parse", "HEAD") == facts["git"]["rev-parse HEAD"][1].strip(), what
        assert counted(home, "not_used") == reasons, what
        assert not path.exists() and files <= saved(home), what
        assert kept["name"] not in {row["name"] for row in pooled(home)}, what


def test_a_commit_that_a_person_made_there_is_saved(house: Open, repo: Path) -> None:
    home = house()
    _kept, path = keep_one(home)
    sha = commit(path, {"mine.txt": "x"})
    run(home, "true")
    assert not path.exists() and git(repo, "for-each-ref", "--contains", sha, "refs/corral/salvage/")


def test_a_branch_that_a_person_made_there_stays(house: Open, repo: Path) -> None:
    home = house()
    _kept, path = keep_one(home)
    git(path, "checkout", "-q", "-b", "mine")
    sha = commit(path, {"mine.txt": "x"})
    run(home, "true")
    assert git(repo, "rev-parse", "refs/heads/mine") == sha


def test_a_status_or_a_diff_does_no_harm(house: Open, tmp_path: Path) -> None:
    """An editor looks at every worktree there is, and writes its index."""
    home = house()
    kept, path = keep_one(home)
    (path / "README.md").touch()
    git(path, "status")
    git(path, "diff")
    assert seen(home, tmp_path / "found.json")["inode"] == inode(kept) and used(home) == 1


def test_one_that_git_was_told_to_lock_stays_and_says_why(house: Open, repo: Path) -> None:
    home = house()
    kept, path = keep_one(home)
    git(repo, "worktree", "lock", str(path))
    run(home, "true")
    (row,) = home.in_use()
    assert (row["name"], row["state"]) == (kept["name"], WorktreeState.RECLAIMING) and "locked" in row["note"]
    assert path.exists() and used(home) == 0
    git(repo, "worktree", "unlock", str(path))
    assert home.worktrees.remove(kept["name"])["removed"] and not path.exists()


@pytest.mark.parametrize("take", taken_places.ALL, ids=lambda take: take.__name__)
def test_what_stands_in_the_place_of_one_is_not_touched(house: Open, repo: Path, take: Take) -> None:
    home = house()
    kept, path = keep_one(home)
    theirs = take(repo, path)
    before = state(theirs)
    run(home, "true")
    assert state(theirs) == before and used(home) == 0
    (row,) = [row for row in home.worktrees.listing() if row["name"] == kept["name"]]
    assert row["note"] is not None
    (shown,) = [row for row in overview(home.worktree_context)["worktrees"] if row["name"] == kept["name"]]
    assert shown["note"] == row["note"]


def test_one_whose_folder_was_deleted_is_forgotten(house: Open, repo: Path) -> None:
    home = house()
    kept, path = keep_one(home)
    path.rename(repo.parent / "taken-away")
    run(home, "true")
    assert used(home) == 0 and kept["name"] not in {row["name"] for row in home.worktrees.listing()}
    assert str(path) not in git(repo, "worktree", "list")


@pytest.fixture
def stranger() -> Iterator[Callable[[Path], int]]:
    """Starts a process in a folder that nothing tells apart from a shell of a person's."""
    started: list[subprocess.Popen[bytes]] = []

    def start(folder: Path) -> int:
        started.append(subprocess.Popen(["sleep", "600"], cwd=folder, env={"PATH": os.environ["PATH"]}))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_one_that_somebody_is_in_is_passed_over_until_they_leave(
    house: Open, stranger: Callable[[Path], int], tmp_path: Path
) -> None:
    home = house()
    kept, path = keep_one(home)
    pid = stranger(path / "src")
    assert seen(home, tmp_path / "first.json")["inode"] != inode(kept)
    assert counted(home, "not_used")["a process works in it"] == 1
    assert overview(home.worktree_context)["worktrees"][0]["note"] == "a process works in it"
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    home.worktrees.remove(pooled(home)[1]["name"])
    assert seen(home, tmp_path / "second.json")["inode"] == inode(kept)


@requires("prlimit", "setsid")
def test_one_in_which_something_of_the_task_lives_on_is_not_kept(house: Open, tmp_path: Path) -> None:
    """It has left its group and lost its marks and its tag, and would write into the next task's files."""
    home, pid = house(), tmp_path / "pid"
    run(home, "prlimit --rttime=unlimited: env -i setsid "
             f"/bin/sh -c 'echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600' > /dev/null 2>&1 & "
             f"while [ ! -e {pid} ]; do sleep 0.05; done")  # fmt: skip
    try:
        assert counted(home, "not_kept") == {"a process works in it": 1} and pooled(home) == []
    finally:
        os.kill(int(pid.read_text()), 9)


@pytest.mark.parametrize("command", ["exit 1", "echo half > half.txt; exit 1"])
def test_one_whose_attempt_failed_is_not_kept(house: Open, repo: Path, command: str) -> None:
    home = house()
    run(home, command, "dead")
    assert pooled(home) == [] and home.worktrees.listing() == []
    assert worktrees_in(repo) == []


def test_one_whose_task_was_cancelled_is_not_kept(house: Open, repo: Path) -> None:
    from corral.work.tasks import tasks

    home = house()
    task_id = home.submit("touch ready; sleep 600")
    home.until(lambda: any(worktrees_of(repo).glob("*/ready")))
    home.db.write(lambda conn: tasks.cancel(conn, task_id, home.now(), Tasks(), reason="not needed"))
    home.until_status(task_id, "cancelled")
    home.settle()
    assert pooled(home) == []


# -- what differs between two bases


def test_files_that_came_went_and_changed_their_kind(house: Open, repo: Path, tmp_path: Path) -> None:
    commit(repo, {"gone/deep/x.txt": "x", "becomes-a-folder": "x", "becomes-a-file/x": "x", "run": "x", "link": "x"})
    home = house()
    keep_one(home)
    git(repo, "rm", "-q", "-r", "gone", "becomes-a-folder", "becomes-a-file", "link")
    (repo / "link").symlink_to("run")
    (repo / "run").chmod(0o755)
    commit(repo, {"becomes-a-folder/x": "y", "becomes-a-file": "y", "new/deep/y": "y", "run": "x", "link": "x"} | {})
    warm = seen(home, tmp_path / "warm.json")
    assert used(home) == 1
    other = house(worktrees={"pool_size": 0})
    assert pooling.apart(seen(other, tmp_path / "fresh.json")) == pooling.apart(warm)


def test_one_is_passed_over_if_equal_files_are_to_be_written_differently(
    house: Open, repo: Path, tmp_path: Path
) -> None:
    home = house()
    kept, _path = keep_one(home)
    commit(repo, {".gitattributes": "*.md text eol=crlf\n"})
    facts = seen(home, tmp_path / "found.json")
    assert counted(home, "not_used")["a .gitattributes file or a submodule has changed since"] == 1
    assert facts["inode"] != inode(kept) and facts["tree"]["README.md"][1].endswith("\r\n")


@pytest.mark.parametrize("what", ["a setting", "attributes of the repository"])
def test_one_is_removed_if_git_would_write_its_files_in_another_way_now(
    house: Open, repo: Path, tmp_path: Path, what: str
) -> None:
    home = house()
    _kept, path = keep_one(home)
    if what == "a setting":
        git(repo, "config", "core.autocrlf", "true")
    else:
        put(repo / ".git" / "info" / "attributes", "*.md text eol=crlf\n")
    facts = seen(home, tmp_path / "found.json")
    assert used(home) == 0 and counted(home, "not_used")["git's settings have changed"] == 1 and not path.exists()
    assert facts["tree"]["README.md"][1].endswith("\r\n")


def test_one_whose_files_cannot_be_written_gives_way_to_a_fresh_one(house: Open, repo: Path, tmp_path: Path) -> None:
    """The filter of a new file fails once: in the kept worktree, and no more in the fresh one."""
    failing = tmp_path / "failed"
    git(repo, "config", "filter.once.smudge", f"sh -c 'if [ ! -e {failing} ]; then touch {failing}; exit 1; fi; cat'")
    git(repo, "config", "filter.once.clean", "cat")
    git(repo, "config", "filter.once.required", "true")
    commit(repo, {".gitattributes": "*.once filter=once\n"})
    home = house()
    keep_one(home)
    commit(repo, {"new.once": "x\n"})
    facts = seen(home, tmp_path / "found.json")
    assert facts["tree"]["new.once"][1] == "x\n"
    assert counted(home, "not_used")["git failed in it"] == 1 and used(home) == 0
    assert home.in_use() == [] and len(git(repo, "branch", "--list", "corral/*").splitlines()) == 0


def test_a_branch_that_somebody_makes_at_the_last_moment_is_theirs(
    house: Open, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = house()
    keep_one(home)
    real = refs.make_branch

    def late(git_of: Git, ref: str, sha: str) -> None:
        monkeypatch.undo()
        git(repo, "update-ref", ref, sha)
        real(git_of, ref, sha)

    monkeypatch.setattr(refs, "make_branch", late)
    with pytest.raises(Conflict, match="Cannot create the branch"):
        home.worktrees.create("mine", session_id=None, base=None)
    assert git(repo, "rev-parse", "refs/heads/corral/mine") == git(repo, "rev-parse", "main")
    assert home.worktrees.listing() == []


def test_one_whose_seal_is_damaged_is_not_used(house: Open, tmp_path: Path) -> None:
    home = house()
    _kept, path = keep_one(home)
    Path(git(path, "rev-parse", "--absolute-git-dir"), SEAL).write_text("{")
    seen(home, tmp_path / "found.json")
    assert used(home) == 0 and counted(home, "not_used")["its seal cannot be read"] == 1 and not path.exists()


# -- the bounds


def test_no_more_are_kept_than_the_settings_allow_and_the_newest_stay(house: Open) -> None:
    home = house(supervisor={"max_agents": 3})
    gate = home.project.root.parent / "gate"
    ids = home.submit_all(
        [{"title": f"t{n}", "command": f"while [ ! -e {gate} ]; do sleep 0.02; done"} for n in range(3)]
    )
    home.until(lambda: all(home.status(task_id) == "running" for task_id in ids))
    gate.touch()
    home.until(home.idle)
    assert len(pooled(home)) == 2
    newest = pooled(home)[1]["name"]
    home.settings = home.settings.model_copy(
        update={"worktrees": home.settings.worktrees.model_copy(update={"pool_size": 1})}
    )
    home.until(lambda: [path.name for path in worktrees_in(home.project.root)] == [newest])
    home.until(lambda: [row["name"] for row in pooled(home)] == [newest])


def test_one_that_takes_more_disk_than_allowed_is_not_kept(house: Open, repo: Path) -> None:
    commit(repo, {"large.bin": "x" * (2 << 20)})
    home = house(worktrees={"pool_disk_mb": 1})
    run(home, "true")
    assert (
        counted(home, "not_kept") == {"it takes more than worktrees.pool_disk_mb": 1} and home.worktrees.listing() == []
    )
    other = house(worktrees={"pool_disk_mb": 3})
    run(other, "true")
    assert 2 << 20 <= overview(other.worktree_context)["size_bytes"] < 3 << 20


def test_none_are_kept_while_the_disk_is_nearly_full(house: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    home = house()
    keep_one(home)
    full = SimpleNamespace(total=100 << 30, used=100 << 30, free=100 << 20)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: full)
    run(home, "true")
    assert counted(home, "not_kept") == {"the disk is nearly full": 1} and pooled(home) == []
    trim_pool(home.worktree_context)
    assert home.worktrees.listing() == []


def test_a_worktree_of_few_files_is_made_anew(house: Open, repo: Path) -> None:
    files = len(git(repo, "ls-files").splitlines())
    for fewest, kept in ((files + 1, 0), (files, 1)):
        home = house(worktrees={"pool_min_files": fewest})
        run(home, "true")
        assert len(pooled(home)) == kept
        assert counted(home, "not_kept").get("it has fewer files than worktrees.pool_min_files", 0) == 1 - kept


def test_no_pool_no_kept_worktrees(house: Open) -> None:
    home = house(worktrees={"pool_size": 0})
    run(home, "true")
    assert home.worktrees.listing() == [] and overview(home.worktree_context)["most"] == 0


# -- what fails on the way in


@pytest.mark.parametrize("step", ["fill", "index_of", "refresh", "conversion", "listing.move"])
def test_one_that_cannot_be_made_clean_is_removed_and_its_work_is_on_its_branch(
    house: Open, repo: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    home = house()
    module = "listing" if step.startswith("listing.") else "repointing"
    name, gate = step.removeprefix("listing."), repo.parent / "gate"
    task_id = home.submit(f"touch {gate}.began; while [ ! -e {gate} ]; do sleep 0.02; done; echo x > x.txt")
    home.until(Path(f"{gate}.began").exists)
    with monkeypatch.context() as patched:
        patched.setattr(f"corral.git.checkouts.{module}.{name}", failing)
        gate.touch()
        home.until_status(task_id, "completed")
        home.settle()
        assert sum(counted(home, "not_kept").values()) == 1
    home.skipped += timedelta(seconds=SWEEP_EVERY_S + 1)
    home.until(lambda: home.worktrees.listing() == [])
    assert worktrees_in(repo) == [] and salvage.listing(home.worktree_context.repo) == []
    assert git(repo, "show", f"{home.detail(task_id)['branch']}:x.txt") == "x"


def failing(*_args: object, **_options: object) -> None:
    raise GitFailed("git failed: on purpose", details={"outcome": Outcome.INFRA.value})


# -- the daemon's end and beginning


def test_they_stay_when_the_daemon_stops_and_are_used_after_its_next_start(house: Open, tmp_path: Path) -> None:
    home = house()
    kept, _path = keep_one(home)
    again = house()
    assert seen(again, tmp_path / "found.json")["inode"] == inode(kept) and used(again) == 1


def test_a_start_with_another_bound_removes_the_rest(house: Open) -> None:
    home = house()
    keep_one(home)
    other = house(worktrees={"pool_size": 0})
    other.until(lambda: other.worktrees.listing() == [])


def test_rows_of_tasks_keep_their_history(house: Open) -> None:
    home = house()
    first, second = run(home, "true"), run(home, look(home.project.root.parent / "x.json"))
    assert used(home) == 1
    rows = {row["task_id"]: row for row in home.db.read(lambda conn: worktree_rows.listing(conn, states=("removed",)))}
    for detail in (first, second):
        row = rows[detail["task_id"]]
        assert Path(row["path"]).name == row["name"] and row["branch"] == f"corral/{row['name']}"
