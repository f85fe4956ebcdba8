"""Tips that a target got past a verification: somebody's own commits, or a request that a person let bypass it.

With a remote they are also what somebody pushed there, seen when the remote is asked (:mod:`corral.landing.push.remotes`).

Such a tip is verified when it is seen, in a slot that is free. Red, it pauses its target: of the requests only those are tried
that were submitted since, as one of them may be the repair. The pause ends with the first tip that is green, however the target
got it. What is green or red the receipts say, by tree; the row says which tip to look at, and whose it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.event_payloads import TargetResumed
from corral.core.events import EventKind
from corral.core.instants import after, iso, parse
from corral.core.redaction import redact
from corral.core.states import ReceiptStatus
from corral.core.visible import embedded
from corral.git import history
from corral.git.process.command import Git
from corral.landing import bypasses
from corral.landing.verify import verification_receipts
from corral.landing.verify.blame import wait_s
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows.merges import DirectTipRow, ReceiptRow
from corral.work.merges.store import direct_tips, receipts, runs
from corral.work.merges.store.pauses import PAUSE_AFTER
from corral.work.tasks.store import lists

MOST_NAMED = 3
"""Commits that a sentence names; the rest are counted."""


@dataclass(frozen=True)
class Standing:
    """What is known of such a tip.

    Attributes:
        is_wanted: It is to be verified now.
        red_since: It was red: when it, or the one that it follows, was seen first (an instant as text).
        due_at: When it is to be verified again, after a run without a verdict.
    """

    is_wanted: bool = False
    red_since: str | None = None
    due_at: datetime | None = None


def record(db: Store, repo: Git, target: str, before: str, tip: str, now: datetime, sides: Sequence[str] = ()) -> None:
    """Store that a target has moved to a tip that did not come through the queue, and whose commits these are.

    Args:
        target: Short name.
        before: The last tip of which everything is known.
        sides: The commits that the tip joins, if Corral made it: the one that moved, and one of which everything is known
            unless a row says otherwise.

    Raises:
        GitFailed: The repository could not be read.
    """
    row = db.read(direct_tips.of, target)
    if row is not None and row["tip_sha"] == tip:
        return
    base = row["base_sha"] if row is not None else before
    whose = _whose(db, repo, base, tip, sides if row is not None else sides[:1])
    crash_point("direct_commits.seen")
    db.write(direct_tips.seen, target, base_sha=base, tip_sha=tip, whose=whose, now=now)


def _whose(db: Store, repo: Git, base: str, tip: str, sides: Sequence[str]) -> str:
    """The commits between two tips, each with its author or the task in whose worktree it was made."""
    commits = [commit for side in sides or (tip,) for commit in history.between(repo, base, side)]
    tasks = {sha: str(row["task_id"]) for row, shas in bypasses.made_by_tasks(db, repo, base, tip) for sha in shas}
    titles = db.read(lists.titles, sorted({*tasks.values()}))

    def by(commit: history.Commit) -> str:
        task_id = tasks.get(commit.sha)
        if task_id is None:
            return embedded(commit.author)
        return f"the worker of task {task_id[:8]} ({embedded(titles.get(task_id, task_id))})"

    named = [f"{commit.sha[:12]} {embedded(commit.subject)!r} by {by(commit)}" for commit in commits[-MOST_NAMED:]]
    more = f", and {len(commits) - MOST_NAMED} before" if len(commits) > MOST_NAMED else ""
    return redact(", ".join(reversed(named)) + more) or f"{tip[:12]}, which was moved there"


def look(
    db: Store, repo: Git, row: DirectTipRow, tip: str, sides: Sequence[str], tree: str, fingerprint: str,
    max_age_s: float, now: datetime,
) -> Standing:  # fmt: skip
    """Bring what is stored of a target's tip in line with its receipts.

    Args:
        tip: Where the target is.
        sides: The commits that it joins, if Corral made it.
        tree: Of that commit.
        fingerprint: Under which a receipt counts.
        max_age_s: ``landing.verdict_max_age_s``.
    """

    if row["tip_sha"] != tip:
        whose = _whose(db, repo, row["base_sha"], tip, sides) if sides else row["whose"]
        moved = {"base_sha": row["base_sha"], "tip_sha": tip, "whose": whose}
        db.write(direct_tips.seen, row["target"], **moved, now=now)
        row = {**row, "tip_sha": tip, "whose": whose, "tries": 0, "look_at": None}
    verdict = db.read(_verdict, row, tree, fingerprint, max_age_s, now)
    if verdict is not None and verdict["status"] == ReceiptStatus.PASSED:
        forget(db, row, now, is_green=True)
        return Standing()
    if verdict is not None:
        if (reason := _reason(row, verdict)) != row["reason"]:
            db.write(_pause, row, reason, now)
        return Standing(red_since=row["seen_at"])
    red_since = row["seen_at"] if row["reason"] is not None else None
    look_at = row["look_at"]
    is_wanted = row["tries"] == 0 or (look_at is not None and look_at <= iso(now))
    return Standing(is_wanted, red_since, parse(look_at) if look_at is not None and not is_wanted else None)


def _verdict(
    conn: Connection, row: DirectTipRow, tree: str, fingerprint: str, max_age_s: float, now: datetime
) -> ReceiptRow | None:
    """The receipt that decides about a tip.

    Red takes a run since the tip was seen, that was run again before it counted. Green a run since then, or an earlier one that
    would let a request land.
    """
    green = receipts.latest(conn, tree, fingerprint, ReceiptStatus.PASSED)
    if green is not None and green["created_at"] < row["seen_at"]:
        green = verification_receipts.green_of(conn, tree, fingerprint, None, max_age_s, now)
    red = receipts.latest(conn, tree, fingerprint, ReceiptStatus.FAILED)
    if red is None or red["created_at"] < row["seen_at"] or not runs.was_alone(conn, red["receipt_id"]):
        return green
    return green if green is not None and green["created_at"] > red["created_at"] else red


def _reason(row: DirectTipRow, red: ReceiptRow) -> str:
    what = f"{row['target']} at {row['tip_sha'][:12]} is red since {row['whose']}."
    return f"{what} {red['reason']}\nLog: {red['log']}"


def _pause(conn: Connection, row: DirectTipRow, reason: str, now: datetime) -> None:
    target = row["target"]
    if direct_tips.red(conn, target, row["tip_sha"], reason) is not None and row["reason"] is None:
        paused = EventKind.TARGET_PAUSED({"target": target, "reason": reason, "red_sha": row["tip_sha"]})
        events.record(conn, now, paused)


def forget(db: Store, row: DirectTipRow, now: datetime, *, is_green: bool = False) -> None:
    """The tip is green, or nothing verifies it any more: what was paused for it goes on."""
    green: TargetResumed = {"target": row["target"], "green_sha": row["tip_sha"]}

    def store(conn: Connection) -> None:
        was = direct_tips.forget(conn, row["target"], row["tip_sha"])
        if was is not None and was["reason"] is not None:
            resumed = EventKind.TARGET_RESUMED(green if is_green else {"target": row["target"]})
            events.record(conn, now, resumed)

    db.write(store)


def record_fault(conn: Connection, target: str, tip: str, now: datetime) -> None:
    """A verification of a tip ended without a verdict: try again after a while, only a few times unless the target is paused."""
    row = direct_tips.of(conn, target)
    if row is None:
        return
    tries = row["tries"] + 1
    goes_on = tries < PAUSE_AFTER or row["reason"] is not None
    direct_tips.tried(conn, target, tip, tries, after(now, wait_s(tries)) if goes_on else None)
