"""The letters about tasks and batches, one by one: to whom they go, what they carry, when they wait."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection, insert, update
from sqlalchemy.event import listen

from corral.config.sections.work import Tasks
from corral.coordination.mail import contacts, mailbox, messages
from corral.coordination.mail.addresses import MOST_RECIPIENTS, Identity
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.core.event_payloads import MessagesUnseen, TaskSetback
from corral.core.events import TASK_SETBACKS, EventKind
from corral.core.instants import iso
from corral.core.states import Importance
from corral.git.process.command import open_repository
from corral.observe.announcements import store as announcements
from corral.observe.announcements.announcing import KINDS, SAVED_WITHIN, Announcer, send, written
from corral.store import events
from corral.store.engine.database import Database
from corral.store.rows.mail import InboxMessage
from corral.store.rows.records import EventRow
from corral.store.schema import tasks as task_table
from corral.store.schema import worktrees as worktree_table
from corral.work.tasks import tasks, views
from corral.work.tasks.store import tasks as task_rows
from corral.work.tasks.wire import read_submissions
from tests.conftest import git
from tests.unit.coordination.mail import inboxes

ABOUT: EventRow = {
    "event_id": 1, "at": "", "kind": "task.completed", "data": {}, "task_id": None, "session_id": None, "merge_id": None
}  # fmt: skip
COMPLETED = EventKind.TASK_COMPLETED({"attempt": 1, "head_sha": None})


def test_a_letter_that_cannot_be_written_stops_none_that_follow(db: Database, repo: Path) -> None:
    now = datetime.now(timezone.utc)

    def ended(conn: Connection, submitter: str) -> None:
        events.record(conn, now, COMPLETED, task_id=_submitted(conn, now, submitted_by=submitter))

    db.write(lambda conn: session_registry.register(conn, Arrival(session_id="boss"), now))
    for submitter in (" nobody finds it ", "boss"):
        db.write(lambda conn, submitter=submitter: ended(conn, submitter))  # type: ignore[misc]
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    (mail,) = inbox(db, "boss")
    assert mail["kind"] == "task.completed"
    (bounced,) = [row for row in db.read(events.listing) if row["kind"] == "message.bounced"]
    assert bounced["task_id"] and bounced["data"]["recipients"] == [" nobody finds it "]


def inbox(db: Database, session_id: str, **which: Any) -> list[InboxMessage]:
    return db.read(lambda conn: inboxes.inbox(conn, session_id, **which))


def _submitted(conn: Connection, now: datetime, **how: Any) -> Any:
    (wanted,) = read_submissions([{"title": "t", "command": "true", **how}])
    return tasks.submit(conn, wanted, now, Tasks())["task_id"]


@pytest.mark.req("MESSAGE-3")
def test_a_batch_with_more_participants_than_a_letter_can_name_is_summed_up_for_each_once(
    db: Database, repo: Path
) -> None:
    now = datetime.now(timezone.utc)
    crowd = [f"s{number}" for number in range(MOST_RECIPIENTS + 1)]

    def end(conn: Connection) -> None:
        for name in crowd:
            session_registry.register(conn, Arrival(session_id=name, task_id="t"), now)  # workers are not counted
            task = _submitted(conn, now, submitted_by=name, thread_id="crowd")
        ended = {"status": "cancelled", "completed_at": iso(now)}
        conn.execute(update(task_table).values(ended))
        for _twice in range(2):
            events.record(conn, now, EventKind.TASK_CANCELLED({"error_code": None}), task_id=task)

    db.write(end)
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    for name in (crowd[0], crowd[-1]):
        (mail,) = inbox(db, name)
        assert mail["kind"] == "batch.settled"
        assert (len(mail["data"]["not_merged"]), mail["data"]["not_merged_count"]) == (50, len(crowd))


def test_all_that_a_session_has_not_seen_of_a_sender_bounces_in_one_letter(db: Database, repo: Path) -> None:
    now = datetime.now(timezone.utc)

    def leave(conn: Connection) -> list[int]:
        for name in ("ann", "ben", "eve"):
            session_registry.register(conn, Arrival(session_id=name), now)
        wrote = [
            messages.send(conn, Identity(name, name), messages.Letter(f"About {n}", "x", to=("ben",)), now).message[
                "seq"
            ]
            for name, many in (("ann", 3), ("eve", 1))
            for n in range(many)
        ]
        session_registry.end(conn, "ben", "exit", now)
        return wrote

    wrote = db.write(leave)
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    (bounce,) = inbox(db, "ann")
    assert bounce["data"]["messages"] == ", ".join(str(number) for number in wrote[:3])
    assert bounce["subject"].startswith("Not delivered: 3 messages to ")
    assert bounce["data"]["messages"] in bounce["body"]
    (single,) = inbox(db, "eve")
    assert (single["subject"], single["data"]["messages"]) == ("Not delivered: About 0", str(wrote[3]))


@pytest.mark.req("MESSAGE-3")
def test_whoever_worked_on_a_batch_is_sent_its_summary_too(db: Database, repo: Path) -> None:
    now = datetime.now(timezone.utc)

    def end(conn: Connection) -> None:
        for name in ("boss", "chief", "coder", "talker", "bystander"):
            session_registry.register(conn, Arrival(session_id=name), now)
        messages.send(
            conn, Identity("talker", "talker"), messages.Letter("Hm", "x", to=("bystander",), thread_id="b"), now
        )
        first = _submitted(conn, now, submitted_by="boss", thread_id="b")
        task = _submitted(conn, now, submitted_by="chief", thread_id="b")
        task_rows.lease(conn, first, session_id="coder", now=iso(now), lease_expires_at=iso(now))
        conn.execute(update(task_table).values(status="completed", completed_at=iso(now)))
        events.record(conn, now, COMPLETED, task_id=task)

    db.write(end)
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    told_to = {
        name: [row["kind"] for row in inbox(db, name)] for name in ("boss", "chief", "coder", "talker", "bystander")
    }
    assert told_to == {
        "boss": ["batch.settled"], "chief": ["batch.settled", "task.completed"], "coder": ["batch.settled"],
        "talker": ["batch.settled"], "bystander": ["message"],
    }  # fmt: skip


@pytest.mark.req("MESSAGE-2")
def test_a_failure_tells_all_that_was_tried_and_all_that_is_left_of_it(db: Database, repo: Path) -> None:
    now = datetime.now(timezone.utc)
    git(repo, "branch", "corral/half")
    head = git(repo, "rev-parse", "HEAD")

    def fail(conn: Connection) -> None:
        session_registry.register(conn, Arrival(session_id="boss"), now)
        task = _submitted(conn, now, submitted_by="boss")
        left = {"branch": "corral/half", "head_sha": head, "progress": "Editing src/a.py", "started_at": iso(now)}
        setback: TaskSetback = {"error_code": "tests_failed", "error_message": "Two tests fail."}
        ended = {"status": "failed", "completed_at": iso(now), "result": {"parsed": 3}, **setback}
        task_rows.lease(conn, task, session_id="w", now=iso(now), lease_expires_at=iso(now))
        task_rows.transition(conn, task, ("running",), ended, attempt=left)
        events.record(conn, now, EventKind.TASK_RETRIED({**setback, "error_message": "One test fails."}), task_id=task)
        events.record(conn, now, EventKind.TASK_FAILED(setback), task_id=task)

    db.write(fail)
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    (mail,) = inbox(db, "boss")
    assert (mail["kind"], mail["importance"]) == ("task.failed", "high")
    data = mail["data"]
    assert data["failure_reason"] == "tests_failed: Two tests fail."
    assert data["partial_progress"] == {
        "last_seen_doing": "Editing src/a.py", "branch": "corral/half", "head_sha": head, "result": {"parsed": 3}
    }  # fmt: skip
    assert [line.split(": ", 1)[1] for line in data["attempted_actions"]] == ["One test fails.", "Two tests fail."]
    for part in (data["task_id"], "Two tests fail.", "One test fails.", "Editing src/a.py", "corral/half", head):
        assert part in mail["body"], part


def test_what_a_letter_carries_of_many_files_is_bounded_and_says_how_many(db: Database, repo: Path) -> None:
    now = datetime.now(timezone.utc)

    def complete(conn: Connection) -> None:
        session_registry.register(conn, Arrival(session_id="boss"), now)
        task = _submitted(conn, now, submitted_by="boss")
        result = {"files_changed": [f"src/{number}.py" for number in range(50_000)]}
        conn.execute(update(task_table).values(status="completed", completed_at=iso(now), result=result))
        events.record(conn, now, COMPLETED, task_id=task)

    db.write(complete)
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    (mail,) = inbox(db, "boss")
    assert (len(mail["data"]["files_changed"]), mail["data"]["files_changed_count"]) == (50, 50_000)
    assert "and 49950 more" in mail["body"]


def test_where_a_batch_stands_is_found_without_looking_at_what_is_not_of_it(db: Database) -> None:
    asked: list[tuple[str, Any]] = []

    def ask(conn: Connection) -> None:
        listen(conn, "before_cursor_execute", lambda _c, _cur, sql, values, _ctx, _many: asked.append((sql, values)))
        announcements.is_open(conn, "a")
        announcements.follows(conn, "a", KINDS, 0)
        announcements.saved(conn, "a", 1)
        announcements.batch(conn, "a")
        for sql, values in list(asked):
            plan = [str(row[3]) for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values)]
            assert not [step for step in plan if step.startswith("SCAN")], plan
            sorts = len([step for step in plan if "TEMP B-TREE" in step])
            assert sorts <= sum("ix_merge_requests_task_id" in step for step in plan), (
                f"more than one task's requests: {plan}"
            )

    db.read(ask)
    assert len(asked) >= 3


def test_whom_a_batch_does_not_reach_its_others_are_told(db: Database, repo: Path) -> None:
    now = datetime.now(timezone.utc)

    def end(conn: Connection) -> str:
        session_registry.register(conn, Arrival(session_id="boss"), now)
        for submitter in ("boss", "left no trace", "all"):
            task = str(_submitted(conn, now, submitted_by=submitter, thread_id="batch"))
            task_rows.lease(conn, task, session_id="a worker", now=iso(now), lease_expires_at=iso(now))
        # Claimed, and over before its worker was a session: nobody expects to reach that one.
        ended = {"status": "failed", "error_code": "x", "completed_at": iso(now)}
        conn.execute(update(task_table).values(ended))
        events.record(conn, now, EventKind.TASK_FAILED({"error_code": "x"}), task_id=task)
        session_registry.register(conn, Arrival(session_id="bystander"), now)
        return task

    task = db.write(end)
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    (mail,) = inbox(db, "boss")
    assert (mail["kind"], mail["data"]["not_delivered_to"]) == ("batch.settled", ["left no trace", "all"])
    assert "- left no trace" in mail["body"]
    assert inbox(db, "bystander") == [], "an id that is called all is not everybody"
    history = db.read(lambda conn: views.detail(conn, task))["history"]
    assert [(row["kind"], row["data"]["kind"], row["data"]["recipients"]) for row in history[-2:]] == [
        ("message.bounced", "task.failed", ["all"]), ("message.bounced", "batch.settled", ["left no trace", "all"])
    ]  # fmt: skip


def test_a_thousand_letters_that_did_not_arrive_are_one_event_and_one_letter(db: Database, repo: Path) -> None:
    now, many = datetime.now(timezone.utc), 1000

    def leave(conn: Connection) -> None:
        for name in ("ann", "ben"):
            session_registry.register(conn, Arrival(session_id=name), now)
        for n in range(many):
            letter = messages.Letter(f"About {n}", "x" * 10_000, to=("ben",))
            messages.send(conn, Identity("ann", "ann"), letter, now + n * timedelta(seconds=1))
        session_registry.end(conn, "ben", "exit", now)

    db.write(leave)
    before = db.read(events.newest)
    announcer = Announcer(db, open_repository(repo / ".git"), lambda: None)
    for _twice in range(2):
        announcer.step(now)
    fresh = db.read(lambda conn: events.listing(conn, after_id=before, limit=10_000))
    assert [row["kind"] for row in fresh] == ["message.bounced", "message.sent"]
    bounced = cast("MessagesUnseen", fresh[0]["data"])
    assert (bounced["sender"], bounced["count"], len(bounced["message_ids"])) == ("ann", many, 50)
    (mail,) = inbox(db, "ann")
    assert mail["subject"].startswith("Not delivered: 1000 messages") and mail["body"].endswith("and 950 more")
    assert len(inbox(db, "ben", limit=1000)) == many, "it reads them when it is back"


def test_the_letter_about_a_failure_waits_until_what_was_made_is_saved_but_not_for_ever(
    db: Database, repo: Path
) -> None:
    now = datetime.now(timezone.utc)

    def fail(conn: Connection) -> str:
        session_registry.register(conn, Arrival(session_id="boss"), now)
        task = str(_submitted(conn, now, submitted_by="boss"))
        conn.execute(update(task_table).values(status="failed", error_code="x", completed_at=iso(now)))
        place = {"worktree_id": "w", "name": "w", "path": "/w", "branch": "b", "base_sha": "0" * 40, "purpose": "task",
                 "provision": {}, "task_id": task, "state": "reclaiming", "created_at": iso(now)}  # fmt: skip
        conn.execute(insert(worktree_table).values(place))
        events.record(conn, now, EventKind.TASK_FAILED({"error_code": "x"}), task_id=task)
        return task

    db.write(fail)
    announcer = Announcer(db, open_repository(repo / ".git"), lambda: None)
    again = announcer.step(now)
    assert again is not None and inbox(db, "boss") == []
    assert announcer.step(again) is not None
    announcer.step(now + SAVED_WITHIN)
    assert len(inbox(db, "boss")) == 1


def test_the_summary_of_a_batch_comes_after_all_that_is_said_of_its_tasks(db: Database, repo: Path) -> None:
    now = datetime.now(timezone.utc)

    def end(conn: Connection) -> None:
        session_registry.register(conn, Arrival(session_id="boss"), now)
        made = [_submitted(conn, now, submitted_by="boss", thread_id="batch") for _ in range(3)]
        conn.execute(update(task_table).values(status="completed", completed_at=iso(now)))
        for task in made:
            events.record(conn, now, COMPLETED, task_id=task)

    db.write(end)
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    mail = db.read(lambda conn: list(mailbox.thread(conn, "batch")))
    assert [message["kind"] for message in reversed(mail)] == ["task.completed"] * 3 + ["batch.settled"]


def test_a_batch_is_summed_up_once_when_tasks_failed_and_once_when_all_is_complete(db: Database, repo: Path) -> None:
    now = datetime.now(timezone.utc)
    minutes = itertools.count()
    announcer = Announcer(db, open_repository(repo / ".git"), lambda: None)

    def end(conn: Connection, task: str, status: str, minute: int) -> None:
        at = iso(now + timedelta(minutes=minute))
        conn.execute(
            update(task_table)
            .where(task_table.c.task_id == task)
            .values(status=status, error_code="x" if status == "failed" else None, completed_at=at)
        )
        event = COMPLETED if status == "completed" else TASK_SETBACKS[status]({"error_code": "x"})
        events.record(conn, now, event, task_id=task)

    def summaries(*ended: tuple[str, str]) -> list[str]:
        for task, status in ended:
            db.write(lambda conn: end(conn, task, status, next(minutes)))  # noqa: B023 - called at once
        announcer.step(now)
        mail = db.read(lambda conn: list(mailbox.thread(conn, "batch")))
        return [
            str(message["data"]["final_status"]) for message in reversed(mail) if message["kind"] == "batch.settled"
        ]

    db.write(lambda conn: session_registry.register(conn, Arrival(session_id="boss"), now))
    made = [db.write(lambda conn: _submitted(conn, now, submitted_by="boss", thread_id="batch")) for _ in range(2)]
    good, bad = map(str, made)
    failed = ["1 of 2 tasks did not succeed"]
    assert summaries((good, "completed"), (bad, "failed")) == failed
    assert summaries((bad, "failed")) == failed
    assert summaries((bad, "completed")) == [*failed, "complete"]
    assert summaries((good, "completed"), (bad, "completed")) == [*failed, "complete"]


def test_a_file_whose_name_is_no_utf_8_is_told_of_as_what_it_is(db: Database) -> None:
    now = datetime.now(timezone.utc)
    letter = written("task.completed", "Done \udcff", {"files": ["f\udcff.txt"]}, None, Importance.NORMAL)

    def tell(conn: Connection) -> None:
        session_registry.register(conn, Arrival(session_id="boss"), now)
        send(conn, letter, ["boss"], ABOUT, now)

    db.write(tell)
    (mail,) = inbox(db, "boss")
    assert (mail["subject"], mail["body"]) == ("Done \\udcff", "files:\n- f\\udcff.txt")
    assert mail["data"] == {"files": ["f\udcff.txt"]}


def test_what_comes_for_a_session_that_is_over_goes_to_whoever_goes_on_under_its_name(db: Database) -> None:
    now = datetime.now(timezone.utc)

    def live(conn: Connection) -> None:
        for session_id, name in (("old", "Orc"), ("ben", "Ben")):
            session_registry.register(conn, Arrival(session_id=session_id, agent_name=name), now)
        messages.send(conn, Identity("old", "Orc"), messages.Letter("Hello", "?", to=("Ben",)), now)
        session_registry.end(conn, "old", "ended", now)
        session_registry.register(conn, Arrival(session_id="new", agent_name="Orc"), now)
        answer = messages.Letter("Re:", "Yes", to=())
        messages.reply(conn, Identity("ben", "Ben"), "1", answer, now)
        letter = written("task.completed", "Done", {"title": "t"}, None, Importance.NORMAL)
        send(conn, letter, ["old"], ABOUT, now)

    db.write(live)
    mail = inbox(db, "new")
    assert [(row["subject"], row["addressed"], row["state"]) for row in mail] == [
        ("Done", "Orc", "queued"),
        ("Re: Hello", "Orc", "queued"),
    ]
    assert inbox(db, "old") == []


def test_of_a_blind_copy_that_did_not_arrive_only_its_sender_learns_and_nobody_who_it_was_for(
    db: Database, repo: Path
) -> None:
    now = datetime.now(timezone.utc)

    def live(conn: Connection) -> None:
        for session_id, name in (("ann", "Ann"), ("ben", "Ben"), ("dee", "Dee")):
            session_registry.register(conn, Arrival(session_id=session_id, agent_name=name), now)
        for thread in ("talk", None):
            letter = messages.Letter("Secret", "x", to=("Ben",), bcc=("Dee",), thread_id=thread)
            messages.send(conn, Identity("ann", "Ann"), letter, now)
        messages.mark_read(conn, "dee", "1", now)
        session_registry.end(conn, "dee", "ended", now)

    db.write(live)
    Announcer(db, open_repository(repo / ".git"), lambda: None).step(now)
    (mail,) = inbox(db, "ann")
    assert mail["subject"] == "Not delivered: Secret" and mail["thread_id"] == mail["message_id"]
    assert not [text for text in (mail["body"], mail["subject"], str(mail["data"])) if "Dee" in text]
    rows = db.read(events.listing)
    assert not [row for row in rows if row["kind"] in ("message.read", "message.acknowledged", "message.bounced")]
    assert [row["to"] for row in db.read(lambda conn: list(contacts.listing(conn, "ann", blind=False)))] == ["Ben"]
    assert {row["to"] for row in db.read(lambda conn: list(contacts.listing(conn, "ann")))} == {"Ben", "Dee"}
