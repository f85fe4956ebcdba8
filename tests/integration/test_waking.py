"""hooks/wait.py as the client runs it beside a session that stopped, with a stand-in for the daemon and with the daemon."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.core.errors import CorralError
from tests.bundle.listener import Body, coordinate, listening
from tests.support.coordinated import Coordinated, eventually, told

HOOKS = Path(__file__).parents[2] / "hooks"
((STOP,),) = [
    [hook for hook in group["hooks"] if hook.get("asyncRewake")]
    for group in json.loads((HOOKS / "hooks.json").read_text())["hooks"]["Stop"]
]
COMMAND = [sys.executable, *(word.replace("${CLAUDE_PLUGIN_ROOT}/hooks", str(HOOKS)) for word in STOP["args"])]
Waiting = subprocess.Popen[str]
Wait = Callable[..., Waiting]


@pytest.fixture
def wait() -> Iterator[Wait]:
    """Start the hook, of a session, in a folder; this process is the client: ``wait(cwd, session="ben")``."""
    with contextlib.ExitStack() as stack:

        def start(cwd: Path, session: str = "ben", entrypoint: str = "cli") -> Waiting:
            process = subprocess.Popen(
                COMMAND,
                cwd=cwd,
                env={**os.environ, "CLAUDE_CODE_ENTRYPOINT": entrypoint},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # one that is not to wait does not read
                process.stdin.write(json.dumps({"session_id": session, "hook_event_name": "Stop", "cwd": str(cwd)}))
                process.stdin.close()
            process.stdin = None
            return process

        yield start


SENDER = """
import json, sys
from pathlib import Path
from corral.client.connection import Client
from corral.config.paths import find_project
for line in sys.stdin:
    root, letter = json.loads(line)
    print(json.dumps(Client(find_project(Path(root))).request("POST", "/messages", letter)), flush=True)
