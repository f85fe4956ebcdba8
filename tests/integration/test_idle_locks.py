"""What a session keeps from others while it is idle, and how a person takes it all the same."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from corral.core.errors import NotPermitted
from corral.core.instants import parse
from tests.support.coordinated import Coordinated, denied, eventually


def test_an_idle_sessions_automatic_locks_shorten_and_a_person_may_take_them(house: Coordinated) -> None:
    for who in ("ann", "ben"):
        house.hook("SessionStart", who, source="startup")
    house.edit("ann", "src/a.py")
    house.ask("POST", "/locks/acquire", {"session_id": "ann", "paths": ["README.md"], "ttl_s": 3000})
    assert "idle" not in str(denied(house.edit("ben", "src/a.py")))
    house.hook("Stop", "ann")
    soon = datetime.now(timezone.utc) + timedelta(seconds=601)
    expiry = {row["file_path"]: parse(row["expires_at"]) for row in house.ask("GET", "/locks")}
    assert expiry["src/a.py"] <= soon < expiry["README.md"], "what was reserved on purpose lasts as it was asked for"
    reason = str(denied(house.edit("ben", "src/a.py")))
    assert "has been idle since" in reason and "`corral lock force-release src/a.py --yes`" in reason
    body = {"paths": ["src/a.py"], "session_id": "ben", "certain": True}
    with pytest.raises(NotPermitted):
        house.ask("POST", "/locks/force-release", body)
    refused = house.run("lock", "force-release", "src/a.py", check=False)
    assert refused.returncode == 4 and "--yes" in refused.stderr
    assert "a person took it" in house.run("lock", "force-release", "src/a.py", "--yes").stdout
    assert denied(house.edit("ben", "src/a.py")) is None


@pytest.mark.req("HEARTBEAT-3")
def test_a_turn_that_ended_while_no_daemon_ran_is_over_for_the_next_one_at_once(
    house: Coordinated, tmp_path: Path
) -> None:
    """Its Stop reached nobody; the client's transcript says it, if that was written since the session's last sign."""
    transcripts = {who: tmp_path / f"{who}.jsonl" for who in ("ann", "ben")}
    ended = json.dumps({"type": "assistant", "message": {"stop_reason": "end_turn", "content": []}}) + "\n"
    transcripts["ben"].write_text(ended)  # of the turn before
    for (who, file), pid in zip(transcripts.items(), (os.getpid(), os.getppid()), strict=True):
        house.hook("SessionStart", who, source="startup", transcript_path=str(file), _hook={"pid": pid})
        house.hook("UserPromptSubmit", who, prompt="Go on.")
        house.edit(who, f"{who}.txt")
    house.kill_daemon()
    transcripts["ann"].write_text(ended)
    house.run("daemon", "start")
    assert eventually(lambda: house.ask("GET", "/sessions/ann")["status"] == "idle")
    assert house.ask("GET", "/sessions/ben")["status"] == "active"
