"""What Corral itself tells whoever submitted work: completions, failures, merges, the end of a batch; each once."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from corral.config.model import Tasks
from corral.coordination import messages, sessions
from corral.coordination.addresses import MOST_RECIPIENTS
from corral.coordination.sessions import Arrival
from corral.git.command import open_repository
from corral.models.tasks import read_submissions
from corral.server.announcements import Announcer, _send
from corral.store import events
from corral.store.engine import Database
from corral.store.migrate import open_schema
from corral.work import tasks
from tests.coordinated import Coordinated, eventually, told


def _mail(house: Coordinated, session: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in house.ask("GET", "/messages", query={"session_id": session, "limit": 100}):
        found.setdefault(row["kind"], []).append(row)
    return found


def _submit(house: Coordinated, title: str, command: str, **how: Any) -> str:
    body = {"title": title, "command": command, "submitted_by": "boss", "max_retries": 0, **how}
    return str(house.ask("POST", "/tasks", body)["task_id"])


@pytest.mark.req("MESSAGE-1", "MESSAGE-2", "MESSAGE-3")
def test_whoever_submitted_is_told_of_each_task_and_merge_and_of_the_batch_once(house: Coordinated) -> None:
    house.hook("SessionStart", "boss")
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
    assert about["duration_s"] > 0
    for part in (good, about["commit_sha"], "- hello.txt", "Duration (s)"):
        assert part in done[good]["body"]
    (failed,) = [*mail.get("task.failed", []), *mail.get("task.dead", [])]
    assert (failed["importance"], failed["data"]["task_id"]) == ("high", bad)
    assert "command_failed" in failed["data"]["failure_reason"] and failed["data"]["partial_progress"]
    assert failed["data"]["attempted_actions"][0].startswith("attempt 1 at ")
    (landed,) = mail["merge.landed"]
    (conflict,) = mail["merge.conflict"]
    assert (landed["importance"], conflict["importance"]) == ("normal", "high")
    assert conflict["data"]["conflicts"][0]["path"] == "hello.txt"
    (summary,) = mail["batch.settled"]
    assert summary["data"]["final_status"] == "2 of 3 tasks did not succeed"
    assert [line.split(" ", 1)[1] for line in summary["data"]["merged_tasks"]] in (["Say hello"], ["Clash"])
    assert "hello.txt" in summary["data"]["conflicts"][0]
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


def test_mail_that_its_reader_has_not_seen_when_it_ends_bounces(house: Coordinated) -> None:
    for session in ("ann", "ben"):
        house.hook("SessionStart", session)
    names = {row["session_id"]: row["agent_name"] for row in house.ask("GET", "/sessions")}
    body = {"session_id": "ann", "to": [names["ben"]], "subject": "Hello", "body": "x"}
    house.ask("POST", "/messages", body)
    house.hook("SessionEnd", "ben", reason="prompt_input_exit")
    eventually(lambda: "message.bounced" in _mail(house, "ann"))
    (bounce,) = _mail(house, "ann")["message.bounced"]
    assert bounce["subject"] == "Not delivered: Hello" and names["ben"] in bounce["body"]
    assert [row["state"] for row in _mail(house, "ben")["message"]] == ["bounced"]


def test_a_letter_that_cannot_be_written_stops_none_that_follow(tmp_path: Path, repo: Path) -> None:
    open_schema(tmp_path / "corral.db")
    db, now = Database(tmp_path / "corral.db"), datetime.now(timezone.utc)

    def ended(conn: Connection, submitter: str) -> None:
        sessions.register(conn, Arrival(session_id=submitter), now)
        (wanted,) = read_submissions([{"title": "t", "command": "true", "submitted_by": submitter}])
        row = tasks.submit(conn, wanted, now, Tasks())
        events.record(conn, now, "task.completed", task_id=row["task_id"])

    for submitter in (" nobody finds it ", "boss"):
        db.write(lambda conn, submitter=submitter: ended(conn, submitter))  # type: ignore[misc]
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    (mail,) = db.read(lambda conn: messages.inbox(conn, "boss"))
    assert mail["kind"] == "task.completed"
    db.close()


def test_what_more_take_part_in_than_one_letter_can_name_is_told_in_several(tmp_path: Path) -> None:
    open_schema(tmp_path / "corral.db")
    db, now = Database(tmp_path / "corral.db"), datetime.now(timezone.utc)
    crowd = [f"s{number}" for number in range(MOST_RECIPIENTS + 1)]

    def tell(conn: Connection) -> None:
        for one in crowd:
            sessions.register(conn, Arrival(session_id=one), now)
        _send(conn, messages.Letter("All done", "Everything landed.", kind="batch.settled"), list(crowd), now)

    db.write(tell)
    for one in (crowd[0], crowd[-1]):
        assert len(db.read(lambda conn, one=one: messages.inbox(conn, one))) == 1  # type: ignore[misc]
    db.close()
