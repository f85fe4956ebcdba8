"""Find problems in a repository. Read-only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import psutil

from corral.git.checkouts import listing, worktrees
from corral.git.land import upstream
from corral.git.process import stale
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
        *_incomplete(repo),
        *_conversions(repo),
        *_half_made(repo),
        *_stash(repo),
    ]


def holes(git_version: tuple[int, ...] | None = None) -> list[Problem]:
    """Known vulnerabilities of the git in use, by its version number.

    Args:
        git_version: That number; None: ask git.
    """
    git_version = git_version or version()
    text, problems = ".".join(map(str, git_version)), []
    for hole in (hole for hole in HOLES if hole.is_open(git_version)):
        closed = ", ".join(".".join(map(str, first)) for first in hole.closed_in)
        message = (
            f"git {text} has the version number of a git with {', '.join(hole.names)}, closed in {closed} and "
            "later. A distribution may have closed them in its package under the same number."
        )
        remedy = "Update git, or look for these numbers in the changelog of the package, e.g. `apt-get changelog git`."
        problems.append(Problem("known-hole", message, remedy))
    return problems


def _old_git() -> Iterator[Problem]:
    git_version = version()
    if git_version < OLDEST:
        text = ".".join(map(str, git_version))
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


def _incomplete(repo: Git) -> Iterator[Problem]:
    """Parts that the main checkout or the clone lacks and a fresh clone has."""
    patterns = repo.common_dir / "info" / "sparse-checkout"
    if _setting(repo, "core.sparseCheckout", "bool") == "true" and patterns.is_file():
        lines = [line for line in patterns.read_text(errors="replace").splitlines() if line.strip()]
        more = f" and {len(lines) - 5} more" if len(lines) > 5 else ""
        yield Problem(
            "sparse",
            f"The main checkout is sparse ({', '.join(lines[:5])}{more}). Corral's worktrees are complete anyway.",
            "Nothing to do. To have worktrees of tasks follow the patterns: `corral config set worktrees.sparse true`; "
            "verification always has every file.",
        )
    if _setting(repo, "extensions.partialClone") or repo.run("config", "--get-regexp", r"^remote\..*\.promisor$").ok:
        yield Problem(
            "partial-clone",
            "This is a partial clone: git fetches missing objects when a worktree is made, and Corral gives it no password.",
            "If that fails: `git config --unset remote.origin.partialCloneFilter && git fetch --refetch`.",
        )
    modules = repo.run("ls-tree", "-r", "-z", "--format=%(objecttype) %(path)", "HEAD")
    inner = [name.removeprefix("commit ") for name in modules.names if name.startswith("commit ")]
    if inner:
        yield Problem(
            "submodules",
            f"Submodules are empty in Corral's worktrees, as in a fresh clone: {', '.join(inner[:5])}.",
            "To fill them: a setup command, `git submodule update --init --recursive` in `worktrees.setup`.",
        )


def _conversions(repo: Git) -> Iterator[Problem]:
    """Settings that make git read or write this clone's files differently from a fresh clone's."""
    replaced = repo.run("for-each-ref", "--count=1", "--format=%(refname)", "refs/replace/").text.strip()
    if replaced or (repo.common_dir / "info" / "grafts").is_file():
        yield Problem(
            "replaced-objects",
            f"This clone replaces objects ({replaced or 'info/grafts'}), which no other clone does; Corral uses the "
            "real ones.",
            "Nothing to do; `git replace -l` lists them, `git replace -d OBJECT` ends one.",
        )
    attributes = repo.common_dir / "info" / "attributes"
    if attributes.is_file() and attributes.read_text(errors="replace").strip():
        yield Problem(
            "own-attributes",
            f"{attributes} may change how files are written to Corral's worktrees, and so what verification sees.",
            "Move its lines to a committed .gitattributes, or delete the file.",
        )
    own = {key: _setting(repo, key) for key in ("core.autocrlf", "core.eol", "core.attributesFile")}
    conversions = [f"{key}={value}" for key, value in own.items() if value and value not in ("false", "native")]
    if conversions:
        yield Problem(
            "own-conversion",
            f"Your git converts files ({', '.join(conversions)}); verification does not, as a fresh clone elsewhere.",
            "Nothing to do; a rule for everybody belongs into a committed .gitattributes.",
        )
    if _setting(repo, "core.symlinks", "bool") == "false":
        yield Problem(
            "no-symlinks",
            "core.symlinks is false: symbolic links are written as files, also where Corral verifies.",
            "If this file system has links: `git config --unset core.symlinks`.",
        )
    for name in sorted(upstream.filters(repo, "HEAD")):
        if not repo.run("config", "--get-regexp", rf"^filter\.{re.escape(name)}\.(smudge|process)$").ok:
            yield Problem(
                "filter-missing",
                f".gitattributes names the filter {name}, which is not configured here: its files are written as they are "
                "stored.",
                "`git lfs install`"
                if name == "lfs"
                else f"Configure filter.{name}, or ignore this if it is not needed.",
            )


def _setting(repo: Git, key: str, kind: str = "") -> str:
    return repo.run("config", *([f"--type={kind}"] if kind else []), "--get", key).text.strip()


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


# -- Vulnerabilities of git that matter when untrusted branches are checked out, and the versions that first closed them

Version = tuple[int, ...]


@dataclass(frozen=True)
class Hole:
    """A group of vulnerabilities that were closed together.

    Attributes:
        names: Their CVE numbers.
        closed_in: The first fixed version of each release series, in order; every later series is fixed too.
    """

    names: tuple[str, ...]
    closed_in: tuple[Version, ...]

    def is_open(self, version: Version) -> bool:
        """Whether git's own version number is that of a vulnerable one."""
        closed = next((first for first in self.closed_in if first[:2] >= version[:2]), None)
        return closed is not None and (version[:2] < closed[:2] or version < closed)


HOLES = (
    Hole(
        ("CVE-2024-32002", "CVE-2024-32004", "CVE-2024-32465", "CVE-2024-32020", "CVE-2024-32021"),
        ((2, 39, 4), (2, 40, 2), (2, 41, 1), (2, 42, 2), (2, 43, 4), (2, 44, 1), (2, 45, 1)),
    ),
    Hole(
        ("CVE-2025-48384", "CVE-2025-48385"),
        ((2, 43, 7), (2, 44, 4), (2, 45, 4), (2, 46, 4), (2, 47, 3), (2, 48, 2), (2, 49, 1), (2, 50, 1)),
    ),
)  # fmt: skip
"""From git's release notes."""
