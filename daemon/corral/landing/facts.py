"""What rows, refs and verdicts say of the requests of a line: all that the plan is made of.

Answers of git about commits never change, so the last ones are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.coordination.settings import CONFIG_IN_TREE
from corral.git import refs
from corral.git.process.command import Git
from corral.landing import (
    approval,
    checks,
    ladder,
)
from corral.landing.ladder import Judgement, Verdict
from corral.landing.line import Line, is_bypassed
from corral.landing.verify import blame, evidence, verification_receipts
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_run import Basis
from corral.store.rows import required
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.work.merges.store import merges, receipts
from corral.work.worktrees.provision import INCLUDE_FILE

_RULES = frozenset((CONFIG_IN_TREE, INCLUDE_FILE))
"""Files of the target that say how those who want to land there are judged."""
_REMEMBERED = 1000
"""Answers of git about commits."""

_JUDGEMENTS = {
    blame.Step.RETURN: Judgement.AT_FAULT,
    blame.Step.RUN_TARGET: Judgement.UNKNOWN,
    blame.Step.RUN_AGAIN: Judgement.UNSURE,
    blame.Step.TARGET_RED: Judgement.TARGET_RED,
}


class Facts:
    """What is known of requests.

    Args:
        settings: The settings in force.

    Attributes:
        checks: The checks of requests.
        plain: Commits in which no file says how to merge.
    """

    def __init__(self, context: VerificationContext, settings: Callable[[], Settings]) -> None:
        self._context = context
        self._db = context.db
        self._settings = settings
        self._approvals: dict[tuple[object, ...], str] = {}
        self._trees: dict[str, str] = {}
        self._rules: dict[tuple[str, str], bool] = {}
        self._linkless, self.plain = set[str](), set[str]()
        self.checks = checks.Checks(context.db, self.tree)

    def member(self, repo: Git, line: Line, merge: MergeRow, now: datetime) -> ladder.Member:
        """What the plan has to know of a request."""
        if merge["candidate_sha"] is None:
            return ladder.Member(
                merge["merge_id"],
                is_suspect=merge["suspect_at"] is not None,
                check=self.checks.look(repo, line.landing, line.check_basis, merge, None, now)[0],
                clashes_on=merge["clashes_on_sha"],
                behind=line.stack(merge["merge_id"]).behind,
                is_bypassed=is_bypassed(merge),
            )
        verdict, judgement, on_sha = None, None, required(merge["tip_sha"])
        with self._db.reading() as conn:
            receipt = receipts.get(conn, merge["receipt_id"])
            green = self.green(conn, line, merge, now) if line.landing.verify else None
            if not line.landing.verify or green is not None:
                verdict = Verdict.GREEN
            elif receipt is not None and _is_red(receipt, line.basis):
                verdict = Verdict.RED
        if verdict is Verdict.RED and receipt is not None and merge["suspect_at"] is not None:
            judgement = _JUDGEMENTS[self.evidence(repo, line, merge, receipt, now)[0]]
        check, row = self.checks.look(repo, line.landing, line.check_basis, merge, green, now)
        if row["merge_id"] in line.rows:
            line.rows[row["merge_id"]] = row
        return ladder.Member(
            merge["merge_id"],
            ladder.Candidate(merge["candidate_sha"], on_sha),
            verdict,
            merge["suspect_at"] is not None,
            judgement,
            check,
            ends_chain=self.changes_rules(repo, on_sha, merge["candidate_sha"]),
            behind=line.stack(merge["merge_id"]).behind,
            is_bypassed=is_bypassed(merge),
        )

    def changes_rules(self, repo: Git, before: str, after: str) -> bool:
        """Whether a candidate changes what decides about those behind it: the committed settings, or what a worktree is given."""
        if (before, after) not in self._rules:
            if len(self._rules) > _REMEMBERED:
                self._rules.clear()
            changed = refs.changed_paths(repo, before, after)
            self._rules[before, after] = not _RULES.isdisjoint(changed)
        return self._rules[before, after]

    def green(self, conn: Connection, line: Line, merge: MergeRow, now: datetime) -> ReceiptRow | None:
        """The receipt that lets a candidate land."""
        tree, max_age_s = required(merge["candidate_tree"]), line.landing.verdict_max_age_s
        return verification_receipts.green_of(conn, tree, line.basis.fingerprint, merge["receipt_id"], max_age_s, now)

    def evidence(
        self, repo: Git, line: Line, merge: MergeRow, receipt: ReceiptRow, now: datetime
    ) -> tuple[blame.Step, ReceiptRow | None]:
        """The next step to decide whether a candidate is at fault for its red run, and the run of the tip without it, if any."""
        tree = self.tree(repo, required(merge["tip_sha"]))
        with self._db.reading() as conn:
            return evidence.of_candidate(conn, receipt, tree, line.landing.control_max_age_s, now)

    def tree(self, repo: Git, sha: str) -> str:
        """The tree of a commit."""
        if sha not in self._trees:
            if len(self._trees) > _REMEMBERED:
                self._trees.clear()
            self._trees[sha] = repo.must("rev-parse", "--verify", f"{sha}^{{tree}}")
        return self._trees[sha]

    def basis(self, commands: Sequence[str], tip_sha: str, now: datetime) -> Basis:
        """What a run of these commands stands on now."""
        return verification_receipts.basis(self._context, commands, self._settings().worktrees, tip_sha, now)

    def may_repair(self, merge: MergeRow, blocked_by: MergeRow) -> bool:
        """Whether a request was made after the target was found red, so that it may be the repair."""
        with self._db.reading() as conn:
            receipt = receipts.get(conn, blocked_by["receipt_id"])
        if receipt is None or receipt["status"] not in verification_receipts.NOT_GREEN:
            return False
        return bool(merge["created_at"] > receipt["created_at"])

    def waits_for_approval(self, repo: Git, line: Line, merge: MergeRow) -> str:
        """Why a request has to wait for a person; answered once for one candidate upon one tip."""
        asked = (
            merge["merge_id"], merge["head_sha"], merge["approved_sha"], merge["candidate_sha"], merge["tip_sha"], line.tip,
            line.landing.approve, *line.landing.approve_paths, *approval.commands(line.landing),
        )  # fmt: skip
        if asked not in self._approvals:
            if len(self._approvals) > _REMEMBERED:
                for remembered in (self._approvals, self._linkless, self.plain):
                    remembered.clear()
            self._approvals[asked] = approval.missing(repo, line.landing, merge, line.tip, self._linkless)
        return self._approvals[asked]

    def row(self, merge: MergeRow) -> MergeRow:
        """A request as it is stored now."""
        with self._db.reading() as conn:
            return merges.get(conn, merge["merge_id"])


def _is_red(receipt: ReceiptRow, basis: Basis) -> bool:
    return receipt["status"] in verification_receipts.NOT_GREEN and receipt["fingerprint"] == basis.fingerprint
