"""Many at once: allocation by threads and by processes, against an outside git, and garbage collection during merges."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import pytest

from corral.core.errors import GitFailed
from corral.git import refs
from corral.git.checkouts import listing, whole, worktrees
from corral.git.land import candidates, landing
from corral.git.land.candidates import Candidate
from corral.git.land.landing import Landed
from corral.git.process.command import Identity, open_checkout, open_repository
from tests.conftest import GIT_ENV, commit, git

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]
ALLOCATE = """
import sys
from pathlib import Path
from corral.git.checkouts import listing, worktrees
from corral.git.process.command import open_repository
repo, root, first, count, sha = sys.argv[1:]
for n in range(int(first), int(first) + int(count)):
    worktrees.add(open_repository(Path(repo)), Path(root) / f"w{n}", f"corral/w{n}", sha)
"""


@contextmanager
def looping(*args: str, cwd: Path) -> Iterator[list[int]]:
    """A git command of somebody else's, again and again, until the end; yields how often it ran."""
    stop, ran = threading.Event(), [0]

    def loop() -> None:
        while not stop.is_set():
            subprocess.run(["git", *args], cwd=cwd, env={**os.environ, **GIT_ENV}, capture_output=True)
            ran[0] += 1

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield ran
    finally:
        stop.set()
        thread.join()


def all_whole(repo: Path, count: int) -> None:
    entries = listing.entries(open_repository(repo / ".git"))[1:]
    assert len(entries) == count and not any(entry.locked is not None or entry.prunable for entry in entries)
    for entry in entries:
        assert git(entry.path, "status", "--porcelain", "--branch") == f"## {entry.path.name.replace('w', 'corral/w')}"
    assert len(git(repo, "for-each-ref", "refs/heads/corral").splitlines()) == count


@pytest.mark.req("G1")
def test_32_threads_allocate_at_once_while_an_outside_git_writes_the_configuration(repo: Path, tmp_path: Path) -> None:
    sha, root = git(repo, "rev-parse", "HEAD"), tmp_path / "wts"
    me = open_repository(repo / ".git")
    start = threading.Barrier(32)

    def one(n: int) -> None:
        start.wait()
        worktrees.add(me, root / f"w{n}", f"corral/w{n}", sha)

    with looping("config", "user.loop", "x", cwd=repo) as ran, ThreadPoolExecutor(32) as pool:
        list(pool.map(one, range(32)))
    assert ran[0] > 1
    all_whole(repo, 32)


@pytest.mark.req("G1")
def test_8_processes_allocate_32_at_once(repo: Path, tmp_path: Path) -> None:
    sha = git(repo, "rev-parse", "HEAD")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "daemon")}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ALLOCATE, str(repo / ".git"), str(tmp_path / "wts"), str(4 * n), "4", sha], env=env
        )
        for n in range(8)
    ]
    assert [process.wait(timeout=120) for process in running] == [0] * 8
    all_whole(repo, 32)


@pytest.mark.req("G1", "G3")
def test_allocation_and_removal_at_once(repo: Path, tmp_path: Path) -> None:
    sha, root = git(repo, "rev-parse", "HEAD"), tmp_path / "wts"
    me = open_repository(repo / ".git")

    def cycle(n: int) -> None:
        place = root / f"w{n}"
        for _ in range(3):
            worktrees.add_detached(me, place, sha)
            whole.lay_out(lambda: open_checkout(place), sha)
            worktrees.remove(me, place)

    with looping("worktree", "prune", cwd=repo), ThreadPoolExecutor(8) as pool:
        list(pool.map(cycle, range(8)))
    assert len(listing.entries(me)) == 1


@pytest.mark.req("G6")
def test_merges_land_while_objects_are_collected_all_the_time(repo: Path) -> None:
    me, identity = open_repository(repo / ".git"), Identity("Me", "me@x")
    at = datetime(2026, 1, 2, tzinfo=timezone.utc)
    base = git(repo, "rev-parse", "HEAD")
    heads = []
    for n in range(10):
        git(repo, "checkout", "-q", "-B", f"b{n}", base)
        heads.append(commit(repo, {f"f{n}": "x"}))
    git(repo, "checkout", "-q", "main")
    again = 0
    with looping("gc", "-q", "--prune=now", cwd=repo) as ran:
        for n, head in enumerate(heads):
            for _ in range(20):
                tip = refs.read(me, "refs/heads/main")
                assert tip
                try:
                    built = candidates.build(me, tip, head, f"merge {n}", identity, at)
                    assert isinstance(built, Candidate)
                    candidates.hold(me, f"m{n}", built.sha)
                    assert landing.land(me, "refs/heads/main", built.sha, tip) == Landed(built.sha)
                    break
                except GitFailed:
                    again += 1  # what the collector took before it was held is made again
            else:
                pytest.fail(f"merge {n} never landed; {again} attempts failed")
    assert ran[0] >= 1
    assert git(repo, "fsck", "--connectivity-only", "--no-dangling") == ""
    assert sorted(p.name for p in repo.glob("f*")) == sorted(f"f{n}" for n in range(10))
    assert git(repo, "status", "--porcelain") == ""
