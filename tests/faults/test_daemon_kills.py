"""kill -9 of the daemon, of workers and of git, at random and at named points: nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

import psutil
import pytest

from corral.config.paths import find_project
from corral.config.sections.work import Tasks
from corral.daemon.stale_locks import StaleLocks
from corral.git.checkouts import worktrees
from corral.git.process.command import open_repository
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.work.tasks import tasks
from corral.work.tasks.wire import read_submissions
from tests.conftest import git
from tests.faults.storm import CONFIG, KINDS, Storm, seed_of_this_run
from tests.integration.running import keeper_of
from tests.support.coordinated import Coordinated, eventually
from tests.support.examples import examples

pytestmark = [pytest.mark.faults, pytest.mark.timeout(420)]


USUAL = {"STORM_RUNS": "1", "STORM_KILLS": "48", "STORM_TASKS": "0"}
STORMS, KILLS, TASKS = (int(os.environ.get(name, usual)) for name, usual in USUAL.items())
"""How many storms, kills in each, and tasks in each at least; CONTRIBUTING.md has the command for the large ones."""


@pytest.mark.slow("Kills at random need a crowd of tasks and the restarts after each kill.")
@pytest.mark.req("D1")
@pytest.mark.parametrize("part", range(STORMS))
def test_clients_at_work_while_everything_is_killed_at_random(
    coordinate: Callable[..., Coordinated], part: int
) -> None:
    seed = seed_of_this_run() + 1000 * part
    print(f"STORM_SEED={seed - 1000 * part}")
    storm = Storm(coordinate(verify=("test -f README.md",), config=CONFIG), seed)
    storm.blow(KILLS, tasks=TASKS)
    storm.check()
    print(storm)
    assert storm.tasks and len(storm.tasks) >= TASKS and storm.merges and storm.kills.total() == KILLS
    assert {*storm.kills} == {*KINDS[:KILLS]}


def _has_lines(file: Path, enough: int) -> bool:
    return len(file.read_text().splitlines()) >= enough


@pytest.mark.slow("Forty tasks of eight seconds, twice: what a kill costs is measured against the same without one.")
@pytest.mark.req("D1")
def test_five_kills_cost_forty_tasks_no_attempt_and_less_than_half_their_time_again(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(verify=("test -f README.md",), config="supervisor: {max_agents: 10}\n")

    def time_of(name: str, kills: int) -> float:
        began, ended = time.monotonic(), tmp_path / name
        ended.touch()
        tasks = [
            house.submit(f"{name} {n}", f"sleep 8; echo {n} > {name}-{n}.txt; echo {n} >> {ended}") for n in range(40)
        ]
        for number in range(1, kills + 1):
            eventually(partial(_has_lines, ended, 6 * number))
            house.kill_daemon()
            house.run("daemon", "start")
        house.run("wait", "--all", timeout_s=300)
        assert sorted(map(int, ended.read_text().split())) == [*range(40)], "each ran once"
        for task in tasks:
            detail = house.json("task", "detail", task)
            assert (detail["outcome"], detail["attempts"], detail["crashes"]) == ("landed", 1, 0)
        return time.monotonic() - began

    calm, stormy = time_of("calm", kills=0), time_of("stormy", kills=5)
    print(f"{calm:.0f} s without a kill, {stormy:.0f} s with five")
    assert stormy < 1.5 * calm


@pytest.mark.req("D1")
@pytest.mark.parametrize("part", range(examples(2, usual=1)))
def test_writers_killed_every_few_milliseconds_lose_no_acknowledgement(tmp_path: Path, part: int) -> None:
    seed, path = seed_of_this_run() + part, tmp_path / "corral.db"
    print(f"STORM_SEED={seed - part}")
    top = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": f"{top}{os.pathsep}{top / 'daemon'}"}
    argv = [sys.executable, "-m", "tests.faults.killed_store", str(path), "60", str(seed)]
    done = subprocess.run(argv, cwd=top, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines()
    assert last == "kills 60"
    acknowledged = [line.split() for line in lines]
    print(f"{len(acknowledged)} acknowledgements")
    open_schema(path)  # checks the file, as every start does
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = {row[0]: row for row in conn.execute("SELECT task_id, status, fencing_token FROM tasks")}
        ended = Counter(conn.execute("SELECT task_id FROM events WHERE kind = 'task.completed'"))
    for kind, task_id, token in acknowledged:
        assert task_id in rows, f"an acknowledged task is gone: {kind}"
        if kind == "claimed":
            assert rows[task_id][2] >= int(token)
        if kind == "completed":
            assert rows[task_id][1] == "completed" and ended[(task_id,)] == 1
    claims = [(task_id, token) for kind, task_id, token in acknowledged if kind == "claimed"]
    assert len(claims) == len(set(claims)), "a task was given to two"
    assert {kind for kind, _, _ in acknowledged} == {"submitted", "claimed", "completed"}


POINTS = ("worktree.added", "task.started", "worktree.salvaged", "queue.verification_started", "landing.target_moved")
"""One of each part that a start recovers; every point of its supervisor and of its queue is in the files of their kills."""


@pytest.mark.req("D1")
@pytest.mark.parametrize("point", POINTS)
def test_a_daemon_killed_at_a_named_point_is_followed_by_one_that_puts_all_right(
    coordinate: Callable[..., Coordinated], tmp_path: Path, point: str
) -> None:
    """The first attempt fails and leaves work behind, the second succeeds: between them they pass every point."""
    house = coordinate(verify=("test -f README.md",), config=CONFIG)
    storm = Storm(house, 0, branches=0)
    house.run("daemon", "start", CORRAL_CRASH_AT=point)
    find_stale = psutil.Process(house.daemon_pid() or 0)
    once = f"[ -e {tmp_path}/failed ] || {{ echo half > half.txt; touch {tmp_path}/failed; exit 1; }}"
    task = house.submit(
        "task-0-7.txt", f"{once}; echo 7 > task-0-7.txt; git add . && git commit -q -m 7; echo x > left.txt"
    )
    storm.tasks[task] = "task-0-7.txt"
    eventually(lambda: not find_stale.is_running() or find_stale.status() == psutil.STATUS_ZOMBIE)
    storm.check()
    assert git(house.root, "show", "main:left.txt") == "x"
    log = git(house.root, "log", "-1", "--format=%(trailers:key=Corral-Task,valueonly)", "main", "--", "left.txt")
    assert log.strip() == task
    files = git(house.root, "log", "--format=", "--name-only", "--glob=refs/corral/salvage").split()
    assert "half.txt" in files, "what a failed attempt left is on a salvage ref"
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db")) as conn:
        # One that failed while no daemon lived was seen by nobody; the death of the daemon itself never counts.
        assert conn.execute("SELECT attempts FROM tasks").fetchone() in [
            (2,),
            (1,) if point == "task.started" else None,
        ]


@pytest.mark.req("D1")
def test_a_daemon_killed_while_it_recovers_is_followed_by_one_that_does(house: Coordinated, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    storm = Storm(house, 0, branches=0)
    command = f"touch {gate}.began; while [ ! -e {gate} ]; do sleep 0.05; done; echo 1 > task-0-1.txt"
    storm.tasks[house.submit("task-0-1.txt", command)] = "task-0-1.txt"
    eventually(Path(f"{gate}.began").exists)
    house.kill_daemon()
    (attempt,) = find_project(house.root).attempts_dir.iterdir()
    os.kill(keeper_of(attempt), signal.SIGKILL)  # else the next one has nothing to recover
    house.run("daemon", "start", check=False, CORRAL_CRASH_AT="task.resumed")
    eventually(lambda: house.daemon_pid() is None)
    gate.touch()
    storm.check()


@pytest.mark.req("G3")
@pytest.mark.parametrize("left", ["nothing", "an empty file"])
def test_a_git_killed_while_it_writes_or_forgets_a_worktree(repo: Path, tmp_path: Path, left: str) -> None:
    """`git worktree remove` deletes the entry file by file, `add` writes it so: a kill in between leaves some of those."""
    me, place = open_repository(repo / ".git"), tmp_path / "w1"
    worktrees.add(me, place, "corral/w1", git(repo, "rev-parse", "HEAD"))
    shutil.rmtree(place)
    entry = repo / ".git" / "worktrees" / "w1"
    (entry / "gitdir").unlink()
    if left == "an empty file":
        (entry / "gitdir").touch()
    assert not worktrees.repair(me, place, "corral/w1")
    assert not entry.exists()


@pytest.mark.req("G5")
def test_the_lock_of_a_killed_git_on_a_ref_of_ours_stops_neither_a_start_nor_the_queue(house: Coordinated) -> None:
    """Left on the branch that has landed, or on what a request holds, it would stop every later tidying for ever."""
    house.carry_out("one", "echo 1 > 1.txt")
    house.kill_daemon()
    sha = git(house.root, "rev-parse", "main")
    merge_id = house.json("merge", "list")[0]["merge_id"]
    house.kill_daemon()
    ours = [f"refs/corral/mq/{merge_id}", "refs/heads/corral/task-1"]
    for ref in ours:
        git(house.root, "update-ref", ref, sha)
        (house.root / ".git" / f"{ref}.lock").touch()
    house.carry_out("two", "echo 2 > 2.txt")
    assert not list((house.root / ".git" / "refs").rglob("*.lock"))


@pytest.mark.req("G5")
def test_while_work_is_open_stale_locks_are_looked_for_and_only_ours_go(repo: Path, db: Database) -> None:
    me = open_repository(repo / ".git")
    keeper, now = StaleLocks(db, me), datetime.now(timezone.utc)
    assert keeper.step(now) is None, "nothing is open and nothing was left: only a nudge makes it look again"
    ours = [repo / ".git" / name for name in ("refs/corral/mq/1.lock", "refs/heads/corral/task-1.lock")]
    theirs = [repo / ".git" / name for name in ("index.lock", "HEAD.lock", "refs/heads/main.lock", "config.lock")]
    packed = repo / ".git" / "packed-refs.lock"
    for lock in (*ours, *theirs, packed):
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
    now += timedelta(seconds=5)
    again = keeper.step(now)
    assert again is not None and all(lock.exists() for lock in ours), "not twice within a moment"
    again = keeper.step(again)
    assert not any(lock.exists() for lock in ours) and all(lock.exists() for lock in theirs)
    (wanted,) = read_submissions([{"title": "t", "command": "true"}])
    db.write(lambda conn: tasks.submit(conn, wanted, now, Tasks()))
    for _ in range(5):
        now = max(now, again or now) + timedelta(seconds=1)
        again = keeper.step(now)
        assert again is not None, "work is open"
    assert not packed.exists() and all(lock.exists() for lock in theirs)
    ours[0].touch()
    now -= timedelta(hours=8)
    again = keeper.step(now)
    assert not ours[0].exists(), (
        "a clock that was set back makes nobody wait, nor a lock young that it puts into the future"
    )
    assert again is not None and again - now <= timedelta(minutes=1)
