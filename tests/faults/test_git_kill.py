"""kill -9 in the middle of git, and what is left behind: locks, half-made worktrees, half-done landings."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil
import pytest

from corral.core.errors import Conflict, GitFailed
from corral.daemon.stale_locks import StaleLocks
from corral.git import refs
from corral.git.checkouts import listing, worktrees
from corral.git.process import stale
from corral.git.process.command import Git, Outcome, open_checkout, open_repository
from corral.store.engine.database import Database
from tests.conftest import GIT_ENV, commit, git
from tests.integration.git.test_git_wrapper import shim
from tests.support.examples import examples

pytestmark = pytest.mark.faults
ROOT = Path(__file__).parents[2]
NOW = datetime.now(timezone.utc)


def whole_or_nothing(repo: Path, place: Path, usable: bool) -> None:
    """After a repair: a worktree as good as new, or no trace."""
    me = open_repository(repo / ".git")
    assert git(repo, "fsck", "--connectivity-only", "--no-dangling") == ""
    if usable:
        assert git(place, "status", "--porcelain", "--branch") == "## corral/w1"
        assert [e.locked for e in listing.entries(me)[1:]] == [None]
    else:
        assert not place.exists() and len(listing.entries(me)) == 1
        assert refs.read(me, "refs/heads/corral/w1") is None
        worktrees.add(me, place, "corral/w1", git(repo, "rev-parse", "main"))
    assert git(repo, "status", "--porcelain") == ""


@pytest.mark.req("G2")
@pytest.mark.parametrize("verb", ["worktree add", "read-tree"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_git_killed_while_a_worktree_is_made_leaves_nothing(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, when: str
) -> None:
    run = "kill -9 $$" if when == "before" else '"$REAL" "$@"; kill -9 $$'
    with monkeypatch.context() as patched:
        shim(tmp_path / "bin", patched, f'case " $* " in *" {verb} "*) {run};; esac; exec "$REAL" "$@"')
        with pytest.raises(GitFailed):
            worktrees.add(open_repository(repo / ".git"), tmp_path / "w1", "corral/w1", git(repo, "rev-parse", "HEAD"))
    whole_or_nothing(repo, tmp_path / "w1", usable=False)


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("verb", "leaves"),
    [
        ("update-ref", "the branch"),
        ("worktree add", "an entry that does not say whose it is"),
    ],
)
def test_a_git_that_is_killed_after_its_first_step_leaves_nothing_either(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, leaves: str
) -> None:
    me, sha = open_repository(repo / ".git"), git(repo, "rev-parse", "HEAD")
    once = tmp_path / "once"
    began = '"$REAL" "$@"' if verb == "update-ref" else f"mkdir -p {repo}/.git/worktrees/w1"
    body = f'case " $* " in *" {verb} "*) [ -e {once} ] || {{ touch {once}; {began}; kill -9 $$; }};; esac'
    with monkeypatch.context() as patched:
        shim(tmp_path / "bin", patched, f'{body}; exec "$REAL" "$@"')
        with pytest.raises(GitFailed):
            worktrees.add(me, tmp_path / "w1", "corral/w1", sha)
    assert once.exists()
    assert refs.read(me, "refs/heads/corral/w1") is None, leaves
    assert list((repo / ".git").glob("worktrees/*")) == [], leaves


ADD = """
import sys
from pathlib import Path
from corral.git.checkouts import listing, worktrees
from corral.git.process.command import open_repository
me = open_repository(Path(sys.argv[1]))
me.run("version")
print("ready", flush=True)
worktrees.add(me, Path(sys.argv[2]), "corral/w1", sys.argv[3])
"""


def kill_all_of(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all that it started, at one moment: each is halted first, so that none starts another one."""
    halted: dict[int, psutil.Process] = {}
    while processes := [process for process in family(process.pid) if process.pid not in halted]:
        for member in processes:
            halted[member.pid] = member
            with suppress(psutil.NoSuchProcess):
                member.suspend()
    for member in halted.values():
        with suppress(psutil.NoSuchProcess):
            member.kill()
    process.wait()
    _, left = psutil.wait_procs([member for member in halted.values() if member.pid != process.pid], timeout=20)
    assert not left


def family(pid: int) -> list[psutil.Process]:
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


@pytest.mark.req("G2")
def test_killing_daemon_and_git_at_any_moment_of_an_allocation_is_repaired(tmp_path: Path) -> None:
    repo = tmp_path / "big"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    sha = commit(repo, {f"d{n % 20}/f{n}": f"{n}\n" * 50 for n in range(600)})
    me, place = open_repository(repo / ".git"), tmp_path / "w1"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "daemon")}
    seed = random.randrange(1 << 30)
    chance, seen = random.Random(seed), set()
    for _ in range(examples(15, usual=6)):
        process = subprocess.Popen(
            [sys.executable, "-c", ADD, str(repo / ".git"), str(place), sha], env=env, stdout=subprocess.PIPE
        )
        assert process.stdout and process.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, 0.06))  # the moment of the kill is what varies; nothing waits for it
        kill_all_of(process)
        process.stdout.close()
        # As a start does: what a git that was killed with it had locked is known to be stale.
        stale.clear(me, datetime.now(timezone.utc) + timedelta(hours=1), refs=["refs/heads/corral/"], worktrees=[])
        usable = worktrees.repair(me, place, "corral/w1")
        seen.add(usable)
        whole_or_nothing(repo, place, usable)
        worktrees.remove(me, place)
        assert refs.delete(me, "refs/heads/corral/w1", sha), f"seed {seed}"
    assert seen, f"seed {seed}"


