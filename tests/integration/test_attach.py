"""``corral attach``: a worker's conversation is resumed where it took place, and never beside a running worker."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.errors import Conflict, InvalidInput
from tests.conftest import git
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable

CLIENT = """#!/bin/sh
if [ "$1" = --resume ]; then echo "resumed $2 in $(pwd)"; exit; fi
read prompt
echo made > made.txt
until [ -e {go} ]; do sleep 0.05; done
echo '{{"type": "result", "subtype": "success", "result": "The answer.", "num_turns": 1}}'
"""


@pytest.mark.req("FR-CLI-003")
def test_a_conversation_is_resumed_in_its_place_but_not_beside_its_worker(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    go, client = tmp_path / "go", tmp_path / "client"
    executable(client, CLIENT.format(go=go))
    house = coordinate(config=f"runners: {{claude: {{command: {client}}}}}\nworktrees: {{pool_min_files: 0}}\n")
    task = house.json("task", "submit", "--title", "Ask", "--prompt", "Do it.")["task_id"]
    running = eventually(lambda: detail if (detail := house.ask("GET", f"/tasks/{task}/detail"))["worktree"] else None)
    refused = house.run("attach", task, "--print", check=False)
    assert refused.returncode == Conflict.exit_code and "is running" in refused.stderr
    go.touch()
    house.run("wait", task)
    shown = house.run("task", "detail", task).stdout
    assert "answer    The answer." in shown and "prompt    Do it." in shown and "1 file, 1 line added" in shown
    eventually(lambda: house.ask("GET", f"/tasks/{task}/detail")["worktree"] is None)

    session = running["attempt_history"][-1]["session_id"]
    line = f"cd {running['worktree']} && {client} --resume {session}\n"
    assert house.run("attach", task[:8], "--print").stdout == line, "in the same place: the client looks for it there"
    assert git(Path(running["worktree"]), "show", "--format=", "--name-only", "HEAD") == "made.txt"
    assert house.run("attach", task, check=False).returncode == InvalidInput.exit_code, "no terminal"
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "corral", "attach", task], cwd=house.root,
        stdin=slave, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    os.close(master)
    os.close(slave)
    assert done.stdout == f"resumed {session} in {running['worktree']}\n", done.stderr

    plain = house.carry_out("Plain", "true")
    assert house.run("attach", plain, "--print", check=False).returncode == InvalidInput.exit_code
