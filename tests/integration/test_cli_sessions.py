"""Sessions, workers and locks as the command line shows them, with `--json` and for people."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from corral.core.errors import CorralError
from tests.integration.refusals import NOBODY, refused
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import program

SESSION = {"session_id", "agent_name", "agent_type", "status", "current_task", "worktree", "last_heartbeat"}
LOCK = {"file_path", "locked_by", "session_id", "exclusive", "reason", "expires_at"}


def test_sessions_are_listed_disconnected_ones_too_and_by_status(house: Coordinated) -> None:
    ours, theirs = pty.openpty()
    client = subprocess.Popen([program("setsid"), "--ctty", "sleep", "600"], stdin=theirs)
    greeting = house.hook("SessionStart", "here", source="startup", _hook={"pid": client.pid, "entrypoint": "cli"})
    assert house.hook("SessionStart", "gone", source="startup")["systemMessage"].startswith("Corral: this session is ")
    house.hook("SessionEnd", "gone", reason="other")
    rows = {row["session_id"]: row for row in house.json("session", "list")}
    assert set(rows) == {"here", "gone"}
    assert all(set(row) >= SESSION for row in rows.values())
    assert rows["here"]["status"] in ("active", "idle") and rows["gone"]["status"] == "disconnected"
    assert rows["here"]["worktree"] == str(house.root)
    assert greeting["systemMessage"] == f"Corral: this session is {rows['here']['agent_name']}."
    assert rows["here"]["pid"] == client.pid and rows["gone"]["pid"] is rows["gone"]["terminal"] is None
    terminal = os.ttyname(theirs).removeprefix("/dev/")
    assert eventually(lambda: house.json("session", "show", "here")["terminal"]) == terminal
    shown = next(line for line in house.run("session", "list").stdout.splitlines() if str(client.pid) in line)
    assert terminal in shown and len(shown) <= 80
    assert rows["here"]["agent_name"] and rows["here"]["agent_name"] != rows["gone"]["agent_name"]
    assert [row["session_id"] for row in house.json("session", "list", "--status", "disconnected")] == ["gone"]
    client.kill()
    client.wait()
    os.close(ours)
    os.close(theirs)


@pytest.mark.req("SESSION-2", "DISCOVER-2", "HEARTBEAT-1", "REGISTER-1", "REGISTER-2")
def test_a_program_in_a_shell_is_a_session_like_any_other(shared_house: Coordinated) -> None:
    house = shared_house
    code, error = refused(house, "session", "heartbeat", **NOBODY)
    assert (code, error["name"]) == (2, "invalid_input") and "corral session register" in error["remedy"]
    options = (
        "--name",
        "Sisyphus",
        "--capability",
        "python",
        "--capability",
        "review",
        "--task",
        "Orchestrator - Batch 7",
    )
    first = house.json("session", "register", *options, "--program", "opencode", **NOBODY)
    me = {"CORRAL_SESSION_ID": first["session_id"]}
    assert (first["agent_name"], first["agent_type"], first["status"]) == ("Sisyphus", "shell", "active")
    assert (first["capabilities"], first["program"]) == (["python", "review"], "opencode")
    again = house.json("session", "register", "--task", "Wait for the rest", **me)
    assert (again["session_id"], again["agent_name"], again["agent_type"]) == (first["session_id"], "Sisyphus", "shell")
    assert (again["current_task"], again["capabilities"]) == ("Wait for the rest", ["python", "review"])
    assert house.json("session", "heartbeat", **me) == {"success": True, "session_id": first["session_id"]}
    (answer,) = house.json("session", "list", "--capability", "review")
    assert answer["last_heartbeat"] > again["last_heartbeat"] and answer["names"] == []
    shown = house.run("session", "register", "--task", "Executing t-1", **NOBODY).stdout
    coder = shown.split()[-1].removeprefix("CORRAL_SESSION_ID=")
    assert re.fullmatch(r"[A-Z][a-z]+[A-Z][a-z]+", shown.split()[0])
    bound = house.ask("POST", f"/sessions/{coder}/names", {"name": "Ben", "program": "opencode-coder", "model": "m-1"})
    assert (bound["name"], bound["program"], bound["model"]) == ("Ben", "opencode-coder", "m-1")
    who = house.json("session", "show", "ben")
    assert (who["session_id"], who["current_task"], who["names"]) == (coder, "Executing t-1", ["Ben"])
    assert [(agent["name"], agent["program"]) for agent in who["registered"]] == [("Ben", "opencode-coder")]
    assert "opencode-coder with m-1 as Ben" in house.run("session", "show", "Ben").stdout
    for place, name in ((first["session_id"], "Ben"), ("nobody", "Carl"), (coder, "all")):
        with pytest.raises(CorralError) as wrong:
            house.ask("POST", f"/sessions/{place}/names", {"name": name})
        assert wrong.value.name == {"Ben": "conflict", "Carl": "not_found", "all": "invalid_input"}[name]
    assert "nobody" not in {row["session_id"] for row in house.json("session", "list")}


@pytest.mark.req("FR-CLI-004", "FEATURE-1")
def test_work_for_a_session_and_a_feature_say_all_that_the_tools_can(shared_house: Coordinated) -> None:
    house = shared_house
    work = ("--type", "review", "--input", '{"branch": "feat/login"}')
    task = house.json("task", "submit", "--title", "Review it", *work)["task_id"]
    assert house.json("task", "claim", "--type", "docs")["success"] is False
    claimed = house.json("task", "claim", "--type", "review")
    assert (claimed["task_id"], claimed["task_type"]) == (task, "review")
    assert claimed["input_data"] == {"branch": "feat/login"}
    options = ("--claim", "src/api/", "--priority", "1", "--metadata", '{"issue": 12}')
    house.json("feature", "register", "FEAT-1", *options)
    feature = house.json("feature", "show", "FEAT-1")
    assert (feature["merge_priority"], feature["metadata"]) == (1, {"issue": 12})
    assert 'metadata: {"issue": 12}' in house.run("feature", "show", "FEAT-1").stdout
    asked = {"candidate_feature_id": "FEAT-2", "candidate_claims": ["src/api/"]}
    assert house.ask("POST", "/features/analyze", asked)["feasibility"] == "SEQUENTIAL"
    for wrong in (
        ("task", "submit", "--title", "x", "--input", "[1]"),
        ("task", "submit", "--title", "x", "--input", "{"),
        ("feature", "register", "F", "--claim", "x", "--metadata", "1"),
        ("feature", "register", "F", "--claim", "x", "--priority", "1001"),
    ):
        code, error = refused(house, *wrong)
        assert (code, error["name"]) == (2, "invalid_input"), wrong
    assert [row["feature_id"] for row in house.json("feature", "list")] == ["FEAT-1"]


def test_a_worker_is_a_session_with_its_task_and_worktree(shared_house: Coordinated) -> None:
    house = shared_house
    go = house.root.parent / "go"
    task = house.submit("wait for a sign", f"until [ -e {go} ]; do sleep 0.05; done")
    at_work = {"status": "active", "agent_type": "command"}
    (row,) = eventually(
        lambda: [row for row in house.json("session", "list", "--status", "active") if at_work.items() <= row.items()]
    )
    assert row["current_task"] == "wait for a sign"
    assert row["worktree"] == house.json("task", "detail", task)["worktree"]
    assert Path(row["worktree"]).is_dir()
    go.touch()
    house.run("wait", task, "--timeout", "60")


def test_locks_of_a_person_and_of_a_session_their_paths_and_their_end(house: Coordinated) -> None:
    # Paths are meant from the root, or from where one stands; a lock ends by itself.
    house.run("lock", "acquire", "./src//a.py", CLAUDE_CODE_SESSION_ID="one")
    assert [row["file_path"] for row in house.json("lock", "list")] == ["src/a.py"]
    assert house.run("lock", "check", str(house.root / "src" / "a.py"), check=False).returncode == 4
    house.run("lock", "release", "--all", CLAUDE_CODE_SESSION_ID="one")
    house.run("lock", "acquire", "src/a.py", "--ttl", "1", CLAUDE_CODE_SESSION_ID="one")
    eventually(lambda: house.ask("GET", "/locks") == [])
    mine = house.json("lock", "acquire", "src/a.py", "api:GET /v1/users", "--ttl", "90", "--reason", "by hand")["locks"]
    assert [lock["file_path"] for lock in mine] == ["api:GET /v1/users", "src/a.py"] or len(mine) == 2
    assert all(set(row) >= LOCK for row in house.json("lock", "list"))
    row = next(row for row in house.json("lock", "list") if row["file_path"] == "src/a.py")
    assert (row["exclusive"], row["reason"]) == (True, "by hand")
    # The person's own are free for the person, and held for a session.
    assert house.run("lock", "check", "src/a.py", "src/b.py").returncode == 0
    asked = house.run("lock", "check", "src/*.py", "README.md", "--json", check=False, CLAUDE_CODE_SESSION_ID="one")
    assert asked.returncode == 4
    answers = {answer["file_path"]: answer for answer in json.loads(asked.stdout)}
    assert answers["src/*.py"]["locked"] and not answers["README.md"]["locked"]
    assert answers["src/*.py"]["conflicts"][0]["holder"] == row["locked_by"]
    assert house.json("lock", "release", "src/a.py", CLAUDE_CODE_SESSION_ID="one")["released"] == []
    # Shared ones stand beside each other, and keep an exclusive one out.
    house.run("lock", "acquire", "src/b.py", "--shared", CLAUDE_CODE_SESSION_ID="one")
    house.run("lock", "acquire", "src/b.py", "--shared", CLAUDE_CODE_SESSION_ID="two")
    assert refused(house, "lock", "acquire", "src/b.py")[0] == 4
    holders = {row["session_id"] for row in house.json("lock", "list") if row["file_path"] == "src/b.py"}
    assert holders == {"one", "two"}
    assert house.json("lock", "release", "src/a.py")["released"] == ["src/a.py"]
    assert house.json("lock", "release", "--all")["released"] == ["api:GET /v1/users"]
    assert {row["session_id"] for row in house.json("lock", "list")} == {"one", "two"}
