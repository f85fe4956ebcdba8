"""Running git processes: which of them work in a checkout, and which could hold a lock of a repository."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from corral.git.process.command import Git, pointed_to

INDEX_WRITERS = frozenset(
    {
        "add", "am", "apply", "bisect", "checkout", "cherry-pick", "citool", "clean", "commit", "merge", "mv", "pull",
        "read-tree", "rebase", "reset", "restore", "revert", "rm", "sparse-checkout", "stash", "submodule", "switch",
        "symbolic-ref", "update-index",
    }
)  # fmt: skip
"""Commands that read HEAD or the index and write one of them later, assuming that it did not change."""

READERS = frozenset(
    {
        "blame", "cat-file", "describe", "diff", "for-each-ref", "fsmonitor--daemon", "grep", "log", "ls-files", "ls-tree",
        "rev-list", "rev-parse", "shortlog", "show", "show-ref", "status",
    }
)  # fmt: skip
"""Commands that never lock a ref or HEAD; some of them run for days."""

_WITH_VALUE = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source")


def in_checkout(checkout: Git) -> list[psutil.Process]:
    """The processes that may write the index or HEAD of a checkout: git, including our own.

    A git that runs as another user, or in a container, may be invisible.
    """
    return [
        process
        for process, words in _gits()
        if verb(words) in INDEX_WRITERS and _works_in(process, words, checkout.git_dir, common=False)
    ]


def in_repository(repo: Git) -> list[psutil.Process]:
    """The git processes that may lock a ref, HEAD or an index of a repository, including those that we may not inspect."""
    return [
        process
        for process, words in _gits()
        if verb(words) not in READERS and _works_in(process, words, repo.common_dir, common=True) is not False
    ]


def with_index(is_index: Callable[[str], bool]) -> list[psutil.Process]:
    """The git processes that write a matching index other than the checkout's: a killed daemon started them."""
    processes = []
    for pid in psutil.pids():
        try:
            if _is_named(pid, (b"git", b"env")):  # `env` becomes git: see `process`
                process = psutil.Process(pid)
                words = process.cmdline()
                index_files = [word.partition("=")[2] for word in words if word.startswith("GIT_INDEX_FILE=")]
                if index_files or "--ff-only" in words:
                    index_files.append(process.environ().get("GIT_INDEX_FILE", ""))
                if any(is_index(name) for name in index_files):
                    processes.append(process)
        except (psutil.Error, OSError):
            continue
    return processes


def wait(processes: Sequence[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait until these processes have ended, at most this many seconds; returns those that are alive.

    Takes no exit status: another thread may wait for one of them.
    """
    if not hasattr(os, "pidfd_open"):
        children = {child.pid for child in psutil.Process().children()}
        others = [process for process in processes if process.pid not in children]
        return psutil.wait_procs(others, timeout=timeout_s)[1] if others else []
    deadline = time.monotonic() + timeout_s  # a property of the running processes, as in `process`
    return [process for process in processes if not _wait_for_end(process, deadline - time.monotonic())]


def _wait_for_end(process: psutil.Process, timeout_s: float) -> bool:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return True
    try:
        return not process.is_running() or bool(select.select([handle], [], [], max(0.0, timeout_s))[0])
    finally:
        os.close(handle)


def verb(words: Sequence[str]) -> str:
    """The command in a git's arguments: ``commit`` of ``git -C here commit -m x``; empty if there is none."""
    program = words[0].rpartition("/")[2] if words else ""
    if program.startswith("git-"):
        return program.removeprefix("git-")
    rest = iter(words[1:])
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def describe(process: psutil.Process) -> str:
    """A process as shown to a person: ``git commit (process 123)``."""
    try:
        return f"git {verb(process.cmdline())} (process {process.pid})"
    except (psutil.Error, OSError):
        return f"process {process.pid}"


def _gits() -> Iterator[tuple[psutil.Process, list[str]]]:
    for pid in psutil.pids():
        try:
            if _is_named(pid, (b"git",)):
                process = psutil.Process(pid)
                if process.name().partition("-")[0] == "git" and process.status() != psutil.STATUS_ZOMBIE:
                    yield process, process.cmdline()
        except (psutil.Error, OSError):  # it ended, or we may not inspect it
            continue


def _is_named(pid: int, beginnings: tuple[bytes, ...]) -> bool:
    if not sys.platform.startswith("linux"):
        return True
    with open(f"/proc/{pid}/comm", "rb", buffering=0) as name:  # noqa: PTH123 - ten times as fast, for every process there is
        return name.read(16).startswith(beginnings)


def _works_in(process: psutil.Process, words: Sequence[str], git_dir: Path, *, common: bool) -> bool | None:
    """Whether a git works with a git directory (``common``: with the shared one); None: we may not inspect it."""
    try:
        actual = _git_dir(process, words)
        return actual is not None and (Git(actual).common_dir if common else actual).resolve() == git_dir.resolve()
    except psutil.NoSuchProcess:
        return False  # it has ended
    except psutil.AccessDenied:
        return None
    except OSError:
        return False  # the name is not a git directory


def _git_dir(process: psutil.Process, words: Sequence[str]) -> Path | None:
    """The git directory that a git works with, found as git does; None: it is in no repository."""
    here = Path(process.cwd())
    named = _option(words, "--git-dir") or process.environ().get("GIT_DIR")
    if named:
        return pointed_to(here / named)
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return pointed_to(folder / ".git")
        if (folder / "HEAD").is_file() and (folder / "objects").is_dir():
            return folder
    return None


def _option(words: Sequence[str], name: str) -> str | None:
    for at, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
        if word == name and at + 1 < len(words):
            return words[at + 1]
    return None
