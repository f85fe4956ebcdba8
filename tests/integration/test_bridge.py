"""``corral mcp`` as Claude Code runs it: a process that speaks JSON-RPC on its standard input and output."""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from corral import __version__
from tests.bundle.listener import Body, coordinate, listening
from tests.conftest import git

DAEMON = Path(__file__).parents[2] / "daemon"
DENIAL: Body = {
    "hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": 'src/a.py is held by Bob – "until" 12:00',
    }
}
# No daemon can be started for a stand-in's socket, so that a bridge here only notes that it would have started one.
WITHOUT_START = """
import sys, corral.client
def note(client, timeout_s=0):
    open(client.project.home / "summoned", "a").write("x")
corral.client.Client.ensure_daemon = note
from corral.bridge import main
sys.exit(main())
"""


class Bridge:
    """A running bridge, and the client's end of the conversation. Any number of threads may call."""

    def __init__(self, cwd: Path, **extra: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WITHOUT_START],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": os.fspath(DAEMON), **extra},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._answers: dict[Any, Body] = {}
        self._notes: list[Body] = []
        self._news = threading.Condition()
        self._ids = iter(range(1, 100_000))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            message = json.loads(line)
            with self._news:
                if "id" in message:
                    self._answers[message["id"]] = message
                else:
                    self._notes.append(message)
                self._news.notify_all()

    def write(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer_to(self, number: Any, timeout_s: float = 20) -> Body:
        with self._news:
            assert self._news.wait_for(lambda: number in self._answers, timeout_s), f"no answer to {number}"
            return self._answers.pop(number)

    def note(self, timeout_s: float = 20) -> Body:
        """The next notification that nobody asked for."""
        with self._news:
            assert self._news.wait_for(lambda: self._notes, timeout_s), "no notification"
            return self._notes.pop(0)

    def send(self, method: str, params: Body | None = None) -> int:
        number = next(self._ids)
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}).encode())
        return number

    def ask(self, method: str, params: Body | None = None) -> Body:
        return self.answer_to(self.send(method, params))

    def start_hook(self, event: str, **fields: Any) -> int:
        arguments = {"hook_event_name": event, "session_id": "s-1", **fields}
        return self.send("tools/call", {"name": "hook", "arguments": arguments})

    def hook(self, event: str, **fields: Any) -> Body:
        return said(self.answer_to(self.start_hook(event, **fields)))

    def close(self) -> int:
        assert self.process.stdin
        assert self.process.stdout
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            code = self.process.wait(10)
        finally:
            self.process.kill()
        self._reader.join()
        self.process.stdout.close()
        return code


def said(message: Body) -> Body:
    (content,) = message["result"]["content"]
    assert content["type"] == "text"
    answer: Body = json.loads(content["text"])
    return answer


def logged(repo: Path) -> list[str]:
    file = repo / ".corral" / "logs" / "bridge.log"
    return file.read_text().splitlines() if file.exists() else []


