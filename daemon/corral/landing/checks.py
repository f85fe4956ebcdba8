"""The check of a request (``landing.check``): cheap commands that it has to pass by itself before it is verified with others.

Its candidate upon the tip is checked. Red, twice, and green without it under the same fingerprint, sends it back, as a
verification does (:mod:`corral.landing.verify.blame`). A check that comes to no verdict, or that the target fails too, says
nothing: the request goes on to its verification. It is checked once, whatever it is built upon afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection

from corral.config.sections.sharing import Landing
from corral.core.states import ReceiptRole, ReceiptStatus
from corral.git.process.command import Git
from corral.landing.ladder import Check
from corral.landing.verify import blame, evidence, verification_receipts
from corral.landing.verify.verification_run import Basis, RunSpec
from corral.store.protocol import Store
from corral.store.rows import required
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.work.merges.store import merges, receipts


class Checks:
    """What the queue asks about them.

    Args:
        tree: The tree of a commit.
    """

    def __init__(self, db: Store, tree: Callable[[Git, str], str]) -> None:
        self._db = db
        self._tree = tree

    def look(
        self, repo: Git, landing: Landing, basis: Basis, merge: MergeRow, green: ReceiptRow | None, now: datetime
    ) -> tuple[Check | None, MergeRow]:
        """The state of the check that keeps a request out of the chain, and its row, after storing what another run has proven.

        Args:
            basis: What a check of this moment stands on.
            green: The receipt of the whole verification that its candidate has.
        """
        check, proof = self._state(repo, landing, basis, merge, now)
        if check is Check.NOT_RUN and green is not None:
            check, proof = None, green
        if check is not None or proof is None:
            return check, merge
        merge_id, sha, receipt_id = merge["merge_id"], required(merge["candidate_sha"]), proof["receipt_id"]
        return check, self._db.write(merges.checked, merge_id, sha, receipt_id, now) or merge

    def against(self, repo: Git, landing: Landing, basis: Basis, merge: MergeRow, now: datetime) -> dict[str, str]:
        """Why a request comes back whose check is red, and the receipt of that: the columns of its end."""
        control = required(self._state(repo, landing, basis, merge, now)[1])
        with self._db.reading() as conn:
            red = required(receipts.get(conn, merge["check_receipt_id"]))
        reason = evidence.against(red, control, merge["target"], required(merge["tip_sha"]))
        return {"reason": f"Its check (landing.check) is red: {reason}", "receipt_id": red["receipt_id"]}

    def _state(
        self, repo: Git, landing: Landing, basis: Basis, merge: MergeRow, now: datetime
    ) -> tuple[Check | None, ReceiptRow | None]:
        """What the check says, and by which receipt if that is not the stored one: of the same tree, or of the target."""
        if not landing.check or merge["suspect_at"] is not None:
            return None, None
        with self._db.reading() as conn:
            receipt = receipts.get(conn, merge["check_receipt_id"])
            if receipt is None and merge["candidate_tree"] is not None:
                max_age_s, tree = landing.verdict_max_age_s, merge["candidate_tree"]
                proof = verification_receipts.green_of(conn, tree, basis.fingerprint, None, max_age_s, now)
                return (Check.NOT_RUN if proof is None else None), proof
        if receipt is None:
            return Check.NOT_RUN, None
        if receipt["status"] != ReceiptStatus.FAILED or receipt["role"] != ReceiptRole.CHECK:
            return None, None
        if (merge["candidate_sha"], basis.fingerprint) != (receipt["commit_sha"], receipt["fingerprint"]):
            return Check.NOT_RUN, None
        on_tree = self._tree(repo, required(merge["tip_sha"]))
        with self._db.reading() as conn:
            return _of_red(conn, landing, receipt, on_tree, now)


def _of_red(
    conn: Connection, landing: Landing, red: ReceiptRow, on_tree: str, now: datetime
) -> tuple[Check | None, ReceiptRow | None]:
    step, control = evidence.of_candidate(conn, red, on_tree, landing.control_max_age_s, now)
    if step is blame.Step.RETURN:
        return Check.AT_FAULT, control
    void = receipts.latest(conn, on_tree, red["fingerprint"], ReceiptStatus.ERROR)
    if step is blame.Step.RUN_TARGET and void is not None and void["created_at"] > red["created_at"]:
        control = void
    elif step is blame.Step.RUN_TARGET:
        return Check.RED, None
    return None, control


def conclude(conn: Connection, subject: RunSpec, receipt: ReceiptRow, now: datetime) -> None:
    """Store what a run of the check said; of a red one the request says so at once."""
    if subject.role is not ReceiptRole.CHECK:
        return
    is_red = receipt["status"] == ReceiptStatus.FAILED
    reason = f"Its check is red; {subject.target} without it decides whether it comes back. {receipt['reason']}"
    reason_of_red = reason if is_red else None
    merges.checked(conn, subject.merge_id, subject.candidate_sha, receipt["receipt_id"], now, reason_of_red)


def spec(merge: MergeRow, sha: str, tree: str, basis: Basis) -> RunSpec:
    """The run of a check: of a request's candidate, or of what that is built upon."""
    candidate = required(merge["candidate_sha"])
    members = (merge["merge_id"],) if sha == candidate else ()
    on_sha = required(merge["tip_sha"])
    return RunSpec(
        merge["merge_id"], merge["target"], candidate, sha, tree, basis, on_sha, None, members, is_check=True
    )
