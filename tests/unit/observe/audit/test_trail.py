"""The chain of the audit: what breaks it and where, what of a deed is kept, what retention leaves verifiable."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corral.config.paths import Project
from corral.core.events import EventKind
from corral.observe.audit import reading, tool_calls, trail
from corral.observe.audit import store as audit_rows
from corral.observe.audit import writing as upkeep
from corral.observe.audit.trail import AuditTrail
from corral.observe.audit.writing import AuditWriter
from corral.store import events
from corral.store.engine.database import Database
from corral.store.migrate import open_schema

NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)
KEY = "sk-ant-api03-0123456789-abcdefghij"
TOKEN = "k3PzH2c-vQ9_xN4mT7yB1wLs8rEa5uJd6fGoKiVhXqZ"


class World:
    """A database with the job that writes the audit; a new one goes on where a killed one was."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / ".corral" / "corral.db"
        self.path.parent.mkdir()
        open_schema(self.path)
        self.db = Database(self.path)
        self.restart()

    def restart(self) -> None:
        self.trail = AuditTrail()
        project = Project(self.root, self.root / ".git", self.root / ".corral", bare=False)
        folder = self.root / ".corral" / "state"
        self.job = AuditWriter(self.db, self.trail, project, lambda: folder, {})
        self.export = folder / "analytics" / "audit.jsonl"

    def note(self, number: int, at: datetime = NOW) -> None:
        self.trail.note(at, f"task.step{number}", session_id="s", parameters={"number": number})

    def step(self) -> None:
        while self.job.step(NOW) is not None:
            pass

    def verify(self) -> list[tuple[int, str]]:
        verdict = reading.verify(self.db.read)
        assert verdict["valid"] == (not verdict["problems"])
        return [(problem["seq"], problem["problem"]) for problem in verdict["problems"]]

    def tamper(self, *statements: str) -> None:
        """Change the file as somebody does who has it, and knows of the triggers."""
        with closing(sqlite3.connect(self.path)) as raw:
            for name in ("audit_lines_changed", "audit_lines_deleted"):
                raw.execute(f"DROP TRIGGER IF EXISTS {name}")
            for statement in statements:
                raw.execute(statement)
            raw.commit()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.db.close()


def again(seq: int, **change: Any) -> Callable[[World], None]:
    """Write a line again with a hash that fits its new content."""

    def forge(world: World) -> None:
        row = next(row for row in world.db.read(lambda conn: audit_rows.following(conn, 0, 10)) if row["seq"] == seq)
        digest = trail.digest({**row, **change})
        values = ", ".join(f"{name} = '{value}'" for name, value in {**change, "hash": digest}.items())
        world.tamper(f"UPDATE audit_lines SET {values} WHERE seq = {seq}")

    return forge


COPY = (
    "INSERT INTO audit_lines SELECT 6, at, agent_id, session_id, task_id, action, parameters, result, hash, hash "
    "FROM audit_lines WHERE seq = 5"
)


@pytest.mark.req("FR-MONITOR-004")
@pytest.mark.parametrize(
    ("tampering", "expected"),
    [
        ("UPDATE audit_lines SET result = '{}' WHERE seq = 3", [(3, "changed: its hash")]),
        ("UPDATE audit_lines SET agent_id = 'Other' WHERE seq = 5", [(5, "changed: its hash")]),
        (again(3, result="{}"), [(4, "it does not follow")]),
        (again(5, result="{}"), [(5, "changed: it is not the line")]),
        ("DELETE FROM audit_lines WHERE seq = 2", [(3, "line 2 was removed")]),
        ("DELETE FROM audit_lines WHERE seq IN (1, 2)", [(3, "lines 1 to 2 were removed")]),
        ("DELETE FROM audit_lines WHERE seq > 3", [(4, "lines 4 to 5 were removed")]),
        (COPY, [(6, "changed: its hash"), (6, "line 6 was inserted")]),
    ],
)
def test_a_changed_removed_or_inserted_line_is_named(
    world: World, tampering: str | Callable[[World], None], expected: list[tuple[int, str]]
) -> None:
    for number in range(1, 6):
        world.note(number)
    world.step()
    assert world.verify() == []
    if isinstance(tampering, str):
        world.tamper(tampering)
    else:
        tampering(world)
    problems = world.verify()
    assert [seq for seq, _ in problems] == [seq for seq, _ in expected], problems
    assert all(problem.startswith(words) for (_, problem), (_, words) in zip(problems, expected, strict=True)), problems


LOST = "the record of the newest line was removed"


