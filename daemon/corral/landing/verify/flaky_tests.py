"""Flakes: red and then green on one tree, under the same fingerprint. They are counted by test where the runner tells."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.core.events import EventKind
from corral.core.instants import iso
from corral.landing.api import FlakeOccurrence, FlakyTest
from corral.landing.verify import verification_receipts
from corral.landing.verify.verification_run import VerificationRun
from corral.store import events
from corral.store.rows.merges import FlakeRow, FlakeValues, MergeRow, ReceiptRow
from corral.work.merges.store import flakes, receipts

MOST_OCCURRENCES = 20
"""Of one test, told with their logs: the newest."""


def record(
    conn: Connection, run: VerificationRun, green: ReceiptRow, merge: MergeRow, root: Path, now: datetime
) -> None:
    """After a green run: remember what was red on its tree before, in this run or an earlier one."""
    own = [(red.failed_tests, verification_receipts.relative(red.log, root)) for red in run.reds if not red.is_partial]
    reds = [*own, *((row["failed_tests"] or (), row["log"]) for row in receipts.reds_before(conn, green))]
    if not reds:
        return
    values = [
        FlakeValues(
            target=run.subject.target, test=test, merge_id=merge["merge_id"], commit_sha=run.subject.sha,
            tree=run.subject.tree, red_log=log, green_log=green["log"], at=iso(now),
        )
        for tests, log in reds for test in tests or (None,)
    ]  # fmt: skip
    flakes.add(conn, values, now)
    names = ", ".join(dict.fromkeys(str(row["test"]) for row in values if row["test"])) or "which test, nothing tells"
    reason = f"Flaky: red {len(reds)} times, then green on the same tree: {names}."
    flaky = EventKind.MERGE_FLAKY({"reason": reason})
    events.record(conn, now, flaky, task_id=merge["task_id"], merge_id=merge["merge_id"])


def by_test(rows: Sequence[FlakeRow]) -> list[FlakyTest]:
    """Flakes, the newest first, grouped by target and test."""
    grouped: dict[tuple[str, str | None], list[FlakeRow]] = {}
    for row in rows:
        grouped.setdefault((row["target"], row["test"]), []).append(row)
    return [
        {
            "target": target,
            "test": test,
            "times": len(each),
            "first_at": each[-1]["at"],
            "last_at": each[0]["at"],
            "occurrences": [_occurrence(row) for row in each[:MOST_OCCURRENCES]],
        }
        for (target, test), each in grouped.items()
    ]


def _occurrence(row: FlakeRow) -> FlakeOccurrence:
    return {
        "at": row["at"],
        "merge_id": row["merge_id"],
        "commit_sha": row["commit_sha"],
        "red_log": row["red_log"],
        "green_log": row["green_log"],
    }
