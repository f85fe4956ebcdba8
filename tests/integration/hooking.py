"""hooks/hook.py as Claude Code runs it: a process, an event on its standard input, an answer on its standard output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HOOK = Path(__file__).parents[2] / "hooks" / "hook.py"
COMMAND = [sys.executable, "-I", "-S", os.fspath(HOOK)]


def fire(
    cwd: Path, event: str, *options: str, stdin: bytes | None = None, path: str = "", **fields: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run the hook in ``cwd`` for an event with some fields; ``path`` goes before the PATH."""
    payload = {"session_id": "s-1", "cwd": os.fspath(cwd), "hook_event_name": event, **fields}
    environ = {**os.environ, "CLAUDE_CODE_ENTRYPOINT": "cli", "PATH": path + os.pathsep + os.environ["PATH"]}
    return subprocess.run(
        [*COMMAND, event, *options],
        cwd=cwd,
        env=environ,
        input=json.dumps(payload).encode() if stdin is None else stdin,
        capture_output=True,
        timeout=30,
        check=False,
    )


def logged(repo: Path) -> list[str]:
    file = repo / ".corral" / "logs" / "hook.log"
    return file.read_text().splitlines() if file.exists() else []


def silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout) == (0, b"")
