"""The merge queue: a job that re-reads rows and refs, and does one step.

Invariants:
    * A target only ever moves to a commit whose exact tree has a receipt under the commands in force on that target.
    * The submitted head is what is merged; it lands at most once.
    * Nobody is sent back without evidence (:mod:`corral.landing.verify.blame`): a conflict is one with the landed tip; a failure
      is a red run of the merged tree and a green one of the tip without it. A fault of the machine's is never the change's.
    * One fault stops one thing: an error met with one request, target or intent is stored with it, and the others go on.
    * One that the user's checkout keeps from landing waits alone: the others bypass it.
    * A request that needs a person's approval is neither verified nor landed before, and blocks no other request.
    * A target that is itself red sends nobody back: its queue is blocked. Only a request made after that was found bypasses
      those who wait, since it may be the repair.

Everything is decided from rows and refs, except for the one verification that runs (:mod:`corral.landing.verify.slot`).
Safe to call at any time, any number of times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, auto
from shlex import quote
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.sections.sharing import Landing
from corral.core.crash import crash_point
from corral.core.errors import ConfigInvalid, CorralError, DatabaseUnavailable, NotAProject, Unsupported
from corral.core.instants import parse
from corral.core.remedies import with_remedy
from corral.core.states import MergeState, ReceiptStatus
from corral.git import refs
from corral.git.identity import effective
from corral.git.land import candidates
from corral.git.process.command import Git, Identity
from corral.landing import approval, blockers, land, pauses
from corral.landing.land import Tidy
from corral.landing.rewinds import Rewinds
from corral.landing.settled_elsewhere import LOOK_AGAIN, ReturnedRequests
from corral.landing.verify import blame, evidence, verification_receipts
from corral.landing.verify.slot import VerificationSlot
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_run import Basis, RunSpec
from corral.store.rows import required
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import intents, merges, receipts
from corral.work.merges.store import pauses as pause_rows
from corral.work.merges.wire import TARGET_RED
from corral.work.tasks.store import work_pause

TIDY_AGAIN = timedelta(seconds=20)


class _Next(Enum):
    """The effect of one look at one request on its target's queue."""

    AGAIN = auto()
    """Something ended: look at the queue again."""
    RUNNING = auto()
    """A verification runs; there is one slot."""
    BLOCKED = auto()
    """The target's queue is blocked, until the blocker is gone or the target is green."""
    PASSED = auto()
    """The request is blocked; later requests bypass it."""


