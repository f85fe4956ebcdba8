"""Deleting old data where it is needed most: on a full disk."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from corral.server.upkeep.collection import Collection
from corral.store import events
from corral.store import schema as tables
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from tests.faults.test_disk_and_database import filled
from tests.integration.test_retention import LARGE, LATER, THEN, World

pytestmark = pytest.mark.faults


@pytest.fixture
def small_disk(repo: Path) -> Iterator[World]:
    """A world whose ``.corral`` is a file system of its own of 16 MB."""
    home = repo / ".corral"
    home.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(home)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        (home / ".gitignore").write_text("*\n")
        open_schema(home / "corral.db")
        world = World(Database(home / "corral.db"), repo)
        yield world
        world.db.close()
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


@pytest.mark.req("NFR-COMP-003")
def test_on_a_full_disk_old_logs_go_at_once_and_what_needs_room_is_named_and_goes_later(small_disk: World) -> None:
    world, gc = small_disk, Collection(small_disk.job)

    def fill(rows: int) -> None:
        world.db.write(lambda conn: [events.record(conn, THEN, LARGE) for _ in range(rows)])

    fill(5000)
    log = world.logs / "tasks" / "over" / "1.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 200_000)
    os.utime(log, (THEN.timestamp(), THEN.timestamp()))
    with filled(world.root / ".corral"):
        began = time.monotonic()
        while not (done := gc.run(LATER, dry_run=False))["problems"]:
            fill(500)  # what was freed is taken again
        assert time.monotonic() - began < 20, "what cannot be deleted is not tried again and again"
        assert not log.exists()
        assert "full" in done["problems"]["events"] and not done["more"]
        assert "events" in world.faults["retention"].what and "full" in world.faults["retention"].what
    done = gc.run(LATER, dry_run=False)
    assert not done["problems"] and "retention" not in world.faults
    assert not world.all(tables.events.c.event_id)
    world.db.close()
    with closing(sqlite3.connect(world.db.path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