@pytest.mark.req("FR-MONITOR-004")
@pytest.mark.parametrize("removed", ["audit_lines WHERE seq > 3", "audit_lines"])
def test_lines_that_were_removed_with_the_record_of_the_newest_are_noticed(world: World, removed: str) -> None:
    assert world.verify() == [], "a new database has no lines, and nothing is missing"
    world.db.write(lambda conn: events.record(conn, NOW, EventKind.WORK_PAUSED({"reason": "r"})))
    for number in range(1, 6):
        world.note(number)
    world.step()
    world.tamper(f"DELETE FROM {removed}", "DELETE FROM audit_chain")
    ((seq, problem),) = world.verify()
    assert (seq, problem.startswith(LOST)) == (0, True), problem
    world.restart()
    world.note(6)
    world.step()
    assert len(world.verify()) == 1, world.verify()
    ((_, problem),) = world.verify()
    assert problem == "lines before it, or the record of the newest one, were removed"
    world.note(7)
    world.step()
    assert len(world.verify()) == 1, "what comes later is not blamed"


def test_events_that_give_no_line_leave_nothing_that_looks_like_lost_lines(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "FAR_BEHIND", 1)
    event = EventKind.LOCK_ACQUIRED({"paths": [], "exclusive": True, "automatic": True, "checkout": None})
    for _ in range(3):
        world.db.write(lambda conn: events.record(conn, NOW, event))
    world.step()
    assert world.verify() == []
    world.note(1)
    world.step()
    assert world.verify() == []


