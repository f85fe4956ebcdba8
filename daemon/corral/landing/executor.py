"""Carries out what the plan of a line says, and records what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.sections.sharing import Landing
from corral.core.crash import crash_point
from corral.core.errors import ConfigInvalid, CorralError, DatabaseUnavailable, GitFailed, Unsupported
from corral.core.logs import logger
from corral.core.remedies import with_remedy
from corral.core.states import MergeState
from corral.core.visible import visible
from corral.git import refs
from corral.git.commits import effective
from corral.git.land import candidates
from corral.git.process.command import Git, Identity
from corral.landing import (
    blockers,
    checks,
    ladder,
    land,
    pauses,
    shapes,
    signing,
)
from corral.landing.facts import Facts
from corral.landing.line import Line, Next, is_bypassed
from corral.landing.rewinds import Rewinds
from corral.landing.verify import blame, evidence, verification_receipts
from corral.landing.verify.slots import VerificationSlots
from corral.landing.verify.verification_run import Basis, RunSpec
from corral.store.protocol import Store
from corral.store.rows import required
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import merges, receipts, runs
from corral.work.merges.wire import TARGET_RED

log = logger("landing")
_USUAL_SLOTS = 4
"""At most, where the number of slots is left to Corral."""


class Executor:
    """Does what :func:`corral.landing.ladder.plan` returns; every outcome is a row.

    Args:
        settings: The settings in force.
        on_settled: Told in the transaction in which a request ends.
    """

    def __init__(
        self,
        db: Store,
        facts: Facts,
        slots: VerificationSlots,
        rewinds: Rewinds,
        settings: Callable[[], Settings],
        on_settled: OnSettled,
    ) -> None:
        self._db = db
        self._facts = facts
        self._slots = slots
        self._rewinds = rewinds
        self._settings = settings
        self._on_settled = on_settled

    def act(self, repo: Git, line: Line, now: datetime) -> Next | None:
        """Make a plan and begin to carry it out; :attr:`Next.PASSED`: look at the line again."""
        members = [self._facts.member(repo, line, row, now) for row in line.rows.values()]
        runs_now = [run.subject for run in self._slots.of(line.target) if self._slots.is_wanted(run)]
        running, checking = ({run.sha for run in runs_now if run.is_check is which} for which in (False, True))
        actions = ladder.plan(
            members, line.tip, batch=line.batch, slots=max(line.slots, 1), running=running, checking=checking,
            verify_each=line.landing.verify_each,
            is_frozen=line.is_frozen, judges_tip=line.direct.is_wanted,
        )  # fmt: skip
        wanted = [action for action in actions if isinstance(action, ladder.Verify)]
        if wanted or not actions:
            return self._verify(repo, line, wanted, now)
        (action,) = actions
        if isinstance(action, ladder.Land):
            return self._land(repo, line, action, now)
        assert not isinstance(action, ladder.Verify)
        merge = line.rows[action.merge_id]
        try:
            if isinstance(action, ladder.Build):
                return self._build(repo, line, merge, action.on_sha, now)
            return self._judge(repo, line, merge, action, now)
        except DatabaseUnavailable:
            raise
        except ConfigInvalid as error:
            return self.hold(merge, because(error), now)
        except (CorralError, OSError) as error:
            return self.fault(merge, error, now)

    def _verify(self, repo: Git, line: Line, wanted: Sequence[ladder.Verify], now: datetime) -> Next | None:
        """Have exactly these runs, as far as there are slots; end those that have become pointless."""
        kept = set[tuple[str, str, bool]]()
        keys = {(verify.merge_id, verify.sha, verify.is_check): verify for verify in wanted}
        for run in self._slots.of(line.target):
            key = (run.subject.merge_id, run.subject.sha, run.subject.is_check)
            if key in keys:
                kept.add(key)
                if (
                    line.slots > 1 and not keys[key].is_alone
                ):  # with one slot its second run is the proof that saves others
                    self._slots.joined(run)
            elif self._slots.is_wanted(run):
                self._slots.drop(run)
        for key, verify in keys.items():
            if key not in kept and len(kept) < line.slots:
                if not self._slots.start(repo, self._spec(repo, line, verify, now), line.landing, self.number(), now):
                    break
                kept.add(key)
        return Next.RUNNING if kept else None

    def _spec(self, repo: Git, line: Line, verify: ladder.Verify, now: datetime) -> RunSpec:
        if not verify.merge_id:
            tree = self._facts.tree(repo, line.tip)
            return RunSpec("", line.target, "", line.tip, tree, line.basis, line.tip, is_alone=verify.is_alone)
        merge = line.rows[verify.merge_id]
        candidate, on_sha = required(merge["candidate_sha"]), required(merge["tip_sha"])
        if verify.is_check:
            return checks.spec(merge, verify.sha, self._facts.tree(repo, verify.sha), line.check_basis)
        with self._db.reading() as conn:
            receipt = receipts.get(conn, merge["receipt_id"])
        control = self._facts.evidence(repo, line, merge, receipt, now)[1] if receipt and merge["suspect_at"] else None
        return RunSpec(
            merge["merge_id"],
            line.target,
            candidate,
            verify.sha,
            self._facts.tree(repo, verify.sha),
            line.basis,
            line.tip if merge["suspect_at"] is None else on_sha,
            control["receipt_id"] if control is not None and verify.sha == candidate else None,
            line.before(merge["merge_id"]) if verify.sha == candidate else (),
            verify.is_alone,
        )

    def _build(self, repo: Git, line: Line, merge: MergeRow, on_sha: str, now: datetime) -> Next:
        """Build the candidate commit; create its ref before the row names it."""
        merge_id = merge["merge_id"]
        with self._db.reading() as conn:
            submitter = merges.submitter(conn, merge["task_id"])
        if submitter not in line.identities:
            line.identities[submitter] = effective(repo, Identity(*submitter) if submitter else None)
        try:
            built = shapes.build(
                self._db, repo, line.landing, merge, on_sha, line.tip, line.identities[submitter], now,
                line.stack(merge_id).begun_on, self._facts.plain,
            )  # fmt: skip
        except Unsupported as error:
            return self._end(merge, MergeState.FAILED, now, reason=f"{error.message} {error.remedy}")
        if built is None and on_sha == line.tip:
            place, head = line.place, merge["head_sha"]
            is_here_alone = place.remote and not refs.is_ancestor(repo, head, place.remote_sha)
            also = f" {place.remote} gets it with what lands next." if is_here_alone else ""
            return self.already_there(repo, merge, line.tip, line.landing, line.basis, now, also)
        if built is None:  # a request before it brings it
            built = candidates.Candidate(on_sha, self._facts.tree(repo, on_sha), line.landing.style)
        if isinstance(built, candidates.Conflicted) and on_sha != line.tip:
            return self._changed(line, merge_id, self._db.write(merges.clashes, merge_id, on_sha, now))
        if isinstance(built, candidates.Conflicted):
            conflicts = [{"path": visible(item.path), "kind": item.kind} for item in built.paths]
            reason = f"{merge['branch']} conflicts with {merge['target']} at {on_sha[:12]}: {built.in_words}"
            reason = built.text if isinstance(built, candidates.Behind) else reason
            return self._end(merge, MergeState.CONFLICT, now, reason=reason, conflicts=conflicts)
        crash_point("queue.candidate_built")
        candidates.hold(repo, merge_id, built.sha)
        crash_point("queue.candidate_held")
        candidate = {"candidate_sha": built.sha, "candidate_tree": built.tree, "tip_sha": on_sha, "style": built.style}
        row = self._db.write(merges.built, merge_id, **candidate, now=now)
        crash_point("queue.candidate_stored")
        outcome = self._changed(line, merge_id, row)
        if row is not None and (waits := self._facts.waits_for_approval(repo, line, row)):
            self.hold(row, waits, now)
            del line.rows[merge_id]
            line.waits = True
        return outcome

    def already_there(
        self, repo: Git, merge: MergeRow, tip: str, landing: Landing, basis: Basis, now: datetime, also: str = ""
    ) -> Next:
        """The target has the head already, or all that it brings: the request has landed, and nothing is verified.

        Its receipt is a green one where that would let a candidate with the same tree land now.

        One that had come back is opened in the same transaction, so that it never counts as open.
        """
        head = merge["head_sha"] if refs.is_ancestor(repo, merge["head_sha"], tip) else tip
        how = self._rewinds.adopt(repo, merge, head, now)
        tree = self._facts.tree(repo, head)

        def store(conn: Connection) -> MergeRow | None:
            if (
                merge["finished_at"] is not None
                and merges.reopen(conn, merge["merge_id"], merge["head_sha"], now) is None
            ):
                return None
            own, max_age_s = merge["receipt_id"], landing.verdict_max_age_s
            green = verification_receipts.green_of(conn, tree, basis.fingerprint, own, max_age_s, now)
            reason = f"The commit was on {merge['target']} already."
            receipt = green or verification_receipts.unverified(conn, tree, basis.fingerprint, reason, now)
            unseen = ": nothing verified it" if how and green is None else ""
            return land.end(
                conn, self._on_settled, merge["merge_id"], MergeState.LANDED, now=now,
                landed_sha=head, receipt_id=receipt["receipt_id"], reason=f"{merge['target']} had it already{how}{unseen}.{also}",
            )  # fmt: skip

        self._db.write(store)
        return Next.AGAIN

    def _judge(
        self, repo: Git, line: Line, merge: MergeRow, action: ladder.Suspect | ladder.Acquit | ladder.Return | ladder.Hold,
        now: datetime,
    ) -> Next:  # fmt: skip
        """Take a request out of the chain, put it back, or decide about it."""
        merge_id = merge["merge_id"]
        if isinstance(action, ladder.Acquit):
            return self._changed(line, merge_id, self._db.write(merges.acquit, merge_id, now))
        if isinstance(action, ladder.Suspect):
            smaller = max(line.batch // 2, min(line.slots, line.batch), 1)

            def suspect(conn: Connection) -> MergeRow | None:
                runs.set_batch(conn, line.target, smaller)
                is_proof = merge["tip_sha"] == line.tip and runs.was_alone(conn, merge["receipt_id"])
                return merges.suspect(conn, merge_id, now, keeps_receipt=is_proof)

            line.batch = smaller
            return self._changed(line, merge_id, self._db.write(suspect))
        if isinstance(action, ladder.Return) and action.by_check:
            against = self._facts.checks.against(repo, line.landing, line.check_basis, merge, now)
            return self._end(merge, MergeState.FAILED, now, **against)
        with self._db.reading() as conn:
            receipt = required(receipts.get(conn, merge["receipt_id"]))
        control = required(self._facts.evidence(repo, line, merge, receipt, now)[1])
        tip = required(merge["tip_sha"])
        if isinstance(action, ladder.Return):
            reason = evidence.against(receipt, control, merge["target"], tip)
            return self._end(merge, MergeState.FAILED, now, reason=reason)
        failure = f"{merge['target']} at {tip[:12]}, without this change. {control['reason']}"
        self.hold(merge, f"{TARGET_RED}: {failure}\nBy the {evidence.describe(control)}", now)
        return Next.AGAIN

    def _land(self, repo: Git, line: Line, action: ladder.Land, now: datetime) -> Next:
        rows = [line.rows[merge_id] for merge_id in action.merge_ids]
        if line.place.trouble:
            for row in rows:
                self.hold(row, line.place.trouble, now)
            return Next.BLOCKED
        rest_s = self._settings().landing.rest_s

        def proof(conn: Connection) -> list[ReceiptRow | None]:
            if line.landing.verify and line.landing.verify_each:
                return [self._facts.green(conn, line, row, now) for row in rows]
            if line.landing.verify:
                green = self._facts.green(conn, line, rows[-1], now)
                if green is None and len(rows) == 1 and is_bypassed(rows[0]):
                    return [verification_receipts.bypassed(conn, rows[0], line.basis.fingerprint, now)]
                return [green] * len(rows)
            fingerprint, reason = line.basis.fingerprint, "No verification command is configured (landing.verify)."
            trees = [required(row["candidate_tree"]) for row in rows]
            return [verification_receipts.unverified(conn, tree, fingerprint, reason, now) for tree in trees]

        proofs = [receipt["receipt_id"] for receipt in self._db.write(proof) if receipt is not None]
        if len(proofs) < len(rows) or not self._sign(repo, line, rows, now):
            return Next.AGAIN
        rows = [line.rows[merge_id] for merge_id in action.merge_ids]
        state = land.land(self._db, repo, rows, proofs, line.place, rest_s=rest_s, on_settled=self._on_settled, now=now)
        self._rewinds.remember(line.target)
        if state is not MergeState.HELD:
            if state is MergeState.LANDED or (state is None and line.place.remote):
                self._db.write(self._landed, line, action, now)
            return Next.AGAIN
        for row in rows:
            if self._facts.row(row)["state"] != MergeState.HELD:
                continue
            del line.rows[row["merge_id"]]
            if self.stand_aside(row, now) is Next.BLOCKED:
                return Next.BLOCKED
        line.waits = True
        return Next.PASSED

    def _sign(self, repo: Git, line: Line, rows: Sequence[MergeRow], now: datetime) -> bool:
        """Sign what is to land, if the user signs; False: it could not be signed, or a request has changed."""
        behind = [row for row in line.rows.values() if row not in rows]
        try:
            renamed = signing.sign(self._db, repo, rows, behind, now)
        except GitFailed as error:
            signing.hold(self._db, repo, rows, with_remedy(error.message, error.remedy), now)
            return False
        if renamed:
            self._slots.rename(renamed)
            line.rows.update({merge_id: self._facts.row(row) for merge_id, row in line.rows.items()})
        return renamed is not None

    def _landed(self, conn: Connection, line: Line, action: ladder.Land, now: datetime) -> None:
        """The next chain may be twice as long, if nothing of this one was red."""
        if not is_bypassed(line.rows[action.merge_ids[0]]):
            pauses.record_verdict(conn, line.target, now)
        if action.is_clean and line.batch < ladder.LONGEST_BATCH:
            runs.set_batch(conn, line.target, min(2 * line.batch, ladder.LONGEST_BATCH))

    def _changed(self, line: Line, merge_id: str, row: MergeRow | None) -> Next:
        """Go on with a request as it is stored now; None: it has changed meanwhile, so the line is read again."""
        if row is None:
            return Next.AGAIN
        line.rows[merge_id] = row
        return Next.PASSED

    def number(self) -> int:
        """How many verifications may run at once."""
        number = self._settings().landing.slots
        return self._slots.most(min(max((os.cpu_count() or 1) // 2, 1), _USUAL_SLOTS) if number == "auto" else number)

    def stand_aside(self, merge: MergeRow, now: datetime) -> Next:
        """What a request that is held does to those behind it."""
        with self._db.reading() as conn:
            passed = blockers.may_be_passed(conn, merge["merge_id"], now)
        return Next.PASSED if passed else Next.BLOCKED

    def hold(self, merge: MergeRow, reason: str, now: datetime) -> Next:
        """Have a request wait for what its reason says."""
        self._db.write(merges.hold, merge["merge_id"], reason, now)
        return Next.BLOCKED

    def hold_first(self, requests: Sequence[MergeRow], reason: str, now: datetime) -> Next | None:
        """Tell with the first request why none of them can land."""
        return self.hold(requests[0], reason, now) if requests else None

    def fault(self, merge: MergeRow, error: CorralError | OSError, now: datetime) -> Next:
        """Record an error that was met with a request: it is tried again, and says nothing of the change."""
        reason = blame.describe(error)
        self._db.write(pauses.record_fault, merge, reason, now)
        return Next.AGAIN

    def fault_first(self, requests: Sequence[MergeRow], error: CorralError | OSError, now: datetime) -> Next | None:
        """Record a fault of no particular request with the first one; without requests it concerns the tip alone."""
        if requests:
            return self.fault(requests[0], error, now)
        log.warning("tip_not_verified", reason=blame.describe(error))
        return None

    def _end(self, merge: MergeRow, state: MergeState, now: datetime, **values: Any) -> Next:
        self._db.write(lambda conn: land.end(conn, self._on_settled, merge["merge_id"], state, now=now, **values))
        return Next.AGAIN


def because(error: ConfigInvalid) -> str:
    """Why settings hold a request, and what ends that."""
    return with_remedy(f"{error.message} {error.cause}", error.remedy)
