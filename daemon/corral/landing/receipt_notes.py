"""Receipts of what landed, as git notes (:mod:`corral.git.land.receipt_notes`): for clones, and for when this database is gone.

They are written after the target has moved and before the landing is concluded, so that a killed daemon's next start does both.
A note that could not be written keeps nothing from landing; every start writes those that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.core.errors import CorralError
from corral.core.logs import logger
from corral.git.land import receipt_notes as notes
from corral.git.process.command import Git
from corral.landing.verify import blame
from corral.store.protocol import Store
from corral.store.rows import required
from corral.store.rows.merges import Intent, MergeRow, ReceiptRow
from corral.work.merges.store import landed, merges, receipts

MOST_MADE_UP = 1000
"""Landed requests whose notes a start looks for, the newest."""

log = logger("landing")


def of_landing(db: Store, repo: Git, intent: Intent, now: datetime) -> None:
    """Write the receipts of requests whose target has just moved."""

    def read(conn: Connection) -> list[tuple[MergeRow, ReceiptRow]]:
        rows = [merges.get(conn, merge_id) for merge_id in intent["merge_ids"]]
        return _with_receipts(conn, [row for row in rows if row["candidate_sha"] is not None])

    _write(
        repo,
        {required(row["candidate_sha"]): _of(row, receipt, intent["new_sha"]) for row, receipt in db.read(read)},
        now,
    )


def make_up(db: Store, repo: Git, now: datetime) -> None:
    """Write the receipts that are missing of what has landed."""

    def read(conn: Connection) -> list[tuple[MergeRow, ReceiptRow]]:
        rows = landed.newest(conn, MOST_MADE_UP)
        return _with_receipts(conn, [row for row in rows if row["landed_sha"] == row["candidate_sha"]])

    try:
        pairs = {required(row["candidate_sha"]): (row, receipt) for row, receipt in reversed(db.read(read))}
        missing = notes.without(repo, list(pairs))
    except (CorralError, OSError) as error:
        log.warning("receipts_not_looked_at", reason=blame.describe(error))
        return
    _write(repo, {sha: _of(*pairs[sha], pairs[sha][0]["landed_tip_sha"]) for sha in missing}, now)


def _with_receipts(conn: Connection, rows: Sequence[MergeRow]) -> list[tuple[MergeRow, ReceiptRow]]:
    pairs = ((row, receipts.get(conn, row["receipt_id"])) for row in rows)
    return [(row, receipt) for row, receipt in pairs if receipt is not None]


def _of(merge: MergeRow, receipt: ReceiptRow, landed_tip: str | None) -> dict[str, Any]:
    """What the note of a landed commit says. No path and nothing of the environment: others read it."""
    sha, tree = required(merge["candidate_sha"]), merge["candidate_tree"]
    is_covered = receipt["status"] == notes.PASSED and receipt["tree"] != tree
    return {
        "commit": sha,
        "tree": tree,
        "status": notes.COVERED if is_covered else receipt["status"],
        "verified": {"commit": (landed_tip or receipt["commit_sha"]) if is_covered else sha, "tree": receipt["tree"]},
        "commands": receipt["commands"],
        "fingerprint": receipt["fingerprint"],
        "exit_code": receipt["exit_code"],
        "tests": receipt["tests"],
        "duration_s": receipt["duration_s"],
        "at": receipt["created_at"],
        "target": merge["target"],
        "style": merge["style"],
        "head": merge["head_sha"],
        "merge": merge["merge_id"],
        "task": merge["task_id"],
    }


def _write(repo: Git, made: dict[str, dict[str, Any]], now: datetime) -> None:
    try:
        notes.write(repo, made, now)
    except (CorralError, OSError) as error:  # the target has moved: a note is no reason to say that it has not
        log.warning("receipt_not_noted", commits=list(made)[:20], reason=blame.describe(error))
