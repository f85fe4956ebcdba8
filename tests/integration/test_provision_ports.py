"""Two worktrees serve at once, each on its own ports."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from corral.work.worktrees.allocation import bindable, choose_block
from corral.work.worktrees.provision import Provisioned
from tests.integration.provisioning import add_worktree, make_usable
from tests.support.programs import requires

WITHIN_S = 20
NODE = "require('http').createServer((q, a) => a.end(require('fs').readFileSync('name'))).listen(process.env.PORT)"


@contextmanager
def serving(worktree: Path, provisioned: Provisioned, command: str) -> Iterator[int]:
    env = {"PATH": os.environ["PATH"], **provisioned.env, "SCRIPT": NODE}
    with subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command}"],
        cwd=worktree,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            yield int(provisioned.env["PORT"])
        finally:
            server.terminate()


def fetched(port: int) -> str:
    deadline = time.monotonic() + WITHIN_S
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/name", timeout=WITHIN_S) as answer:
                return str(answer.read().decode())
        except urllib.error.URLError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize(
    "command", ["python3 -m http.server $PORT", pytest.param('node -e "$SCRIPT"', marks=requires("node"))]
)
def test_the_same_command_serves_in_two_worktrees_at_once(repo: Path, command: str) -> None:
    taken: set[int] = set()
    with ExitStack() as servers:
        ports = {}
        for name in ("one", "two"):
            base = choose_block(taken, 24000, 10, bindable)
            taken.add(base)
            worktree = add_worktree(repo, name)
            (worktree / "name").write_text(name)
            ports[name] = servers.enter_context(serving(worktree, make_usable(repo, worktree, port_base=base), command))
        assert {name: fetched(port) for name, port in ports.items()} == {"one": "one", "two": "two"}
        # Both serve, and neither is in the books: a third is kept clear of them by asking the machine.
        assert choose_block(set(), min(ports.values()), 10, bindable) not in taken