"""
_senders: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """What sends mail runs below no client, as this process may be one: its shell has left it."""
    yield
    while _senders:
        with _senders.pop() as sender:
            assert sender.stdin is not None
            sender.stdin.close()


def end(process: Waiting) -> tuple[int, str]:
    """Its exit code, and what it said."""
    out, err = process.communicate(timeout=40)
    assert out == ""
    return process.returncode, err


# -- the hook alone -------------------------------------------------------------------------------------------------


def test_only_a_session_of_a_terminal_in_a_coordinated_repository_has_anything_wait_for_it(
    repo: Path, make_repo: Callable[..., Path], wait: Wait
) -> None:
    with listening(coordinate(repo)) as heard:
        for cwd, entrypoint in ((repo, "sdk-cli"), (repo, ""), (make_repo("plain"), "cli")):
            assert end(wait(cwd, entrypoint=entrypoint)) == (0, "")
    assert heard.events == []
    assert not (repo / ".corral" / "logs").exists()


def test_it_says_what_it_is_told_and_its_exit_code_wakes(repo: Path, wait: Wait) -> None:
    answers: list[Body] = [{"text": "Grüße,\n| Bob"}, {}]
    with listening(coordinate(repo), lambda *_: answers.pop(0)) as heard:
        assert end(wait(repo)) == (2, "Grüße,\n| Bob")
        assert end(wait(repo)) == (0, "")
    event, body = heard.events[0]
    assert event == "Stop/wait"
    assert body["session_id"] == "ben"
    assert body["_hook"] == {"pid": os.getpid(), "entrypoint": "cli", "source": "command"}


@pytest.mark.faults
def test_it_waits_for_the_next_daemon_where_there_is_none_and_where_one_goes(repo: Path, wait: Wait) -> None:
    sock = coordinate(repo)
    waiting = wait(repo)
    busy = b'HTTP/1.1 503 No\r\ncontent-length: 12\r\n\r\n{"error":{}}'
    answers: list[Body | bytes | None] = [None, busy, {"text": "at last"}]
    with listening(sock, lambda *_: answers.pop(0)) as heard:
        assert end(waiting) == (2, "at last")
    spans = [body["_hook"].get("unheard") for _, body in heard.events]
    assert spans[0] is None and all(begin <= end for begin, end in spans[1:]) and len(spans) == 3


@pytest.mark.faults
def test_one_waits_beside_a_client_however_often_its_session_stops_without_a_daemon(repo: Path, wait: Wait) -> None:
    sock = coordinate(repo)
    first = wait(repo)
    eventually((repo / ".corral" / "run" / "waiting").exists)
    for _ in range(2):
        assert end(wait(repo)) == (0, "")
    first.kill()
    assert first.wait() == -signal.SIGKILL
    again = wait(repo)
    with listening(sock, lambda *_: {"text": "at last"}):
        assert end(again) == (2, "at last")


@pytest.mark.faults
@pytest.mark.parametrize("reply", [b"HTTP/1.1 404 No\r\n\r\n" + b'{"error":{}}', b"HTTP/1.1 200 OK\r\n\r\n{"])
def test_an_answer_that_it_does_not_understand_wakes_nobody(repo: Path, wait: Wait, reply: bytes) -> None:
    with listening(coordinate(repo), lambda *_: reply):
        assert wait(repo).wait(20) == 0


PARENT = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(60)"


@pytest.mark.parametrize("daemon", [True, False])
def test_it_ends_with_its_client(repo: Path, monkeypatch: pytest.MonkeyPatch, daemon: bool) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "cli")
    sock = coordinate(repo)

    def never(*_: object) -> Body:
        time.sleep(60)
        return {}

    with contextlib.ExitStack() as world:
        heard = world.enter_context(listening(sock, never))
        client = subprocess.Popen([sys.executable, "-c", PARENT, *COMMAND], cwd=repo, stdin=subprocess.PIPE)
        assert client.stdin is not None
        with client.stdin:
            client.stdin.write(b'{"session_id": "ben"}')
        eventually(lambda: heard.events)
        (waiting,) = psutil.Process(client.pid).children()
        if not daemon:
            world.close()
        client.kill()
        client.wait()
        eventually(lambda: not waiting.is_running() or waiting.status() == psutil.STATUS_ZOMBIE)


# -- with the daemon ------------------------------------------------------------------------------------------------


def arrive(house: Coordinated, session: str, pid: int | None = None, **fields: Any) -> str:
    body = {"session_id": session, "cwd": str(house.root), "_hook": {"pid": pid}, **fields}
    house.ask("POST", "/hooks/SessionStart", body)
    return next(str(row["agent_name"]) for row in house.ask("GET", "/sessions") if row["session_id"] == session)


def send(house: Coordinated, to: str, body: str, importance: str = "normal") -> None:
    letter = {"session_id": "ann", "to": [to], "subject": "Hello", "body": body, "importance": importance}
    if not _senders:
        argv = ["sh", "-c", 'exec 3<&0; "$@" <&3 &', "sh", sys.executable, "-c", SENDER]
        env = {**os.environ, "PYTHONPATH": str(HOOKS.parent / "daemon")}
        _senders.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env))
    house.ask("GET", "/health")  # a daemon that this process starts is there sooner
    (sender,) = _senders
    assert sender.stdin is not None and sender.stdout is not None
    print(json.dumps([str(house.root), letter]), file=sender.stdin, flush=True)
    assert "message_id" in sender.stdout.readline()


def status(house: Coordinated, session: str) -> str:
    return next(str(row["status"]) for row in house.ask("GET", "/sessions") if row["session_id"] == session)


def test_mail_wakes_a_session_that_rests_and_is_told_once(house: Coordinated, wait: Wait) -> None:
    arrive(house, "ann")
    ben = arrive(house, "ben", os.getpid())
    send(house, ben, "Before")
    waiting = wait(house.root)
    send(house, ben, "Nothing of weight", "low")
    assert house.hook("Stop", "ben") == {}
    code, text = end(waiting)
    assert code == 2 and text.count("| Before") == 1 and "| Nothing of weight" in text
    assert {mail["way"] for mail in house.ask("GET", "/messages", query={"session_id": "ben"})} == {"wake"}
    assert status(house, "ben") == "active"
    assert told(house.hook("PostToolBatch", "ben")) == ""

    # It is at work: its own hooks bring what comes. Then it rests again, and what is low does not wake it.
    waiting = wait(house.root)
    send(house, ben, "Meanwhile")
    assert "| Meanwhile" in told(house.hook("PostToolBatch", "ben"))
    house.hook("Stop", "ben")
    send(house, ben, "By the way", "low")
    send(house, "ann", "To herself")
    both = [waiting, wait(house.root)]
    # Of two the one that came last stays; which of these processes is quicker is the machine's business.
    eventually(lambda: any(waiter.poll() is not None for waiter in both))
    both.sort(key=lambda waiter: waiter.poll() is None)
    assert end(both[0]) == (0, "")
    send(house, ben, "Now", "high")
    code, text = end(both[1])
    assert code == 2 and "| By the way" in text and "| Now" in text


@pytest.mark.faults
def test_mail_that_was_lost_on_its_way_to_the_hook_waits_again(house: Coordinated, wait: Wait) -> None:
    arrive(house, "ann")
    send(house, arrive(house, "ben", os.getpid()), "Which file?")
    house.hook("Stop", "ben")
    began = time.time()
    assert "| Which file?" in end(wait(house.root))[1]

    def asks_again(begin: float, end: float) -> str:
        origin = {"pid": os.getpid(), "unheard": [begin, end]}
        with contextlib.suppress(CorralError):  # nothing wakes a session at work just now
            house.ask("POST", "/hooks/Stop/wait", {"session_id": "ben", "_hook": origin}, timeout_s=0.5)
        (mail,) = house.ask("GET", "/messages", query={"session_id": "ben"})
        return str(mail["state"])

    assert asks_again(began - 60, began - 59) == "injected"
    assert asks_again(began, time.time()) == "queued"
    assert "| Which file?" in told(house.hook("PostToolBatch", "ben"))


def test_it_serves_the_session_that_its_client_has_now_and_outlives_the_daemon(house: Coordinated, wait: Wait) -> None:
    arrive(house, "ann")
    arrive(house, "ben", os.getpid())
    assert house.hook("StopFailure", "ben", error="rate_limit") == {}
    assert status(house, "ben") == "idle"
    waiting = wait(house.root, "ben")
    house.hook("SessionEnd", "ben", reason="clear")
    house.hook("StopFailure", "ben", error="rate_limit")  # either may come first
    assert status(house, "ben") == "disconnected"
    cid = arrive(house, "cid", os.getpid(), source="clear")
    assert status(house, "cid") == "idle"
    house.kill_daemon()
    send(house, cid, "Still there?")
    code, text = end(waiting)
    assert code == 2 and "| Still there?" in text


def test_nobody_who_is_gone_is_handed_mail_and_a_setting_lets_sessions_rest(
    coordinate: Callable[..., Coordinated], wait: Wait
) -> None:
    house = coordinate(config="messages: {wake: 'off'}")
    arrive(house, "ann")
    ben = arrive(house, "ben", os.getpid())
    house.hook("Stop", "ben")
    gone = wait(house.root)
    send(house, ben, "Sleep well", "urgent")
    (mail,) = house.ask("GET", "/messages", query={"session_id": "ben"})
    gone.kill()
    gone.wait()
    config = house.root / ".corral" / "config.yaml"
    config.write_text(config.read_text().replace("off", "high"))
    eventually(lambda: house.ask("GET", "/config")["settings"]["messages"]["wake"] == "high")
    (mail,) = house.ask("GET", "/messages", query={"session_id": "ben"})
    assert mail["state"] == "queued"
    code, text = end(wait(house.root))
    assert code == 2 and "| Sleep well" in text
