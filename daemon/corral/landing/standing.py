"""How the open requests of the queue stand: each one's place, what it waits for, since when, where it is verified, and how long
that will take, by what verifications of its target took before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import median

from sqlalchemy import Connection

from corral.core.instants import iso, parse
from corral.core.pages import MOST
from corral.core.states import MergeState
from corral.landing import pauses, stacks
from corral.store.rows.merges import MergeRow, VerificationRunRow
from corral.work.merges.store import merges, runs
from corral.work.merges.wire import Standing

MOST_PAST = 20
"""Past verifications of a target by which the next one's time is told."""


def of_open(conn: Connection, most: int, ageing_s: float, now: datetime) -> list[tuple[MergeRow, Standing]]:
    """The first open requests, target by target in landing order, and how each stands.

    Args:
        ageing_s: ``landing.ageing_s``.
    """
    running, shown = runs.running(conn), []
    by_target: dict[str, list[MergeRow]] = {}
    for row in pauses.explained(conn, merges.in_order(conn, most)):
        by_target.setdefault(row["target"], []).append(row)
    for target, rows in by_target.items():
        line = _Line(conn, target, running, now)
        ordered = stacks.in_order(rows, stacks.of_target(conn, target), ageing_s, now)
        shown += [(row, line.next(row)) for row in ordered]
    return shown


def by_id(conn: Connection, ageing_s: float, now: datetime) -> dict[str, Standing]:
    """How the first open requests stand, by their ids."""
    return {row["merge_id"]: how for row, how in of_open(conn, MOST, ageing_s, now)}


class _Line:
    """The queue of one target, gone through in its order."""

    def __init__(self, conn: Connection, target: str, running: Sequence[VerificationRunRow], now: datetime) -> None:
        self._now = now
        self._running = [run for run in running if run["target"] == target]
        durations = runs.green_durations(conn, target, MOST_PAST)
        self._usual_s = median(durations) if durations else None
        self._batch = runs.batch(conn, target) or 1
        self._is_stopped = target in pauses.stops(conn)
        self._position, self._to_be_verified = 0, 0

    def next(self, row: MergeRow) -> Standing:
        """How the next request stands."""
        is_held = row["state"] == MergeState.HELD
        self._position, position, ahead = self._position + 1, self._position + 1, self._to_be_verified
        run = next((run for run in self._running if row["merge_id"] in run["members"]), None)
        control = next(
            (run for run in self._running if row["merge_id"] == run["merge_id"] and not run["members"]), None
        )
        self._to_be_verified += not is_held and run is None
        return {
            "position": position,
            "waits_for": _reason(row, position, run, control, self._now),
            "waits_since": run["started_at"]
            if run is not None
            else row["updated_at"]
            if is_held
            else row["created_at"],
            "slot": run["slot"] if run is not None else None,
            "expected_s": self._expected_s(ahead, run)
            if not (is_held or self._is_stopped or row["suspect_at"])
            else None,
        }

    def _expected_s(self, ahead: int, own: VerificationRunRow | None) -> float | None:
        """Seconds until a request has landed, if each verification is green; 0: what runs takes longer than usual.

        Args:
            ahead: Requests before it whose verification has not begun.
            own: The run that judges it; what is verified together lands together.
        """
        if self._usual_s is None:
            return None
        runs_now = self._running if own is None else [own]
        began = min((parse(run["started_at"]) for run in runs_now), default=None)
        rest_s = max(0.0, self._usual_s - (self._now - began).total_seconds()) if began is not None else 0.0
        others_s = (ahead // self._batch + 1) * self._usual_s if own is None else 0.0
        return round(others_s + rest_s, 1)


def _reason(
    row: MergeRow, position: int, run: VerificationRunRow | None, control: VerificationRunRow | None, now: datetime
) -> str:
    """Why a request has not landed, in one line; never empty."""
    if row["reason"]:
        return row["reason"].splitlines()[0]
    if run is not None and len(run["members"]) > 1:
        return f"it is verified as one of {len(run['members'])} together, in slot {run['slot']}"
    if run is not None:
        return f"its verification runs, in slot {run['slot']}"
    if control is not None:
        return f"it was red; {row['target']} without it is verified before it is blamed, in slot {control['slot']}"
    if row["suspect_at"] is not None and row["receipt_id"] is not None:
        return "it was red, and is judged by itself before it is blamed"
    if row["state"] == MergeState.VERIFYING:
        return "its verification runs" if row["receipt_id"] is None else "it was verified, and lands next"
    if row["not_before_at"] is not None and row["not_before_at"] > iso(now):
        return f"it is tried again at {row['not_before_at']}"
    if row["suspect_at"] is not None:
        return "it is judged by itself, since those that were verified with it were red"
    return "it is next" if position == 1 else f"{position - 1} before it"
