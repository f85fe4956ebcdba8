"""A bridge as its own process, and the client at the other end of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bundle.listener import Body

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
import subprocess, sys
run = subprocess.run
def note(argv, **how):
    if argv[0] == "git":
        return run(argv, **how)
    assert argv[1:-1] == ["-m", "corral.client.start"]
    open(argv[-1] + "/.corral/summoned", "a").write("x")
    return subprocess.CompletedProcess(argv, 0)
subprocess.run = note
from corral.client.bridge import main
sys.exit(main())
"""


class Bridge:
    """A running bridge, and the client's end of the conversation. Any number of threads may call."""

    def __init__(self, cwd: Path, *, program: str = WITHOUT_START, **extra: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
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


Start = Callable[..., Bridge]
