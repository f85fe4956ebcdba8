"""The MCP that a bridge speaks by itself: versions, lists, bad requests, its end, its price."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from corral import __version__
from tests.bundle.listener import Body, listening
from tests.integration.bridging import DENIAL, Start, said, until


def test_it_introduces_itself_in_the_clients_version(tmp_path: Path, start: Start) -> None:
    bridge = start(tmp_path)
    for asked, agreed in [("2025-11-25", "2025-11-25"), ("2024-11-05", "2024-11-05"), ("2099-01-01", "2025-11-25")]:
        result = bridge.ask("initialize", {"protocolVersion": asked, "capabilities": {}})["result"]
        assert result["protocolVersion"] == agreed
        assert result["serverInfo"] == {"name": "corral", "version": __version__}
    bridge.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    assert bridge.ask("ping")["result"] == {}


def test_where_nothing_is_coordinated_the_model_sees_no_tool(repo: Path, start: Start) -> None:
    bridge = start(repo)
    assert (
        bridge.ask("tools/call", {"name": "acquire_lock", "arguments": {"file_path": "a"}})["error"]["code"] == -32602
    )
    assert bridge.ask("tools/list")["result"] == {"tools": []}
    assert bridge.ask("resources/list")["result"] == {"resources": []}
    assert bridge.ask("prompts/list")["result"] == {"prompts": []}


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (b"not json", None, -32700),
        (b"[" * 100_000, None, -32700),
        (b'{"id": 1, "method": "no/such"}', 1, -32601),
        (b'{"id": 1, "method": ["tools/call"]}', 1, -32603),
        (b'{"id": 1, "method": "tools/call", "params": [1]}', 1, -32603),
        (b'{"id": 1, "method": "tools/call", "params": {"name": "hook", "arguments": 7}}', 1, -32603),
    ],
)
def test_a_bad_request_is_refused_and_the_next_is_served(
    repo: Path, sock: Path, start: Start, line: bytes, number: int | None, code: int
) -> None:
    bridge = start(repo)
    bridge.write(line)
    assert bridge.answer_to(number)["error"]["code"] == code
    for ignored in (b"[]", b"7", b'{"id": 5, "result": {}}', b""):
        bridge.write(ignored)
    assert bridge.answer_to(bridge.send("ping"))["result"] == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_leaves_quietly_on_a_signal(repo: Path, sock: Path, start: Start, number: signal.Signals) -> None:
    bridge = start(repo)
    bridge.ask("ping")
    bridge.process.send_signal(number)
    assert bridge.process.wait(10) == 0


def test_it_leaves_when_its_input_ends_and_answers_what_is_in_flight_first(
    repo: Path, sock: Path, start: Start
) -> None:
    bridge = start(repo)
    ended = threading.Event()

    def slow(_event: str, _body: Body) -> Body:
        ended.wait(10)
        return DENIAL

    with listening(sock, slow) as heard:
        number = bridge.start_hook("PreToolUse")
        until(lambda: heard.events)
        assert bridge.process.stdin
        bridge.process.stdin.close()
        ended.set()
        assert said(bridge.answer_to(number)) == DENIAL
        assert bridge.process.wait(10) == 0


def test_the_price_of_a_bridge_is_measured(repo: Path, sock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(sock):
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "corral.client.bridge"],
            cwd=repo,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin
        assert process.stdout
        call = {
            "id": 1,
            "method": "tools/call",
            "params": {"name": "hook", "arguments": {"hook_event_name": "PreToolUse", "session_id": "s"}},
        }
        times = []
        for turn in range(201):
            asked = time.perf_counter()
            process.stdin.write(json.dumps(call).encode() + b"\n")
            process.stdin.flush()
            assert process.stdout.readline()
            times.append((time.perf_counter() - (asked if turn else began)) * 1000)
        status = Path(f"/proc/{process.pid}/status")
        resident = status.read_text().partition("VmRSS:")[2].split()[0] if status.exists() else "0"
        process.stdin.close()
        assert process.wait(10) == 0
        process.stdout.close()
    with capsys.disabled():
        print(
            f"\n  bridge: {times[0]:.0f} ms to the first answer, {statistics.median(times[1:]):.2f} ms an event,"
            f" {int(resident) / 1024:.1f} MB"
        )


def test_a_list_never_fails_and_is_asked_for_again_once_there_is_a_daemon(repo: Path, sock: Path, start: Start) -> None:
    """To the client a list that fails is a server that failed: with the server it would lose the hooks."""
    bridge = start(repo)
    assert bridge.ask("tools/list")["result"] == {"tools": []}
    with listening(sock):
        bridge.hook("PreToolUse")
        assert bridge.note()["method"] == "notifications/tools/list_changed"