class Queue:
    """Lands what was submitted, one request at a time.

    Args:
        context: Where verifications run. It spawns what no step waits for, and tells when that is done, to have :meth:`step`
            called soon.
        repo: Opens the repository for ref-only work.
        settings: The settings in force.
        verify_settings: The ``landing`` section as it is committed on a target, given by its full ref name: never from the
            branch that wants to land.
        on_settled: Told in the transaction in which a request ends.
        nudge: Told after a request has ended, so that others look soon.
        watch_exit: Asked to have :meth:`step` called soon after this process ends.

    Attributes:
        rewinds: The work that targets lost after it had landed.
        stuck_checkouts: Checkouts in which a killed landing left something, by folder, and why it could not be cleared.
    """

    def __init__(
        self,
        context: VerificationContext,
        repo: Callable[[], Git],
        settings: Callable[[], Settings],
        verify_settings: Callable[[str], Landing],
        on_settled: OnSettled,
        nudge: Callable[[], None],
        watch_exit: Callable[[int], None],
    ) -> None:
        self._context = context
        self._db = context.db
        self._open = repo
        self._settings = settings
        self._verify_settings = verify_settings
        self._on_settled = on_settled
        self._nudge = nudge
        self._slot = VerificationSlot(context, on_settled, watch_exit)
        self.rewinds = Rewinds(context.db, on_settled, nudge)
        self.stuck_checkouts: dict[str, str] = {}
        self._stopped = False
        self._returned = ReturnedRequests()
        self._untidy = False
        self._tidy_at: datetime | None = None

    def recover(self, now: datetime) -> None:
        """Finish or undo what a dead daemon left: processes, intents, half-verified requests, refs of ended ones."""
        repo = self._open()
        self._slot.end_left(repo)
        land.resume(self._db, repo, on_settled=self._on_settled, now=now)
        self.rewinds.recover(repo, self._settings().retention.landed_days, now)
        self.look_at_paused(now)
        self._slot.seal_left()
        self._requeue_verifying(now, died=True)
        self._untidy = land.sweep(self._db, repo, orphans=True) is not Tidy.DONE

    def look_at_paused(self, now: datetime) -> None:
        """Have paused targets looked at in the next step: something has changed that may have been why. From any thread."""
        self._db.write(lambda conn: pause_rows.look_at_once(conn, now))

    def stop(self, now: datetime) -> None:
        """End a running verification, whose request goes back to the queue, and take no further step.

        May be called from another thread than :meth:`step`: the second of the two ends the verification.
        """
        self._stopped = True
        self._slot.stop()
        self._requeue_verifying(now)

    def step(self, now: datetime) -> datetime | None:
        """Do what is due.

        Returns:
            When to be called again: None when nothing waits for time, only for a nudge.
        """
        if self._stopped:
            return None
        repo = self._open()
        due = self.rewinds.look(repo, now)
        if self._slot.is_taken:
            if not self._slot.follow(now):
                return min([*due, *([at] if (at := self._slot.due_at(now)) else [])], default=None)
            self._nudge()
        stuck = land.resume(self._db, repo, on_settled=self._on_settled, now=now)
        due += [now + land.AGAIN] if stuck else []
        due += self._tidy(repo, now)
        look_again, self.stuck_checkouts = land.verify_landed(repo, now)
        due += look_again
        due += self._settle_returned(repo, now)
        if self._db.read(lambda conn: pauses.are_too_long(conn, now)):
            self._db.write(lambda conn: pauses.shorten(conn, now))
        if self._db.read(work_pause.current) is not None:
            return min(due, default=None)
        paused = self._db.write(pauses.current) if self._db.read(pause_rows.anyone) else {}
        for target in self._db.read(merges.busy_targets):
            if target in stuck:
                continue
            if target in paused and now < (look_at := parse(paused[target]["look_at"])):
                due.append(look_at)
                continue
            outcome = self._advance_queue(repo, target, now, paused=target in paused)
            if outcome is _Next.AGAIN:
                self._untidy = True
                self._tidy(repo, now)
                self._nudge()
                return now
            if outcome is _Next.RUNNING:
                return self._slot.due_at(now)
            if outcome is _Next.BLOCKED:
                due.append(self._db.read(lambda conn, target=target: blockers.next_look(conn, target, now)))  # type: ignore[misc]
        with self._db.reading() as conn:
            waiting = merges.next_due_at(conn, now)
        if waiting is not None:
            due.append(parse(waiting))
        return min(due, default=None)

    def _settle_returned(self, repo: Git, now: datetime) -> list[datetime]:
        """Mark returned requests as landed once their target has their commits; returns when to look again, if any remain."""
        landed, others = self._returned.landed(self._db, repo)
        for row in landed:
            merge_id, head = row["merge_id"], row["head_sha"]
            reopened = self._db.write(lambda conn, i=merge_id, h=head: merges.reopen(conn, i, h, now))  # type: ignore[misc]
            if reopened is not None:
                target = refs.branch_ref(row["target"])
                tip = refs.read(repo, target) or head
                basis = self._basis(self._verify_settings(target), tip, now)
                self._already_there(repo, reopened, basis.fingerprint, now)
                self._nudge()
        return [now + LOOK_AGAIN] if others else []

    def _tidy(self, repo: Git, now: datetime) -> list[datetime]:
        """Remove what ended requests left; returns when to try again, if git met a lock."""
        if self._untidy and (self._tidy_at is None or not now < self._tidy_at <= now + TIDY_AGAIN):
            outcome = land.sweep(self._db, repo, orphans=False)
            self._untidy = outcome is not Tidy.DONE
            self._tidy_at = now + TIDY_AGAIN if outcome is Tidy.FAILED else None
        return [self._tidy_at] if self._tidy_at else []

    # -- the queue of one target ----------------------------------------------------------------------------------

    def _advance_queue(self, repo: Git, target: str, now: datetime, *, paused: bool) -> _Next | None:
        blocked_by: MergeRow | None = None
        passed: set[str] = set()
        if paused:  # fewest tries first: a request that always meets a fault must not block the others
            requests = sorted(self._db.read(lambda conn: merges.open_of(conn, target)), key=lambda row: row["tries"])
        else:
            with self._db.reading() as conn:
                requests = merges.eligible(conn, target, now)
        for merge in requests:
            if merge["branch"] in passed:
                continue
            if blocked_by is not None and not self._may_repair(merge, blocked_by):
                continue
            try:
                outcome = self._advance(repo, merge, now)
            except DatabaseUnavailable:
                raise
            except ConfigInvalid as error:
                self._hold(merge, f"{error.message} {error.cause}", now)
                return _Next.BLOCKED
            except (CorralError, OSError) as error:
                reason = blame.describe(error)
                self._db.write(lambda conn: pauses.record_fault(conn, merge, reason, now))  # noqa: B023 - run before the loop goes on
                return _Next.AGAIN
            if outcome is _Next.PASSED:
                passed.add(merge["branch"])
                continue
            if outcome is not _Next.BLOCKED:
                return outcome
            blocked_by = blocked_by or self._db.read(lambda conn, m=merge: merges.get(conn, m["merge_id"]))  # type: ignore[misc]
        return _Next.BLOCKED if blocked_by is not None or passed else None

    def _basis(self, landing: Landing, tip_sha: str, now: datetime) -> Basis:
        return verification_receipts.basis(self._context, landing, self._settings().worktrees, tip_sha, now)

    def _may_repair(self, merge: MergeRow, blocked_by: MergeRow) -> bool:
        with self._db.reading() as conn:
            receipt = receipts.get(conn, blocked_by["receipt_id"])
        if receipt is None or receipt["status"] not in verification_receipts.NOT_GREEN:
            return False
        return bool(merge["created_at"] > receipt["created_at"])

    def _advance(self, repo: Git, merge: MergeRow, now: datetime) -> _Next:
        tip = refs.read(repo, refs.branch_ref(merge["target"]))
        if tip is None:
            self.rewinds.remember(merge["target"])
            remedy = f"Make it again: git branch {quote(merge['target'])} COMMIT"
            return self._hold(merge, with_remedy(f"There is no branch {merge['target']} any more.", remedy), now)
        try:
            if blockers.remain(self._db, repo, merge, tip):
                return self._stand_aside(merge, now)
        except NotAProject as error:  # the target's checkout is broken and blocks the request
            self._hold(merge, f"{merge['target']} cannot be moved: {blame.describe(error)}", now)
            return self._stand_aside(merge, now)
        if undecided := self.rewinds.holds(repo, merge):
            self._hold(merge, undecided, now)
            return _Next.PASSED
        landing = self._verify_settings(refs.branch_ref(merge["target"]))
        basis = self._basis(landing, tip, now)
        fingerprint = basis.fingerprint
        waits = approval.missing(repo, landing, merge, tip)
        if not waits and (merge["candidate_sha"] is None or merge["tip_sha"] != tip):
            built = self._build(repo, merge, tip, fingerprint, now)
            if isinstance(built, _Next):
                return built
            merge = built
            waits = approval.missing(repo, landing, merge, tip)
        if waits:
            self._hold(merge, waits, now)
            return _Next.PASSED
        tree = required(merge["candidate_tree"])
        if not landing.verify:
            reason = "No verification command is configured (landing.verify)."
            none = self._db.write(lambda conn: verification_receipts.unverified(conn, tree, fingerprint, reason, now))
            return self._land(repo, merge, none, now)
        with self._db.reading() as conn:
            green, receipt = (
                receipts.latest(conn, tree, fingerprint, ReceiptStatus.PASSED),
                receipts.get(conn, merge["receipt_id"]),
            )
        if green is not None and verification_receipts.proves(green, merge):
            return self._land(repo, merge, green, now)
        has_failed = receipt is not None and receipt["status"] in verification_receipts.NOT_GREEN
        if receipt is None or not has_failed or receipt["fingerprint"] != fingerprint:
            return self._verify(repo, _candidate(merge, basis), landing, now)
        return self._blame(repo, merge, receipt, basis, landing, now)

    def _build(self, repo: Git, merge: MergeRow, tip: str, fingerprint: str, now: datetime) -> MergeRow | _Next:
        """Build the candidate commit; create its ref before the row names it."""
        merge_id = merge["merge_id"]
        with self._db.reading() as conn:
            submitter = merges.submitter(conn, merge["task_id"])
        identity = effective(repo, Identity(*submitter) if submitter else None)
        try:
            built = candidates.build(repo, tip, merge["head_sha"], land.message(merge), identity, now)
        except Unsupported as error:
            return self._end(merge, MergeState.FAILED, now, reason=f"{error.message} {error.remedy}")
        if built is None:
            return self._already_there(repo, merge, fingerprint, now)
        if isinstance(built, candidates.Conflicted):
            conflicts = [{"path": item.path, "kind": item.kind} for item in built.paths]
            paths = ", ".join(f"{item['path']} ({item['kind']})" for item in conflicts)
            reason = f"{merge['branch']} conflicts with {merge['target']} at {tip[:12]}: {paths}"
            return self._end(merge, MergeState.CONFLICT, now, reason=reason, conflicts=conflicts)
        crash_point("queue.candidate_built")
        candidates.hold(repo, merge_id, built.sha)
        crash_point("queue.candidate_held")
        candidate = {"candidate_sha": built.sha, "candidate_tree": built.tree, "tip_sha": tip}
        row = self._db.write(lambda conn: merges.built(conn, merge_id, **candidate, now=now))
        crash_point("queue.candidate_stored")
        return row if row is not None else _Next.AGAIN

    def _already_there(self, repo: Git, merge: MergeRow, fingerprint: str, now: datetime) -> _Next:
        """The target has the head already: the request has landed, and nothing is verified."""
        head, how = merge["head_sha"], self.rewinds.adopt(repo, merge, now)
        tree = repo.must("rev-parse", "--verify", f"{head}^{{tree}}")

        def store(conn: Connection) -> MergeRow | None:
            green = receipts.latest(conn, tree, fingerprint, ReceiptStatus.PASSED)
            reason = f"The commit was on {merge['target']} already."
            receipt = green or verification_receipts.unverified(conn, tree, fingerprint, reason, now)
            unseen = ": nothing verified it" if how and green is None else ""
            return land.end(
                conn, self._on_settled, merge["merge_id"], MergeState.LANDED, now=now,
                landed_sha=head, receipt_id=receipt["receipt_id"], reason=f"{merge['target']} had it already{how}{unseen}.",
            )  # fmt: skip

        self._db.write(store)
        return _Next.AGAIN

    def _blame(
        self, repo: Git, merge: MergeRow, receipt: ReceiptRow, basis: Basis, landing: Landing, now: datetime
    ) -> _Next:
        """Decide about a candidate that is not green: verify the tip without it first, unless evidence exists."""
        tip = required(merge["tip_sha"])
        tree = repo.must("rev-parse", "--verify", f"{tip}^{{tree}}")
        max_age_s = landing.control_max_age_s
        with self._db.reading() as conn:
            step, control = evidence.of_candidate(conn, receipt, tree, max_age_s, now)
        candidate = _candidate(merge, basis)
        if step is blame.Step.RETURN and control is not None:
            reason = evidence.against(receipt, control, merge["target"], tip)
            return self._end(merge, MergeState.FAILED, now, reason=reason)
        if step is blame.Step.TARGET_RED and control is not None:
            failure = f"{merge['target']} at {tip[:12]}, without this change. {control['reason']}"
            return self._hold(merge, f"{TARGET_RED}: {failure}\nBy the {evidence.describe(control)}", now)
        if step is blame.Step.RUN_AGAIN and control is not None:
            return self._verify(repo, replace(candidate, control=control["receipt_id"]), landing, now)
        return self._verify(repo, replace(candidate, sha=tip, tree=tree), landing, now)

    def _verify(self, repo: Git, subject: RunSpec, landing: Landing, now: datetime) -> _Next:
        return _Next.RUNNING if self._slot.start(repo, subject, landing, now) else _Next.AGAIN

    # -- outcomes -------------------------------------------------------------------------------------------------

    def _land(self, repo: Git, merge: MergeRow, receipt: ReceiptRow, now: datetime) -> _Next:
        rest_s, receipt_id = self._settings().landing.rest_s, receipt["receipt_id"]
        state = land.land(self._db, repo, merge, receipt_id, rest_s=rest_s, on_settled=self._on_settled, now=now)
        self.rewinds.remember(merge["target"])
        if state is MergeState.LANDED:
            self._db.write(lambda conn: pauses.record_verdict(conn, merge["target"], now))
        return self._stand_aside(merge, now) if state is MergeState.HELD else _Next.AGAIN

    def _stand_aside(self, merge: MergeRow, now: datetime) -> _Next:
        with self._db.reading() as conn:
            passed = blockers.may_be_passed(conn, merge["merge_id"], now)
        return _Next.PASSED if passed else _Next.BLOCKED

    def _hold(self, merge: MergeRow, reason: str, now: datetime) -> _Next:
        self._db.write(lambda conn: merges.hold(conn, merge["merge_id"], reason, now))
        return _Next.BLOCKED

    def _end(self, merge: MergeRow, state: MergeState, now: datetime, **values: Any) -> _Next:
        self._db.write(lambda conn: land.end(conn, self._on_settled, merge["merge_id"], state, now=now, **values))
        return _Next.AGAIN

    def _requeue_verifying(self, now: datetime, *, died: bool = False) -> None:
        """Queue again the requests whose verification ended without an outcome; ``died``: because the daemon died."""

        def requeue(conn: Connection) -> None:
            landing = {merge_id for intent in intents.listing(conn) for merge_id in intent["merge_ids"]}
            for row in merges.listing(conn, [MergeState.VERIFYING]):
                if row["merge_id"] in landing:
                    continue
                if died:
                    pauses.record_death(conn, row, now)
                else:
                    merges.requeue(conn, row["merge_id"], now, tries=row["tries"])

        self._db.write(requeue)


def _candidate(merge: MergeRow, basis: Basis) -> RunSpec:
    sha = required(merge["candidate_sha"])
    return RunSpec(merge["merge_id"], sha, sha, required(merge["candidate_tree"]), basis, required(merge["tip_sha"]))
