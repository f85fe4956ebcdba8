"""The merge queue: a job that re-reads rows and refs, and does one step.

What must hold:
    * A target only ever moves to a commit whose exact tree has a receipt under the commands in force on that target.
    * What is merged is the head that was submitted; it lands at most once.
    * Nobody is sent back without evidence: a conflict is one with the landed tip; a failure is a red run of the merged
      tree and a green one of the tip without it. What kept a verification from a verdict is never the change's fault.
    * One that the user's checkout keeps from landing waits alone: the others go on past it.
    * A target that is itself red sends nobody back: its line waits. Only a request made after that was found goes past
      those who wait, since it may be the repair.

Everything is decided from rows and refs, except for the one verification that runs: it is lost with the process and
started again. Safe to call at any time, any number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Landing, Settings
from corral.config.paths import Project
from corral.errors import ConfigInvalid, CorralError, GitFailed
from corral.git import candidates, refs
from corral.git.command import Git, Identity
from corral.git.identity import effective
from corral.landing import bench, landfall, obstacles, proof
from corral.landing.landfall import Tidy
from corral.landing.trial import Room, Subject, Trial
from corral.landing.verification import Verdict, end_marked
from corral.models.crash import crash_point
from corral.models.instants import after, parse
from corral.models.states import MergeState, ReceiptStatus
from corral.observe.redaction import redact
from corral.store import events, merges, receipts
from corral.store.engine import Database

Row = dict[str, Any]
MAX_TRIES = 3
BACKOFF_S = 5.0
TIDY_AGAIN = timedelta(seconds=20)


class _Next(Enum):
    """What one look at one request means for its line."""

    AGAIN = auto()
    """Something ended: look at the line anew."""
    RUNNING = auto()
    """A verification runs; there is one bench."""
    BLOCKED = auto()
    """The line waits for a way that is free, or for a green target."""
    PASSED = auto()
    """It waits for a way that is free; the others do not."""


class Queue:
    """Lands what was submitted, one request at a time.

    Args:
        repo: Opens the repository for ref-only work.
        settings: The settings in force.
        verify_settings: The ``landing`` section as it is committed on a target, given by its full ref name: never from the
            branch that wants to land.
        prepare: Makes the verification worktree usable; returns what its commands need in their environment.
        on_settled: Told in the transaction in which a request ends.
        nudge: Told after a request has ended, so that others look soon.
        watch_exit: Asked to have :meth:`step` called soon after this process ends.
        environ: The daemon's environment, of which verification gets a part without any credential.
    """

    def __init__(
        self,
        db: Database,
        project: Project,
        repo: Callable[[], Git],
        settings: Callable[[], Settings],
        verify_settings: Callable[[str], Landing],
        prepare: Callable[[Path], Mapping[str, str]],
        on_settled: landfall.OnSettled,
        nudge: Callable[[], None],
        watch_exit: Callable[[int], None],
        environ: Mapping[str, str],
    ) -> None:
        self._db = db
        self._project = project
        self._open = repo
        self._settings = settings
        self._verify_settings = verify_settings
        self._prepare = prepare
        self._on_settled = on_settled
        self._nudge = nudge
        self._watch_exit = watch_exit
        self._environ = environ
        self._trial: Trial | None = None
        self._stopped = False
        self._untidy = False
        self._tidy_at: datetime | None = None

    def recover(self, now: datetime) -> None:
        """Finish or undo what an earlier life left: processes, intents, half-verified requests, refs of ended ones."""
        repo = self._open()
        end_marked(self._bench)
        landfall.resume(self._db, repo, on_settled=self._on_settled, now=now)
        self._requeue_verifying(now)
        self._untidy = landfall.sweep(self._db, repo, orphans=True) is not Tidy.DONE

    def stop(self, now: datetime) -> None:
        """End a running verification, whose request goes back to the queue, and take no further step.

        May be called from another thread than :meth:`step`: whoever comes second ends the verification.
        """
        self._stopped = True
        if self._trial is not None:
            self._trial.stop()
        self._requeue_verifying(now)

    def step(self, now: datetime) -> datetime | None:
        """Do what is due.

        Returns:
            When to be called again: None when nothing waits for time, only for a nudge.
        """
        if self._stopped:
            return None
        if self._trial is not None and not self._follow(self._trial, now):
            return self._trial.due_at(now)
        repo = self._open()
        if not landfall.resume(self._db, repo, on_settled=self._on_settled, now=now):
            return now + obstacles.PATIENCE
        due = self._tidy(repo, now)
        for target in self._db.read(merges.busy_targets):
            outcome = self._advance_line(repo, target, now)
            if outcome is _Next.AGAIN:
                self._untidy = True
                self._tidy(repo, now)
                self._nudge()
                return now
            if outcome is _Next.RUNNING and self._trial is not None:
                return self._trial.due_at(now)
            if outcome is _Next.BLOCKED:
                due.append(self._db.read(lambda conn, target=target: obstacles.next_look(conn, target, now)))  # type: ignore[misc]
        waiting = self._db.read(merges.next_due_at)
        if waiting is not None:
            due.append(max(now, parse(waiting)))
        return min(due, default=None)

    def _tidy(self, repo: Git, now: datetime) -> list[datetime]:
        """Let go of what has ended; when to try again, if git could not: it waits for locks, and nobody waits for it."""
        if self._untidy and (self._tidy_at is None or now >= self._tidy_at):
            left = landfall.sweep(self._db, repo, orphans=False)
            self._untidy = left is not Tidy.DONE
            self._tidy_at = now + TIDY_AGAIN if left is Tidy.FAILED else None
        return [self._tidy_at] if self._tidy_at else []

    # -- a line: the open requests of one target ------------------------------------------------------------------

    def _advance_line(self, repo: Git, target: str, now: datetime) -> _Next | None:
        blocked_by: Row | None = None
        passed: set[str] = set()
        for merge in self._db.read(lambda conn: merges.eligible(conn, target, now)):
            if merge["branch"] in passed:
                continue
            if blocked_by is not None and not self._may_repair(merge, blocked_by):
                continue
            try:
                outcome = self._advance(repo, merge, now)
            except ConfigInvalid as error:
                self._hold(merge, f"{error.message} {error.cause}", now)
                return _Next.BLOCKED
            except GitFailed as error:
                said = redact(f"{error.message} {error.cause}")
                self._db.write(lambda conn: self._no_verdict(conn, merge, said, now))  # noqa: B023 - run before the loop goes on
                return _Next.AGAIN
            if outcome is _Next.PASSED:
                passed.add(merge["branch"])
                continue
            if outcome is not _Next.BLOCKED:
                return outcome
            blocked_by = blocked_by or self._db.read(lambda conn, m=merge: merges.get(conn, m["merge_id"]))  # type: ignore[misc]
        return _Next.BLOCKED if blocked_by is not None or passed else None

    def _may_repair(self, merge: Row, blocked_by: Row) -> bool:
        receipt = self._db.read(lambda conn: receipts.get(conn, blocked_by["receipt_id"]))
        if receipt is None or receipt["status"] != ReceiptStatus.FAILED:
            return False
        return bool(merge["created_at"] > receipt["created_at"])

    def _advance(self, repo: Git, merge: Row, now: datetime) -> _Next:
        tip = refs.read(repo, refs.branch_ref(merge["target"]))
        if tip is None:
            return self._hold(merge, f"There is no branch {merge['target']} any more.", now)
        if obstacles.remain(self._db, repo, merge, tip):
            return self._stand_aside(merge, now)
        landing = self._verify_settings(refs.branch_ref(merge["target"]))
        fingerprint = proof.fingerprint(landing, self._settings().worktrees)
        if merge["candidate_sha"] is None or merge["tip_sha"] != tip:
            built = self._build(repo, merge, tip, fingerprint, now)
            if isinstance(built, _Next):
                return built
            merge = built
        if not landing.verify:
            said = "No verification command is configured (landing.verify)."
            tree = merge["candidate_tree"]
            none = self._db.write(lambda conn: proof.unverified(conn, tree, fingerprint, said, now))
            return self._land(repo, merge, none, now)
        green, own = self._db.read(
            lambda conn: (
                receipts.latest(conn, merge["candidate_tree"], fingerprint, ReceiptStatus.PASSED),
                receipts.get(conn, merge["receipt_id"]),
            )
        )
        if green is not None:
            return self._land(repo, merge, green, now)
        if own is None or (own["status"], own["fingerprint"]) != (ReceiptStatus.FAILED.value, fingerprint):
            return self._verify(repo, merge, landing, fingerprint, merge["candidate_sha"], merge["candidate_tree"], now)
        return self._blame(repo, merge, own, landing, fingerprint, now)

    def _build(self, repo: Git, merge: Row, tip: str, fingerprint: str, now: datetime) -> Row | _Next:
        """Make the commit that would land, and have it referenced before it is mentioned."""
        merge_id = merge["merge_id"]
        submitter = self._db.read(lambda conn: merges.submitter(conn, merge["task_id"]))
        identity = effective(repo, Identity(*submitter) if submitter else None)
        try:
            built = candidates.build(repo, tip, merge["head_sha"], landfall.message(merge), identity, now)
        except GitFailed:
            raise
        except CorralError as error:
            return self._end(merge, MergeState.FAILED, now, reason=f"{error.message} {error.remedy}")
        if isinstance(built, candidates.Nothing):
            return self._already_there(repo, merge, fingerprint, now)
        if isinstance(built, candidates.Conflicted):
            conflicts = [{"path": item.path, "kind": item.kind} for item in built.paths]
            named = ", ".join(f"{item['path']} ({item['kind']})" for item in conflicts)
            reason = f"{merge['branch']} conflicts with {merge['target']} at {tip[:12]}: {named}"
            return self._end(merge, MergeState.CONFLICT, now, reason=reason, conflicts=conflicts)
        crash_point("queue.candidate_built")
        candidates.hold(repo, merge_id, built.sha)
        crash_point("queue.candidate_held")
        row = self._db.write(
            lambda conn: merges.built(
                conn, merge_id, candidate_sha=built.sha, candidate_tree=built.tree, tip_sha=tip, now=now
            )
        )
        crash_point("queue.candidate_stored")
        return row if row is not None else _Next.AGAIN

    def _already_there(self, repo: Git, merge: Row, fingerprint: str, now: datetime) -> _Next:
        """The target has the head already: landed, and nothing new to prove."""
        head = merge["head_sha"]
        tree = repo.must("rev-parse", "--verify", f"{head}^{{tree}}")

        def store(conn: Connection) -> Row | None:
            known = receipts.latest(conn, tree, fingerprint, ReceiptStatus.PASSED)
            said = f"The commit was on {merge['target']} already."
            receipt = known or proof.unverified(conn, tree, fingerprint, said, now)
            return landfall.end(
                conn, self._on_settled, merge["merge_id"], MergeState.LANDED, now=now,
                landed_sha=head, receipt_id=receipt["receipt_id"], reason=f"{merge['target']} had it already.",
            )  # fmt: skip

        self._db.write(store)
        return _Next.AGAIN

    def _blame(self, repo: Git, merge: Row, own: Row, landing: Landing, fingerprint: str, now: datetime) -> _Next:
        """The merged tree is red. Whether the request is to blame is for the tip without it to say."""
        tree = repo.must("rev-parse", "--verify", f"{merge['tip_sha']}^{{tree}}")
        green, red = self._db.read(
            lambda conn: (
                receipts.latest(conn, tree, fingerprint, ReceiptStatus.PASSED),
                receipts.latest(conn, tree, fingerprint, ReceiptStatus.FAILED),
            )
        )
        if green is not None:
            reason = f"{own['reason']}\nThe target without it is green. Log: {own['log']}"
            return self._end(merge, MergeState.FAILED, now, reason=reason)
        # A red tip counts if it was seen no earlier than the request's own red: so a retry looks at it again.
        if red is not None and red["created_at"] >= own["created_at"]:
            where = f"{merge['target']} at {merge['tip_sha'][:12]}"
            return self._hold(merge, f"The target itself is red: {where}, without this change. {red['reason']}", now)
        return self._verify(repo, merge, landing, fingerprint, merge["tip_sha"], tree, now)

    # -- outcomes -------------------------------------------------------------------------------------------------

    def _land(self, repo: Git, merge: Row, receipt: Row, now: datetime) -> _Next:
        state = landfall.land(self._db, repo, merge, receipt["receipt_id"], on_settled=self._on_settled, now=now)
        return self._stand_aside(merge, now) if state is MergeState.HELD else _Next.AGAIN

    def _stand_aside(self, merge: Row, now: datetime) -> _Next:
        passed = self._db.read(lambda conn: obstacles.may_be_passed(conn, merge["merge_id"], now))
        return _Next.PASSED if passed else _Next.BLOCKED

    def _hold(self, merge: Row, reason: str, now: datetime) -> _Next:
        self._db.write(lambda conn: merges.hold(conn, merge["merge_id"], reason, now))
        return _Next.BLOCKED

    def _end(self, merge: Row, state: MergeState, now: datetime, **values: Any) -> _Next:
        self._db.write(lambda conn: landfall.end(conn, self._on_settled, merge["merge_id"], state, now=now, **values))
        return _Next.AGAIN

    def _requeue_verifying(self, now: datetime) -> None:
        def requeue(conn: Connection) -> None:
            landing = {merge_id for intent in merges.intents(conn) for merge_id in intent["merge_ids"]}
            for row in merges.listing(conn, [MergeState.VERIFYING]):
                if row["merge_id"] not in landing:
                    merges.requeue(conn, row["merge_id"], now, tries=row["tries"])

        self._db.write(requeue)

    # -- the verification that runs -------------------------------------------------------------------------------

    @property
    def _bench(self) -> Path:
        return self._project.root / self._settings().worktrees.root / bench.NAME

    def _verify(
        self, repo: Git, merge: Row, landing: Landing, fingerprint: str, sha: str, tree: str, now: datetime
    ) -> _Next:
        subject = Subject(merge["merge_id"], merge["candidate_sha"], sha, tree, fingerprint)
        if self._db.write(lambda conn: merges.verifying(conn, subject.merge_id, subject.candidate_sha, now)) is None:
            return _Next.AGAIN
        crash_point("queue.verifying_stored")
        room = Room(self._bench, self._project.logs_dir / "merges", self._prepare, self._environ)
        self._trial = trial = Trial(repo, room, subject, landing, now)
        if self._stopped:
            trial.stop()
        crash_point("queue.verification_started")
        self._watch(trial)
        return _Next.RUNNING

    def _follow(self, trial: Trial, now: datetime) -> bool:
        """Whether the trial is over: concluded, or no longer wanted."""
        subject = trial.subject
        merge = self._db.read(lambda conn: merges.find(conn, subject.merge_id))
        if merge is None or (merge["state"], merge["candidate_sha"]) != (MergeState.VERIFYING, subject.candidate_sha):
            trial.stop()
        else:
            pid = trial.pid
            verdict = trial.step(now)
            if self._stopped:
                trial.stop()
            elif verdict is not None:
                self._conclude(trial, verdict, merge, now)
            else:
                if trial.pid != pid:
                    self._watch(trial)
                return False
        trial.close()
        self._trial = None
        return True

    def _no_verdict(self, conn: Connection, merge: Row, why: str, now: datetime, receipt_id: str | None = None) -> None:
        """Something other than the change kept it from being judged: tried again a little later, a few times."""
        tries = merge["tries"] + 1
        if tries < MAX_TRIES:
            reason = f"No verdict in try {tries} of {MAX_TRIES}: {why}"
            wait_s = BACKOFF_S * 2 ** (tries - 1)
            merges.requeue(conn, merge["merge_id"], now, reason=reason, tries=tries, not_before_at=after(now, wait_s))
            return
        reason = f"There was no verdict in {MAX_TRIES} tries, which says nothing against the change: {why}"
        end = {"reason": reason, **({"receipt_id": receipt_id} if receipt_id else {})}
        landfall.end(conn, self._on_settled, merge["merge_id"], MergeState.FAILED, now=now, **end)

    def _watch(self, trial: Trial) -> None:
        if trial.pid is not None:
            self._watch_exit(trial.pid)

    def _conclude(self, trial: Trial, verdict: Verdict, merge: Row, now: datetime) -> None:
        """Store what was found; what follows from it is for the next look at the line to say."""
        subject, merge_id = trial.subject, merge["merge_id"]

        def store(conn: Connection) -> None:
            receipt = proof.of_verdict(conn, trial, verdict, self._project.root, now)
            if trial.flaky and verdict.status is ReceiptStatus.PASSED:
                events.record(
                    conn,
                    now,
                    "merge.flaky",
                    task_id=merge["task_id"],
                    merge_id=merge_id,
                    data={"reason": verdict.reason},
                )
            if verdict.status is not ReceiptStatus.ERROR:
                if subject.sha == subject.candidate_sha:
                    merges.judged(conn, merge_id, subject.candidate_sha, receipt["receipt_id"])
            else:
                self._no_verdict(conn, merge, str(verdict.reason), now, receipt["receipt_id"])

        self._db.write(store)
        crash_point("queue.verdict_stored")
        self._nudge()
