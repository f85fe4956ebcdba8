"""Landing: four layouts, every kind of dirt, and nobody harmed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from corral.core.errors import InvalidInput
from corral.git import refs
from corral.git.land import landing
from corral.git.land.landing import InTheWay, Landed, Moved
from corral.git.process.command import open_repository
from tests.conftest import commit, git

MAIN = "refs/heads/main"


@pytest.fixture
def new(repo: Path) -> str:
    """A commit on top of main: changes src/a.py, adds new.py. The checkout is on main, without it."""
    git(repo, "checkout", "-q", "-b", "work")
    sha = commit(repo, {"src/a.py": "landed\n", "new.py": "new\n"})
    git(repo, "checkout", "-q", "main")
    git(repo, "branch", "-q", "-D", "work")
    return sha


def land(repo: Path, new: str, old: str | None = None, target: str = MAIN) -> Landed | Moved | InTheWay:
    me = open_repository(repo / ".git" if (repo / ".git").is_dir() else repo)
    return landing.land(me, target, new, git(repo, "rev-parse", target) if old is None else old)


def state(repo: Path) -> tuple[str, str, dict[str, str]]:
    """All that a user could lose: HEAD, status, and every file's content."""
    files = {
        str(path.relative_to(repo)): path.read_text()
        for path in sorted(repo.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(repo).parts
    }
    return git(repo, "rev-parse", "HEAD"), git(repo, "status", "--porcelain"), files


@pytest.mark.req("G7")
def test_through_the_main_checkout(repo: Path, new: str) -> None:
    assert land(repo, new) == Landed(new)
    assert git(repo, "status", "--porcelain") == "" and (repo / "new.py").read_text() == "new\n"
    assert git(repo, "rev-parse", MAIN) == new
    assert land(repo, new, "0" * 40) == Landed(new), "landing again is landed"


@pytest.mark.req("G7")
def test_another_name_of_a_branch_lands_through_its_checkout(repo: Path, new: str) -> None:
    git(repo, "symbolic-ref", "refs/heads/master", MAIN)
    assert land(repo, new, target="refs/heads/master") == Landed(new)
    assert git(repo, "rev-parse", MAIN) == new and git(repo, "status", "--porcelain") == ""
    assert git(repo, "symbolic-ref", "refs/heads/master") == MAIN


@pytest.mark.req("G7")
def test_a_checkout_whose_head_is_on_another_name_of_the_branch(repo: Path, new: str) -> None:
    git(repo, "symbolic-ref", "refs/heads/trunk", MAIN)
    git(repo, "symbolic-ref", "HEAD", "refs/heads/trunk")
    assert land(repo, new, target="refs/heads/trunk") == Landed(new)
    assert git(repo, "rev-parse", MAIN) == new and git(repo, "status", "--porcelain") == ""
    assert git(repo, "symbolic-ref", "--no-recurse", "HEAD") == "refs/heads/trunk"


@pytest.mark.req("G7")
def test_through_a_linked_checkout(repo: Path, new: str, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "--detach")
    linked = tmp_path / "li nk"
    git(repo, "worktree", "add", "-q", str(linked), "main")
    before = state(repo)
    assert land(repo, new) == Landed(new)
    assert git(linked, "status", "--porcelain") == "" and (linked / "new.py").exists()
    assert state(repo) == before


@pytest.mark.req("G7")
def test_nowhere_checked_out(repo: Path, new: str) -> None:
    old = git(repo, "rev-parse", MAIN)
    git(repo, "checkout", "-q", "-b", "elsewhere")
    before = state(repo)
    assert land(repo, new) == Landed(new) and git(repo, "rev-parse", MAIN) == new
    assert state(repo) == before
    assert "corral: landed" in git(repo, "reflog", "show", "main")
    git(repo, "update-ref", MAIN, old)


@pytest.mark.req("G7")
def test_a_bare_repository_with_and_without_a_worktree(repo: Path, new: str, tmp_path: Path) -> None:
    git(repo, "update-ref", "refs/heads/keep", new)
    for name in ("without", "with"):
        bare, linked = tmp_path / f"{name}.git", tmp_path / name
        git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
        if name == "with":
            git(bare, "worktree", "add", "-q", str(linked), "main")
        assert land(bare, new) == Landed(new)
        assert git(bare, "rev-parse", MAIN) == new
        if name == "with":
            assert git(linked, "status", "--porcelain") == "" and (linked / "new.py").exists()


@pytest.mark.req("G13")
def test_a_flipped_core_bare_does_not_hide_the_users_checkout(repo: Path, new: str) -> None:
    git(repo, "config", "core.bare", "true")
    assert land(repo, new) == Landed(new)
    git(repo, "config", "core.bare", "false")
    assert git(repo, "status", "--porcelain") == "" and (repo / "new.py").exists()


@pytest.mark.req("G8", "G16")
@pytest.mark.parametrize("dirt", ["unstaged", "staged", "untracked", "both", "autostash", "deleted"])
def test_dirt_that_overlaps_holds_the_landing_and_is_not_touched(repo: Path, new: str, dirt: str) -> None:
    paths = []
    if dirt in ("unstaged", "both", "staged", "autostash"):
        (repo / "src/a.py").write_text("mine\n")
        paths.append("src/a.py")
    if dirt == "staged":
        git(repo, "add", "src/a.py")
    if dirt == "deleted":
        git(repo, "rm", "-q", "src/a.py")
        paths.append("src/a.py")
    if dirt == "autostash":
        git(repo, "config", "merge.autoStash", "true")
    if dirt in ("untracked", "both"):
        (repo / "new.py").write_text("mine\n")
        paths.append("new.py")
    before = state(repo)
    held = land(repo, new)
    assert isinstance(held, InTheWay) and held.paths == sorted(paths), held
    assert "overlap" in held.reason and str(repo) in held.reason
    assert state(repo) == before
    assert git(repo, "stash", "list") == ""


@pytest.mark.req("G8")
@pytest.mark.parametrize("ignored", ["new.py", "new.py/object", "src/a.py/object"])
def test_an_ignored_file_of_the_users_is_not_overwritten(repo: Path, new: str, ignored: str) -> None:
    """A file, a folder where a file would land, and what stands where the user deleted a tracked file."""
    (repo / ".git/info/exclude").write_text(f"/{ignored}\n")
    if ignored.startswith("src"):
        (repo / "src/a.py").unlink()
    (repo / ignored).parent.mkdir(exist_ok=True)
    (repo / ignored).write_text("SECRET=mine\n")
    before = state(repo)
    held = land(repo, new)
    assert isinstance(held, InTheWay) and held.paths == [ignored.removesuffix("/object")]
    assert "overlap" in held.reason and state(repo) == before
    if ignored == "new.py":
        (repo / ignored).rename(repo / "elsewhere")
        assert land(repo, new) == Landed(new)


@pytest.mark.req("G9")
def test_a_target_that_moved_is_left_to_its_user(repo: Path, new: str) -> None:
    old = git(repo, "rev-parse", MAIN)
    mine = commit(repo, {"mine.py": "1"})
    assert land(repo, new, old) == Moved()
    git(repo, "checkout", "-q", "--detach")
    assert land(repo, new, old) == Moved()
    assert land(repo, new, old, "refs/heads/gone") == Moved()
    with pytest.raises(InvalidInput):
        land(repo, new, mine)
    assert git(repo, "rev-parse", MAIN) == mine


@pytest.mark.req("G9")
@pytest.mark.parametrize("moved_by", ["merge --ff-only", "update-ref"])
def test_a_commit_between_the_look_and_the_move_is_kept(
    repo: Path, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved_by: str
) -> None:
    from tests.integration.git.test_git_wrapper import shim

    if moved_by == "update-ref":  # where nobody has the target checked out
        git(repo, "checkout", "-q", "--detach")
    old = git(repo, "rev-parse", MAIN)
    theirs = git(repo, "commit-tree", "-p", old, "-m", "theirs", f"{old}^{{tree}}")
    inject = f'"$REAL" -C {repo} update-ref refs/heads/main {theirs}'  # which takes no lock on the index
    shim(
        tmp_path / "bin", monkeypatch,
        f'case " $* " in *" {moved_by} "*) env -u GIT_DIR -u GIT_INDEX_FILE {inject};; esac; exec "$REAL" "$@"',
    )  # fmt: skip
    moved = landing.land(open_repository(repo / ".git"), MAIN, new, old)
    assert moved == Moved()
    assert git(repo, "log", "-1", "--format=%s", MAIN) == "theirs" and git(repo, "status", "--porcelain") == ""


def test_a_target_checked_out_twice_is_in_the_way(repo: Path, new: str, tmp_path: Path) -> None:
    git(repo, "worktree", "add", "-q", "--force", str(tmp_path / "w"), "main")
    held = land(repo, new)
    assert isinstance(held, InTheWay) and "several worktrees" in held.reason
    assert git(repo, "rev-parse", MAIN) != new


def test_a_target_in_the_middle_of_a_rebase_merge_or_am_is_in_the_way(repo: Path, new: str, tmp_path: Path) -> None:
    git(repo, "checkout", "-q", "-b", "onto")
    commit(repo, {"src/b.py": "onto\n"})
    git(repo, "checkout", "-q", "main")
    start = commit(repo, {"src/b.py": "main\n"})
    git(repo, "rebase", "onto", check=False)
    git(repo, "update-ref", "refs/heads/tmp", start)
    later = git(repo, "commit-tree", "-p", start, "-m", "x", f"{start}^{{tree}}")
    held = land(repo, later)
    assert isinstance(held, InTheWay) and "rebased" in held.reason
    git(repo, "rebase", "--abort")
    git(repo, "merge", "onto", check=False)
    before = state(repo)
    held = land(repo, later)
    assert isinstance(held, InTheWay) and state(repo) == before
    git(repo, "merge", "--abort")
    git(repo, "format-patch", "-1", "onto", "--output", str(tmp_path / "a.patch"))
    git(repo, "am", str(tmp_path / "a.patch"), check=False)
    held = land(repo, later)
    assert isinstance(held, InTheWay) and f"git -C {repo} am --continue" in held.remedy


@pytest.mark.req("G3")
def test_a_checkout_that_was_moved_away_holds_the_landing_until_it_is_back_or_given_up(
    repo: Path, new: str, tmp_path: Path
) -> None:
    """Had the target moved, the checkout would show what landed as deleted when it is back, and a commit would undo it."""
    git(repo, "checkout", "-q", "--detach")
    git(repo, "worktree", "add", "-q", str(tmp_path / "w"), "main")
    (tmp_path / "w").rename(tmp_path / "away")
    held = land(repo, new)
    assert (
        isinstance(held, InTheWay)
        and "cannot be reached" in held.reason
        and held.remedy.endswith(": git worktree prune")
    )
    (tmp_path / "away").rename(tmp_path / "w")
    assert land(repo, new) == Landed(new)
    assert git(tmp_path / "w", "status", "--porcelain") == ""


@pytest.mark.req("G3")
def test_a_checkout_that_is_gone_for_good_is_no_hindrance_once_git_has_forgotten_it(
    repo: Path, new: str, tmp_path: Path
) -> None:
    git(repo, "checkout", "-q", "--detach")
    git(repo, "worktree", "add", "-q", str(tmp_path / "w"), "main")
    shutil.rmtree(tmp_path / "w")
    assert isinstance(land(repo, new), InTheWay)
    git(repo, "worktree", "prune")
    assert land(repo, new) == Landed(new)


@pytest.mark.req("G5")
@pytest.mark.parametrize("name", ["index.lock", "refs/heads/main.lock"])
def test_a_lock_in_the_users_checkout_holds_the_landing(repo: Path, new: str, name: str) -> None:
    lock = repo / ".git" / name
    lock.touch()
    held = land(repo, new)
    assert isinstance(held, InTheWay) and f"type `rm {lock}`" in held.reason
    assert lock.exists() and git(repo, "rev-parse", MAIN) != new
    lock.unlink()
    assert land(repo, new) == Landed(new)


def test_the_first_commit_of_a_target(repo: Path, new: str) -> None:
    assert land(repo, new, "", "refs/heads/fresh") == Landed(new)
    assert refs.read(open_repository(repo / ".git"), "refs/heads/fresh") == new


def test_configuration_cannot_change_what_landing_does(repo: Path, new: str) -> None:
    git(repo, "config", "merge.ff", "false")
    git(repo, "config", "branch.main.mergeOptions", "--no-ff --no-commit --squash")
    git(repo, "config", "merge.verifySignatures", "true")
    assert land(repo, new) == Landed(new)
    assert git(repo, "rev-parse", MAIN) == new
