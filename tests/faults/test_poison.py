"""Tasks that take their daemon down: bounded, found out, and no harm to those beside them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.client.connection import Client
from corral.config.paths import find_project, socket_path
from corral.core.errors import DaemonUnreachable
from tests.support.coordinated import DEADLINE_S, Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

QUICK = "tasks: {max_crashes: 2, retry_initial_s: 0.3, retry_max_s: 1}\n"
SOURCE = Path(__file__).resolve().parents[2] / "daemon"


def kill_the_daemon(root: Path) -> str:
    """What a poison task does: it finds the daemon's process, and kills it."""
    return f"""kill -9 $(sed 's/.*"pid": *\\([0-9]*\\).*/\\1/' {root}/.corral/run/daemon.json)"""


class Persistent:
    """A client that asks until it is answered: each time it starts the daemon that a task has killed."""

    def __init__(self, root: Path) -> None:
        self._client = Client(find_project(root))
        self.pids: set[int] = set()

    def __call__(self, path: str) -> Any:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                self.pids.add(self._client.request("GET", "/health")["pid"])
                return self._client.request("GET", path)
            except DaemonUnreachable:
                assert time.monotonic() < deadline

    def detail(self, task_id: str) -> dict[str, Any]:
        return dict(self(f"/tasks/{task_id}/detail"))

    def close(self) -> None:
        self._client.close()


@pytest.mark.req("D14")
def test_a_task_that_kills_its_daemon_and_its_keeper_is_found_out_and_the_one_beside_it_is_not_touched(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config=QUICK)
    gate, poisoned, ran = tmp_path / "gate", tmp_path / "poisoned", tmp_path / "ran"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    innocent = house.submit("innocent", f"echo x >> {ran}; {wait}; echo done > innocent.txt")
    eventually(ran.exists)
    poison = house.submit(
        "poison", f"echo x >> {poisoned}; {kill_the_daemon(house.root)}; kill -9 $PPID; sleep 60", "--priority", "9"
    )
    client = Persistent(house.root)
    try:
        eventually(lambda: client.detail(poison)["status"] == "dead")
        end = client.detail(poison)
        assert end["error_code"] == "daemon_died" and "3 times" in end["error_message"]
        assert poisoned.read_text().split() == ["x"] * 3, "max_crashes + 1 lives of the daemon, no more"
        assert len(client.pids) <= 4
        gate.touch()
        eventually(lambda: (client.detail(innocent)["merge"] or {}).get("state") == "landed")
        beside = client.detail(innocent)
        assert (beside["attempts"], beside["crashes"]) == (1, 0), "nothing is counted against it"
        assert ran.read_text().split() == ["x"], "it outlived every daemon"
    finally:
        client.close()


@pytest.mark.req("D14")
def test_a_task_that_kills_its_daemon_once_costs_nothing(house: Coordinated, tmp_path: Path) -> None:
    task = house.submit("kills", f"echo x >> {tmp_path}/ran; {kill_the_daemon(house.root)}; sleep 1; echo x > out.txt")
    client = Persistent(house.root)
    try:
        eventually(lambda: (client.detail(task)["merge"] or {}).get("state") == "landed")
        assert (client.detail(task)["attempts"], client.detail(task)["crashes"], len(client.pids)) == (1, 0, 2)
        assert (tmp_path / "ran").read_text().split() == ["x"]
    finally:
        client.close()


STOP_BY_HTTP = """
import os, socket, sys, time
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
connected = os.getpid()
if sys.argv[2:]:  # whoever connected ends before anything is asked, and a child asks
    if os.fork():
        os._exit(0)
    try:
        while not os.kill(connected, 0):
            time.sleep(0.01)
    except ProcessLookupError:
        pass
body = b'{"drain": false}'
link.sendall(b"POST /api/v1/daemon/stop HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
             b"Connection: close\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
answer = b""
while more := link.recv(65536):
    answer += more
print(answer.partition(b"\\r\\n\\r\\n")[2].decode())
"""


@pytest.mark.req("X4")
def test_a_worker_that_stops_its_own_daemon_is_refused_by_every_way_there_is(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate()
    script, output = tmp_path / "stop.py", tmp_path / "said"
    script.write_text(STOP_BY_HTTP)
    corral = f"PYTHONPATH={SOURCE} {sys.executable} -m corral -C {house.root}"
    place = socket_path(find_project(house.root))
    task = house.submit(
        "stops its daemon",
        f"{{ for words in 'daemon stop' 'daemon restart' 'uninstall --yes'; do {corral} $words --json; echo; done; "
        f"{sys.executable} {script} {place}; env -i {sys.executable} {script} {place}; "
        f"{sys.executable} {script} {place} and leave | cat; }} > {output} 2>&1; echo x > done.txt",
    )
    pid = house.daemon_pid()
    house.run("wait", task, "--timeout", "60")
    assert house.daemon_pid() == pid
    answers = [json.loads(line)["error"] for line in output.read_text().splitlines() if line.strip()]
    assert [answer["name"] for answer in answers] == ["own_daemon"] * 6, output.read_text()
    assert f"Task {task[:8]} may not stop" in answers[0]["message"]
    assert house.run("daemon", "stop").returncode == 0, "anybody else's request is heard"
