"""Workers of models that misbehave, all at once, under one daemon: each has a clear end, and the queue goes on."""

from __future__ import annotations

import http.server
import json
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.faults import stand_in
from tests.faults.storm import processes_of
from tests.integration.test_runner_anthropic import events, said
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

CONFIG = """
tasks: {{max_retries: 0, retry_initial_s: 0.1, retry_max_s: 0.2}}
supervisor: {{max_agents: 12, stop_grace_s: 1}}
limits: {{memory_mb_per_agent: 250, output_mb_per_agent: 8}}
runners: {{claude: {{command: {client}}}}}
"""
MOST_LOG = 8 << 20


class Bad(NamedTuple):
    """The end that a worker must have; ``told`` is in its error message."""

    outcome: str
    code: str | None
    told: str = ""
    timeout_s: int | None = None


CLAUDE = {
    "garbage": Bad("dead", "command_failed", "The client exited with 3 and no result"),
    "flood": Bad("failed", "output_limit", "more than 8 MB of output"),
    "events-without-end": Bad("failed", "output_limit", "more than 8 MB of output"),
    "deaf": Bad("dead", "timeout", "timed out after 3 s", 3),
    "eats": Bad("dead", "memory_limit", "the limit is 250"),
    "silent": Bad("dead", "command_failed", "The client exited with 0 and no result: no output"),
    "no-result": Bad("dead", "command_failed", "The client exited with 0 and no result"),
    "cut": Bad("dead", "command_failed", "The client exited with 0 and no result"),
    "does-nothing": Bad("nothing to land", None),
}
USAGE_LIMIT = Bad("pending", "api_error", "You've hit your session limit.")

EATS = f"{shlex.quote(sys.executable)} -c 'b = b\"x\" * 600_000_000; import time; time.sleep(600)'"
FLOODS = f"{shlex.quote(sys.executable)} -c 'import os\nfor _ in range(2000): os.write(1, b\"x\" * 65536)'"


def call(command: str) -> bytes:
    """An answer that runs a command."""
    use = {"type": "tool_use", "id": "t", "name": "run_command", "input": {"command": command}}
    return events(use, stop_reason="tool_use")


API: dict[str, tuple[int, bytes | None, Bad]] = {
    "hangs": (200, None, Bad("dead", "timeout", "timed out after 3 s", 3)),
    "breaks": (500, b"{}", Bad("dead", "api_error", "The API answered 500")),
    "answers-a-page": (200, b"<html>Busy</html>", Bad("dead", "api_error", "The API's answer cannot be read")),
    "breaks-its-json": (200, b"event: message_start\ndata: {no\n\n", Bad("dead", "api_error", "cannot be read")),
    "stops-in-the-middle": (200, events(said("Half."), until=2), Bad("dead", "api_error", "ended in the middle")),
    "does-nothing": (200, events(said("Nothing to do.")), Bad("nothing to land", None)),
    "eats": (200, call(EATS), Bad("dead", "memory_limit", "the limit is 250")),
    "floods": (200, call(FLOODS), Bad("nothing to land", None)),
}


class _Api(http.server.BaseHTTPRequestHandler):
    """Answers as the prompt says; what follows a tool's result is the end."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, answer, _ = API[body["messages"][0]["content"][0]["text"].split()[0]]
        if len(body["messages"]) > 1:
            status, answer = 200, events(said("Done."))
        self.send_response(status)
        self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        if answer is None:
            server: Any = self.server
            server.closing.wait()
        else:
            self.wfile.write(answer)


@pytest.fixture
def api() -> Iterator[str]:
    """The address of an API that misbehaves."""
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    server.daemon_threads, server.closing = True, threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def house(
    coordinate: Callable[..., Coordinated], api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Coordinated:
    """A repository whose client is the stand-in, and whose API misbehaves."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test-0123456789-not-a-real-key")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api)
    client = executable(
        tmp_path / "client", f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(stand_in.__file__))}\n"
    )
    made = coordinate(config=CONFIG.format(client=client))
    made.run("daemon", "start")
    return made


def submit(house: Coordinated, runner: str, name: str, bad: Bad) -> str:
    limit = ("--timeout", str(bad.timeout_s)) if bad.timeout_s else ()
    asked = ("--title", f"{runner} {name}", "--prompt", f"{name} please", "--runner", runner)
    return str(house.json("task", "submit", *asked, *limit)["task_id"])


@pytest.mark.req("FR-SWARM-004", "SUP-NFR1")
@pytest.mark.executed
def test_each_has_a_clear_end_a_usage_limit_is_told_and_the_queue_goes_on(house: Coordinated) -> None:
    daemon = psutil.Process(house.daemon_pid() or 0)
    bad = {("claude", name): one for name, one in CLAUDE.items()}
    bad |= {("anthropic", name): one for name, (_, _, one) in API.items()}
    ids = {key: submit(house, *key, one) for key, one in bad.items()}
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, daemon.memory_info().rss)
        return all(row["status"] in ("completed", "failed", "dead") for row in house.ask("GET", "/tasks"))

    eventually(is_over, 120)
    for key, one in bad.items():
        end = house.json("task", "detail", ids[key])
        assert (end["outcome"], end["error_code"]) == (one.outcome, one.code), (key, end["error_message"])
        assert one.told in (end["error_message"] or ""), (key, end["error_message"])
        log = house.root / ".corral" / "logs" / "tasks" / ids[key] / "1.log"
        assert log.stat().st_size <= MOST_LOG, key
    assert most < 400 << 20, "nothing that a worker writes is kept in the daemon"
    eventually(lambda: [process for process, _ in processes_of(house.root)] == [daemon])
    limited = submit(house, "claude", "usage-limit", USAGE_LIMIT)
    eventually(lambda: house.ask("GET", f"/tasks/{limited}/detail")["attempt_history"][0]["error_code"])
    (attempt,) = house.json("task", "detail", limited)["attempt_history"]
    assert attempt["error_code"] == "api_error" and "You've hit your session limit." in attempt["error_message"]
    fine = house.carry_out("fine", "echo fine > fine.txt")
    assert house.json("task", "detail", fine)["merge"]["state"] == "landed", "commands go on"
