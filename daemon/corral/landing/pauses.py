"""Faults that say nothing about a change: the request waits, others bypass it, and a target that sees only faults is paused.

A paused target is looked at again at ``look_at``, by one ordinary try of the request that was tried least: it fails at the same
step as before, or gets a verdict, which ends the pause. All writes are in the caller's transaction.
"""

from __future__ import annotations

from datetime import datetime
from shlex import quote

from sqlalchemy import Connection

from corral.core.events import EventKind
from corral.core.instants import after
from corral.core.states import MergeState
from corral.landing import stacks
from corral.landing.verify.blame import LONGEST_WAIT_S, set_back, wait_s
from corral.store import events
from corral.store.rows.merges import DirectTipRow, FreezeRow, MergeRow, TargetPauseRow
from corral.work.merges.store import direct_tips, freezes, merges, remotes
from corral.work.merges.store import pauses as pause_rows
from corral.work.merges.wire import tells_of_all, waits_for_red_target
from corral.work.tasks.store import work_pause


def record_fault(conn: Connection, merge: MergeRow, why: str, now: datetime, *, proven: bool = False) -> None:
    """Send an open request back to the queue after a fault, and count it against the target's queue, never against the change.

    Args:
        why: What happened; one line or more, without a secret.
        proven: Whether the target without the change met the same, so that its queue is paused at once.
    """
    target, tries = merge["target"], merge["tries"] + 1
    before = pause_rows.failures(conn, target)
    setback = set_back(tries, before, pause_after=pause_rows.PAUSE_AFTER, proven=proven)
    again_at = after(now, setback.wait_s)
    reason = f"Verification could not run (try {tries}), and that says nothing about the change: {why}"
    row = merges.requeue(conn, merge["merge_id"], now, reason=reason, tries=tries, not_before_at=again_at)
    if row is None:
        return
    pause_rows.count(conn, target, number=setback.failures, reason=why, look_at=after(now, setback.look_s), now=now)
    if before < pause_rows.PAUSE_AFTER <= setback.failures:
        paused = EventKind.TARGET_PAUSED({"target": target, "reason": why})
        events.record(conn, now, paused, merge_id=row["merge_id"])


def record_death(conn: Connection, merge: MergeRow, now: datetime, left: str | None) -> None:
    """Send a request back whose verification ended with the daemon: at once the first time, then after a growing wait.

    The others bypass it meanwhile, in case its verification is what ends the daemon. Its target is not counted as failing: a
    daemon that is killed now and then must not stand still for minutes.

    Args:
        left: Why what the daemon left of it cannot go on, as a predicate; None: there was nothing.
    """
    tries = merge["tries"] + 1
    again_at = after(now, wait_s(tries - 1)) if tries > 1 else None
    reason = (
        f"Verification could not run (try {tries}), and that says nothing about the change: the daemon died meanwhile."
    )
    reason += f" What it left {left}." if left else ""
    merges.requeue(conn, merge["merge_id"], now, reason=reason, tries=tries, not_before_at=again_at)


def record_verdict(conn: Connection, target: str, now: datetime) -> None:
    """A request of the target got a verdict: end the waits that earlier faults caused for the others."""
    if pause_rows.clear(conn, target):
        merges.end_waits(conn, target)
        events.record(conn, now, EventKind.TARGET_RESUMED({"target": target}))


def current(conn: Connection) -> dict[str, TargetPauseRow]:
    """The paused targets by name; forgets the targets that have no open request."""
    for target in pause_rows.idle(conn):
        pause_rows.clear(conn, target)
    return pause_rows.paused(conn)


def are_too_long(conn: Connection, now: datetime) -> bool:
    """Whether a wait is longer than any fault causes: the clock was set back."""
    return max(merges.latest_wait(conn) or "", pause_rows.latest_look(conn) or "") > after(now, LONGEST_WAIT_S)


