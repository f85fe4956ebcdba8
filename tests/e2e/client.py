"""Ways to start the real Claude Code client against a :class:`tests.e2e.stage.Stage`, in an environment of its own."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.stage import Stage
from tests.support.files import put
from tests.support.programs import program

Json = dict[str, Any]
KEY = "sk-ant-api03-a-key-that-opens-nothing"
WORKER_FLAGS = (
    "--permission-mode",
    "acceptEdits",
    "--settings",
    json.dumps({"permissions": {"allow": ["Bash(*)", "mcp__plugin_corral_corral", "Skill"]}}),
)
STREAM_FLAGS = ("--output-format", "stream-json", "--verbose")
ANSI = re.compile(r"\x1b(?:\[[0-9;?<>=]*[A-Za-z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")


def find_client() -> Path | None:
    """The client that the ``claude-agent-sdk`` wheel carries, or None where it is not installed."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        return None
    client = Path(spec.origin).parent / "_bundled" / "claude"
    return client if client.exists() else None


def client_environment(
    stage: Stage, home: Path, *, path: str = "", extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The whole environment of a client: nothing of this process's own.

    Args:
        stage: The API it talks to.
        home: Its HOME; made if missing, with a git identity.
        path: Folders that come first on its PATH, joined by colons.
        extra: More variables; they win.
    """
    home.mkdir(parents=True, exist_ok=True)
    config = home / ".gitconfig"
    if not config.exists():
        config.write_text("[user]\n\tname = A Client\n\temail = client@example.test\n[init]\n\tdefaultBranch = main\n")
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join(filter(None, [path, os.environ["PATH"]])),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "SHELL": program("bash"),
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": stage.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        **(extra or {}),
    }


def trust(home: Path, *projects: Path) -> None:
    """Answer the questions that the terminal interface asks a new user: onboarding, the API key, trust in a folder."""
    answers = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(project): {"hasTrustDialogAccepted": True} for project in projects},
    }
    put(home / ".claude.json", json.dumps(answers))


@dataclass(frozen=True)
class Run:
    """What one ``claude -p`` did: its exit code, its stream-json events, its standard error."""

    exit_code: int
    events: list[Json]
    stderr: str

    @property
    def result(self) -> Json:
        """The last ``result`` event; an AssertionError tells what was said instead of one."""
        results = [event for event in self.events if event["type"] == "result"]
        assert results, f"no result; exit {self.exit_code}, stderr: {self.stderr}, events: {self.events[-3:]}"
        return results[-1]

    @property
    def init(self) -> Json:
        """The first ``system/init`` event."""
        return next(event for event in self.events if event.get("subtype") == "init")


def run_client(
    client: Path, cwd: Path, prompt: str, env: Mapping[str, str], *flags: str, timeout_s: float = 120
) -> Run:
    """Run ``claude -p PROMPT`` to its end, with a worker's permissions."""
    argv = [str(client), "-p", prompt, *STREAM_FLAGS, *WORKER_FLAGS, *flags]
    done = subprocess.run(
        argv, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
    )
    return Run(done.returncode, _events(done.stdout), done.stderr)


def _events(output: str) -> list[Json]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


class Conversation:
    """A stream-json session whose standard input stays open; use it as a context manager, it leaves no process.

    Its output is in the file ``log``, and ``events`` reads what has come to it.
    """

    def __init__(self, client: Path, cwd: Path, env: Mapping[str, str], log: Path, *flags: str) -> None:
        self._log, self._errors = log, log.with_suffix(".stderr")
        self._read, self._seen = 0, list[Json]()
        argv = [str(client), "-p", "--input-format", "stream-json", *STREAM_FLAGS, *WORKER_FLAGS, *flags]
        with log.open("wb") as out, self._errors.open("wb") as err:
            self.process = subprocess.Popen(
                argv, cwd=cwd, env=dict(env), stdin=subprocess.PIPE, stdout=out, stderr=err, start_new_session=True
            )

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *error: object) -> None:
        _end(self.process)
        assert self.process.stdin
        self.process.stdin.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def events(self) -> list[Json]:
        """Every whole event so far."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            written = log.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._read += len(whole)
        self._seen += _events(whole.decode(errors="replace"))
        return list(self._seen)

    @property
    def results(self) -> list[Json]:
        """The ``result`` of every turn so far."""
        return [event for event in self.events if event["type"] == "result"]

    def send(self, words: str) -> None:
        """Say something, as the user."""
        self.write({"type": "user", "message": {"role": "user", "content": words}})

    def write(self, event: Json) -> None:
        """Write any event, such as a control request."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(event).encode() + b"\n")
        self.process.stdin.flush()

    def turn(self, words: str, *, timeout_s: float = 120) -> Json:
        """Say something and return the ``result`` of the turn."""
        before = len(self.results)
        self.send(words)
        self.wait(lambda: len(self.results) > before, timeout_s=timeout_s)
        return self.results[before]

    def wait(self, until: Callable[[], object], *, timeout_s: float = 60) -> None:
        """Wait until something is true; an AssertionError shows the last events and the standard error."""
        deadline = time.monotonic() + timeout_s
        while not until():
            ended = self.process.poll()
            if time.monotonic() > deadline or (ended is not None and not until()):
                raise AssertionError(f"exit {ended}, {self._errors.read_text()}, {self.events[-3:]}")
            time.sleep(0.05)

    def finish(self, *, timeout_s: float = 60) -> Run:
        """Close the standard input and wait for the end."""
        assert self.process.stdin
        self.process.stdin.close()
        code = self.process.wait(timeout=timeout_s)
        return Run(code, self.events, self._errors.read_text())


class Terminal:
    """A session in the client's terminal interface, through a pseudo-terminal; use it as a context manager.

    The folder has to be trusted (see :func:`trust`).
    """

    def __init__(self, client: Path, cwd: Path, env: Mapping[str, str], *flags: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen(
            [str(client), *flags],
            cwd=cwd,
            env=dict(env),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self._seen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        _end(self.process)
        os.close(self._master)

    @property
    def screen(self) -> str:
        """Everything that was ever drawn, without control sequences and white space: what redraws leave comparable."""
        while select.select([self._master], [], [], 0)[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                break
            self._seen += data.decode(errors="replace")
        return "".join(ANSI.sub("", self._seen).split())

    def type(self, keys: str) -> None:
        """Send key strokes."""
        os.write(self._master, keys.encode())

    def send(self, words: str) -> None:
        """Type a prompt, as a paste, and submit it once it is drawn: what comes sooner belongs to the paste."""
        before, begins = len(self.screen), "".join(words.split())[:8]
        self.type(f"\x1b[200~{words}\x1b[201~")
        self.wait(lambda: any(drawn in self.screen[before:] for drawn in (begins, "[Pastedtext")))
        time.sleep(0.3)
        self.type("\r")

    def wait(self, until: str | Callable[[], object], *, timeout_s: float = 60) -> None:
        """Wait until a text (white space does not count) was drawn, or until something is true."""
        deadline = time.monotonic() + timeout_s
        while not ("".join(until.split()) in self.screen if isinstance(until, str) else until()):
            if not isinstance(until, str):
                _ = self.screen
            if time.monotonic() > deadline:
                raise AssertionError(f"the terminal shows {self.screen[-1500:]}")
            time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no process of the group behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
