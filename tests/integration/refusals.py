"""Commands that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.coordinated import Coordinated

ENVELOPE = {"code", "name", "message", "cause", "remedy", "details"}
NOBODY: dict[str, Any] = {"CORRAL_SESSION_ID": "", "CLAUDE_CODE_SESSION_ID": ""}


def refused(house: Coordinated, *args: str, cwd: Path | None = None, **env: Any) -> tuple[int, dict[str, Any]]:
    """Run a command that must fail; checks that it says so on stderr only, and returns exit code and error."""
    done = house.run(*args, "--json", check=False, cwd=cwd, **env)
    assert done.returncode != 0, done.stdout
    assert done.stdout == ""
    envelope = json.loads(done.stderr)
    assert set(envelope) == {"error"}
    assert set(envelope["error"]) == ENVELOPE
    assert envelope["error"]["cause"] and envelope["error"]["remedy"]
    assert "Traceback" not in done.stderr
    return done.returncode, envelope["error"]
