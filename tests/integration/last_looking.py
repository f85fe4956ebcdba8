"""Two clients that want one file, while something is down: what each of them is told before its edit."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.integration.bridging import Bridge
from tests.integration.hooking import fire

# The client is the parent of its bridge.
CLIENT = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'corral.client.bridge']))"


class Client(Bridge):
    """A client, with its own real bridge."""

    def __init__(self, cwd: Path, session_id: str) -> None:
        super().__init__(cwd, program=CLIENT, CLAUDE_CODE_SESSION_ID=session_id)
        self.session_id = session_id
        self.cwd = cwd
        self.ask("ping")  # it has announced itself

    @property
    def pid(self) -> int:
        return self.process.pid

    def edits(self, path: str, tool: str = "Write") -> dict[str, Any]:
        """What the bridge answers before an edit."""
        target = {"file_path": str(self.cwd / path)}
        fields = {"cwd": str(self.cwd), "session_id": self.session_id}
        return self.hook("PreToolUse", tool_name=tool, tool_input=target, tool_use_id=f"u-{path}", **fields)

    def die(self) -> None:
        """Kill -9, with the bridge."""
        for process in (*psutil.Process(self.pid).children(), psutil.Process(self.pid)):
            with suppress(psutil.NoSuchProcess):  # a child of it may have just ended
                process.kill()
        self.process.wait()


def hook_before_edit(root: Path, path: str, session_id: str = "ben", **more: Any) -> dict[str, Any]:
    """What hook.py answers before an edit, as a mod or a hook in the settings runs it."""
    target = {"file_path": str(root / path)}
    call = {"session_id": session_id, "tool_name": "Write", "tool_input": target, "tool_use_id": "u"}
    done = fire(root, "PreToolUse", **{**call, **more})
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout or b"{}")
    return answer
