"""The power goes: what the system had not written by itself is not on the disk, and of what is, some is empty."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.config.worktree_root import MARKER
from corral.core import files
from corral.git.checkouts import index_lock
from corral.git.commits import CORRAL
from corral.git.land import halfway
from corral.git.process.command import as_env, open_checkout, open_repository
from tests.conftest import commit, git, worktrees_of
from tests.integration.landing_world import World
from tests.integration.running import keeper_of
from tests.integration.supervision import House, utc_now
from tests.support.coordinated import Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]


def loose(root: Path) -> set[str]:
    """The objects that have files of their own."""
    return {f"{file.parent.name}{file.name}" for file in (root / ".git" / "objects").glob("[0-9a-f][0-9a-f]/*")}


Watch = Callable[[Callable[[], Any]], list[Any]]


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Look each time before everything is written to the disk: ``flushes(look)`` lists what was seen."""

    def watch(look: Callable[[], Any]) -> list[Any]:
        seen, flush = list[Any](), files.flush

        def flushed(folder: Path) -> None:
            seen.append(look())
            flush(folder)

        monkeypatch.setattr(files, "flush", flushed)
        return seen

    return watch


def test_what_lands_is_on_the_disk_before_the_target_moves_and_its_files_before_that_is_said(
    repo: Path, flushes: Watch
) -> None:
    world = World(repo)
    try:
        before, head = git(repo, "rev-parse", "main"), world.branch("side", {"landed.txt": "x\n"})
        objects = set(git(repo, "rev-list", "--objects", "--no-object-names", head, f"^{before}").split())
        merge_id = world.submit("side")

        def look() -> tuple[Any, ...]:
            state = world.merge(merge_id)["state"]
            return git(repo, "rev-parse", "main"), state, loose(repo), (repo / "landed.txt").exists()

        seen = flushes(look)
        world.run()
        assert world.merge(merge_id)["state"] == "landed"
        assert any(main == before and objects <= there for main, _, there, _ in seen)
        assert any(main != before and state != "landed" and file for main, state, _, file in seen)
    finally:
        world.close()


def test_the_commits_of_a_worktree_are_on_the_disk_before_its_files_go(repo: Path, flushes: Watch) -> None:
    house = House(repo)
    try:
        path = Path(house.worktrees.create("mine", session_id=None, base=None)["path"])
        sha = commit(path, {"work.txt": "x\n"})
        seen = flushes(lambda: (path / "work.txt").exists() and sha in loose(repo))
        house.worktrees.remove("mine")
        assert not path.exists() and any(seen)
    finally:
        house.close()


@pytest.fixture
def through(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The inodes of the files that this process waited for until the disk had them."""
    inodes, fsync = set[int](), os.fsync

    def sync(descriptor: int) -> None:
        inodes.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return inodes


def test_what_says_whose_a_worktree_is_is_on_the_disk(repo: Path, through: set[int]) -> None:
    house = House(repo)
    try:
        path = Path(house.worktrees.create("mine", session_id=None, base=None)["path"])
        entry = repo / ".git" / "worktrees" / "mine"
        written = (entry / "gitdir", entry / "commondir", path / ".git", path.parent / MARKER)
        assert [file.name for file in written if file.stat().st_ino not in through] == []
    finally:
        house.close()


def test_how_far_a_landing_came_is_on_the_disk(repo: Path, through: set[int]) -> None:
    world, head = World(repo), git(repo, "rev-parse", "HEAD")
    try:
        world.branch("side", {"landed.txt": "x\n"})
        world.land("side")
        halfway.write_note(open_checkout(repo), head, world.tip())
        written = [repo / ".git" / name for name in ("corral.landing", "corral.landed")]
        assert [file.name for file in written if file.stat().st_ino not in through] == []
    finally:
        world.close()


@pytest.mark.parametrize(
    "words", [("commit-tree", "HEAD^{tree}", "-m", "x"), ("update-ref", "refs/corral/x", "HEAD")], ids=lambda w: w[0]
)
def test_what_a_git_of_ours_writes_is_on_the_disk_when_it_ends(
    repo: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    trace = tmp_path / "told"
    open_repository(repo / ".git").check(*words, env={**as_env(CORRAL), "GIT_TRACE2_EVENT": str(trace)})
    assert '"fsync/hardware-flush"' in trace.read_text()


def test_a_lock_on_the_index_that_was_emptied_is_still_known_as_ours(repo: Path) -> None:
    checkout = open_checkout(repo)
    assert index_lock.take(checkout)
    index_lock.path(checkout).write_bytes(b"")  # the same file under both names
    index_lock.release(checkout)
    assert git(repo, "add", "--all") == ""


@pytest.mark.req("D2")
def test_objects_that_were_emptied_stop_nobody_and_are_written_again(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config="worktrees: {pool_size: 0}\ntasks: {retry_initial_s: 0.1}\n")
    began, gate = tmp_path / "began", tmp_path / "gate"
    work = f"echo same > same.txt; git add same.txt; git commit -qm done; echo draft > draft.txt; touch {began}"
    known = loose(house.root)
    task = house.submit("works", f"{work}; while [ ! -e {gate} ]; do sleep 0.05; done; rm draft.txt")
    eventually(began.exists)
    (attempt,) = (house.root / ".corral" / "run" / "attempts").iterdir()
    keeper = psutil.Process(keeper_of(attempt))
    lost = [keeper, *keeper.children(recursive=True)]
    house.kill_daemon()
    for process in reversed(lost):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    eventually(lambda: not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in lost))
    for sha in loose(house.root) - known:
        (house.root / ".git" / "objects" / sha[:2] / sha[2:]).chmod(0o644)
        (house.root / ".git" / "objects" / sha[:2] / sha[2:]).write_bytes(b"")
    beginning = house.root / ".git" / "objects" / sha[:2] / "tmp_obj_a1B2c3"
    beginning.touch()
    for log in (house.root / ".git").rglob("logs/refs/heads/corral/*"):
        log.write_bytes(b"")
    (worktree,) = [path for path in worktrees_of(house.root).iterdir() if path.name.startswith("task-")]
    (house.root / ".git" / "worktrees" / worktree.name / "index").write_bytes(b"")
    assert git(house.root, "for-each-ref", "--format=%(creatordate)", check=False) == "", "git itself cannot go on"

    gate.touch()
    house.run("wait", task, "--timeout", "60")
    assert git(house.root, "show", "main:same.txt") == "same"
    assert git(house.root, "fsck", "--connectivity-only", "--no-dangling") == ""
    eventually(lambda: not worktree.exists())
    (saved,) = git(house.root, "for-each-ref", "--format=%(refname)", f"refs/corral/salvage/{worktree.name}").split()
    assert git(house.root, "show", f"{saved}:draft.txt") == "draft" and git(house.root, "show", f"{saved}:same.txt")
    assert not [*(house.root / ".git" / "objects").rglob("*.corral-empty")]
    assert beginning.exists(), "another git may be writing it"
    assert house.json("status")["needs_you"] == []


def test_the_branch_of_a_worktree_whose_file_was_emptied_is_put_back(repo: Path) -> None:
    house = House(repo)
    try:
        path = Path(house.worktrees.create("mine", session_id=None, base=None)["path"])
        sha = commit(path, {"work.txt": "x\n"})
        (repo / ".git" / "refs" / "heads" / "corral" / "mine").write_bytes(b"")
        house.worktrees.after_power_cut(utc_now())
        assert git(repo, "rev-parse", "corral/mine") == sha and git(path, "status", "--porcelain") == ""
        assert git(repo, "rev-list", "--all", "--count")
    finally:
        house.close()
