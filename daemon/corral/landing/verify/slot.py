"""The one verification that runs at a time, for all targets: started, followed, and its outcome stored.

It is lost with the process and started again: what is stored before is only that the request is being verified.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Connection

from corral.config.sections.sharing import Landing
from corral.core.crash import crash_point
from corral.core.errors import CorralError, DatabaseUnavailable
from corral.core.events import EventKind
from corral.core.states import MergeState, ReceiptRole, ReceiptStatus
from corral.git.process.command import Git
from corral.landing import land, pauses
from corral.landing.verify import blame, evidence, run_logs, verification_receipts
from corral.landing.verify.verification import Verdict, end_marked, marks
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_run import RunSpec, VerificationRun
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.store import events
from corral.store.rows.merges import MergeRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import merges


class VerificationSlot:
    """The slot for one verification. The queue owns it and passes its ``on_settled`` and ``watch_exit``.

    All but :meth:`stop` are for the thread that steps.
    """

    def __init__(self, context: VerificationContext, on_settled: OnSettled, watch_exit: Callable[[int], None]) -> None:
        self._context = context
        self._db = context.db
        self._on_settled = on_settled
        self._watch_exit = watch_exit
        self._run: VerificationRun | None = None
        self._stopped = False

    def end_left(self, repo: Git) -> None:
        """End the processes that a verification of a dead daemon left."""
        end_marked(self._context.marks_of_programs())
        for folder in VerificationWorktree(self._db, self._context.places, repo).folders():
            end_marked(marks(folder, self._context.project_id))

    def seal_left(self) -> None:
        """Seal the logs of verifications that a dead daemon did not see the end of, while their requests say so."""
        logs = self._context.project.logs_dir
        for row in self._db.read(lambda conn: merges.listing(conn, [MergeState.VERIFYING])):
            for log in run_logs.files(self._context.project, row["merge_id"]).values():
                self._context.put_off_sealing(log)
        for log in logs.glob("verification-*.log"):
            self._context.put_off_sealing(log)

    @property
    def is_taken(self) -> bool:
        """Whether a verification runs, or its outcome is not stored yet."""
        return self._run is not None

    def due_at(self, now: datetime) -> datetime | None:
        """When to follow what runs at the latest; None: nothing runs."""
        return self._run.due_at(now) if self._run is not None else None

    def stop(self) -> None:
        """End what runs, for good. May be called from any thread; the second of two callers ends it."""
        self._stopped = True
        if self._run is not None:
            self._run.stop()

    def start(self, repo: Git, subject: RunSpec, landing: Landing, now: datetime) -> bool:
        """Begin to verify a commit for a request; False if the request is not what it was."""
        if self._db.write(lambda conn: merges.verifying(conn, subject.merge_id, subject.candidate_sha, now)) is None:
            return False
        crash_point("queue.verifying_stored")
        self._run = run = VerificationRun(repo, self._context, subject, landing, now)
        if self._stopped:
            run.stop()
        crash_point("queue.verification_started")
        self._watch(run)
        return True

    def follow(self, now: datetime) -> bool:
        """Poll the verification; True once none runs: it ended, its request changed, or it could not be polled."""
        run = self._run
        if run is None:
            return True
        with self._db.reading() as conn:
            merge = merges.find(conn, run.subject.merge_id)
        expected = (MergeState.VERIFYING, run.subject.candidate_sha)
        if merge is None or (merge["state"], merge["candidate_sha"]) != expected:
            run.stop()
            if run.is_preparing:  # the setup uses the worktree until it ends
                return False
        elif not self._moved_on(run, merge, now):
            return False
        run.close()
        self._run = None
        return True

    def _moved_on(self, run: VerificationRun, merge: MergeRow, now: datetime) -> bool:
        pid = run.pid
        try:
            verdict = run.step(now)
        except DatabaseUnavailable:
            raise
        except (CorralError, OSError) as error:
            run.stop()
            reason = f"The verification could not be followed: {blame.describe(error)}"
            self._db.write(lambda conn: pauses.record_fault(conn, merge, reason, now))
            return True
        if self._stopped:
            run.stop()
            return True
        if verdict is None:
            if run.pid != pid:
                self._watch(run)
            return False
        self._db.write(lambda conn: self._conclude(conn, run, verdict, merge, now))
        crash_point("queue.verdict_stored")
        return True

    def _watch(self, run: VerificationRun) -> None:
        if run.pid is not None:
            self._watch_exit(run.pid)

    def _conclude(
        self, conn: Connection, run: VerificationRun, verdict: Verdict, merge: MergeRow, now: datetime
    ) -> None:
        """Store the result. The queue's next step acts on it, unless the result ends the request's try here."""
        receipt = verification_receipts.of_verdict(conn, run, verdict, self._context.project.root, now)
        if run.flaky and verdict.status is ReceiptStatus.PASSED:
            flaky = EventKind.MERGE_FLAKY({"reason": verdict.reason})
            events.record(conn, now, flaky, task_id=merge["task_id"], merge_id=merge["merge_id"])
        subject, why = run.subject, str(verdict.reason)
        of_target = subject.role is ReceiptRole.CONTROL
        if verdict.status is not ReceiptStatus.ERROR:
            pauses.record_verdict(conn, merge["target"], now)
        elif not verdict.suspect:
            pauses.record_fault(conn, merge, why, now)
            return
        elif of_target:
            fault = f"{merge['target']} without any change fails like it: {why}"
            pauses.record_fault(conn, merge, fault, now, proven=True)
            return
        elif (reason := evidence.of_second_run(conn, merge, subject.control, receipt)) is not None:
            end = {"reason": reason, "receipt_id": receipt["receipt_id"]}
            land.end(conn, self._on_settled, merge["merge_id"], MergeState.FAILED, now=now, **end)
            return
        if not of_target:
            merges.judged(conn, merge["merge_id"], subject.candidate_sha, receipt["receipt_id"])
