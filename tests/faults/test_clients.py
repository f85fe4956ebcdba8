"""Clients that pause, vanish, repeat themselves, come in crowds or never read; workers that kill themselves."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest

from corral.client.connection import Client
from corral.config.paths import find_project, socket_path
from corral.config.sections.work import Tasks
from corral.core.errors import LeaseLost
from corral.core.instants import parse
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import attempts, scheduling, tasks, views
from corral.work.tasks.attempts import Ending
from corral.work.tasks.wire import read_submissions
from tests.conftest import commit, git
from tests.faults.storm import processes_of
from tests.integration.running import keeper_of
from tests.integration.test_landing_verification import gone
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import requires

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

QUICK = "tasks: {max_retries: 2, max_crashes: 2, retry_initial_s: 0.2, retry_max_s: 5}\n"


# -- pauses


@pytest.mark.req("D12")
def test_an_attempt_that_lost_its_lease_is_refused_whatever_it_wants_and_told_who_has_it(tmp_path: Path) -> None:
    open_schema(tmp_path / "corral.db")
    db, rules = Database(tmp_path / "corral.db"), Tasks()
    now = datetime(2026, 3, 1, tzinfo=timezone.utc)
    (wanted,) = read_submissions([{"title": "t", "command": "true"}])
    task_id = db.write(lambda conn: tasks.submit(conn, wanted, now, rules))["task_id"]

    def claim(who: str) -> TaskRow:
        row = db.write(lambda conn: scheduling.claim(conn, session_id=who, lease_s=60, ageing_s=0, now=now))
        assert row is not None
        return row

    old = claim("paused")["fencing_token"]
    db.write(lambda conn: attempts.end(conn, task_id, old, Ending(False, "stalled"), now, rules))
    now += timedelta(hours=1)
    new = claim("present")["fencing_token"]
    for late in (
        lambda conn: attempts.end(conn, task_id, old, Ending(True, result={"by": "paused"}), now, rules),
        lambda conn: attempts.end(conn, task_id, old, Ending(False, "x"), now, rules),
        lambda conn: attempts.change(conn, task_id, old, {"target": "main"}, {"progress": "still here"}),
        lambda conn: attempts.started(conn, task_id, old, now, pid=1, pid_started=1.0),
    ):
        with pytest.raises(LeaseLost) as caught:
            db.write(late)
        assert caught.value.details["owner"] == {"status": "running", "session_id": "present", "token": new}
    detail = db.read(lambda conn: views.detail(conn, task_id))
    assert (detail["status"], detail["progress"], detail["result"]) == ("running", None, None)
    assert db.write(lambda conn: attempts.end(conn, task_id, new, Ending(True), now, rules))["status"] == "completed"
    db.close()


@pytest.mark.req("D12")
def test_a_worker_that_is_paused_past_its_time_is_replaced_and_never_comes_back(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=QUICK + "agents: {stalled_after_s: 2}\nsupervisor: {stop_grace_s: 1}\n")
    pids = tmp_path / "pids"
    first = f"[ $(wc -l < {pids}) -gt 1 ] || {{ kill -STOP $$; echo late > late.txt; }}"
    task = house.submit("pauses", f"echo $$ >> {pids}; {first}; echo done > done.txt")
    paused = int(eventually(lambda: pids.exists() and pids.read_text().split()[:1])[0])
    house.run("wait", task, "--timeout", "60")
    with contextlib.suppress(ProcessLookupError):
        os.kill(paused, signal.SIGCONT)
    detail = house.json("task", "detail", task)
    assert (detail["attempts"], detail["merge"]["state"]) == (2, "landed")
    assert git(house.root, "ls-tree", "--name-only", "main", "done.txt", "late.txt") == "done.txt"
    assert gone(paused)
    assert eventually(lambda: house.worktrees_in_use() == [])


# -- repetitions


class Deaf:
    """Stands between clients and the daemon, hands every request on, and loses the first answers to some of them.

    Args:
        house: One with a path so long that clients ask ``daemon.json`` for the socket.
        verb: How the requests begin whose answers are lost.
        lose: How many.
    """

    def __init__(self, house: Coordinated, verb: bytes, lose: int) -> None:
        self._told = find_project(house.root).daemon_json
        self._real = json.loads(self._told.read_text())
        # A client follows no other name than the project's own.
        self._place = Path(tempfile.mkdtemp(prefix="deaf-")) / Path(self._real["socket"]).name
        self._verb, self._left = verb, itertools.count(lose, -1)
        self.lost = 0

    def __enter__(self) -> Deaf:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._place))
        self._listening.listen(16)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        self._told.write_text(json.dumps({**self._real, "socket": str(self._place)}))
        return self

    def __exit__(self, *_: object) -> None:
        self._told.write_text(json.dumps(self._real))
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()
        shutil.rmtree(self._place.parent)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client, socket.socket(socket.AF_UNIX) as daemon:
                daemon.connect(self._real["socket"])
                with contextlib.suppress(ConnectionError):
                    self._pass_on(client, daemon)

    def _pass_on(self, client: socket.socket, daemon: socket.socket) -> None:
        with client.makefile("rb") as asked, daemon.makefile("rb") as answered:
            while request := _whole(asked):
                daemon.sendall(request)
                answer = _whole(answered)
                if request.startswith(self._verb) and next(self._left) > 0:
                    self.lost += 1
                    return
                client.sendall(answer)


def _whole(stream: BinaryIO) -> bytes:
    """One request or answer, its head and the body that the head tells of; empty at the end of the stream."""
    head, line = b"", b""
    while line != b"\r\n":
        if not (line := stream.readline()):
            return b""
        head += line
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    return head + stream.read(int(length[1]) if length else 0)


@pytest.mark.req("D13")
def test_a_request_whose_answer_was_lost_is_repeated_and_has_one_effect(
    coordinate: Callable[..., Coordinated], make_repo: Callable[..., Path]
) -> None:
    house = coordinate(make_repo("long" * 30))
    git(house.root, "switch", "-q", "-c", "side")
    commit(house.root, {"side.txt": "x\n"})
    git(house.root, "switch", "-q", "main")
    house.run("daemon", "start")
    house.hook("SessionStart", "s1", source="startup")
    asked: dict[str, Callable[[], object]] = {
        "tasks": lambda: house.run("task", "submit", "--title", "once", "--command", "echo once >> once.txt"),
        "merges": lambda: house.run("merge", "submit", "side"),
        "locks/acquire": lambda: house.run("lock", "acquire", "src/a.py"),
        "hooks/PreToolUse": lambda: house.edit("s1", "src/b.py"),
        "messages": lambda: house.run("message", "send", "all", "Once", "x"),
    }
    for path, ask in asked.items():
        with Deaf(house, f"POST /api/v1/{path}".encode(), lose=1) as deaf:
            ask()
        assert deaf.lost == 1, path
    house.run("wait", "--all", "--timeout", "60")
    assert [row["title"] for row in house.json("task", "list")] == ["once"]
    assert git(house.root, "show", "main:once.txt") == "once"
    assert sorted(row["state"] for row in house.json("merge", "list")) == ["landed"] * 2
    assert git(house.root, "for-each-ref", "refs/corral/mq") == ""
    assert [row["subject"] for row in house.ask("GET", "/messages", query={"session_id": "s1"})] == ["Once"]
    assert sorted(row["file_path"] for row in house.json("lock", "list")) == ["src/a.py", "src/b.py"]


# -- poison


@pytest.mark.req("D14")
def test_a_task_that_kills_its_worker_every_time_is_given_up(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=QUICK)
    poisons = {"kill -9 $$": (1, 3), "kill -9 0": (1, 3), "exit 1": (3, 0)}
    """Each with what is counted: its own ends, or violent ones."""
    runs = {poison: tmp_path / f"runs-{number}" for number, poison in enumerate(poisons)}
    tasks = {
        poison: house.submit("poison", f"echo x >> {runs[poison]}; echo half > half.txt; {poison}")
        for poison in poisons
    }
    other = house.submit("other", "echo other > other.txt")
    assert house.run("wait", *tasks.values(), other, "--timeout", "90", check=False).returncode == 1
    for poison, tried in poisons.items():
        detail = house.json("task", "detail", tasks[poison])
        assert (detail["status"], detail["attempts"], detail["crashes"]) == ("dead", *tried), poison
        kinds = Counter(event["kind"] for event in detail["history"])
        assert (kinds["task.claimed"], kinds["task.retried"], kinds["task.dead"]) == (3, 2, 1), poison
        assert runs[poison].read_text().split() == ["x"] * 3, f"started no more often: {poison}"
        at = {kind: [parse(e["at"]) for e in detail["history"] if e["kind"] == kind] for kind in kinds}
        for turn, (ended, again) in enumerate(zip(at["task.retried"], at["task.claimed"][1:], strict=True)):
            assert again - ended >= timedelta(seconds=0.2 * 2**turn), f"it waits, longer each time: {poison}"
    assert house.json("task", "detail", other)["merge"]["state"] == "landed", "nobody else suffers"
    assert eventually(lambda: house.worktrees_in_use() == [])
    assert sum("half.txt" in one["files"] for one in house.ask("GET", "/salvage")) >= len(poisons)


# -- deaths


@pytest.mark.req("D18")
def test_the_work_of_a_session_that_dies_stays_and_what_it_held_comes_free(house: Coordinated) -> None:
    place = Path(house.json("worktree", "create", "mine")["path"])
    (place / "unsaved.txt").write_text("work\n")
    with psutil.Popen(["sleep", "600"]) as client:
        said = {"session_id": "s1", "client_pid": client.pid, "cwd": str(place)}
        house.ask("POST", "/sessions", said)
        house.ask("POST", "/locks/acquire", {"paths": ["src/a.py"], "session_id": "s1"})
        client.kill()
    eventually(lambda: house.json("lock", "list") == [], 20)
    row = next(row for row in house.json("session", "list") if row["session_id"] == "s1")
    assert row["status"] == "disconnected"
    assert (place / "unsaved.txt").read_text() == "work\n"
    house.ask("POST", "/locks/acquire", {"paths": ["src/a.py"], "session_id": "s2"})


@requires("setsid")
@pytest.mark.req("D19")
def test_the_daemon_dies_while_a_verification_runs_and_no_orphan_stays(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    gate, pids = tmp_path / "gate", tmp_path / "pids"
    verify = f"test -e {gate} || {{ echo $$ >> {pids}; setsid sleep 600 & sleep 600; }}"
    house = coordinate(verify=(verify,))
    task = house.submit("lands later", "echo x > x.txt")
    orphan = int(eventually(lambda: pids.exists() and pids.read_text().split()[:1])[0])
    house.kill_daemon()
    (run,) = find_project(house.root).verifications_dir.iterdir()
    os.kill(keeper_of(run), signal.SIGKILL)  # else the next one goes on with it
    assert psutil.pid_exists(orphan)
    gate.touch()
    house.run("wait", task, "--timeout", "60")
    assert house.json("task", "detail", task)["merge"]["receipt"]["status"] == "passed"
    assert gone(orphan)
    house.stop()
    eventually(lambda: processes_of(house.root) == [])
    assert [p for p in psutil.process_iter(["cmdline"]) if str(pids) in " ".join(p.info["cmdline"] or ())] == []


# -- crowds


class Bore:
    """A client that asks much and reads a byte a second; and ones that never finish what they say."""

    def __init__(self, house: Coordinated) -> None:
        self._place = str(socket_path(find_project(house.root)))
        self._open: list[socket.socket] = []
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Bore:
        for _ in range(5):
            self._read_slowly(self._say(b"GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50))
        for _ in range(20):
            self._say(b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 1000\r\n\r\n{")  # fmt: skip
            self._say(b"GET /api/v1/ta")
            self._say(b"GET /api/v1/wait?all=true HTTP/1.1\r\nHost: localhost\r\n\r\n").shutdown(socket.SHUT_WR)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        for one in self._open:
            one.close()

    def _say(self, text: bytes) -> socket.socket:
        one = socket.socket(socket.AF_UNIX)
        self._open.append(one)
        one.connect(self._place)
        one.setblocking(False)
        one.send(text)
        return one

    def _read_slowly(self, one: socket.socket) -> None:
        def read() -> None:
            while not self._over.wait(1):
                with contextlib.suppress(BlockingIOError):
                    one.recv(1)

        self._threads.append(threading.Thread(target=read))
        self._threads[-1].start()


def beats(house: Coordinated, number: int, times: int) -> list[float]:
    """How long each heartbeat of one client took."""
    took = []
    with contextlib.closing(Client(find_project(house.root), autostart=False)) as client:
        for _ in range(times):
            began = time.monotonic()
            client.request("POST", f"/sessions/beat-{number}/heartbeat")
            took.append(time.monotonic() - began)
    return took


@pytest.mark.req("D20")
def test_a_crowd_is_answered_beside_those_who_never_read_or_never_finish(house: Coordinated) -> None:
    house.run("daemon", "start")
    with Bore(house), ThreadPoolExecutor(100) as pool:
        waits = [pool.submit(beats, house, number, 5) for number in range(100)]
        took = sorted(itertools.chain.from_iterable(one.result(90) for one in waits))
    assert len(took) == 500
    # A hundred clients share one daemon: what counts is that nobody waits for those who do not read.
    assert took[-1] < 10, took[-5:]
    assert len(house.json("session", "list")) == 100


@pytest.mark.req("D20")
def test_a_heartbeat_never_waits_behind_git_or_a_setup(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    setup = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    house = coordinate(config=f"worktrees: {{setup: ['touch {tmp_path}/began-$$; {setup}']}}\n")
    house.run("daemon", "start")
    with ThreadPoolExecutor(12) as pool:
        for number in range(10):
            house.submit(f"t{number}", "true")
        made = [pool.submit(house.ask, "POST", "/worktrees", {"name": f"w{n}"}) for n in range(4)]
        try:
            eventually(lambda: len(list(tmp_path.glob("began-*"))) == 14)
            took = beats(house, 1, 20)
            house.edit("s1", "src/a.py")
            assert (
                house.hook("PreToolUse", "s1", tool_name="Bash", tool_input={"command": "git status"}, tool_use_id="u")
                == {}
            )
            listed = house.ask("GET", "/locks", timeout_s=10)
        finally:
            gate.touch()
        assert [one.result(60)["state"] for one in made] == ["ready"] * 4
    assert max(took) < 5
    assert [row["file_path"] for row in listed] == ["src/a.py"]
