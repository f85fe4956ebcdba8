"""The log that is copied into the evidence has no secrets, also where it is cut and before they are overwritten in it."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from corral.config.paths import Project
from corral.config.sections.work import Supervisor
from corral.core.events import EventKind
from corral.git.process.command import Git
from corral.observe.exports.evidence import FAR_BEHIND, MOST_OF_A_LOG, Evidence, end_of_log
from corral.store import events
from corral.store.engine.database import Database
from corral.store.migrate import open_schema

KEY = "sk-ant-api03-verified-0123456789abcde"


@pytest.mark.req("NFR-SEC-001")
def test_the_end_of_a_log_has_no_secret_and_no_half_of_one(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_text(f"key {KEY} in a \udcff line\n", "utf-8", "surrogateescape")
    end = end_of_log(log)
    assert end is not None and end.startswith(b"key [redacted] in a \xff line")
    for inside in (1, 12, len(KEY) - 4):
        log.write_text(f"{'x' * 100} {KEY}" + " " + "y\n" * ((MOST_OF_A_LOG - len(KEY) + inside - 1) // 2))
        end = end_of_log(log)
        assert end is not None and end.startswith(b"(Cut: the last") and len(end) < MOST_OF_A_LOG + 100
        assert not any(KEY[at : at + 6].encode() in end for at in range(len(KEY) - 6))
    assert end_of_log(tmp_path / "none.log") is None


def test_events_that_end_no_task_are_not_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "corral.db"
    open_schema(path)
    db = Database(path)
    project = Project(tmp_path, tmp_path / ".git", tmp_path, bare=False)
    job = Evidence(db, project, Git(tmp_path), Supervisor)
    event = EventKind.LOCK_ACQUIRED({"paths": [], "exclusive": True, "automatic": True, "checkout": None})
    for most in (0, FAR_BEHIND + 1, 2):
        for _ in range(most):
            db.write(lambda conn: events.record(conn, datetime.now(timezone.utc), event))
        assert not job.write(tmp_path / "evidence", tmp_path)
    assert db.read(lambda conn: events.position(conn, "evidence")) == FAR_BEHIND + 1
    db.close()
