"""What a session of the real client leaves when it is killed, in the context of the next one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.stage import bash_until, text, tool
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


@pytest.mark.faults
@pytest.mark.req("HOOK-1", "HOOK-2", "HANDOFF-5")
def test_a_killed_sessions_handoff_is_in_the_next_ones_briefing(team: Team) -> None:
    killed = team.member()
    killed.do(
        tool("Write", file_path="$CWD/login.py", content="x"), text("The reset still fails."), say="Fix the login"
    )
    name = killed.name
    os.kill(killed.pid, signal.SIGKILL)
    killed.conversation.process.wait()
    team.until(lambda: killed.row["status"] == "disconnected")
    (left,) = team.house.json("handoff", "list")
    assert (left["agent_name"], left["automatic"], left["relevant_files"]) == (name, True, ["login.py"])
    assert team.locks() == {}
    successor = team.member()
    told = successor.do(text("I go on."), say="Go on")
    for part in (f"{name} left this", "Fix the login", "The reset still fails.", "login.py"):
        assert part in told, told
    assert told.count("left this") == 1


@pytest.mark.faults
@pytest.mark.req("HOOK-2")
def test_what_a_session_said_before_it_was_killed_in_the_midst_of_its_work_is_handed_over(team: Team) -> None:
    killed = team.member()
    waiting = team.repo.parent / "waiting"
    at_work = bash_until("false", f"touch {waiting}")
    killed.begin({**at_work, "text": "I rename the login; the tests come next."}, say="Rename the login")
    team.until(waiting.exists)
    transcript = next((Path(team.env["HOME"]) / ".claude" / "projects").glob(f"*/{killed.session_id}.jsonl"))
    team.until(lambda: "the tests come next" in transcript.read_text())
    os.kill(killed.pid, signal.SIGKILL)
    killed.conversation.process.wait()
    team.until(lambda: killed.row["status"] == "disconnected")
    (left,) = team.house.json("handoff", "list")
    assert "I rename the login; the tests come next." in left["summary"]