def test_the_database_refuses_to_change_a_line_or_to_delete_one_that_retention_did_not_count(world: World) -> None:
    for number in range(3):
        world.note(number)
    world.step()
    with closing(sqlite3.connect(world.path)) as raw:
        for statement in ("UPDATE audit_lines SET at = ''", "DELETE FROM audit_lines WHERE seq = 1"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(statement)


@pytest.mark.req("NFR-COMP-003")
def test_what_retention_removed_is_counted_and_the_rest_verifies(world: World) -> None:
    for number in range(1, 8):
        world.note(number, NOW + timedelta(days=number))
    world.step()
    rows = world.db.read(lambda conn: audit_rows.following(conn, 0, 10))
    world.db.write(lambda conn: audit_rows.remove_until(conn, 3, rows[2]["hash"], "2026-11-24T00:00:00.000Z"))
    verdict = reading.verify(world.db.read)
    assert (verdict["valid"], verdict["lines"], verdict["first_seq"], verdict["removed_until"]) == (True, 4, 4, 3)
    world.note(8)
    world.step()
    assert world.verify() == []
    world.tamper("DELETE FROM audit_lines WHERE seq = 4")
    assert world.verify() == [(5, "line 4 was removed before it")]


def test_each_event_gives_one_line_wherever_the_daemon_dies(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(120):
        kind = EventKind.LOCK_ACQUIRED if number % 3 == 0 else None
        paused = EventKind.WORK_PAUSED({"reason": str(number)})
        event = kind({"paths": [], "exclusive": True, "automatic": True, "checkout": None}) if kind else paused
        world.db.write(partial(events.record, at=NOW, event=event))
    world.job.step(NOW)  # one page of several, and no stop
    world.restart()
    world.step()
    world.step()
    rows = world.db.read(lambda conn: audit_rows.following(conn, 0, 1000))
    reasons = [json.loads(row["parameters"])["reason"] for row in rows]
    assert reasons == [str(number) for number in range(120) if number % 3], (
        "lock.acquired says again what a request says"
    )
    assert world.verify() == []
    exported = [json.loads(line) for line in world.export.read_text().splitlines()]
    assert [line["seq"] for line in exported] == [row["seq"] for row in rows]
    for line in exported:  # anybody can check the chain by what docs/audit.md says
        text = {
            name: json.dumps(line[name], sort_keys=True, separators=(",", ":")) for name in ("parameters", "result")
        }
        assert trail.digest({**line, "at": line["timestamp"], **text}) == line["hash"]
    with world.export.open("a") as file:
        file.write('{"seq": 9')
    world.note(1)
    world.step()
    assert json.loads(world.export.read_text().splitlines()[-1])["action"] == "task.step1"
    world.export.unlink()
    world.note(2)
    world.step()
    again = [json.loads(line)["seq"] for line in world.export.read_text().splitlines()]
    assert again == [*range(1, len(rows) + 3)], "what somebody deleted is written again"


def test_what_cannot_be_written_waits_and_what_is_too_much_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "MOST_WAITING", 3)
    for number in range(5):
        world.note(number)
    with monkeypatch.context() as broken:
        broken.setattr(audit_rows, "append", lambda *_given: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            world.job.step(NOW)
    world.step()
    rows = world.db.read(lambda conn: audit_rows.following(conn, 0, 10))
    assert [row["action"] for row in rows] == ["task.step0", "task.step1", "task.step2", "audit.lines_lost"]
    assert json.loads(rows[-1]["parameters"]) == {"count": 2}


def test_a_deed_that_cannot_be_told_takes_no_other_with_it(world: World) -> None:
    world.note(1)
    world.trail.note_later(lambda: (_ for _ in ()).throw(ValueError("no JSON")))
    world.note(2)
    with pytest.raises(ValueError, match="no JSON"):
        world.job.step(NOW)
    world.step()
    rows = world.db.read(lambda conn: audit_rows.following(conn, 0, 10))
    assert [row["action"] for row in rows] == ["task.step1", "task.step2"]


def test_of_a_tool_call_neither_secrets_nor_the_content_of_files_are_kept_and_no_line_is_long(world: World) -> None:
    tool_input = {
        "file_path": "/r/a.py", "content": "print('this is in the file')", "api_key": "short",
        "command": f"TOKEN={KEY} curl https://user:{KEY}@example.org", "edits": [{"old_string": "x"}],
        "sender_token": TOKEN, "agent_token": TOKEN, "uri": f"resource://inbox/Ann?agent_token={TOKEN}&limit=1",
        **{f"more{number}": "y" * 5000 for number in range(10)},
    }  # fmt: skip
    for use in ("u1", "u1", "", ""):
        error = f"no {KEY}: registration_token={TOKEN}"
        tool_calls.note(world.trail, NOW, "Write", tool_input, session_id="s", use_id=use, error=error)
    world.step()
    lines = world.db.read(lambda conn: audit_rows.following(conn, 0, 10))
    assert len(lines) == 3, "a call is noted once, and one without an id always"
    kept = json.loads(lines[0]["parameters"])
    assert kept["content"] == "(28 characters)" and kept["file_path"] == "/r/a.py" and kept["api_key"] == "[redacted]"
    assert all(len(row["parameters"]) <= trail.MOST_TEXT and len(row["result"]) <= trail.MOST_TEXT for row in lines)
    assert kept["uri"] == "resource://inbox/Ann?agent_token=[redacted]&limit=1"
    written = world.path.read_bytes().decode("latin-1") + world.export.read_text()
    assert KEY not in written and TOKEN not in written


def test_the_calls_of_a_turn_are_told_once_and_those_that_were_not_named_are_counted(world: World) -> None:
    wrote = {"tool_name": "Write", "tool_use_id": "u1", "tool_input": {"file_path": "/r/a"}}
    tool_calls.note_event(world.trail, NOW, "s", {"hook_event_name": "PostToolUse", **wrote}, "")
    named = [
        wrote,
        {
            "tool_name": "Read",
            "tool_use_id": "u2",
            "tool_input": {"file_path": "/r/b", "pattern": "", "content": "text"},
        },
        {"tool_name": "Glob", "tool_use_id": "u3", "tool_input": "no JSON"},
        {"tool_name": "mcp__plugin_corral_corral__acquire_lock", "tool_use_id": "u4", "tool_input": "{}"},
        {"tool_name": "", "tool_use_id": "", "tool_input": ""},
    ]
    tool_calls.note_event(
        world.trail, NOW, "s", {"hook_event_name": "PostToolBatch", "calls": "7", "tool_calls": named}, ""
    )
    for count in ("", "5", "2", "²", "9" * 5000):
        tool_calls.note_event(
            world.trail, NOW, "s", {"hook_event_name": "PostToolBatch", "calls": count, "tool_calls": named}, ""
        )
    world.step()
    rows = world.db.read(lambda conn: audit_rows.following(conn, 0, 20))
    assert [(row["action"], json.loads(row["parameters"]), json.loads(row["result"])) for row in rows] == [
        ("tool.Write", {"file_path": "/r/a"}, {"status": "ok"}),
        ("tool.Read", {"file_path": "/r/b", "content": "(4 characters)"}, {"status": "called"}),
        ("tool.Glob", {}, {"status": "called"}),
        ("tool.left_out", {"count": 2}, {"status": "called"}),
    ]


def test_the_more_would_be_lost_the_sooner_it_is_written(world: World) -> None:
    for number in range(upkeep.MANY + 3 * upkeep.AT_ONCE):
        world.note(number)
    pauses = []
    while (again := world.job.step(NOW)) is not None:
        pauses.append(again - NOW)
    soon, calm = pauses[0], pauses[-1]
    assert soon < calm < timedelta(milliseconds=100) and pauses.count(soon) == 2
