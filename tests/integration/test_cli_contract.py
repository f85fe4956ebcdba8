"""Every command line of the contract: what it prints for programs, what it exits with, where its errors go."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.errors import CorralError
from tests.conftest import git
from tests.coordinated import Coordinated, eventually

TASK = {"task_id", "title", "status", "priority", "created_at"}
TASK_DETAIL = TASK | {
    "error_code", "error_message", "attempts", "result", "worktree", "branch", "usage", "merge"
}  # fmt: skip
USAGE = {"input_tokens", "output_tokens", "cost_usd", "turns"}
MERGE_OF_TASK = {"merge_id", "state", "landed_sha", "receipt"}
RECEIPT = {"status", "tree", "commands", "exit_code", "tests", "duration_s", "log"}
MERGE = {"merge_id", "task_id", "branch", "target", "state", "reason"}
SESSION = {"session_id", "agent_name", "agent_type", "status", "current_task", "worktree", "last_heartbeat"}
LOCK = {"file_path", "locked_by", "session_id", "exclusive", "reason", "expires_at"}
ENVELOPE = {"code", "name", "message", "cause", "remedy", "details"}
NOBODY: dict[str, Any] = {"CORRAL_SESSION_ID": "", "CLAUDE_CODE_SESSION_ID": ""}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


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


@pytest.mark.req("FR-CLI-004", "FR-QUEUE-001", "FR-QUEUE-002", "FR-QUEUE-004")
def test_a_task_that_landed_as_every_command_shows_it(house: Coordinated) -> None:
    answer = house.json("task", "submit", "--title", "hello", "--command", "echo hello > hello.txt", "--priority", "7")
    task_id = answer["task_id"]
    waited = house.json("wait", task_id, "--timeout", "60")
    assert waited == {
        "tasks": [{"task_id": task_id, "status": "completed", "merge_state": "landed"}],
        "merges": [],
        "done": True,
    }
    (row,) = house.json("task", "list")
    assert set(row) == TASK
    assert (row["task_id"], row["title"], row["status"], row["priority"]) == (task_id, "hello", "completed", 7)
    detail = house.json("task", "detail", task_id)
    assert set(detail) >= TASK_DETAIL
    assert {key: detail[key] for key in TASK} == row
    assert set(detail["usage"]) == USAGE
    assert detail["attempts"] == 1
    assert (detail["error_code"], detail["error_message"]) == (None, None)
    merge = detail["merge"]
    assert set(merge) >= MERGE_OF_TASK
    assert merge["state"] == "landed"
    assert merge["landed_sha"] == git(house.root, "rev-parse", "main")
    receipt = merge["receipt"]
    assert set(receipt) >= RECEIPT
    assert (receipt["status"], receipt["commands"], receipt["exit_code"]) == ("passed", ["true"], 0)
    assert receipt["tree"] == git(house.root, "rev-parse", "main^{tree}")
    assert (house.root / receipt["log"]).is_file()
    assert (house.root / "hello.txt").read_text() == "hello\n"
    (listed,) = house.json("merge", "list")
    assert set(listed) == MERGE
    assert listed == {
        "merge_id": merge["merge_id"], "task_id": task_id, "branch": detail["branch"], "target": "main",
        "state": "landed", "reason": None,
    }  # fmt: skip
    assert house.json("merge", "detail", merge["merge_id"])["receipt"] == receipt


def test_a_task_that_changes_nothing_has_no_merge_and_is_done(house: Coordinated) -> None:
    task = house.submit("look", "true")
    assert house.json("wait", task, "--timeout", "60") == {
        "tasks": [{"task_id": task, "status": "completed", "merge_state": None}],
        "merges": [],
        "done": True,
    }
    assert house.json("task", "detail", task)["merge"] is None
    assert house.json("merge", "list") == []


def test_without_a_verification_the_receipt_says_so_wherever_it_is_shown(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(verify=())
    task = house.submit("hello", "echo hello > hello.txt")
    house.run("wait", task, "--timeout", "60")
    receipt = house.json("task", "detail", task)["merge"]["receipt"]
    assert receipt["status"] == "unverified"
    assert (receipt["commands"], receipt["exit_code"], receipt["tests"]) == ([], None, None)
    assert "unverified" in house.run("task", "detail", task).stdout
    assert "unverified" in house.run("status").stdout
    assert house.json("status")["verified"] is False


@pytest.mark.req("FR-CLI-004")
def test_every_list_is_an_array_even_when_it_is_empty(house: Coordinated) -> None:
    for noun in ("task", "merge", "session", "lock", "worktree"):
        assert house.json(noun, "list") == []
        assert house.run(noun, "list").stdout.strip()
    assert house.json("worktree", "recover") == []
    assert house.json("wait", "--all") == {"tasks": [], "merges": [], "done": True}


@pytest.mark.req("FR-CLI-006")
def test_unknown_ids_of_every_noun_exit_with_3(house: Coordinated) -> None:
    commands = [
        ("task", "detail", UNKNOWN), ("task", "cancel", UNKNOWN), ("task", "retry", UNKNOWN),
        ("task", "reprioritize", UNKNOWN, "3"), ("task", "logs", UNKNOWN), ("wait", UNKNOWN),
        ("merge", "detail", UNKNOWN), ("merge", "retry", UNKNOWN), ("merge", "cancel", UNKNOWN), ("merge", "log", UNKNOWN),
        ("merge", "submit", "no-such-branch"), ("merge", "submit", "main", "--target", "no-such-branch"),
        ("worktree", "remove", "nobody"), ("worktree", "recover", "nobody"),
        ("worktree", "create", "fresh", "--base", "no-such-branch"),
        ("init", "--target", "no-such-branch", "--yes"),
    ]  # fmt: skip
    for command in commands:
        code, error = refused(house, *command)
        assert (code, error["name"]) == (3, "not_found"), command
    assert house.json("worktree", "list") == []


@pytest.mark.req("FR-CLI-006", "FR-QUEUE-006")
def test_wrong_values_exit_with_2_and_change_nothing(house: Coordinated) -> None:
    commands = [
        ("task", "submit", "--title", "x"),
        ("task", "submit", "--title", "x", "--command", "true", "--prompt", "both"),
        ("task", "submit", "--title", "  ", "--command", "true"),
        ("task", "submit", "--title", "x", "--command", "true", "--runner", "claude"),
        ("task", "submit", "--title", "x", "--command", "true", "--timeout", "0"),
        ("task", "submit", "--title", "x", "--command", "true", "--claims", "../outside"),
        ("task", "submit", "--title", "x", "--command", "true", "--wait-for", UNKNOWN),
        ("wait",), ("wait", "--all", UNKNOWN), ("lock", "release"), ("lock", "acquire", "../outside"),
        ("lock", "acquire", "a", "--ttl", "-1"), ("merge", "submit", "main"), ("worktree", "create", "../outside"),
        ("-C", "/no/such/folder", "task", "list"),
    ]  # fmt: skip
    for command in commands:
        code, error = refused(house, *command)
        assert (code, error["name"]) == (2, "invalid_input"), command
    for command in (
        ("task", "submit", "--title", "x", "--command", "true", "--priority", "11"), ("task", "nonsense"), ("nonsense",),
        ("task", "list", "--status", "asleep"), ("merge", "list", "--state", "asleep"),
        ("session", "list", "--status", "asleep"), ("task", "submit", "--command", "true"), ("task", "detail"),
        ("wait", "--all", "--timeout", "-1"),
        ("task", "submit", "--title", "x", "--command", "true", "--runner", "abacus"),
    ):  # fmt: skip
        done = house.run(*command, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.strip()
    assert house.json("task", "list") == house.json("lock", "list") == house.json("worktree", "list") == []


def test_what_contradicts_the_present_state_exits_with_4(house: Coordinated) -> None:
    task = house.submit("hello", "echo hello > hello.txt")
    house.run("wait", task, "--timeout", "60")
    merge = house.json("merge", "list")[0]["merge_id"]
    house.run("lock", "acquire", "src/a.py", CLAUDE_CODE_SESSION_ID="one")
    house.run("worktree", "create", "mine", CLAUDE_CODE_SESSION_ID="one")
    commands = [
        ("task", "cancel", task), ("task", "retry", task), ("task", "reprioritize", task, "3"),
        ("merge", "cancel", merge), ("merge", "retry", merge), ("lock", "acquire", "src/a.py"),
        ("worktree", "create", "mine"), ("worktree", "remove", "mine"), ("init", "--yes", "--verify", "false"),
    ]  # fmt: skip
    for command in commands[:-2]:
        code, error = refused(house, *command)
        assert code == 4, (command, error)
    assert refused(house, *commands[-1])[0] == 4
    held = refused(house, "lock", "acquire", "src/a.py", "src/b.py")[1]
    assert held["name"] == "lock_held"
    assert [one["file_path"] for one in house.json("lock", "list")] == ["src/a.py"]


def test_an_error_has_one_name_on_the_command_line_and_over_http(house: Coordinated) -> None:
    house.hook("SessionStart", "someone")
    house.run("message", "send", "all", "s", "x", "--idempotency-key", "k")
    for command, expected in (
        (("Nobody", "s", "x"), (3, "recipient_not_found")),
        (("all", "s", "y", "--idempotency-key", "k"), (4, "idempotency_key_conflict")),
    ):
        code, error = refused(house, "message", "send", *command)
        assert (code, error["name"]) == expected


def test_what_needs_the_daemon_exits_with_5_when_there_can_be_none(house: Coordinated) -> None:
    logs = house.root / ".corral" / "logs"
    logs.rename(logs.with_name("kept"))
    logs.write_text("in the way")
    for command in (("task", "list"), ("status",), ("daemon", "start")):
        code, error = refused(house, *command)
        assert (code, error["name"]) == (5, "daemon_unreachable"), command
    logs.unlink()
    logs.with_name("kept").rename(logs)


@pytest.mark.req("FR-CLI-006")
def test_errors_for_people_have_a_code_a_cause_and_a_remedy(house: Coordinated) -> None:
    done = house.run("task", "detail", UNKNOWN, check=False)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: ") and lines[0].endswith("[CORRAL-ERR-003]")
    assert lines[1].startswith("  cause:  ") and lines[2].startswith("  remedy: ")
    assert len(lines) == 3
    assert "Traceback" in house.run("--debug", "task", "detail", UNKNOWN, check=False).stderr


def test_the_daemon_commands(house: Coordinated) -> None:
    started = house.json("daemon", "start")
    status = house.json("daemon", "status")
    assert status == started
    assert set(status) >= {"running", "pid", "address", "version"}
    assert status["running"] is True and status["pid"] == house.daemon_pid()
    assert house.json("daemon", "start")["pid"] == status["pid"]
    assert house.json("daemon", "restart")["pid"] != status["pid"]
    assert any(json.loads(line)["event"] == "started" for line in house.run("daemon", "logs").stdout.splitlines())
    assert any(entry["event"] == "started" for entry in house.json("daemon", "logs"))
    assert house.json("daemon", "stop") == {"stopped": True, "running": False}
    assert house.json("daemon", "stop") == {"stopped": False, "running": False}
    off = house.run("daemon", "status", "--json", check=False)
    assert off.returncode == 5
    assert json.loads(off.stdout)["running"] is False and json.loads(off.stdout)["pid"] is None


def test_sessions_are_listed_disconnected_ones_too_and_by_status(house: Coordinated) -> None:
    house.hook("SessionStart", "here", source="startup")
    house.hook("SessionStart", "gone", source="startup")
    house.hook("SessionEnd", "gone", reason="other")
    rows = {row["session_id"]: row for row in house.json("session", "list")}
    assert set(rows) == {"here", "gone"}
    assert all(set(row) >= SESSION for row in rows.values())
    assert rows["here"]["status"] in ("active", "idle") and rows["gone"]["status"] == "disconnected"
    assert rows["here"]["worktree"] == str(house.root)
    assert rows["here"]["agent_name"] and rows["here"]["agent_name"] != rows["gone"]["agent_name"]
    assert [row["session_id"] for row in house.json("session", "list", "--status", "disconnected")] == ["gone"]


@pytest.mark.req("SESSION-2", "DISCOVER-2", "HEARTBEAT-1", "REGISTER-1", "REGISTER-2")
def test_a_program_in_a_shell_is_a_session_like_any_other(house: Coordinated) -> None:
    code, error = refused(house, "session", "heartbeat", **NOBODY)
    assert (code, error["name"]) == (2, "invalid_input") and "corral session register" in error["remedy"]
    said = (
        "--name",
        "Sisyphus",
        "--capability",
        "python",
        "--capability",
        "review",
        "--task",
        "Orchestrator - Batch 7",
    )
    first = house.json("session", "register", *said, "--program", "opencode", **NOBODY)
    me = {"CORRAL_SESSION_ID": first["session_id"]}
    assert (first["agent_name"], first["agent_type"], first["status"]) == ("Sisyphus", "shell", "active")
    assert (first["capabilities"], first["program"]) == (["python", "review"], "opencode")
    again = house.json("session", "register", "--task", "Wait for the rest", **me)
    assert (again["session_id"], again["agent_name"], again["agent_type"]) == (first["session_id"], "Sisyphus", "shell")
    assert (again["current_task"], again["capabilities"]) == ("Wait for the rest", ["python", "review"])
    assert house.json("session", "heartbeat", **me) == {"success": True, "session_id": first["session_id"]}
    (found,) = house.json("session", "list", "--capability", "review")
    assert found["last_heartbeat"] > again["last_heartbeat"] and found["names"] == []
    shown = house.run("session", "register", "--task", "Executing t-1", **NOBODY).stdout
    coder = shown.split()[-1].removeprefix("CORRAL_SESSION_ID=")
    assert re.fullmatch(r"[A-Z][a-z]+[A-Z][a-z]+", shown.split()[0])
    bound = house.ask("POST", f"/sessions/{coder}/names", {"name": "Ben", "program": "opencode-coder", "model": "m-1"})
    assert (bound["name"], bound["program"], bound["model"]) == ("Ben", "opencode-coder", "m-1")
    who = house.json("session", "show", "ben")
    assert (who["session_id"], who["current_task"], who["names"]) == (coder, "Executing t-1", ["Ben"])
    assert [(one["name"], one["program"]) for one in who["registered"]] == [("Ben", "opencode-coder")]
    assert "opencode-coder with m-1 as Ben" in house.run("session", "show", "Ben").stdout
    for place, name in ((first["session_id"], "Ben"), ("nobody", "Carl"), (coder, "all")):
        with pytest.raises(CorralError) as wrong:
            house.ask("POST", f"/sessions/{place}/names", {"name": name})
        assert wrong.value.name == {"Ben": "conflict", "Carl": "not_found", "all": "invalid_input"}[name]
    assert "nobody" not in {row["session_id"] for row in house.json("session", "list")}


@pytest.mark.req("FR-CLI-004", "FEATURE-1")
def test_work_for_a_session_and_a_feature_say_all_that_the_tools_can(house: Coordinated) -> None:
    work = ("--type", "review", "--input", '{"branch": "feat/login"}')
    task = house.json("task", "submit", "--title", "Review it", *work)["task_id"]
    assert house.json("task", "claim", "--type", "docs")["success"] is False
    claimed = house.json("task", "claim", "--type", "review")
    assert (claimed["task_id"], claimed["task_type"]) == (task, "review")
    assert claimed["input_data"] == {"branch": "feat/login"}
    said = ("--claim", "src/api/", "--priority", "1", "--metadata", '{"issue": 12}')
    house.json("feature", "register", "FEAT-1", *said)
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


def test_a_worker_is_a_session_with_its_task_and_worktree(house: Coordinated) -> None:
    go = house.root.parent / "go"
    task = house.submit("wait for a sign", f"until [ -e {go} ]; do sleep 0.05; done")
    (row,) = eventually(lambda: house.json("session", "list", "--status", "active"))
    assert row["agent_type"] == "command"
    assert row["current_task"] == "wait for a sign"
    assert row["worktree"] == house.json("task", "detail", task)["worktree"]
    assert Path(row["worktree"]).is_dir()
    go.touch()
    house.run("wait", task, "--timeout", "60")


def test_locks_of_a_person_and_of_a_session(house: Coordinated) -> None:
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


def test_a_lock_expires_by_itself(house: Coordinated) -> None:
    house.run("lock", "acquire", "src/a.py", "--ttl", "1", CLAUDE_CODE_SESSION_ID="one")
    eventually(lambda: house.json("lock", "list") == [], 10)
    house.run("lock", "acquire", "src/a.py")


def test_paths_are_meant_from_the_root_wherever_one_stands_or_from_where_one_stands(house: Coordinated) -> None:
    house.run("lock", "acquire", "./src//a.py", CLAUDE_CODE_SESSION_ID="one")
    assert [row["file_path"] for row in house.json("lock", "list")] == ["src/a.py"]
    assert house.run("lock", "check", str(house.root / "src" / "a.py"), check=False).returncode == 4


def test_the_plugin_path_needs_no_repository(house: Coordinated, tmp_path: Path) -> None:
    done = house.run("plugin", "path", cwd=tmp_path)
    (line,) = done.stdout.splitlines()
    assert Path(line).is_absolute()
    assert (Path(line) / ".claude-plugin" / "plugin.json").is_file()
    assert house.json("plugin", "path", cwd=tmp_path) == {"path": line}


def test_status_doctor_and_the_bare_command(house: Coordinated) -> None:
    answer = house.json("status")
    assert answer["target"] == "main" and answer["verified"] is True
    assert house.run().stdout == house.run("status").stdout
    checks = house.json("doctor")
    assert {check["status"] for check in checks} <= {"ok", "warning"}
    assert {"check", "status", "message", "remedy"} == set(checks[0])
    outside = house.run("doctor", "--json", check=False, cwd=Path("/"))
    assert outside.returncode == 1
    assert [check["status"] for check in json.loads(outside.stdout) if check["check"] == "project"] == ["error"]


def test_ids_may_be_shortened_and_where_one_stands_does_not_matter(house: Coordinated, tmp_path: Path) -> None:
    task = house.submit("hello", "echo hello > hello.txt")
    house.run("wait", task[:8], "--timeout", "60")
    merge = house.json("task", "detail", task[:8], cwd=house.root / "src")["merge"]["merge_id"]
    assert house.json("merge", "detail", merge[:8])["merge_id"] == merge
    git(house.root, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert house.json("task", "detail", task, cwd=tmp_path / "linked")["task_id"] == task
    assert house.json("-C", str(house.root), "task", "detail", task, cwd=Path("/"))["task_id"] == task


def test_logs_for_programs(house: Coordinated) -> None:
    task = house.submit("speak", "echo spoken; echo x > x")
    house.run("wait", task, "--timeout", "60")
    merge = house.json("merge", "list")[0]["merge_id"]
    assert "spoken" in house.run("task", "logs", task).stdout
    said = house.json("task", "logs", task)
    assert "spoken" in said["text"] and said["complete"] is True
    assert house.json("merge", "log", merge)["complete"] is True


def test_text_of_others_is_shown_and_not_obeyed(house: Coordinated) -> None:
    house.run("lock", "acquire", "src/a.py", "--reason", "\x1b[2Jgone\x07")
    shown = house.run("lock", "list").stdout
    assert "\x1b" not in shown and "\x07" not in shown
    assert "gone" in shown


@pytest.mark.req("FR-CLI-005")
def test_on_a_terminal_waiting_shows_what_it_waits_for_and_quiet_does_not(house: Coordinated) -> None:
    task = house.submit("long", "sleep 600")
    assert "waiting for 1 of 1" in _on_a_terminal(house, "wait", task, "--timeout", "2")
    assert "waiting for" not in _on_a_terminal(house, "--quiet", "wait", task, "--timeout", "2")
    house.run("task", "cancel", task)


def _on_a_terminal(house: Coordinated, *args: str) -> str:
    """What a command writes to stderr when that is a terminal."""
    ours, theirs = pty.openpty()
    source = str(Path(__file__).resolve().parents[2] / "daemon")
    process = subprocess.Popen(
        [sys.executable, "-m", "corral", *args],
        cwd=house.root,
        env={**os.environ, "PYTHONPATH": source, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    said, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        if not select.select([ours], [], [], 1.0)[0]:
            continue
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        said += part
    os.close(ours)
    process.wait(30)
    return said.decode("utf-8", "replace")
