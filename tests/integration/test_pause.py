"""Looking starts no work; a pause that somebody ordered holds through restarts, until somebody resumes."""

from __future__ import annotations

import json

from tests.conftest import commit, git
from tests.support.coordinated import Coordinated


def test_a_pause_stops_claiming_and_landing_through_restarts_and_looking_starts_nothing(house: Coordinated) -> None:
    house.run("pause", "--reason", "release today")
    task = house.submit("Waits", "echo x > new.txt")
    git(house.root, "worktree", "add", "-q", "-b", "side", str(house.root.parent / "side"))
    commit(house.root.parent / "side", {"side.txt": "x\n"})
    merge = house.json("merge", "submit", "side")["merge_id"]
    offered = house.json("task", "submit", "--title", "By hand", "--description", "x")["task_id"]
    house.run("daemon", "stop")
    for look in (("status",), ("task", "list"), ("wait", task, "--timeout", "1"), ("merge", "list"), ()):
        refused = house.run(*look, check=False)
        assert refused.returncode == 5 and "corral daemon start" in refused.stderr, look
    assert house.daemon_pid() is None
    assert "daemon start" in house.run("doctor", check=False).stdout and house.daemon_pid() is None
    house.run("daemon", "start")
    waited = house.run("wait", task, "--timeout", "2", check=False)
    assert waited.returncode == 1 and "release today" in waited.stdout and "corral resume" in waited.stdout
    status = house.json("status")
    assert [(need["kind"], need["remedy"]) for need in status["needs_you"]] == [("paused_work", "corral resume")]
    assert status["open"] == {"pending": 2, "queued": 1} and status["paused"]["reason"] == "release today"
    assert "release today" in house.json("merge", "detail", merge)["reason"]
    house.hook("SessionStart", "hand", source="startup")
    claimed = house.ask("POST", "/tasks/claim", {"session_id": "hand"})
    assert claimed["success"] is False and claimed["reason"] == "work_paused"
    assert house.run("task", "claim").stdout == "All work is paused, so no task is claimed: corral resume\n"
    house.run("daemon", "stop")
    assert house.json("resume") == {"paused": False, "was_paused": True}, "what asks for something starts it"
    assert json.loads(house.run("resume", "--json").stdout)["was_paused"] is False
    house.run("wait", task, "--timeout", "60")
    assert house.ask("POST", "/tasks/claim", {"session_id": "hand"})["task_id"] == offered
    assert git(house.root, "show", "main:new.txt") == "x"
