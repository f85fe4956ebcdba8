"""A bridge whose daemon fails, hangs, dies or comes back: the session goes on."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from corral.config.crashes import AGAIN_S
from tests.bundle.listener import Body, listening
from tests.integration.bridging import DENIAL, Start, logged, said, until


@pytest.mark.req("HOOK")
@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\xff garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{",
        b"HTTP/1.1 500 No\r\ncontent-length: 12\r\n\r\n" + b'{"error":{}}',
    ],
    ids=["garbage", "no JSON", "a list", "no length", "cut off", "an error"],
)
def test_an_answer_that_cannot_be_used_is_no_answer(repo: Path, sock: Path, start: Start, raw: bytes) -> None:
    with listening(sock, lambda event, _: raw if event == "Stop" else {"systemMessage": "well"}):
        bridge = start(repo)
        assert bridge.hook("Stop") == {}
        assert len(logged(repo)) == 1
        assert bridge.hook("PreToolUse") == {"systemMessage": "well"}


@pytest.mark.req("HOOK")
def test_a_daemon_that_hangs_is_waited_for_four_seconds(repo: Path, sock: Path, start: Start) -> None:
    bridge = start(repo)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(os.fspath(sock))
        deaf.listen()
        began = time.monotonic()
        numbers = [bridge.start_hook("PreToolUse") for _ in range(5)]
        assert [said(bridge.answer_to(number)) for number in numbers] == [{}] * 5
        assert 3 < time.monotonic() - began < 5 * 4, "side by side"
    assert len(logged(repo)) == 5


@pytest.mark.req("HOOK")
@pytest.mark.parametrize("world", ["no socket", "stale socket"])
def test_without_a_daemon_the_session_goes_on_and_a_daemon_is_asked_for_once(
    repo: Path, sock: Path, start: Start, world: str
) -> None:
    if world == "stale socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(os.fspath(sock))
    bridge = start(repo)
    bridge.ask("ping")
    began = time.monotonic()
    assert [bridge.hook("PreToolUse") for _ in range(3)] == [{}] * 3
    assert time.monotonic() - began < 3 * 4, "nobody waited for it"
    assert len(logged(repo)) == 3
    assert all("PreToolUse: no daemon" in line for line in logged(repo))
    summoned = repo / ".corral" / "summoned"
    until(lambda: summoned.exists() and summoned.read_text())
    times = len(summoned.read_text())
    assert 1 <= times <= 1 + (time.monotonic() - began) // AGAIN_S, "once, and again after its time at the earliest"


def test_a_log_that_cannot_be_written_changes_nothing(repo: Path, sock: Path, start: Start) -> None:
    (repo / ".corral" / "logs").write_text("in the way")
    bridge = start(repo)
    assert bridge.hook("PreToolUse") == {}
    assert bridge.hook("PreToolUse") == {}


def test_a_restarted_daemon_is_found_by_the_very_next_event(repo: Path, sock: Path, start: Start) -> None:
    bridge = start(repo)
    for round_ in range(3):
        with listening(sock, lambda *_: DENIAL) as heard:
            assert bridge.hook("PreToolUse", tool_use_id=f"a{round_}") == DENIAL
            assert bridge.hook("PreToolUse", tool_use_id=f"b{round_}") == DENIAL
        assert [body["tool_use_id"] for _, body in heard.events] == [f"a{round_}", f"b{round_}"]
    assert logged(repo) == []


def test_many_connections_of_a_daemon_that_is_gone_do_not_cost_an_event(repo: Path, sock: Path, start: Start) -> None:
    bridge, together = start(repo), threading.Barrier(5)

    def meet(_event: str, _body: Body) -> Body:
        together.wait(10)
        return {}

    with listening(sock, meet):
        for number in [bridge.start_hook("PreToolUse") for _ in range(5)]:
            bridge.answer_to(number)
    with listening(sock, lambda *_: DENIAL):
        assert bridge.hook("PreToolUse") == DENIAL


def test_events_one_after_another_share_a_connection(repo: Path, sock: Path, start: Start) -> None:
    with listening(sock) as heard:
        bridge = start(repo)
        until(lambda: heard.opened)
        for _ in range(5):
            bridge.hook("PreToolUse")
        assert heard.connections == 1 + 1  # the held request has its own


def test_an_event_survives_a_daemon_that_dies_while_it_decides(repo: Path, sock: Path, start: Start) -> None:
    deaths = iter([None])
    with listening(sock, lambda *_: next(deaths, DENIAL)) as heard:
        assert start(repo).hook("PreToolUse") == DENIAL
    assert heard.named() == ["PreToolUse", "PreToolUse"]


def test_the_next_event_of_a_session_says_which_answers_to_it_were_not_heard(
    repo: Path, sock: Path, start: Start
) -> None:
    lost: dict[str, Body | bytes] = {"Stop": b"HTTP/1.1 500 No\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}"}
    began = time.time()
    with listening(sock, lambda event, _: lost.get(event, {})) as heard:
        bridge = start(repo)
        for event, fields in (
            *(("Stop", {}), ("Stop", {}), ("PostToolBatch", {"session_id": "other"})),
            *(("SubagentStop", {"agent_id": "sub"}), ("PostToolBatch", {}), ("PostToolBatch", {})),
        ):
            bridge.hook(event, **fields)
    spans = [body["_hook"].get("unheard") for _, body in heard.events]
    (_, (first, once), _, _, (same, twice), _) = spans
    assert began <= first == same <= once <= twice <= time.time()
    assert [span is None for span in spans] == [True, False, True, True, False, True]
    bridge.hook("Stop")  # it reached nobody
    with listening(sock) as heard:
        bridge.hook("Stop")
    assert "unheard" not in heard.events[0][1]["_hook"]


@pytest.mark.executed  # what is forked is no child of this process
def test_the_daemon_sees_a_bridge_live_and_die(repo: Path, sock: Path, start: Start) -> None:
    with listening(sock) as heard:
        bridge = start(repo, CLAUDE_CODE_SESSION_ID="s 1&2")
        until(lambda: heard.opened)
        url = urlsplit(heard.opened[0])
        assert url.path == "/api/v1/bridge"
        assert parse_qs(url.query) == {
            "pid": [str(bridge.process.pid)],
            "client": [str(os.getpid())],
            "session": ["s 1&2"],
        }
        assert heard.closed == []
        bridge.process.kill()
        until(lambda: heard.closed)


def test_a_restarted_daemon_sees_the_bridge_again(repo: Path, sock: Path, start: Start) -> None:
    with listening(sock) as heard:
        bridge = start(repo)
        until(lambda: heard.opened)
    with listening(sock) as heard:
        bridge.hook("Stop")
        until(lambda: heard.opened, timeout_s=20)


def test_a_bridge_that_outlives_an_uninstall_creates_nothing(repo: Path, sock: Path, start: Start) -> None:
    bridge = start(repo)
    assert bridge.hook("PreToolUse") == {}
    record = repo / ".corral" / "run" / "start.json"
    until(lambda: record.exists() and "next_at" in record.read_text())  # it has ended its attempt to start one
    shutil.rmtree(repo / ".corral")
    assert bridge.hook("PreToolUse") == {}
    assert "error" in bridge.ask("tools/call", {"name": "heartbeat", "arguments": {}})
    assert not (repo / ".corral").exists()
    assert bridge.close() == 0 and not (repo / ".corral").exists()


def test_after_a_deliberate_stop_a_list_starts_no_daemon_and_a_hook_does(repo: Path, sock: Path, start: Start) -> None:
    (repo / ".corral" / "run" / "stopped").touch()
    bridge = start(repo)
    assert bridge.ask("tools/list")["result"] == {"tools": []}
    assert not (repo / ".corral" / "summoned").exists()
    assert bridge.hook("PreToolUse") == {}
    until((repo / ".corral" / "summoned").exists)
