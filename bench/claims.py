"""Claiming and completing tasks: the supervisor's transactions, on a separate database, in this process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import Connection

from bench.measure import Measure, p50, p95, timed
from bench.world import World
from corral.config.sections.work import Tasks as TaskRules
from corral.core.identifiers import new_id
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.rows.tasks import TaskRow
from corral.work.tasks import attempts, scheduling, tasks
from corral.work.tasks.attempts import Ending
from corral.work.tasks.wire import TaskSubmission

RULES = TaskRules()


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _claim(conn: Connection) -> TaskRow:
    row = scheduling.claim(conn, session_id=new_id(), lease_s=60, ageing_s=RULES.ageing_s, now=_now())
    assert row is not None
    return row


def _complete(conn: Connection, row: TaskRow) -> None:
    attempts.end(conn, row["task_id"], row["fencing_token"], Ending(True), _now(), RULES)


def _series(path: Path, rows: int, times: int) -> tuple[list[float], list[float]]:
    open_schema(path)
    db = Database(path)
    try:
        for first in range(0, rows, 1000):
            count = min(1000, rows - first)
            some = [TaskSubmission(title=f"task {number}", command="true") for number in range(count)]
            db.write(lambda conn, some=some: tasks.submit_batch(conn, some, _now(), RULES))  # type: ignore[misc]
        claims: list[float] = []
        ends: list[float] = []
        for _ in range(min(times, rows)):
            claimed: list[TaskRow] = []
            claims.append(timed(lambda: claimed.append(db.write(_claim))))  # noqa: B023
            ends.append(timed(lambda: db.write(lambda conn: _complete(conn, claimed[0]))))  # noqa: B023
        return claims, ends
    finally:
        db.close()


def _bare(path: Path, rows: int, times: int) -> list[float]:
    """The smallest durable claim: one guarded update and one commit."""
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t (seq INTEGER PRIMARY KEY, s TEXT)"
    )
    db.executemany("INSERT INTO t (s) VALUES (?)", [("pending",)] * rows)
    db.execute("CREATE INDEX i ON t (s, seq)")
    claim = "UPDATE t SET s = 'running' WHERE seq = (SELECT seq FROM t WHERE s = 'pending' ORDER BY seq LIMIT 1) RETURNING seq"
    taken = [timed(lambda: db.execute(claim).fetchall()) for _ in range(min(times, rows))]
    db.close()
    return taken


def measure(world: World) -> Iterator[Measure]:
    """Measure each next to a bare guarded update."""
    sizes = world.sizes
    times = max(sizes.few_rows, sizes.requests // 5)
    few_claims, few_ends = _series(world.folder / "few.db", sizes.few_rows, times)
    claims, ends = _series(world.folder / "many.db", sizes.many_rows, times)
    floor = _bare(world.folder / "bare.db", sizes.many_rows, times)
    for what, many, few in (("claim", claims, few_claims), ("complete", ends, few_ends)):
        note = f"p50 {p50(many):.2f}; with {sizes.few_rows} tasks p95 {p95(few):.2f}"
        yield Measure(f"task {what}, {sizes.many_rows:,} tasks: p95", p95(many), "ms", p95(floor), 10, note=note)
    yield Measure("claims, one after another", 1000 / p50(claims), "/s", 1000 / p50(floor))
