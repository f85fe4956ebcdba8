"""Receipts as landing writes them: what they are about, and what they say when nothing ran."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.config.sections.sharing import Landing
from corral.config.sections.work import Worktrees
from corral.landing.verify.verification import Verdict
from corral.landing.verify.verification_run import VerificationRun
from corral.models.inputs import takes_from_checkout
from corral.models.states import ReceiptStatus
from corral.observe.redaction import redact
from corral.store.merges import receipts
from corral.store.rows.merges import MergeRow, ReceiptRow

NOT_GREEN = (ReceiptStatus.FAILED.value, ReceiptStatus.ERROR.value)
"""Of a request's own receipt: its candidate ran and was not found green, so the target without it is looked at."""


def fingerprint(landing: Landing, worktrees: Worktrees) -> str:
    """Names what a receipt is about, beside the tree: the commands, and how their worktree is made usable."""
    text = json.dumps([landing.verify, worktrees.setup, worktrees.recipes])
    return hashlib.sha256(text.encode()).hexdigest()


def proves(green: ReceiptRow, merge: MergeRow) -> bool:
    """Whether a green receipt of a request's tree and fingerprint lets it land.

    One that took something from the person's checkout, which may be different by now, counts for its own request alone.
    """
    return green["receipt_id"] == merge["receipt_id"] or not takes_from_checkout(green["inputs"])


def of_verdict(conn: Connection, trial: VerificationRun, verdict: Verdict, root: Path, now: datetime) -> ReceiptRow:
    """Store what a trial found; its log is named relative to the project's ``root`` where it lies within."""
    log = verdict.log
    if log is not None and log.is_relative_to(root):
        log = log.relative_to(root)
    return receipts.add(
        conn,
        tree=trial.subject.tree,
        fingerprint=trial.subject.fingerprint,
        status=verdict.status,
        now=now,
        commands=[redact(command) for command in trial.commands],
        exit_code=verdict.exit_code,
        tests=verdict.tests,
        duration_s=verdict.duration_s,
        log=str(log) if log is not None else None,
        reason=verdict.reason,
        inputs={**trial.inputs},
    )


def unverified(conn: Connection, tree: str, fingerprint: str, reason: str, now: datetime) -> ReceiptRow:
    """A receipt that proves nothing, and says why; the same one when asked again. It is never taken for a green one."""
    known = receipts.latest(conn, tree, fingerprint, ReceiptStatus.UNVERIFIED)
    if known is not None and known["reason"] == reason:
        return known
    return receipts.add(
        conn, tree=tree, fingerprint=fingerprint, status=ReceiptStatus.UNVERIFIED, reason=reason, now=now
    )
