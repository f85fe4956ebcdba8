"""A client before mods, as the README still allows it: hooks.json loads in it, and its hooks guard.

``OLDER_CLAUDE`` names its executable; CONTRIBUTING.md says where to get it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.coordination.sessions.mods import knows_mods
from tests.e2e.stage import bash, tool
from tests.e2e.team import ROOT, Team

pytestmark = pytest.mark.e2e
OLDER = os.environ.get("OLDER_CLAUDE", "")
HELD = "README.md"


@pytest.fixture
def claude() -> Path:
    """The older client in place of the one that the wheel carries."""
    if not OLDER:
        pytest.skip("OLDER_CLAUDE names no client before mods (`npm pack @anthropic-ai/claude-code-linux-x64@2.1.197`)")
    return Path(OLDER)


def test_the_hooks_guard_in_a_client_before_mods(team: Team, claude: Path) -> None:
    version = subprocess.run(
        [str(claude), "--version"], env=team.env, capture_output=True, text=True, check=True
    ).stdout
    assert not knows_mods(version.split()[0])
    validated = subprocess.run(
        [str(claude), "plugin", "validate", str(ROOT)], env=team.env, capture_output=True, text=True, timeout=60
    )
    assert validated.returncode == 0, validated.stdout + validated.stderr
    holder, other = team.member(), team.member()
    look = tool("Read", file_path=f"$CWD/{HELD}")
    holder.do(look, tool("Write", file_path=f"$CWD/{HELD}", content="the holder's\n"))
    assert team.locks() == {HELD: holder.session_id}
    overwrites = tool("Write", file_path=f"$CWD/{HELD}", content="by another\n")
    transcript = other.do(look, overwrites, tool("Write", file_path="$CWD/mine.txt", content="x"))
    assert f"{HELD} is held by {holder.name}" in transcript and f"You are {other.name} in a repository" in transcript
    assert team.locks()["mine.txt"] == other.session_id
    assert f"changed {HELD}" in other.do(bash(f"echo shell >> {HELD}")), "what a shell writes is seen"
    (team.repo / HELD).write_text("the holder's\n")
    team.house.kill_daemon()
    assert "is held by" in other.do(look, overwrites), "the daemon is summoned, or the last look decides"
    other.bridge.kill()
    assert "is held by" in other.do(look, overwrites), "the hook that `init` wrote needs no bridge"
    assert (team.repo / HELD).read_text() == "the holder's\n"
    assert not [need for need in team.house.ask("GET", "/status")["needs_you"] if need["kind"] == "silent_mod"]