def shorten(conn: Connection, now: datetime) -> None:
    """Shorten every wait to at most what a fault causes."""
    latest = after(now, LONGEST_WAIT_S)
    merges.bound_waits(conn, latest)
    pause_rows.bound_looks(conn, latest)


def is_waiting(conn: Connection, merge: MergeRow) -> bool:
    """Whether a request waits after a fault, its own or its target's, and not for its turn."""
    if merge["state"] != MergeState.QUEUED:
        return False
    return merge["not_before_at"] is not None or merge["target"] in pause_rows.paused(conn)


def explained(conn: Connection, requests: list[MergeRow]) -> list[MergeRow]:
    """The same requests; those that only wait for a pause or a red target get that as their reason, others their next try."""
    if all(row["state"] != MergeState.QUEUED for row in requests):
        return requests
    ordered = work_pause.current(conn)
    if ordered is not None:
        reason = work_pause.described(ordered)
        return [{**row, "reason": reason} if row["state"] == MergeState.QUEUED else row for row in requests]
    requests = stacks.explained(conn, requests)
    rows = merges.in_state(conn, MergeState.HELD)
    why = {row["target"]: str(row["reason"]) for row in reversed(rows) if waits_for_red_target(row)}
    why |= {target: row["reason"] for target, row in remotes.every(conn).items() if row["reason"] is not None}
    why |= _of_all(rows)
    why |= {target: _reason(row) for target, row in pause_rows.paused(conn).items()}
    red, frozen = red_tips(conn), {target: freeze_in_words(row) for target, row in freezes.frozen(conn).items()}

    def stop(row: MergeRow) -> str | None:
        if row["state"] != MergeState.QUEUED or row["target"] in frozen:
            return frozen.get(row["target"]) if row["state"] == MergeState.QUEUED else None
        tip = red.get(row["target"])
        if tip is not None and row["created_at"] <= tip["seen_at"] and row["bypassed_sha"] != row["head_sha"]:
            return tip["reason"]
        return why.get(row["target"])

    return [{**row, "reason": text} if (text := stop(row)) is not None else _with_next_try(row) for row in requests]


def _with_next_try(row: MergeRow) -> MergeRow:
    """A request that waits after a fault, with when it is tried again, and what to type to have that at once."""
    if row["state"] != MergeState.QUEUED or not row["reason"] or row["not_before_at"] is None:
        return row
    first, *rest = row["reason"].splitlines()
    first += f" Tried again from {row['not_before_at']} on; at once: `corral merge retry {row['merge_id'][:8]}`."
    return {**row, "reason": "\n".join([first, *rest])}


def red_tips(conn: Connection) -> dict[str, DirectTipRow]:
    """The targets that somebody's own commits made red, by name: only what was submitted since is tried there."""
    return {target: row for target, row in direct_tips.listing(conn).items() if row["reason"] is not None}


def freeze_in_words(row: FreezeRow) -> str:
    """Why nothing lands on a frozen target, and what to type."""
    thaw = f"corral merge thaw {quote(row['target'])}"
    return f"{row['target']} is frozen since {row['since_at']} by {row['by']}: {row['reason'].rstrip('.')}. To go on: {thaw}"


def stops(conn: Connection) -> dict[str, str]:
    """Why nothing lands on targets at present, in words, by target."""
    paused = {target: row["reason"] for target, row in pause_rows.paused(conn).items()}
    red = {target: str(row["reason"]) for target, row in red_tips(conn).items()}
    return {
        **_of_all(merges.in_state(conn, MergeState.HELD)),
        **paused,
        **red,
        **{target: freeze_in_words(row) for target, row in freezes.frozen(conn).items()},
    }


def _of_all(held: list[MergeRow]) -> dict[str, str]:
    """Why none of a target's requests can go on, where the first one is held for that."""
    return {row["target"]: str(row["reason"]) for row in held if tells_of_all(row)}


def _reason(pause: TargetPauseRow) -> str:
    return f"{pause['target']} is paused and looked at again at {pause['look_at']}: {pause['reason']}"