def until(true: Callable[[], object], timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


@pytest.fixture
def sock(repo: Path) -> Path:
    """Where the daemon of a coordinated ``repo`` listens."""
    return coordinate(repo)


@pytest.fixture
def start() -> Iterator[Callable[..., Bridge]]:
    """Start bridges that do not outlive the test: ``start(cwd, NAME="value")``."""
    bridges: list[Bridge] = []

    def make(cwd: Path, **extra: str) -> Bridge:
        bridges.append(Bridge(cwd, **extra))
        return bridges[-1]

    yield make
    for bridge in bridges:
        bridge.close()


Start = Callable[..., Bridge]

# -- the protocol ---------------------------------------------------------------------------------------------------


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


# -- hook events ----------------------------------------------------------------------------------------------------


def test_an_event_reaches_the_daemon_as_the_client_would_have_sent_it(repo: Path, sock: Path, start: Start) -> None:
    began = time.time()
    with listening(sock, lambda *_: DENIAL) as heard:
        bridge = start(repo / "src")
        answer = bridge.hook(
            "PreToolUse",
            cwd="/a/b",
            agent_id="",
            tool_name="Write",
            tool_input={"file_path": '/a/b/ü "c"\n', "notebook_path": "", "command": ""},
        )
    assert answer == DENIAL
    sent = heard.events[0][1]["_hook"]["sent"]
    assert began <= sent <= time.time()
    assert heard.events == [
        (
            "PreToolUse",
            {
                "hook_event_name": "PreToolUse",
                "session_id": "s-1",
                "cwd": "/a/b",
                "tool_name": "Write",
                "tool_input": {"file_path": '/a/b/ü "c"\n'},
                "_hook": {"bridge": str(bridge.process.pid), "pid": os.getpid(), "source": "bridge", "sent": sent},
            },
        )
    ]


def test_flags_become_booleans_long_texts_are_cut_and_commands_are_not(repo: Path, sock: Path, start: Start) -> None:
    with listening(sock) as heard:
        bridge = start(repo)
        bridge.hook("Stop", stop_hook_active="true", last_assistant_message="x" * 1_000_000)
        bridge.hook("Stop", stop_hook_active="false", tool_input={"command": "y" * 1_000_000})
    first, second = (body for _, body in heard.events)
    assert (first["stop_hook_active"], len(first["last_assistant_message"])) == (True, 4000)
    assert (second["stop_hook_active"], len(second["tool_input"]["command"])) == (False, 1_000_000)


def test_twenty_events_are_answered_side_by_side(repo: Path, sock: Path, start: Start) -> None:
    together = threading.Barrier(20)

    def answer(_event: str, body: Body) -> Body:
        together.wait(3)  # nobody is answered before all have come
        return {"systemMessage": body["tool_use_id"]}

    with listening(sock, answer):
        bridge = start(repo)
        numbers = {bridge.start_hook("PreToolUse", tool_use_id=f"t{n}"): f"t{n}" for n in range(20)}
        for number, use in numbers.items():
            assert said(bridge.answer_to(number)) == {"systemMessage": use}


@pytest.mark.parametrize("name", ["", "../tasks", "a b", "Stop?x=1"])
def test_an_event_without_a_proper_name_goes_nowhere(repo: Path, sock: Path, start: Start, name: str) -> None:
    with listening(sock) as heard:
        assert start(repo).hook(name) == {}
    assert heard.events == []
    assert len(logged(repo)) == 1


# -- a daemon that fails --------------------------------------------------------------------------------------------


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
        assert 3 < time.monotonic() - began < 5
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
    assert time.monotonic() - began < 2
    assert len(logged(repo)) == 3
    assert all("PreToolUse" in line and "away" in line for line in logged(repo))
    until((repo / ".corral" / "summoned").exists)
    assert (repo / ".corral" / "summoned").read_text() == "x"


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
    lost: dict[str, Body | bytes] = {"Stop": b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n{}"}
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


# -- the held request -----------------------------------------------------------------------------------------------


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


# -- where nothing is coordinated -----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["a plain folder", "a repository"])
def test_without_corral_it_answers_and_touches_nothing(repo: Path, tmp_path: Path, start: Start, place: str) -> None:
    cwd = repo if place == "a repository" else tmp_path
    before = sorted(tmp_path.rglob("*"))
    bridge = start(cwd)
    assert bridge.hook("PreToolUse", tool_name="Write") == {}
    assert bridge.ask("tools/list")["result"] == {"tools": []}
    assert bridge.close() == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_a_worktree_speaks_to_the_daemon_of_its_repository(
    repo: Path, sock: Path, start: Start, tmp_path: Path
) -> None:
    git(repo, "worktree", "add", "-q", "-b", "linked", os.fspath(tmp_path / "linked"))
    with listening(sock) as heard:
        start(tmp_path / "linked").hook("Stop")
    assert heard.named() == ["Stop"]


# -- what it costs --------------------------------------------------------------------------------------------------


def test_the_price_of_a_bridge_is_measured(repo: Path, sock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(sock):
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "corral.bridge"],
            cwd=repo,
            env={**os.environ, "PYTHONPATH": os.fspath(DAEMON)},
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
