"""Find problems in a repository. Read-only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import psutil

from corral.git.checkouts import listing, worktrees
from corral.git.process import known_holes, stale
from corral.git.process.command import Git, version

OLDEST = (2, 38)
_LOCK_AGE_S = 60.0
_EXECUTES = r"^(merge|filter)\..*\.(driver|clean|smudge|process)$"


@dataclass(frozen=True)
class Problem:
    """A finding; ``code`` is stable."""

    code: str
    message: str
    remedy: str


def problems(repo: Git, now: datetime) -> list[Problem]:
    """Check a repository; lock files younger than a minute are not reported."""
    return [
        *_old_git(),
        *_locks(repo, now),
        *_dead_gc(repo),
        *_configuration(repo),
        *_half_made(repo),
        *_stash(repo),
    ]


def holes(found: tuple[int, ...] | None = None) -> list[Problem]:
    """Known vulnerabilities of the git in use, by its version number.

    Args:
        found: That number; None: git is asked.
    """
    found = found or version()
    text, problems = ".".join(map(str, found)), []
    for hole in (hole for hole in known_holes.HOLES if hole.is_open(found)):
        closed = ", ".join(".".join(map(str, first)) for first in hole.closed_in)
        message = (
            f"git {text} has the version number of a git with {', '.join(hole.names)}, closed in {closed} and "
            "later. A distribution may have closed them in its package under the same number."
        )
        remedy = "Update git, or look for these numbers in the changelog of the package, e.g. `apt-get changelog git`."
        problems.append(Problem("known-hole", message, remedy))
    return problems


def _old_git() -> Iterator[Problem]:
    found = version()
    if found < OLDEST:
        text = ".".join(map(str, found))
        yield Problem("git-too-old", f"git {text} cannot merge without a checkout.", "Install git 2.38 or newer.")


def _locks(repo: Git, now: datetime) -> Iterator[Problem]:
    for lock in stale.lock_files(repo, now):
        if lock.age_s > _LOCK_AGE_S and not stale.is_open(lock.path):
            yield Problem(
                "stale-lock",
                f"{lock.path} was left behind, probably by a killed git.",
                "If no git command is running in this repository, delete the file.",
            )


def _dead_gc(repo: Git) -> Iterator[Problem]:
    path = repo.common_dir / "gc.pid"
    try:
        pid = int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    if not psutil.pid_exists(pid):
        yield Problem(
            "dead-gc",
            f"{path} names a process that no longer exists; it prevents garbage collection.",
            "Delete the file.",
        )


def _configuration(repo: Git) -> Iterator[Problem]:
    is_main = repo.common_dir.name == ".git" and (repo.common_dir / "index").exists()
    if is_main and repo.run("config", "--type=bool", "--get", "core.bare").text.strip() == "true":
        yield Problem(
            "core-bare",
            "core.bare is true, though this repository has a checkout: git refuses to work in it.",
            "`git config core.bare false`",
        )
    result = repo.run("config", "-z", "--name-only", "--get-regexp", _EXECUTES)
    for key in sorted({key for key in result.text.split("\0") if key}):
        yield Problem(
            "runs-programs",
            f"The git configuration runs a program: {key}.",
            "Nothing to do if you know the program; Corral cannot switch it off.",
        )


def _half_made(repo: Git) -> Iterator[Problem]:
    for entry in listing.entries(repo)[1:]:
        if entry.locked == worktrees.INITIALIZING:
            yield Problem(
                "worktree-half-made",
                f"{entry.path} was not completed: its creation was interrupted.",
                "Restarting the daemon completes its own worktrees; for others use `git worktree unlock` and `remove`.",
            )


def _stash(repo: Git) -> Iterator[Problem]:
    result = repo.run("rev-list", "--walk-reflogs", "--count", "refs/stash", "--")
    if result.ok and result.text.strip() != "0":
        yield Problem(
            "stash",
            f"There are {result.text.strip()} stash entries, which all worktrees share.",
            "Look with `git stash list`; a session may pop another one's work.",
        )
