"""Clients that repeat themselves, come in crowds or never read; workers that pause."""

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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

from corral.client.connection import Client
from corral.config.paths import find_project, socket_path
from tests.conftest import commit_on, git
from tests.integration.test_landing_verification import gone
from tests.support.coordinated import Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

QUICK = "tasks: {max_retries: 2, max_crashes: 2, retry_initial_s: 0.2, retry_max_s: 5}\n"


# -- pauses


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
    commit_on(house.root, "side", {"side.txt": "x\n"})
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
        for client in self._open:
            client.close()

    def _say(self, text: bytes) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        self._open.append(client)
        client.connect(self._place)
        client.setblocking(False)
        client.send(text)
        return client

    def _read_slowly(self, client: socket.socket) -> None:
        def read() -> None:
            while not self._over.wait(1):
                with contextlib.suppress(BlockingIOError):
                    client.recv(1)

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
        took = sorted(itertools.chain.from_iterable(wait.result(90) for wait in waits))
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
        assert [future.result(60)["state"] for future in made] == ["ready"] * 4
    assert max(took) < 5
    assert [row["file_path"] for row in listed] == ["src/a.py"]
