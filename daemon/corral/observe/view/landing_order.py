"""The landing queue in its order, with the reason of each wait, for the view."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from sqlalchemy import Connection

from corral.core.instants import iso
from corral.core.payload import Payload, picked
from corral.core.states import OPEN_MERGES, MergeState
from corral.landing import pauses
from corral.store.rows.merges import MergeRow, VerificationRunRow
from corral.work.merges.store import merges, runs
from corral.work.merges.wire import needs_approval

_SHOWN = ("merge_id", "task_id", "title", "branch", "target", "state", "priority", "created_at")


def queue(conn: Connection, now: datetime, most: int) -> Payload:
    """The open merge requests, target by target in landing order: ``queue``, and how many more there are."""
    rows = pauses.explained(conn, merges.in_order(conn, most))
    entries, before = [], Counter[str]()
    together = {merge_id: run for run in runs.running(conn) for merge_id in run["members"]}
    for row in rows:
        before[row["target"]] += 1
        entries.append(
            {
                **picked(row, _SHOWN),
                "position": before[row["target"]],
                "waits_for": _reason(row, before[row["target"]], together.get(row["merge_id"]), now),
                "needs_approval": needs_approval(row),
            }
        )
    counts = merges.counts(conn)
    return {"queue": entries, "queue_left_out": sum(counts.get(state, 0) for state in OPEN_MERGES) - len(entries)}


def _reason(row: MergeRow, position: int, run: VerificationRunRow | None, now: datetime) -> str:
    """Why a request has not landed, in one line; never empty."""
    if row["reason"]:
        return row["reason"].splitlines()[0]
    if row["state"] != MergeState.VERIFYING and run is not None:
        return f"it is verified as one of {len(run['members'])} together, in slot {run['slot']}"
    if row["state"] == MergeState.VERIFYING:
        return "its verification runs" if row["receipt_id"] is None else "it was verified, and lands next"
    if row["not_before_at"] is not None and row["not_before_at"] > iso(now):
        return f"it is tried again at {row['not_before_at']}"
    return "it is next" if position == 1 else f"{position - 1} before it"
