"""Writes of requests, on the event loop."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from sqlalchemy import Connection

from corral.core.changes import Changes
from corral.store.access import StoreAccess
from corral.store.engine.database import Database
from corral.store.engine.writes import Write
from corral.store.migrate import open_schema


def test_what_is_asked_for_by_a_request_that_went_away_is_not_written(tmp_path: Path) -> None:
    open_schema(tmp_path / "corral.db")
    db, go_on, done = Database(tmp_path / "corral.db"), threading.Event(), list[str]()
    changes = Changes()
    store = StoreAccess(db, changes)

    def note(what: str, _conn: Connection) -> None:
        done.append(what)

    async def scene() -> None:
        changes.bind(asyncio.get_running_loop())
        db.submit(
            [Write(lambda _conn: go_on.wait(30))], lambda: None
        )  # the writer is busy until both have been asked for
        gone = asyncio.create_task(store.write(lambda conn: note("gone", conn)))
        stays = asyncio.create_task(store.write(lambda conn: note("stays", conn)))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait({gone})
        go_on.set()
        await stays

    asyncio.run(scene())
    db.close()
    assert done == ["stays"]
