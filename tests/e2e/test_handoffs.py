"""What a session of the real client said before it was killed, in the context of the next one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.stage import bash_until
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


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
