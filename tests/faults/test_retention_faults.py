"""Deleting old data where it is needed most: on a full disk."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import Connection

from corral.core.instants import iso
from corral.observe.audit import reading, trail
from corral.observe.retention.collection import Collection
from corral.store import events
from corral.store import schema as tables
from corral.store import schema_coordination as talk
from corral.store import schema_project as project_tables
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from tests.conftest import git
from tests.faults.test_disk_and_database import filled
from tests.integration.test_retention import LARGE, LATER, THEN, World
from tests.support.files import put
from tests.support.programs import program

pytestmark = pytest.mark.faults


@pytest.fixture
def small_disk(repo: Path) -> Iterator[World]:
    """A world whose ``.corral`` is a file system of its own of 16 MB."""
    home = repo / ".corral"
    home.mkdir(exist_ok=True)
    done = subprocess.run([program("mount"), "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(home)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        (home / ".gitignore").write_text("*\n")
        open_schema(home / "corral.db")
        world = World(Database(home / "corral.db"), repo)
        yield world
        world.db.close()
    finally:
        subprocess.run([program("umount"), "--lazy", str(home)], check=True)


AFTER = datetime.now(timezone.utc) + timedelta(days=400)
POINTS = ("messages", "audit", "pages", "salvage", "ignored", "loops")
ROUND = "import sys; from tests.faults.test_retention_faults import a_round; a_round(sys.argv[1])"


def _record_large(world: World, rows: int) -> None:
    def fill(conn: Connection) -> None:
        for _ in range(rows):
            events.record(conn, THEN, LARGE)

    world.db.write(fill)


@pytest.fixture
def full(repo: Path) -> World:
    """A world with old rows and refs of each kind, and with what must stay; its database is closed."""
    home = repo / ".corral"
    put(home / ".gitignore", "*\n")
    open_schema(home / "corral.db")
    world = World(Database(home / "corral.db"), repo)
    world.session("sender", ended=None)
    world.session("reader", ended=None)
    for number in range(30):
        world.session(f"over{number}")
        world.message(f"brought {number}", "reader", injected_at=THEN)
    world.message("unread", "reader")
    world.task("open", is_open=True)
    world.event("task.submitted", task_id="open")
    deed = trail.Deed(THEN, "task.cancel", None, "me", None, {}, {})
    world.db.write(lambda conn: trail.append(conn, [trail.draft(deed, {}) for _ in range(300)]))
    _record_large(world, 5000)
    head = git(world.root, "rev-parse", "HEAD")
    tree = git(world.root, "write-tree", GIT_INDEX_FILE=str(world.root / ".git" / "other-index"))
    alone = git(world.root, "commit-tree", tree, "-p", head, "-m", "nothing else has it")
    for name, sha in (("held/1", head), ("held/2", head), ("alone/1", alone)):
        git(world.root, "update-ref", f"refs/corral/salvage/{name}", sha)
    loop = {"task_id": "gone", "title": "gone", "spec": {"until": []}, "counted_from": 0, "created_at": iso(THEN)}
    world.put(project_tables.loops, **loop)
    world.put(
        project_tables.loop_iterations, task_id="gone", iteration=1, attempt=1, session_id="s", base_sha=head, head_sha=head,
        verdict="converged", is_success=True, record="{}", duration_s=1.0, started_at=iso(THEN), ended_at=iso(THEN),
    )  # fmt: skip
    for which in ("1", "best"):
        git(world.root, "update-ref", f"refs/corral/loops/gone/{which}", head)
    world.db.close()
    return world


def a_round(root: str) -> None:
    """A round, in a process of its own."""
    world = World(Database(Path(root) / ".corral" / "corral.db"), Path(root))
    world.job.round(AFTER)


@pytest.mark.req("NFR-COMP-003")
def test_wherever_it_is_killed_the_next_start_goes_on_and_what_must_stay_is_there(full: World) -> None:
    top = Path(__file__).parents[2]
    for point in POINTS:
        killed = subprocess.run(
            [sys.executable, "-c", ROUND, str(full.root)],
            cwd=top,
            env={
                **os.environ,
                "PYTHONPATH": f"{top}{os.pathsep}{top / 'daemon'}",
                "CORRAL_CRASH_AT": f"retention.{point}",
            },
            capture_output=True,
            text=True,
        )
        assert killed.returncode == -signal.SIGKILL, (point, killed.stderr)
        with closing(sqlite3.connect(full.db.path)) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)], point
    again = World(Database(full.db.path), full.root)
    done = again.round(AFTER)
    assert not done.problems and not done.more, done
    assert len(again.all(tables.events.c.event_id)) == 2, "the open task's, and the newest"
    assert "task.submitted" in again.all(tables.events.c.kind) and again.all(talk.messages.c.subject) == {"unread"}
    assert again.all(tables.agent_sessions.c.session_id) == {"sender", "reader"}
    verdict = reading.verify(again.db.read)
    assert (verdict["valid"], verdict["removed_until"]) == (True, 300)
    left = git(full.root, "for-each-ref", "--format=%(refname)", "refs/corral/salvage", "refs/corral/loops")
    assert left == "refs/corral/salvage/alone/1", "saved work that nothing else has stays"
    again.db.close()


@pytest.mark.req("NFR-COMP-003")
def test_on_a_full_disk_old_logs_go_at_once_and_what_needs_room_is_named_and_goes_later(small_disk: World) -> None:
    world, gc = small_disk, Collection(small_disk.job)

    _record_large(world, 5000)
    log = world.logs / "tasks" / "over" / "1.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 200_000)
    os.utime(log, (THEN.timestamp(), THEN.timestamp()))
    with filled(world.root / ".corral"):
        began = time.monotonic()
        while not (done := gc.run(LATER, dry_run=False))["problems"]:
            _record_large(world, 500)  # what was freed is taken again
        assert time.monotonic() - began < 20, "what cannot be deleted is not tried again and again"
        assert not log.exists()
        assert "full" in done["problems"]["events"] and not done["more"]
        assert "events" in world.faults["retention"].what and "full" in world.faults["retention"].what
    done = gc.run(LATER, dry_run=False)
    assert not done["problems"] and "retention" not in world.faults
    assert len(world.all(tables.events.c.event_id)) == 1, "the newest stays"
    world.db.close()
    with closing(sqlite3.connect(world.db.path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
