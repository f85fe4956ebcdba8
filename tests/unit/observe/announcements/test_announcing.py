"""The letter about a task whose branch is an odd one."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, update

from corral.config.sections.work import Tasks
from corral.coordination.mail import mailbox
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.git.process.command import open_repository
from corral.observe.announcements.announcing import Announcer
from corral.store import events
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.rows.mail import InboxMessage
from corral.store.schema import tasks as task_table
from corral.work.merges.store import merges
from corral.work.tasks import tasks
from corral.work.tasks.wire import read_submissions
from tests.conftest import git

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=timezone.utc)


def test_a_branch_that_shares_no_history_with_its_target_stops_no_letter(tmp_path: Path, repo: Path) -> None:
    head = git(repo, "rev-parse", "HEAD")
    open_schema(tmp_path / "corral.db")
    db = Database(tmp_path / "corral.db")

    def complete(conn: Connection) -> None:
        session_registry.register(conn, Arrival(session_id="boss"), NOW)
        (wanted,) = read_submissions([{"title": "t", "command": "true", "submitted_by": "boss"}])
        task = tasks.submit(conn, wanted, NOW, Tasks())["task_id"]
        conn.execute(update(task_table).values(status="completed", completed_at=iso(NOW)))
        about: dict[str, Any] = {"session_id": None, "title": "t", "priority": 5, "target": "main", "base_sha": None}
        merges.submit(conn, task_id=task, branch="side", head_sha=head, now=NOW, **about)
        completed = EventKind.TASK_COMPLETED({"attempt": 1, "head_sha": None})
        events.record(conn, NOW, completed, task_id=task)

    try:
        db.write(complete)
        Announcer(db, open_repository(repo / ".git"), lambda: None).step(NOW)
        (mail,) = cast("list[InboxMessage]", db.read(lambda conn: list(mailbox.inbox(conn, "boss"))))
    finally:
        db.close()
    assert (mail["data"]["commit_sha"], mail["data"]["files_changed"]) == (head, [])
