"""The real OpenCode, where it is installed, by the command of ``OpenCode-Builder``, with a scripted provider on loopback."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from corral.config.agents import read_definition
from corral.config.paths import bundle_dir
from corral.runners.command import CommandRunner
from corral.runners.protocol import Finished
from tests.conftest import git
from tests.integration.running import clock, finish, make_assignment
from tests.support.files import put
from tests.support.programs import program, requires

pytestmark = requires("opencode")


@dataclass
class Provider:
    """Google's API: one part of an answer for each result of a tool that is in the question.

    Attributes:
        asked: What came: its path, and its body.
    """

    url: str = ""
    script: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked.append((path, body.decode()))
        asked = json.loads(body)
        if not self.script:
            return 400, b'{"error": {"code": 400, "message": "The key is not valid.", "status": "INVALID_ARGUMENT"}}'
        results = sum("functionResponse" in part for content in asked["contents"] for part in content["parts"])
        part = self.script[results] if asked.get("tools") else {"text": "A title"}
        candidate = {"content": {"parts": [part], "role": "model"}, "finishReason": "STOP", "index": 0}
        return 200, b"data: " + json.dumps({"candidates": [candidate]}).encode() + b"\r\n\r\n"


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, data = made.answer(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made.url = f"http://127.0.0.1:{server.server_port}/v1beta"
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield made
        server.shutdown()
        serving.join()


def carry_out(provider: Provider, repo: Path, folder: Path) -> Finished:
    """Have the agent do a task in a worktree."""
    definition = read_definition(bundle_dir() / ".claude" / "agents" / "OpenCode-Builder.md")
    assert definition is not None and definition.runner_model is not None
    git(repo, "worktree", "add", "-q", str(folder / "worktree"), "-b", "task")
    options = {"provider": {"google": {"options": {"baseURL": provider.url, "apiKey": "k"}}}}
    (folder / "worktree" / "opencode.json").write_text(json.dumps(options))
    command = [
        program("opencode"),
        *(definition.runner_model if word == "{model}" else word for word in definition.command[1:]),
    ]
    env = {**definition.runner_env, "CORRAL_PROJECT": str(repo), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
    assignment = make_assignment(folder, program=command, prompt="Make a file.", env=env)
    return finish(CommandRunner(environ).start(assignment, clock()), deadline_s=60)


def test_it_works_in_its_worktree_and_nothing_it_is_denied_ends_it(
    provider: Provider, repo: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    mine, theirs, far = folder / "worktree" / "made.txt", repo / "made.txt", folder / "far" / "a.txt"
    put(far, "from far")
    writes = [{"name": "write", "args": {"filePath": str(file), "content": "x"}} for file in (theirs, mine)]
    calls = [*writes, {"name": "read", "args": {"filePath": str(far)}}]
    provider.script = [*({"functionCall": call} for call in calls), {"text": "It is made."}]
    finished = carry_out(provider, repo, folder)
    assert finished.success and finished.result["output"].endswith("It is made."), finished
    assert mine.read_text() == "x" and not theirs.exists()
    path, body = provider.asked[-1]
    assert "/gemini-3-flash-preview:" in path
    assert "Make a file." in body and "from far" in body


def test_what_its_provider_refuses_is_the_reason(provider: Provider, repo: Path, tmp_path: Path) -> None:
    finished = carry_out(provider, repo, tmp_path / "work")
    assert (finished.error_code, finished.exit_code) == ("command_failed", 1)
    assert finished.error_message == "The command exited with 1: Error: The key is not valid."