@pytest.mark.req("G2")
def test_a_repair_leaves_a_git_alone_that_begins_meanwhile(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me, place = open_repository(repo / ".git"), tmp_path / "w1"
    with monkeypatch.context() as patched:
        shim(
            tmp_path / "bin", patched, 'case " $* " in *" read-tree "*) kill -9 $PPID; exit 1;; esac; exec "$REAL" "$@"'
        )
        env = {**os.environ, "PYTHONPATH": str(ROOT / "daemon")}
        sha = git(repo, "rev-parse", "HEAD")
        dead = [sys.executable, "-c", ADD, str(repo / ".git"), str(place), sha]
        assert subprocess.run(dead, env=env, capture_output=True).returncode == -signal.SIGKILL
    lock = repo / ".git/worktrees/w1/index.lock"
    lock.unlink(missing_ok=True)
    with monkeypatch.context() as patched:
        shim(tmp_path / "bin", patched, f'case " $* " in *" read-tree "*) touch {lock};; esac; exec "$REAL" "$@"')
        with pytest.raises(Conflict, match="still running"):
            worktrees.repair(me, place, "corral/w1")
    whole_or_nothing(repo, place, worktrees.repair(me, place, "corral/w1"))


@pytest.mark.req("G5")
def test_a_stale_lock_goes_only_where_it_is_ours_and_nobody_holds_it(repo: Path, tmp_path: Path) -> None:
    me = open_repository(repo / ".git")
    place = tmp_path / "w1"
    worktrees.add(me, place, "corral/w1", git(repo, "rev-parse", "HEAD"))
    work = open_checkout(place)
    ours = [work.git_dir / "index.lock", work.git_dir / "HEAD.lock", repo / ".git/refs/heads/corral/w1.lock"]
    theirs = [repo / ".git/index.lock", repo / ".git/refs/heads/main.lock", repo / ".git/config.lock"]
    for lock in (*ours, *theirs):
        lock.touch()
    later = NOW + timedelta(hours=1)

    def clear(now: datetime) -> set[Path]:
        return set(stale.clear(me, now, refs=["refs/corral/", "refs/heads/corral/"], worktrees=[place]))

    assert clear(datetime.now(timezone.utc)) == set(), "a young lock is respected"
    with ours[0].open("w"):
        assert clear(later) == set(ours[1:]), "a lock that somebody has open is respected"
    assert clear(later) == {ours[0]}
    assert all(lock.exists() for lock in theirs)
    assert {lock.path for lock in stale.lock_files(me, later)} == set(theirs)


@pytest.mark.req("G5")
def test_the_locks_of_a_git_that_lives_are_respected_however_old_and_closed_they_are(
    repo: Path, tmp_path: Path, db: Database
) -> None:
    """A commit whose editor is open has the lock of its index, and a deletion that of the packed refs: neither has it open."""
    me = open_repository(repo / ".git")
    place, gate = tmp_path / "w1", tmp_path / "gate"
    worktrees.add(me, place, "corral/w1", git(repo, "rev-parse", "HEAD"))
    locks = open_checkout(place).git_dir / "index.lock", repo / ".git/packed-refs.lock"
    editor = f"touch {gate}.open; until [ -e {gate} ]; do sleep 0.05; done; echo x >"
    argv = ["git", "commit", "-q", "-a", "--allow-empty"]
    (place / "src/a.py").write_text("changed\n")
    committing = subprocess.Popen(argv, cwd=place, env={**os.environ, **GIT_ENV, "GIT_EDITOR": f"sh -c '{editor} $0'"})
    deadline = time.monotonic() + 20
    while not Path(f"{gate}.open").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    locks[1].touch()
    later = NOW + timedelta(hours=1)
    keeper = StaleLocks(db, me)
    assert locks[0].exists() and not stale.clear(me, later, refs=[], worktrees=[place])
    keeper.step(later)
    assert all(lock.exists() for lock in locks)
    gate.touch()
    assert committing.wait(20) == 0
    keeper.step(later + timedelta(minutes=1))
    assert not any(lock.exists() for lock in locks), "what is left of nobody who lives goes"


@pytest.mark.req("G5")
def test_a_killed_ref_transaction_is_a_lock_and_not_a_lost_race(repo: Path) -> None:
    sha = git(repo, "rev-parse", "HEAD")
    env = {**os.environ}
    holder = subprocess.Popen(
        ["git", "update-ref", "--stdin"], cwd=repo, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin and holder.stdout
    holder.stdin.write(f"start\ncreate refs/corral/x {sha}\nprepare\n".encode())
    holder.stdin.flush()
    assert holder.stdout.readline() == b"start: ok\n" and holder.stdout.readline() == b"prepare: ok\n"
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    me = open_repository(repo / ".git")
    assert (repo / ".git/refs/corral/x.lock").exists()
    result = me.run("update-ref", "refs/corral/x", sha, config={"core.filesRefLockTimeout": "10"})
    assert result.outcome is Outcome.LOCK
    assert stale.clear(me, NOW + timedelta(hours=1), refs=["refs/corral/"], worktrees=[])
    assert refs.compare_and_swap(me, "refs/corral/x", sha, "")


def test_the_lock_on_the_list_of_worktrees_dies_with_its_holder(repo: Path, tmp_path: Path) -> None:
    script = (
        "import sys, time, portalocker\n"
        "lock = portalocker.Lock(sys.argv[1], mode='a').acquire()\nprint('held', flush=True)\ntime.sleep(1000)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(repo / ".git/corral.worktrees")], stdout=subprocess.PIPE
    )
    assert holder.stdout and holder.stdout.readline() == b"held\n"
    holder.kill()
    holder.wait()
    holder.stdout.close()
    worktrees.add(Git(repo / ".git"), tmp_path / "w1", "corral/w1", git(repo, "rev-parse", "HEAD"))
