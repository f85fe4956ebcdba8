"""What Corral itself tells whoever submitted work, by the daemon: of tasks, merges, the end of a batch, lost mail; each once."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.instants import parse
from tests.conftest import git
from tests.support.coordinated import Coordinated, eventually, told


def _mail(house: Coordinated, session: str) -> dict[str, list[dict[str, Any]]]:
    events: dict[str, list[dict[str, Any]]] = {}
    for row in house.ask("GET", "/messages", query={"session_id": session, "limit": 100}):
        events.setdefault(row["kind"], []).append(row)
    return events


def _submit(house: Coordinated, title: str, command: str, **how: Any) -> str:
    body = {"title": title, "command": command, "submitted_by": "boss", "max_retries": 0, **how}
    return str(house.ask("POST", "/tasks", body)["task_id"])


@pytest.mark.req("MESSAGE-1", "MESSAGE-2", "MESSAGE-3")
def test_whoever_submitted_is_told_of_each_task_and_merge_and_of_the_batch_once(house: Coordinated) -> None:
    for session in ("boss", "peer", "bystander"):
        house.hook("SessionStart", session)
    note = {"session_id": "peer", "to": ["bystander"], "subject": "On it", "body": "x", "thread_id": "batch-7"}
    house.ask("POST", "/messages", note)
    gate = house.root.parent / "gate"
    wait = f"touch {gate}-$CORRAL_TASK_ID; for n in $(seq 600); do [ -e {gate} ] && break; sleep 0.1; done"
    good = _submit(house, "Say hello", f"{wait}; echo hello > hello.txt", thread_id="batch-7")
    clash = _submit(house, "Clash", f"{wait}; echo other > hello.txt", thread_id="batch-7")
    bad = _submit(house, "Break", "echo half > half.txt; exit 3", thread_id="batch-7")
    eventually(lambda: all(gate.with_name(f"gate-{task}").exists() for task in (good, clash)))
    assert "batch.settled" not in _mail(house, "boss")
    gate.touch()
    eventually(lambda: "batch.settled" in _mail(house, "boss"))
    mail = _mail(house, "boss")
    assert {row["from"] for rows in mail.values() for row in rows} == {"Corral"}
    assert {row["thread_id"] for rows in mail.values() for row in rows} == {"batch-7"}
    done = {row["data"]["task_id"]: row for row in mail["task.completed"]}
    assert set(done) == {good, clash}
    about = done[good]["data"]
    assert (done[good]["importance"], about["files_changed"], len(about["commit_sha"])) == ("normal", ["hello.txt"], 40)
    took = house.ask("GET", f"/tasks/{good}/detail")
    lasted = parse(took["completed_at"]) - parse(took["started_at"])
    assert about["duration_s"] == pytest.approx(lasted.total_seconds(), abs=0.002) and about["duration_s"] > 0
    for part in (good, about["commit_sha"], "- hello.txt", "Duration (s)"):
        assert part in done[good]["body"]
    (failed,) = [*mail.get("task.failed", []), *mail.get("task.dead", [])]
    assert (failed["importance"], failed["data"]["task_id"]) == ("high", bad)
    ended = house.ask("GET", f"/tasks/{bad}/detail")
    assert failed["data"]["failure_reason"] == f"command_failed: {ended['error_message']}"
    left = failed["data"]["partial_progress"]
    assert git(house.root, "show", f"{left['salvage_ref']}:half.txt") == "half"
    assert left["files"] == "half.txt" and left["salvage_ref"] in failed["body"]
    assert "branch" not in left, "it went with the worktree"
    assert left["salvage_ref"] in house.run(*left["recover_with"].split()[1:]).stdout
    assert failed["data"]["attempted_actions"][0].startswith("attempt 1 at ")
    (landed,) = mail["merge.landed"]
    (conflict,) = mail["merge.conflict"]
    assert (landed["importance"], conflict["importance"]) == ("normal", "high")
    assert conflict["data"]["conflicts"][0]["path"] == "hello.txt"
    (summary,) = mail["batch.settled"]
    assert summary["data"]["final_status"] == "2 of 3 tasks did not succeed"
    assert [line.split(" ", 1)[1] for line in summary["data"]["merged_tasks"]] in (["Say hello"], ["Clash"])
    assert "hello.txt" in summary["data"]["conflicts"][0]
    assert [line.split(" ", 1)[0] for line in summary["data"]["not_merged"]] == [bad[:8]]
    assert summary["importance"] == "high"
    (for_peer,) = _mail(house, "peer")["batch.settled"]
    assert for_peer["message_id"] == summary["message_id"], "who wrote in its thread took part in it"
    assert "batch.settled" not in _mail(house, "bystander")
    house.kill_daemon()
    assert {kind: len(rows) for kind, rows in _mail(house, "boss").items()} == {k: len(v) for k, v in mail.items()}
    assert "Task failed: Break" in told(house.hook("UserPromptSubmit", "boss", prompt="x"))


@pytest.mark.parametrize("point", ["announcements.before_letter", "announcements.letter_sent"])
def test_a_daemon_that_dies_over_a_letter_sends_it_once(house: Coordinated, point: str) -> None:
    house.hook("SessionStart", "boss")
    house.run("daemon", "stop")
    house.run("daemon", "start", CORRAL_CRASH_AT=point)
    pid = house.daemon_pid()
    _submit(house, "Say hello", "echo hello > hello.txt")
    eventually(lambda: house.daemon_pid() not in (pid,))
    eventually(lambda: "merge.landed" in _mail(house, "boss"))
    assert {kind: len(rows) for kind, rows in _mail(house, "boss").items()} == {"task.completed": 1, "merge.landed": 1}


@pytest.mark.parametrize("point", ["announcements.before_letter", "announcements.letter_sent"])
def test_a_daemon_that_dies_over_mail_that_did_not_arrive_tells_of_it_once(house: Coordinated, point: str) -> None:
    for session in ("ann", "eve", "ben"):
        house.hook("SessionStart", session)
    names = {row["session_id"]: row["agent_name"] for row in house.ask("GET", "/sessions")}
    house.run("daemon", "stop")
    house.run("daemon", "start", CORRAL_CRASH_AT=point)
    pid = house.daemon_pid()
    for sender in ("ann", "ann", "eve"):
        house.ask("POST", "/messages", {"session_id": sender, "to": [names["ben"]], "subject": "Hello", "body": "x"})
    house.hook("SessionEnd", "ben", reason="prompt_input_exit")
    eventually(lambda: house.daemon_pid() not in (pid,))
    for sender in ("ann", "eve"):
        eventually(lambda sender=sender: "message.bounced" in _mail(house, sender))  # type: ignore[misc]
        assert {kind: len(rows) for kind, rows in _mail(house, sender).items()} == {"message.bounced": 1}
