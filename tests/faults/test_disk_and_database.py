"""The disk is full, the file is damaged, a reader never ends, the clock jumps, two want to be the daemon."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import Connection

from corral.client import last_look
from corral.config.model import Settings
from corral.config.paths import Project, find_project, socket_path
from corral.coordination.edits.runtime_state import RuntimeState
from corral.coordination.locks.keys import parse_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import DatabaseUnavailable
from corral.core.instants import iso, parse
from corral.daemon.session_keeper import SessionKeeper
from corral.runners.process import start_time
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.work.tasks.leases import give_back
from tests.conftest import git
from tests.integration.last_looking import Client
from tests.support.coordinated import Coordinated, denied, eventually
from tests.support.locking import acquire
from tests.support.programs import program
from tests.support.worlds import no_room_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

Mount = Callable[[Path, str], None]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Put a small file system of its own under a folder, which keeps what it held: ``mount(folder, "4m")``.

    To be named before ``house``: the daemon has to be stopped before its folder goes.
    """
    mounted: list[Path] = []

    def do(folder: Path, size: str) -> None:
        before = folder.with_name(folder.name + ".before")
        folder.rename(before)
        folder.mkdir()
        done = subprocess.run(
            [program("mount"), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
        )
        if done.returncode != 0:
            pytest.skip("mounting is not allowed here")
        mounted.append(folder)
        for item in before.iterdir():
            subprocess.run(["cp", "-a", str(item), str(folder)], check=True)

    yield do
    for folder in mounted:
        subprocess.run([program("umount"), "--lazy", str(folder)], check=True)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """No byte is left on the file system of a folder, nor in the log of a database there, which is cut when idle."""
    log = folder / "corral.db-wal"
    eventually(lambda: not log.exists() or log.stat().st_size == 0)
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        chunk = 1 << 20
        while chunk:
            try:
                file.write(b"\1" * chunk)
            except OSError:
                chunk //= 2
    try:
        yield
    finally:
        ballast.unlink()


def refused(house: Coordinated) -> None:
    """A full disk, as whoever wants something stored meets it; whoever asks is answered."""
    for _ in range(3):
        done = house.run("task", "submit", "--title", "refused", "--command", "true", check=False)
        assert done.returncode == 1 and "CORRAL-ERR-008" in done.stderr, done.stderr
        assert "space" in done.stderr or "Free" in done.stderr, done.stderr
    with pytest.raises(DatabaseUnavailable) as caught:
        house.ask("POST", "/locks/acquire", {"paths": ["src/b.py"], "session_id": "late"})
    assert caught.value.remedy
    assert "first" in {row["title"] for row in house.json("task", "list")}
    assert [row["file_path"] for row in house.json("lock", "list")] == ["src/a.py"]
    assert house.json("status")["tasks"]


@pytest.mark.req("D3")
@pytest.mark.parametrize("kind", ["limit", "disk"])
def test_a_full_disk_refuses_loses_nothing_and_is_over_when_there_is_room(
    mount: Mount, house: Coordinated, kind: str
) -> None:
    home = house.root / ".corral"
    if kind == "disk":
        mount(home, "4m")
    first = house.carry_out("first", "echo 1 > first.txt")
    house.ask("POST", "/locks/acquire", {"paths": ["src/a.py"], "session_id": "early"})
    pid = house.running_pid()
    with no_room_for(pid) if kind == "limit" else filled(home):
        refused(house)
    second = house.submit("second", "echo 2 > second.txt")
    house.run("wait", first, second, "--timeout", "60")
    house.ask("POST", "/locks/release", {"paths": [], "session_id": "early"})
    assert house.daemon_pid() == pid, "it recovered without a restart"
    assert {row["title"] for row in house.json("task", "list")} == {"first", "second"}
    assert house.json("lock", "list") == []
    assert git(house.root, "show", "main:second.txt") == "2"
    house.stop()
    with closing(sqlite3.connect(home / "corral.db")) as conn:
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.req("D3")
def test_a_task_that_ends_while_the_disk_is_full_is_not_lost(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="tasks: {max_retries: 0, retry_initial_s: 0.2, retry_max_s: 0.5}\n")
    gate = house.root.parent / "gate"
    task = house.submit("through", f"touch {gate}.began; while [ ! -e {gate} ]; do sleep 0.05; done; echo x > out.txt")
    eventually(Path(f"{gate}.began").exists)
    pid = house.running_pid()
    worker = eventually(lambda: house.ask("GET", f"/tasks/{task}/detail")["session_id"])
    with no_room_for(pid):
        gate.touch()
        eventually(
            lambda: (
                not any(str(gate) in " ".join(_words(child)) for child in psutil.Process(pid).children(recursive=True))
            )
        )
        refusal = house.run("task", "submit", "--title", "no", "--command", "true", check=False)
        assert refusal.returncode == 1
    assert worker
    house.run("wait", task, "--timeout", "60")
    assert house.json("task", "detail", task)["merge"]["state"] == "landed"
    assert house.daemon_pid() == pid
    assert eventually(lambda: house.worktrees_in_use() == [])


@pytest.mark.req("D3")
def test_what_failed_on_a_full_disk_is_no_failure_though_there_is_room_when_that_is_seen(
    mount: Mount, coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    place, gate = tmp_path / "small", tmp_path / "gate"
    place.mkdir()
    mount(place, "8m")
    rules = "{max_retries: 0, retry_initial_s: 0.2, retry_max_s: 0.5}"
    house = coordinate(config=f"worktrees: {{root: {place}}}\ntasks: {rules}\n")
    wait = f"touch {gate}.began; while [ ! -e {gate} ]; do sleep 0.05; done"
    task = house.submit("writes", f"{wait}; head -c 100000 /dev/zero > big.bin")
    eventually(Path(f"{gate}.began").exists)
    (attempt,) = find_project(house.root).attempts_dir.iterdir()
    house.kill_daemon()
    with filled(place):
        gate.touch()
        eventually(lambda: "\nexit " in (attempt / "record").read_text())
    house.run("wait", task, "--timeout", "60")
    detail = house.json("task", "detail", task)
    assert (detail["outcome"], detail["attempts"]) == ("landed", 1), "nothing is counted"
    assert [attempt["error_code"] for attempt in detail["attempt_history"]] == ["disk_full", None]


def _words(process: psutil.Process) -> list[str]:
    try:
        return [] if process.status() == psutil.STATUS_ZOMBIE else process.cmdline()
    except psutil.Error:
        return []


# -- the file


@pytest.mark.req("D7")
def test_a_reader_that_does_not_end_stops_nobody_and_its_log_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    open_schema(path)
    db = Database(path)
    wal = path.with_name("corral.db-wal")
    reading, done = threading.Event(), threading.Event()

    def read(conn: Any) -> tuple[int, int]:
        before = conn.exec_driver_sql("SELECT count(*) FROM events").scalar()
        reading.set()
        assert done.wait(60)
        return before, conn.exec_driver_sql("SELECT count(*) FROM events").scalar()

    def write(number: int) -> None:
        row = (iso(datetime.now(timezone.utc)), f"kind {number}", "{}")
        db.write(lambda conn: conn.exec_driver_sql("INSERT INTO events (at, kind, data) VALUES (?, ?, ?)", row))

    with ThreadPoolExecutor(9) as pool:
        reader = pool.submit(db.read, read)
        assert reading.wait(20)
        list(pool.map(write, range(1500)))
        held = wal.stat().st_size
        assert db.read(lambda conn: conn.exec_driver_sql("SELECT count(*) FROM events").scalar()) == 1500
        done.set()
        assert reader.result(20) == (0, 0), "a reader sees one instant"
        write(1500)
        eventually(lambda: wal.stat().st_size < held // 10, 30)
    db.close()


@pytest.mark.req("D8")
@pytest.mark.parametrize("damage", ["page", "header", "newer"])
def test_a_database_that_cannot_be_trusted_is_refused_and_left_alone(house: Coordinated, damage: str) -> None:
    file = house.root / ".corral" / "corral.db"
    for number in range(200):
        house.ask("POST", f"/sessions/s{number}/heartbeat")
    house.stop()
    if damage == "newer":
        with closing(sqlite3.connect(file)) as conn, conn:
            conn.execute("UPDATE alembic_version SET version_num = '9999'")
    else:
        with file.open("r+b") as raw:
            raw.seek(0 if damage == "header" else 4096 * (file.stat().st_size // 4096 // 2))
            raw.write(b"\xde\xad" * (50 if damage == "header" else 2048 * 8))
    before = file.read_bytes()
    for _ in range(2):
        done = house.run("task", "list", check=False)
        assert done.returncode == 1 and "CORRAL-ERR-008" in done.stderr, done.stderr
        assert ("newer" if damage == "newer" else "database") in done.stderr
    assert file.read_bytes() == before
    assert house.daemon_pid() is None


@pytest.mark.req("D8")
def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(mount: Mount, house: Coordinated) -> None:
    home = house.root / ".corral"
    mount(home, "8m")
    house.submit("first", "true")
    house.run("wait", "--all", "--timeout", "60")
    house.stop()
    eventually(lambda: _remounted(home, "ro"))
    done = house.run("task", "list", check=False)
    assert done.returncode == 5 and "cannot be written" in done.stderr, done.stderr
    assert _remounted(home, "rw")
    assert [row["title"] for row in house.json("task", "list")] == ["first"]


def _remounted(folder: Path, how: str) -> bool:
    """Whether it could be done: not as long as a process that is just ending has a file open for writing."""
    done = subprocess.run([program("mount"), "-o", f"remount,{how}", str(folder)], capture_output=True, text=True)
    if done.returncode != 0 and "busy" not in done.stderr:
        pytest.skip(f"what is mounted here cannot be made read-only: {done.stderr.strip()}")
    return done.returncode == 0


def test_on_a_full_disk_a_held_file_stays_and_a_person_lets_edits_pass(mount: Mount, house: Coordinated) -> None:
    home = house.root / ".corral"
    mount(home, "12m")
    ada, ben = Client(house.root, "ada"), Client(house.root, "ben")
    try:
        for client in (ada, ben):
            origin = {"pid": client.pid, "entrypoint": "cli", "source": "command"}
            house.hook("SessionStart", client.session_id, source="startup", _hook=origin)
        assert denied(ada.edits("README.md")) is None
        with filled(home):
            assert "is held by" in (denied(ben.edits("README.md")) or "")
            assert "`corral guard allow --for 1h`" in (denied(ben.edits("src/a.py")) or ""), "it cannot be marked"
            house.kill_daemon()
            assert "The disk is full." in house.run("daemon", "start", check=False).stderr
            assert denied(ben.edits("README.md"))
            house.run("guard", "allow", "--for", "1h")
            assert denied(ben.edits("src/a.py")) is None
        ada.die()
    finally:
        ada.close()
        ben.close()


@pytest.mark.req("HANDOFF-4")
def test_a_locked_database_is_said_within_two_seconds_with_what_ends_it(house: Coordinated) -> None:
    house.run("status")
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _time in range(3):
            began = time.monotonic()
            with pytest.raises(DatabaseUnavailable) as refused:
                house.ask("POST", "/sessions/mine/heartbeat")
            assert time.monotonic() - began < 2 + 5  # the rest is a busy machine's
            assert "Another program has locked" in refused.value.cause and "`sqlite3`" in refused.value.remedy
        other.execute("ROLLBACK")
    house.ask("POST", "/sessions/mine/heartbeat")


# -- two daemons


def start_one(root: Path) -> subprocess.Popen[bytes]:
    """A starter as every client is one. It leaves when the daemon, which inherits its output, is ready."""
    argv = [sys.executable, "-m", "corral.daemon", "--project", str(root)]
    return subprocess.Popen(argv, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


@pytest.mark.req("D9")
def test_of_many_starters_one_wins_also_after_the_winner_was_killed(house: Coordinated) -> None:
    pids = []
    for _ in range(2):
        starters = [start_one(house.root) for _ in range(8)]
        assert [starter.wait(90) for starter in starters] == [0] * 8
        pids.append(house.daemon_pid())
        mine = [
            process
            for process in psutil.process_iter(["cmdline"])
            if {"corral.daemon", str(house.root)} <= set(process.info["cmdline"] or ())
        ]
        assert [process.pid for process in mine] == pids[-1:]
        house.kill_daemon()
    assert None not in pids and len(set(pids)) == 2


@pytest.mark.req("D10")
def test_a_late_starter_leaves_the_socket_of_the_living_alone(house: Coordinated) -> None:
    house.run("daemon", "start")
    place = socket_path(find_project(house.root))
    before, pid = place.stat().st_ino, house.daemon_pid()
    assert start_one(house.root).wait(60) == 0
    assert (place.stat().st_ino, house.daemon_pid()) == (before, pid)
    house.kill_daemon()
    house.run("daemon", "start")
    assert stat.S_ISSOCK(place.stat().st_mode)
    assert house.daemon_pid() not in (None, pid)


@pytest.mark.req("D10")
def test_a_port_that_is_taken_is_no_reason_not_to_start(coordinate: Callable[..., Coordinated]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        house = coordinate(config=f"daemon: {{tcp_port: {port}}}\n")
        assert not house.json("daemon", "status", check=False).get("running")
        house.run("daemon", "start")
        assert not house.json("daemon", "status")["address"].endswith(f":{port}")


# -- the clock


@dataclass
class Parts:
    """What the keeper of sessions uses of the daemon."""

    db: Database
    started_at: datetime
    project: Project
    runtime: RuntimeState = field(default_factory=RuntimeState)
    settings: Callable[[], Settings] = Settings
    unwatched: bool = True

    def nudge(self, _name: str) -> None: ...

    def offer_again(self, conn: Connection, session_id: str, reason: str, now: datetime) -> None:
        give_back(conn, session_id, reason, now, Settings().tasks)

    def alive(self) -> set[str]:
        return {row["session_id"] for row in self.db.read(session_rows.live)}


@pytest.fixture
def parts(tmp_path: Path, repo: Path) -> Iterator[Parts]:
    (repo / ".corral" / "run").mkdir(parents=True)
    open_schema(tmp_path / "corral.db")
    db = Database(tmp_path / "corral.db")
    yield Parts(db, datetime(2026, 3, 1, 12, tzinfo=timezone.utc), find_project(repo, initialised=False))
    db.close()


def arrive(parts: Parts, now: datetime, **more: Any) -> None:
    for name in ("one", "two"):
        parts.db.write(lambda conn, name=name: session_registry.register(conn, Arrival(session_id=name, **more), now))  # type: ignore[misc]


@pytest.mark.req("D11")
@pytest.mark.parametrize("jump_s", [3600, 8 * 3600, -3600])
def test_a_clock_that_jumps_ends_nobody_and_silence_counts_anew(parts: Parts, jump_s: int) -> None:
    stale_after_s = Settings().sessions.stale_after_s
    keeper, now = SessionKeeper(parts), parts.started_at  # type: ignore[arg-type]
    arrive(parts, now)
    keeper.step(now)
    keeper.step(now := now + timedelta(seconds=3))
    now += timedelta(seconds=jump_s)
    keeper.step(now)
    assert parts.alive() == {"one", "two"}
    keeper.step(now := now + timedelta(seconds=3))
    assert parts.alive() == {"one", "two"}
    parts.db.write(lambda conn: session_registry.alive(conn, Arrival(session_id="one"), now))
    for _ in range(int(stale_after_s // 30) - 1):
        keeper.step(now := now + timedelta(seconds=30))
        parts.db.write(lambda conn: session_registry.alive(conn, Arrival(session_id="one"), now))
    assert parts.alive() == {"one", "two"}, "the whole time of silence is given again"
    for _ in range(4):
        keeper.step(now := now + timedelta(seconds=30))
    assert parts.alive() == ({"one"} if jump_s > 0 else {"one", "two"}), "who stays silent is given up after all"


@pytest.mark.req("D11")
@pytest.mark.parametrize("jump_s", [8 * 3600, -7200])
def test_a_lock_keeps_the_time_it_had_left_over_a_jump(parts: Parts, jump_s: int) -> None:
    keeper, now = SessionKeeper(parts), parts.started_at  # type: ignore[arg-type]
    arrive(parts, now)
    parts.db.write(lambda conn: acquire(conn, [parse_key("x")], Holder("one"), now, ttl_s=3600))
    keeper.step(now)
    now += timedelta(seconds=jump_s)
    keeper.step(now)
    (held,) = parts.db.read(lambda conn: lock_rows.listing(conn, iso(now)))
    assert parse(held["expires_at"]) == now + timedelta(seconds=3600)


@pytest.mark.req("D11")
@pytest.mark.parametrize("jump_s", [8 * 3600, -7200])
def test_a_process_is_the_same_one_after_the_clock_was_set(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, jump_s: int
) -> None:
    """The system says by Unix time when it was booted and when a process started: both move with the clock."""
    keeper, now, booted_at = SessionKeeper(parts), parts.started_at, psutil.boot_time()  # type: ignore[arg-type]
    started = start_time(os.getpid())
    assert started is not None
    arrive(parts, now, client_pid=os.getpid(), client_started=started)
    keeper.step(now)
    monkeypatch.setattr("psutil._psplatform.boot_time", lambda: booted_at + jump_s)
    assert psutil.boot_time() == booted_at + jump_s
    keeper.step(now + timedelta(seconds=jump_s))
    assert parts.alive() == {"one", "two"}
    bridge = last_look.enter(str(parts.project.home), os.getpid(), str(parts.project.root))
    assert bridge is not None
    announced = json.loads(os.pread(bridge, 4096, 0))
    os.close(bridge)
    assert announced["started"] == started, "a client and the daemon know it by the same"
    parts.db.write(lambda conn: session_rows.change(conn, "two", {"client_started": started - 1}))
    keeper.step(now + timedelta(seconds=jump_s + 3))
    assert parts.alive() == {"one"}, "a process that has got the id of another one is not that one"


@pytest.mark.req("D18")
def test_what_a_session_holds_comes_free_with_its_process_and_not_before(parts: Parts) -> None:
    now = parts.started_at
    with subprocess.Popen(["sleep", "600"]) as client:
        try:
            started = start_time(client.pid)
            parts.db.write(
                lambda conn: session_registry.register(
                    conn, Arrival(session_id="one", client_pid=client.pid, client_started=started), now
                )
            )
            key = parse_key("src/a.py")
            parts.db.write(lambda conn: acquire(conn, [key], Holder("one"), now, ttl_s=3600))
            keeper = SessionKeeper(parts)  # type: ignore[arg-type]
            psutil.Process(client.pid).suspend()
            keeper.step(now + timedelta(seconds=3))
            keeper.step(now + timedelta(seconds=6))
            assert len(parts.db.read(lambda conn: lock_rows.listing(conn, iso(now)))) == 1, "it only pauses"
        finally:
            client.kill()
    keeper.step(now + timedelta(seconds=9))
    assert parts.alive() == set()
    assert parts.db.read(lambda conn: lock_rows.listing(conn, iso(now))) == []
