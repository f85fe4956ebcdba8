"""The lock on the index of a user's checkout while Corral lands there: whose it is, what it leaves, what git would have kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.errors import GitFailed
from corral.git.checkouts import index_lock
from corral.git.land import forward, halfway, landing
from corral.git.land.landing import InTheWay, Landed, Moved
from corral.git.process.command import open_checkout, open_repository
from tests.conftest import git
from tests.integration.git.test_git_halfway import LAND, fail_at_z, killed, new
from tests.integration.git.test_git_landing import MAIN, state
from tests.integration.git.test_git_wrapper import shim
from tests.support.coordinated import eventually
from tests.support.programs import program

__all__ = ["new"]  # a fixture


def land(repo: Path, sha: str) -> Landed | Moved | InTheWay:
    return landing.land(open_repository(repo / ".git"), MAIN, sha, git(repo, "rev-parse", MAIN))


def left(repo: Path) -> list[str]:
    """Locks, and what a landing has in a git directory as long as it lasts."""
    files = [*(repo / ".git").glob("corral.landing*"), *(repo / ".git").rglob("*.lock")]
    return sorted(path.name for path in files)


@pytest.mark.req("G5")
def test_a_lock_of_somebody_elses_is_named_and_never_removed(repo: Path, new: str) -> None:
    fail_at_z(repo, f"kill -9 $(cat {repo.parent}/pid) $PPID")()
    lock = repo / ".git/index.lock"
    lock.write_text("somebody's")
    held = land(repo, new)
    assert isinstance(held, InTheWay)
    assert str(lock) in held.reason and "there since 20" in held.reason and f"`rm {lock}`" in held.reason
    assert lock.read_text() == "somebody's" and land(repo, new) == held, "the same words at each look"


@pytest.mark.req("G5")
def test_a_lock_that_took_the_place_of_ours_is_somebody_elses(repo: Path, new: str) -> None:
    """Somebody did as git said, and removed the lock that a kill had left; then their own git took it."""
    correct = fail_at_z(repo, f"kill -9 $(cat {repo.parent}/pid) $PPID")
    assert killed(repo, new) == -9
    checkout, lock = open_checkout(repo), repo / ".git/index.lock"
    assert index_lock.is_ours(checkout)
    correct()
    lock.unlink()
    lock.touch()
    held = land(repo, new)
    assert isinstance(held, InTheWay) and str(lock) in held.reason
    assert left(repo) == ["index.lock"]
    lock.unlink()
    assert land(repo, new) == Landed(new) and left(repo) == []


@pytest.mark.req("G5")
def test_a_checkout_that_cannot_be_recovered_keeps_no_other_target_from_landing(repo: Path, new: str) -> None:
    old = git(repo, "rev-parse", MAIN)
    for name in ("release", "other"):
        git(repo, "branch", name, old)
    git(repo, "worktree", "add", "-q", str(repo.parent / "release"), "release")
    broken = open_checkout(repo.parent / "release")
    assert index_lock.take(broken)
    halfway.write_note(broken, old, new)
    index = (broken.git_dir / "index").read_bytes()
    (broken.git_dir / "index").write_bytes(b"damaged")
    here = open_repository(repo / ".git")
    assert landing.land(here, MAIN, new, old) == Landed(new) == landing.land(here, "refs/heads/other", new, old)
    with pytest.raises(GitFailed, match="index file"):
        landing.land(here, "refs/heads/release", new, old)
    assert index_lock.is_ours(broken), "it stays provable"
    (broken.git_dir / "index").write_bytes(index)
    assert landing.land(here, "refs/heads/release", new, old) == Landed(new)
    assert not index_lock.path(broken).exists()


@pytest.mark.req("G5")
@pytest.mark.parametrize("whose", ["ours", "somebody's"])
def test_the_locks_of_a_killed_git_on_head_and_target_go_on_proof(
    repo: Path, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    text = new if whose == "ours" else "0" * 40
    locks = f"touch {repo}/.git/HEAD.lock; echo {text} > {repo}/.git/refs/heads/main.lock"
    with monkeypatch.context() as patched:
        shim(
            tmp_path / "bin",
            patched,
            f'case " $* " in *" merge --ff-only "*) {locks}; kill -9 $$;; esac; exec "$REAL" "$@"',
        )
        with pytest.raises(GitFailed, match="merge failed"):
            assert land(repo, new) is None
    if whose == "ours":
        assert left(repo) == [] and land(repo, new) == Landed(new)
        return
    assert left(repo) == ["main.lock"]
    held = land(repo, new)
    assert isinstance(held, InTheWay) and f"rm {repo}/.git/refs/heads/main.lock" in held.reason
    assert left(repo) == ["main.lock"]


@pytest.mark.req("G5")
def test_a_lock_that_a_living_git_may_hold_is_waited_for_and_one_elsewhere_is_not(
    repo: Path, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no-repository").write_text("")
    (tmp_path / "git").symlink_to(program("sleep"))
    holder, elsewhere = [
        subprocess.Popen(["git", "1000"], executable=tmp_path / "git", cwd=cwd, env={**os.environ, **env})
        for cwd, env in ((repo, {}), (tmp_path, {"GIT_DIR": str(tmp_path / "no-repository")}))
    ]
    lock = repo / ".git/HEAD.lock"
    with monkeypatch.context() as patched:
        shim(
            tmp_path / "bin",
            patched,
            f'case " $* " in *" merge --ff-only "*) touch {lock}; kill -9 $$;; esac; exec "$REAL" "$@"',
        )
        held = land(repo, new)
    assert isinstance(held, InTheWay) and f"rm {lock}" in held.reason
    assert land(repo, new) == held and lock.exists()
    holder.kill()
    holder.wait()
    assert land(repo, new) == Landed(new) and left(repo) == []
    elsewhere.kill()
    elsewhere.wait()


@pytest.mark.req("G7", "G8")
def test_a_git_that_outlives_its_daemon_is_waited_for(repo: Path, new: str) -> None:
    gate = repo.parent / "gate"
    fail_at_z(repo, f"touch {gate}.began; until [ -e {gate} ]; do sleep 0.05; done; printf '%s\\n' \"$text\"")
    argv = [sys.executable, "-c", LAND, str(repo), new, git(repo, "rev-parse", MAIN)]
    daemon = subprocess.Popen(argv)
    eventually(Path(f"{gate}.began").exists)
    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
    assert git(repo, "rev-parse", MAIN) != new and index_lock.is_ours(open_checkout(repo))
    opener = subprocess.Popen(["sh", "-c", f"sleep 0.3; touch {gate}"])
    forward.recover(open_repository(repo / ".git"))
    assert gate.exists() and git(repo, "rev-parse", MAIN) in (new, git(repo, "rev-parse", f"{new}^"))
    assert left(repo) == [] and git(repo, "status", "--porcelain") == ""
    assert land(repo, new) == Landed(new)
    opener.wait()
    assert git(repo, "status", "--porcelain") == "" and left(repo) == []


def test_an_index_that_is_a_link_holds_the_landing(repo: Path, new: str) -> None:
    index = repo / ".git/index"
    index.rename(repo.parent / "index")
    index.symlink_to(repo.parent / "index")
    before = state(repo)
    held = land(repo, new)
    assert isinstance(held, InTheWay) and "symbolic link" in held.reason
    assert state(repo) == before and index.is_symlink() and left(repo) == []


def test_without_hard_links_the_lock_is_made_anew(repo: Path, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kw: object) -> None:
        raise PermissionError(1, "not supported")

    monkeypatch.setattr(os, "link", refuse)
    checkout = open_checkout(repo)
    assert index_lock.take(checkout) and index_lock.is_ours(checkout)
    git(repo, "add", "README.md", check=False)
    index_lock.release(checkout)
    (repo / ".git/index.lock").touch()
    assert not index_lock.take(checkout) and not index_lock.is_ours(checkout)
    (repo / ".git/index.lock").unlink()
    assert land(repo, new) == Landed(new) and left(repo) == []


# -- whatever `merge --ff-only` keeps is kept


def split(repo: Path) -> None:
    git(repo, "config", "core.splitIndex", "true")
    git(repo, "update-index", "--split-index")


def untracked_cache(repo: Path) -> None:
    git(repo, "config", "core.untrackedCache", "true")
    git(repo, "update-index", "--force-untracked-cache")
    git(repo, "status")


def sparse(repo: Path) -> None:
    git(repo, "sparse-checkout", "set", "src")


def sparse_index(repo: Path) -> None:
    git(repo, "sparse-checkout", "set", "--cone", "--sparse-index", "src")


def marked(repo: Path) -> None:
    git(repo, "update-index", "--assume-unchanged", "README.md")
    git(repo, "update-index", "--skip-worktree", "src/b.py")
    (repo / "intended").write_text("x\n")
    git(repo, "add", "-N", "intended")


def version_4(repo: Path) -> None:
    git(repo, "update-index", "--index-version", "4")


def filtered(repo: Path) -> None:
    git(repo, "config", "filter.rot.smudge", "tr a-z b-za")
    git(repo, "config", "filter.rot.clean", "tr b-za a-z")
    (repo / ".git/info/attributes").write_text("m filter=rot\nz text eol=crlf\n")
    for name in ("m", "z"):
        (repo / name).unlink()
        git(repo, "checkout", "-q", "--", name)


def in_a_separate_git_dir(repo: Path) -> None:
    git(repo, "init", "-q", "--separate-git-dir", str(repo.parent / f"{repo.name}.git"))
    git(repo, "config", "core.worktree", str(repo))


def shared(repo: Path) -> None:
    git(repo, "config", "core.sharedRepository", "group")


@pytest.mark.req("G8")
@pytest.mark.parametrize(
    "kind",
    [split, untracked_cache, sparse, sparse_index, marked, version_4, filtered, in_a_separate_git_dir, shared],
    ids=lambda kind: kind.__name__,
)
def test_a_checkout_of_any_kind_is_left_as_git_itself_would_leave_it(
    repo: Path, new: str, kind: Callable[[Path], None]
) -> None:
    git(repo, "branch", "landing", new)
    (repo / "staged").write_text("mine\n")
    git(repo, "add", "staged")
    (repo / "untracked").write_text("mine\n")
    twin = shutil.copytree(repo, repo.parent / "twin", symlinks=True)
    for place in (repo, twin):
        git(place, "update-index", "-q", "--refresh")
        kind(place)
    git(twin, "merge", "-q", "--ff-only", "landing")
    git_dir = Path(git(repo, "rev-parse", "--absolute-git-dir"))
    assert landing.land(open_repository(git_dir), MAIN, new, git(repo, "rev-parse", MAIN)) == Landed(new)
    for command in (["ls-files", "--stage", "-t", "-v"], ["status", "--porcelain=v2"], ["rev-parse", "HEAD"], ["diff"]):
        assert git(repo, *command) == git(twin, *command), command
    assert seen(repo) == seen(twin)
    assert (git_dir / "index").stat().st_mode == Path(
        git(twin, "rev-parse", "--absolute-git-dir"), "index"
    ).stat().st_mode
    assert git(repo, "fsck", "--connectivity-only", "--no-dangling") == ""


def seen(top: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a checkout: its mode, and its content or where it points."""
    return {
        str(path.relative_to(top)): (path.lstat().st_mode, os.readlink(path).encode() if path.is_symlink() else path.read_bytes())  # noqa: PTH115
        for path in sorted(top.rglob("*"))
        if (path.is_symlink() or path.is_file()) and ".git" not in path.relative_to(top).parts
    }  # fmt: skip
