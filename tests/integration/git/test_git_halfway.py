"""A landing that fails half-way: the user's checkout is as it was, and the landing is held for what stopped it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.errors import GitFailed
from corral.git.land import landing
from corral.git.land.landing import InTheWay, Landed, Moved
from corral.git.process.command import open_repository
from tests.conftest import commit, commit_all, git
from tests.integration.git.test_git_landing import MAIN, state

NOTE = ".git/corral.landing"
LAND = (
    "import sys; from pathlib import Path; from corral.git.land import landing;"
    "from corral.git.process.command import open_repository;"
    "landing.land(open_repository(Path(sys.argv[1], '.git')), 'refs/heads/main', *sys.argv[2:])"
)


@pytest.fixture
def new(repo: Path) -> str:
    """On top of main, every kind of change; ``z`` comes last. The checkout is on main, without it."""
    commit(repo, {"m": "old\n", "gone": "old\n", "mode": "old\n", "f": "old\n", "d/x": "old\n", "z": "old\n"})
    (repo / "link").symlink_to("m")
    commit_all(repo, "link", "link")
    git(repo, "checkout", "-q", "-b", "work")
    git(repo, "rm", "-q", "gone", "f", "d/x", "link")
    (repo / "mode").chmod(0o755)
    (repo / "link").symlink_to("elsewhere")
    git(repo, "add", "mode", "link")
    sha = commit(repo, {"m": "new\n", "new/deep": "new\n", "f/x": "new\n", "d": "new\n", "z": "new\n" * 50_000})
    git(repo, "checkout", "-q", "main")
    git(repo, "branch", "-q", "-D", "work")
    return sha


def land(repo: Path, new: str) -> Landed | Moved | InTheWay:
    return landing.land(open_repository(repo / ".git"), MAIN, new, git(repo, "rev-parse", MAIN))


def fail_at_z(repo: Path, command: str = "false") -> Callable[[], object]:
    """Make git fail at the new ``z``, when all else is written; returns what corrects it."""
    attributes = repo / ".git/info/attributes"
    attributes.write_text("z filter=failing\n")
    smudge = f"text=$(cat); case $text in new*) {command};; *) echo old;; esac"
    git(repo, "config", "filter.failing.smudge", smudge)
    git(repo, "config", "filter.failing.clean", "cat")
    git(repo, "config", "filter.failing.required", "true")
    return attributes.unlink


def killed(repo: Path, new: str, limit: int | None = None) -> int:
    """Land in a process of its own, which is killed with its git, or whose git may write no file larger than ``limit``."""

    def prepare() -> None:
        (repo.parent / "pid").write_text(str(os.getpid()))
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    argv = [sys.executable, "-c", LAND, str(repo), new, git(repo, "rev-parse", MAIN)]
    return subprocess.run(argv, preexec_fn=prepare, capture_output=True).returncode


@pytest.mark.req("G8")
def test_a_checkout_that_git_could_not_finish_is_as_before(repo: Path, new: str) -> None:
    correct = fail_at_z(repo)
    (repo / "README.md").write_text("mine\n")
    before = state(repo)
    for _ in range(2):
        held = land(repo, new)
        assert isinstance(held, InTheWay) and "filter" in held.reason and "overlap" not in held.reason, held
        assert state(repo) == before and git(repo, "ls-files", "-d") == "" and not (repo / "new").exists()
    correct()
    assert land(repo, new) == Landed(new)
    assert git(repo, "status", "--porcelain") == "M README.md" and not (repo / NOTE).exists()


@pytest.mark.req("G8")
@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written(repo: Path, new: str) -> None:
    (repo / "d").chmod(0o555)
    before = state(repo)
    held = land(repo, new)
    (repo / "d").chmod(0o755)
    assert isinstance(held, InTheWay) and "Permission denied" in held.reason
    assert state(repo) == before and land(repo, new) == Landed(new)


@pytest.mark.req("G8")
def test_an_ignored_file_that_git_wrote_is_no_hindrance_later(repo: Path, new: str) -> None:
    (repo / ".git/info/exclude").write_text("new/\n")
    correct = fail_at_z(repo)
    assert isinstance(land(repo, new), InTheWay) and not (repo / "new").exists()
    correct()
    assert land(repo, new) == Landed(new)


@pytest.mark.req("G8")
def test_an_index_that_was_written_for_a_ref_that_would_not_move(repo: Path, new: str) -> None:
    log = repo / ".git/logs/refs/heads/main"
    log.rename(repo.parent / "log")
    log.mkdir()
    (log / "in-the-way").touch()
    before = state(repo)
    try:
        assert isinstance(land(repo, new), InTheWay)
    except GitFailed as error:
        assert "main" in error.message
    assert state(repo) == before
    (log / "in-the-way").unlink()
    log.rmdir()
    (repo / "m").write_text("mine\n")
    git(repo, "add", "m")
    before = state(repo)
    assert isinstance(land(repo, new), InTheWay) and state(repo) == before
    git(repo, "checkout", "-q", "HEAD", "m")
    assert land(repo, new) == Landed(new)


@pytest.mark.req("G7", "G8")
def test_a_landing_that_was_killed_with_its_git_is_put_back_by_the_next(repo: Path, new: str) -> None:
    correct = fail_at_z(repo, f"kill -9 $(cat {repo.parent}/pid) $PPID")
    before = state(repo)
    assert killed(repo, new) == -9
    assert state(repo) != before and (repo / "m").read_text() == "new\n"
    (repo / "new/deep").write_text("mine, after\n")
    assert (repo / ".git/index.lock").exists()
    held = land(repo, new)
    assert isinstance(held, InTheWay) and held.paths == ["new/deep"]
    assert (repo / "new/deep").read_text() == "mine, after\n" and not (repo / ".git/index.lock").exists()
    (repo / "new/deep").unlink()
    (repo / "new").rmdir()
    assert state(repo) == before
    correct()
    assert land(repo, new) == Landed(new) and git(repo, "status", "--porcelain") == ""


@pytest.mark.req("G8")
def test_a_file_that_was_cut_short_is_put_back(repo: Path, new: str) -> None:
    before = state(repo)
    killed(repo, new, limit=100_000)
    assert state(repo) == before
    assert land(repo, new) == Landed(new) and len((repo / "z").read_text()) == 200_000


@pytest.mark.req("G8")
def test_what_the_user_wrote_like_the_commit_stays(repo: Path, new: str) -> None:
    (repo / "m").write_text("new\n")
    (repo / "new").mkdir()
    (repo / "new/deep").write_text("new\n")
    before = state(repo)
    held = land(repo, new)
    assert isinstance(held, InTheWay) and held.paths == ["m", "new/deep"]
    assert state(repo) == before


def test_a_note_of_a_landing_that_did_arrive_undoes_nothing(repo: Path, new: str) -> None:
    correct = fail_at_z(repo, f"kill -9 $(cat {repo.parent}/pid) $PPID")
    assert killed(repo, new) == -9 and (repo / NOTE).exists()
    correct()
    (repo / ".git/index.lock").unlink()
    git(repo, "reset", "-q", new)
    (repo / "z").write_text("")  # the user emptied it: no less than the beginning of what landed
    later = git(repo, "commit-tree", "-p", "HEAD", "-m", "later", "HEAD^{tree}")
    assert land(repo, later) == Landed(later)
    assert (repo / "z").read_text() == "" and (repo / "m").read_text() == "new\n" and not (repo / NOTE).exists()


def test_nothing_is_begun_where_no_note_can_be_written(repo: Path, new: str) -> None:
    (repo / f"{NOTE}.corral-new").mkdir()
    before = state(repo)
    held = land(repo, new)
    assert isinstance(held, InTheWay) and "cannot write" in held.reason and state(repo) == before
