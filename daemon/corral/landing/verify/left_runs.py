"""Verification runs that a dead daemon left: which of them are provably its own and go on, and the end of the others.

A run goes on if its keeper proves that it is the one of the row (:func:`corral.runners.keeping.take_up`), its slot still has its
commit, nothing has written to a tracked file there since its command began, its fingerprint is the one in force, and its command
was not killed while nobody looked. Everything else is ended, and begins again.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from corral.config.sections.sharing import Landing
from corral.core.errors import CorralError, DatabaseUnavailable, PathReplaced
from corral.core.states import ReceiptStatus
from corral.git.checkouts.whole import Whole
from corral.git.process.command import Git
from corral.landing.verify import blame
from corral.landing.verify.verification import KeeperPlace, Verdict, end_marked, marks
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_run import Basis, Left, RunSpec, VerificationRun, folder_of
from corral.landing.verify.verification_worktree import LaidOut, VerificationWorktree
from corral.runners import keeping
from corral.runners.keeping import Kept
from corral.store.rows.merges import VerificationRunRow

InForce = Callable[[RunSpec, datetime], Landing | None]
"""The settings of a run's target, if a run of the same commit would have the same fingerprint now."""

_KILLED = (*blame.KILLED, 128 + signal.SIGTERM)
"""Exit codes of a command that died with its daemon: at the end of a login, say."""
_LOOKS = 20


class Unproven(Exception):
    """Why a run cannot go on, as a predicate of what is left of it."""


def go_on(
    repo: Git, context: VerificationContext, row: VerificationRunRow, in_force: InForce, now: datetime
) -> VerificationRun:
    """Follow a run of a dead daemon.

    Raises:
        Unproven: It is not certainly what its row says.
    """
    folder = folder_of(context, row["run_id"])
    kept = keeping.take_up(folder, context.project_id, KeeperPlace(folder).name)
    if kept is None:
        raise Unproven("had no command that a keeper can prove")
    try:
        run = _proven(repo, context, row, kept, in_force, now)
    except (KeyError, TypeError, ValueError) as error:
        kept.close()
        raise Unproven("was recorded by another version") from error
    except (CorralError, OSError) as error:
        kept.close()
        if isinstance(error, DatabaseUnavailable):
            raise
        raise Unproven(f"could not be looked at: {blame.describe(error)}") from error
    except Unproven:
        kept.close()
        raise
    return run


def _proven(
    repo: Git, context: VerificationContext, row: VerificationRunRow, kept: Kept, in_force: InForce, now: datetime
) -> VerificationRun:
    plan = kept.plan
    fields = {**plan["subject"], "basis": Basis(**plan["subject"]["basis"])}
    subject = RunSpec(**{**fields, "members": tuple(fields["members"])})
    recorded = (subject.merge_id, subject.target, subject.sha, subject.tree, subject.basis.fingerprint)
    if recorded != tuple(row[name] for name in ("merge_id", "target", "commit_sha", "tree", "fingerprint")):
        raise Unproven("is not the one of its record")
    ended = kept.exit()
    if ended is not None and ended.limit is None and ended.code in _KILLED:
        raise Unproven("was killed while no daemon followed it")
    laid = _unchanged(repo, context, row, subject, plan)
    if (landing := in_force(subject, now)) is None:
        raise Unproven("began under other commands, programs, recipes or variables")
    left = Left(kept, laid, [_verdict(red) for red in plan["reds"]], plan["inputs"], plan["env"])
    return VerificationRun(repo, context, subject, landing, row["slot"], row["run_id"], now, left)


def _unchanged(
    repo: Git, context: VerificationContext, row: VerificationRunRow, subject: RunSpec, plan: Mapping[str, Any]
) -> LaidOut:
    """The worktree of a run, if it still has the run's commit, and nothing has written there since its command began.

    It does not depend on content alone: what somebody changed while nobody looked, and changed back, the command may have seen.
    """
    worktree = VerificationWorktree(context.db, context.places, repo, str(row["slot"]))
    try:
        checkout = worktree.prove()
    except PathReplaced as error:
        raise Unproven(f"lost its worktree: {error.message}") from error
    if str(worktree.path) != plan["worktree"]:
        raise Unproven("lost its worktree")
    if checkout.head() != subject.sha or checkout.branch() is not None:
        raise Unproven("has another commit in its worktree now")
    files = Whole(checkout, plan["converted"])
    if touched := files.touched(plan["begun"]):
        raise Unproven(f"has files in its worktree that were written since: {', '.join(touched[:5])}")
    return LaidOut(worktree, worktree.path, subject.sha, files)


def _verdict(red: Mapping[str, Any]) -> Verdict:
    words = {
        "status": ReceiptStatus(red["status"]),
        "log": Path(red["log"]),
        "failed_tests": tuple(red["failed_tests"]),
    }
    return Verdict(**{**red, **words})


def end(context: VerificationContext, run_id: int, path: Path | None) -> None:
    """End what is left of a run: its keeper, and every process of its slot.

    Args:
        path: The slot's worktree; None: there is none any more.
    """
    folder = folder_of(context, run_id)
    its = marks(path or folder, context.project_id)
    for _look in range(_LOOKS):
        if keeping.revoke(folder, its):
            break
        end_marked(its)
    keeping.forget(folder)
