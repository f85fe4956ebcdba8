"""Receipts as landing writes them: what they are about, and what they say when nothing ran."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.config.sections.work import Worktrees
from corral.core.inputs import taken_from_checkout
from corral.core.instants import after
from corral.core.redaction import redact
from corral.core.states import ReceiptRole, ReceiptStatus
from corral.landing.verify import programs
from corral.landing.verify.verification import Verdict
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_run import Basis, VerificationRun
from corral.runners.environment import lasting_environment
from corral.store.rows import required
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.work.merges.store import receipts

NOT_GREEN = (ReceiptStatus.FAILED.value, ReceiptStatus.ERROR.value)
"""Of a request's own receipt: its candidate ran and was not found green, so the target without it is looked at."""


def basis(
    context: VerificationContext, commands: Sequence[str], worktrees: Worktrees, tip_sha: str, now: datetime
) -> Basis:
    """What a verification of this moment stands on, beside the tree: another basis is another fingerprint.

    That is the commands, how their worktree is made usable, the environment, and the programs that all these name, a recipe
    also those that run what the commands start (``node`` for ``npm``). Programs that come with the worktree are not among
    them: they are part of the tree, or of the dependencies.

    Args:
        tip_sha: The target's tip; its files say which recipes apply.
    """
    recipes = context.recipes(tip_sha)
    setups = [str(recipe["setup"]) for recipe in recipes if recipe.get("setup")]
    named = programs.named([*commands, *worktrees.setup, *setups])
    names = list(dict.fromkeys([*named, *(name for recipe in recipes for name in recipe.get("programs", ()))]))
    identities = [
        [program.name, program.path, program.version, program.mark]
        for program in context.programs.look_up(names, context.asking_environment(), now)
    ]
    parts = [
        list(commands),
        worktrees.setup,
        worktrees.recipes,
        recipes,
        lasting_environment(context.environment({})),
        identities,
    ]
    text = json.dumps(parts, sort_keys=True, default=str)
    return Basis(hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest(), tuple(names))


def green_of(
    conn: Connection, tree: str, fingerprint: str, own_id: str | None, max_age_s: float, now: datetime
) -> ReceiptRow | None:
    """The green receipt of a tree that counts now; None: it has to run.

    That is the one of the request's own run, or what the newest run of the tree said. Another request's run does not count if
    it took something from the person's checkout, which may be different by now, or if how old it is cannot be told, because
    the clock was set back.

    Args:
        own_id: The receipt of the request's own run.
        max_age_s: ``landing.verdict_max_age_s``.
    """
    oldest, own = after(now, -max_age_s), receipts.get(conn, own_id)
    wanted = (tree, fingerprint, ReceiptStatus.PASSED)
    if own is not None and (own["tree"], own["fingerprint"], own["status"]) == wanted and own["created_at"] >= oldest:
        return own
    newest = receipts.latest(conn, tree, fingerprint, ReceiptStatus.PASSED, ReceiptStatus.FAILED)
    if (
        newest is None
        or newest["status"] != ReceiptStatus.PASSED
        or not oldest <= newest["created_at"] <= after(now, 1)
    ):
        return None
    return None if taken_from_checkout(newest["inputs"]) else newest


def of_verdict(conn: Connection, run: VerificationRun, verdict: Verdict, root: Path, now: datetime) -> ReceiptRow:
    """Store the verdict of a run; its log is named relative to the project's ``root`` where it lies within."""
    return receipts.add(
        conn,
        tree=run.subject.tree,
        fingerprint=run.subject.basis.fingerprint,
        status=verdict.status,
        now=now,
        commands=[redact(command) for command in run.commands],
        exit_code=verdict.exit_code,
        tests=verdict.tests,
        duration_s=verdict.duration_s,
        log=relative(verdict.log, root),
        reason=verdict.reason,
        merge_id=run.subject.merge_id or None,
        commit_sha=run.subject.sha,
        role=run.subject.role,
        inputs=run.inputs,
        failed_tests=verdict.failed_tests
        if verdict.status is ReceiptStatus.FAILED and not verdict.is_partial
        else None,
    )


def relative(log: Path | None, root: Path) -> str | None:
    """A log's name, relative to the project's root where it lies within."""
    return None if log is None else str(log.relative_to(root) if log.is_relative_to(root) else log)


def unverified(conn: Connection, tree: str, fingerprint: str, reason: str, now: datetime) -> ReceiptRow:
    """A receipt that proves nothing, and says why; the same one when asked again. It is never taken for a green one."""
    receipt = receipts.latest(conn, tree, fingerprint, ReceiptStatus.UNVERIFIED)
    if receipt is not None and receipt["reason"] == reason:
        return receipt
    return receipts.add(
        conn, tree=tree, fingerprint=fingerprint, status=ReceiptStatus.UNVERIFIED, reason=reason, now=now
    )


def bypassed(conn: Connection, merge: MergeRow, fingerprint: str, now: datetime) -> ReceiptRow:
    """The receipt of a request that a person lets land without a verification; the same one when asked again."""
    tree, reason = required(merge["candidate_tree"]), merge["bypass_reason"]
    receipt = receipts.latest(conn, tree, fingerprint, ReceiptStatus.BYPASSED)
    if receipt is not None and (receipt["merge_id"], receipt["reason"]) == (merge["merge_id"], reason):
        return receipt
    return receipts.add(
        conn, tree=tree, fingerprint=fingerprint, status=ReceiptStatus.BYPASSED, reason=reason, now=now,
        merge_id=merge["merge_id"], commit_sha=merge["candidate_sha"], role=ReceiptRole.CANDIDATE,
    )  # fmt: skip
