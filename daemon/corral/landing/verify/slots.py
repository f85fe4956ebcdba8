"""The verifications that run, for all targets: each in a slot of its own, followed, and its outcome stored.

What is stored before is that each runs, for which request, and of what. Its commands outlive the daemon: the next one goes on
with those that are provably its own (:mod:`corral.landing.verify.left_runs`), and begins the others again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.config.sections.sharing import Landing
from corral.core.crash import crash_point
from corral.core.errors import CorralError, DatabaseUnavailable
from corral.core.logs import logger
from corral.core.remedies import with_remedy
from corral.core.states import MergeState, ReceiptRole, ReceiptStatus
from corral.git.process.command import Git
from corral.landing import checks, direct_commits, land, pauses
from corral.landing.verify import blame, evidence, flaky_tests, left_runs, run_logs, verification_receipts
from corral.landing.verify.left_runs import InForce
from corral.landing.verify.verification import Verdict, end_marked, marks
from corral.landing.verify.verification_context import DRY_RUN, VerificationContext
from corral.landing.verify.verification_run import RunSpec, VerificationRun
from corral.landing.verify.verification_worktree import VerificationWorktree, folders
from corral.runners import keeping
from corral.store.rows.merges import MergeRow, ReceiptRow, VerificationRunRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import direct_tips, merges, runs
from corral.work.merges.store.pauses import PAUSE_AFTER

log = logger("landing")

WatchExit = Callable[[Callable[[], None]], None]
"""Given a function that returns when a process has ended."""

_COMMITS = ("candidate_sha", "sha", "tip_sha")
_CLASH = "Another verification ran beside it, and may have had that port. The next {number} run one at a time."
_TAKEN_AT_WORK = "An agent was at work meanwhile, and may have had that port."
_OWN_PORTS = (
    "Let the commands take their ports from $CORRAL_PORTS, which are each slot's own, or set landing.slots to 1."
)


class VerificationSlots:
    """What runs. The queue owns it and passes its ``on_settled`` and ``watch_exit``.

    All but :meth:`stop` are for the thread that steps.
    """

    def __init__(self, context: VerificationContext, on_settled: OnSettled, watch_exit: WatchExit) -> None:
        self._context = context
        self._db = context.db
        self._on_settled = on_settled
        self._watch_exit = watch_exit
        self._running: dict[int, VerificationRun] = {}
        self._unwanted: set[int] = set()
        self._stopped = self._leaves = False

    def take_over(self, repo: Git, in_force: InForce, now: datetime) -> dict[str, str]:
        """Go on with the runs of a dead daemon that are provably its own, and end what is left of the others.

        Returns:
            By request, why one of its runs does not go on, as a predicate.
        """
        why = dict[str, str]()
        for row in self._db.read(runs.running):
            if row["run_id"] not in self._own_ids() and row["slot"] not in self._running:
                why |= self._take_over(repo, row, in_force, now)
        own = {run.path for run in self.of()}
        end_marked(self._context.marks_of_programs())
        for folder in folders(self._db):
            if folder not in own:
                end_marked(marks(folder, self._context.project_id))
        for row in self._db.read(runs.running):
            if not row["merge_id"]:  # of a tip: no request says so later
                self._seal(run_logs.files(self._context.project, run_logs.name_of_tip(row["commit_sha"])).values())
        self._db.write(runs.end_all, now, self._own_ids())
        keeping.forget_others(self._context.project.verifications_dir, [*map(str, self._own_ids()), DRY_RUN])
        return why

    def _own_ids(self) -> list[int]:
        return [run.run_id for run in self.of()]

    def _take_over(self, repo: Git, row: VerificationRunRow, in_force: InForce, now: datetime) -> dict[str, str]:
        """Go on with one run, or say why not, and end what is left of it."""
        known = {"run_id": row["run_id"], "merge_id": row["merge_id"], "commit_sha": row["commit_sha"]}
        try:
            run = left_runs.go_on(repo, self._context, row, in_force, now)
        except left_runs.Unproven as why:
            place = VerificationWorktree(self._context.db, self._context.places, repo, str(row["slot"]))
            left_runs.end(self._context, row["run_id"], place.path if place.is_there else None)
            log.warning("verification_begun_again", **known, reason=f"What its daemon left {why}.")
            return {row["merge_id"]: str(why)}
        log.info("verification_adopted", **known, slot=row["slot"])
        self._running[row["slot"]] = run
        self._watch(run)
        return {}

    def seal_left(self) -> None:
        """Seal the logs of verifications that a dead daemon did not see the end of, while their requests say so."""
        logs = self._context.project.logs_dir
        for row in self._db.read(merges.listing, [MergeState.VERIFYING]):
            self._seal(run_logs.files(self._context.project, row["merge_id"]).values())
        self._seal(logs.glob("verification-*.log"))

    def _seal(self, files: Iterable[Path]) -> None:
        """Have logs sealed, without those that are still written to."""
        at_work = {run.log for run in self.of()}
        for file in files:
            if file not in at_work:
                self._context.put_off_sealing(file)

    def of(self, target: str | None = None) -> list[VerificationRun]:
        """What runs for a target, or for any: also what is not wanted any more and has not ended yet."""
        return [run for run in self._running.values() if target in (None, run.subject.target)]

    def most(self, number: int) -> int:
        """How many of ``number`` slots may be used now: one, where verifications were in each other's way."""
        return 1 if number > 1 and self._db.read(runs.are_apart) else number

    def is_wanted(self, run: VerificationRun) -> bool:
        """Whether it was not dropped."""
        return run.slot not in self._unwanted

    def due_at(self, now: datetime) -> datetime | None:
        """When to follow what runs at the latest; None: nothing runs."""
        return min((run.due_at(now) for run in self._running.values()), default=None)

    def unsettled_count(self) -> int:
        """How many runs the next daemon could not go on with now: those whose worktree is being prepared. From any thread."""
        return sum(not run.is_kept for run in list(self._running.values()))

    def stop(self, *, leaves_runs: bool = False) -> list[str]:
        """End what runs, for good. May be called from any thread; the second of two callers ends it.

        Args:
            leaves_runs: Those that the next daemon can go on with go on.

        Returns:
            The requests whose verification goes on.
        """
        self._stopped, self._leaves = True, leaves_runs
        return [run.subject.merge_id for run in list(self._running.values()) if not self._ends(run)]

    def _ends(self, run: VerificationRun) -> bool:
        """End a run at a stop, unless it is left to the next daemon."""
        if self._leaves and run.is_kept and self.is_wanted(run):
            return False
        run.stop()
        return True

    def start(self, repo: Git, subject: RunSpec, landing: Landing, number: int, now: datetime) -> bool:
        """Begin to verify a commit for a request; False if the request is not what it was, or all ``number`` slots are taken.

        Which slot that is, :meth:`_choose` says.
        """
        free = [slot for slot in range(1, number + 1) if slot not in self._running]
        if not free:
            return False
        slot = self._choose(free, subject)

        def begin(conn: Connection) -> int | None:
            has_word = subject.role is ReceiptRole.CHECK_CONTROL  # of its red check
            is_begun = not subject.merge_id or merges.verifying(
                conn, subject.merge_id, subject.candidate_sha, now, keeps_reason=has_word
            )
            if not is_begun:
                return None
            return runs.begin(
                conn, merge_id=subject.merge_id, target=subject.target, commit_sha=subject.sha, tree=subject.tree,
                candidate_sha=subject.candidate_sha, fingerprint=subject.basis.fingerprint, slot=slot,
                is_alone=subject.is_alone, members=subject.members, now=now,
            )  # fmt: skip

        run_id = self._db.write(begin)
        if run_id is None:
            return False
        crash_point("queue.verifying_stored")
        self._running[slot] = run = VerificationRun(repo, self._context, subject, landing, slot, run_id, now)
        if self._stopped:
            self._ends(run)
        crash_point("queue.verification_started")
        self._watch(run)
        return True

    def _choose(self, free: Sequence[int], subject: RunSpec) -> int:
        """A slot in which a run proves most: candidate and control in the same one, and none whose last verdict was an error."""
        with self._db.reading() as conn:
            troubled, merge = runs.troubled_slots(conn), merges.find(conn, subject.merge_id)
            of_control = runs.slots(conn, [subject.control]).values() if subject.control else ()
            if merge is None or subject.sha == subject.candidate_sha:
                others = runs.green_slots(conn, subject.tip_sha)
            else:
                red = merge["check_receipt_id"] if subject.is_check else merge["receipt_id"]
                others = set(runs.slots(conn, [red]).values()) if red else set()
        return min(free, key=lambda slot: (slot not in of_control, slot in troubled, slot not in others, slot))

    def joined(self, run: VerificationRun) -> None:
        """Others wait by now for a run that began alone: they go on without it at once if it is red, and it is judged later."""
        if run.subject.is_alone and not run.reds:
            run.subject = replace(run.subject, is_alone=False)
            self._db.write(runs.joined, run.run_id)

    def drop(self, run: VerificationRun) -> None:
        """End a run that nobody needs any more; its slot is free once it has ended."""
        self._unwanted.add(run.slot)
        run.stop()

    def rename(self, made_again: Mapping[str, str]) -> None:
        """Go on with runs whose commits were made again with the same trees.

        Args:
            made_again: The new names of commits.
        """
        for run in self._running.values():
            subject = run.subject
            names = {name: made_again.get(sha, sha) for name in _COMMITS if (sha := getattr(subject, name))}
            run.subject = replace(subject, **names)

    def follow(self, now: datetime) -> bool:
        """Poll every run; True if one has ended: by itself, because its request changed, or it could not be polled."""
        ended = [run for run in list(self._running.values()) if self._has_ended(run, now)]
        for run in ended:
            run.close()
            del self._running[run.slot]
            self._unwanted.discard(run.slot)
        return bool(ended)

    def _has_ended(self, run: VerificationRun, now: datetime) -> bool:
        subject = run.subject
        with self._db.reading() as conn:
            merge = merges.find(conn, subject.merge_id)
            tip = direct_tips.of(conn, subject.target) if not subject.merge_id else None
        expected = (MergeState.VERIFYING, subject.candidate_sha)
        is_same = merge is not None and (merge["state"], merge["candidate_sha"]) == expected
        if self.is_wanted(run) and (is_same or (tip is not None and tip["tip_sha"] == subject.sha)):
            return self._moved_on(run, merge, now)
        run.stop()
        if run.is_preparing:  # the setup uses the worktree until it ends
            return False
        self._db.write(self._put_down, run, now)
        return True

    def _put_down(
        self, conn: Connection, run: VerificationRun, now: datetime, receipt: ReceiptRow | None = None
    ) -> None:
        """A run is over: its request waits again, unless it went on meanwhile."""
        runs.end(conn, run.run_id, now, receipt["receipt_id"] if receipt is not None else None)
        others = (other for other in self.of() if other is not run and self.is_wanted(other))
        if all(other.subject.merge_id != run.subject.merge_id for other in others):
            merges.waits_again(conn, run.subject.merge_id, run.subject.candidate_sha, now)

    def _moved_on(self, run: VerificationRun, merge: MergeRow | None, now: datetime) -> bool:
        awaited = run.await_exit
        try:
            verdict = run.step(now)
        except DatabaseUnavailable:
            raise
        except (CorralError, OSError) as error:
            run.stop()
            reason = f"The verification could not be followed: {blame.describe(error)}"

            def give_up(conn: Connection) -> None:
                if merge is not None:
                    pauses.record_fault(conn, merge, reason, now)
                else:
                    direct_commits.record_fault(conn, run.subject.target, run.subject.sha, now)
                self._put_down(conn, run, now)

            self._db.write(give_up)
            return True
        if self._stopped and (verdict is None or not self._leaves):
            return self._ends(run)
        if verdict is None:
            if run.await_exit != awaited:
                self._watch(run)
            return False
        self._db.write(self._conclude, run, verdict, merge, now)
        crash_point("queue.verdict_stored")
        return True

    def _watch(self, run: VerificationRun) -> None:
        if (await_exit := run.await_exit) is not None:
            self._watch_exit(await_exit)

    def _conclude(
        self, conn: Connection, run: VerificationRun, verdict: Verdict, merge: MergeRow | None, now: datetime
    ) -> None:
        """Store the result. The queue's next step acts on it, unless the result ends the request's try here."""
        root = self._context.project.root
        verdict = self._without_clash(conn, run, verdict, merge["tries"] if merge is not None else 0)
        receipt = verification_receipts.of_verdict(conn, run, verdict, root, now)
        self._put_down(conn, run, now, receipt)
        if merge is None:
            if verdict.status is ReceiptStatus.ERROR:
                direct_commits.record_fault(conn, run.subject.target, run.subject.sha, now)
            else:
                pauses.record_verdict(conn, run.subject.target, now)
            return
        if verdict.status is ReceiptStatus.PASSED:
            flaky_tests.record(conn, run, receipt, merge, root, now)
        subject, why = run.subject, str(verdict.reason)
        if subject.is_check and (verdict.status is not ReceiptStatus.ERROR or verdict.suspect):
            checks.conclude(conn, subject, receipt, now)
            return
        of_target = subject.role is ReceiptRole.CONTROL
        if verdict.status is not ReceiptStatus.ERROR:
            pauses.record_verdict(conn, merge["target"], now)
        elif not verdict.suspect:
            pauses.record_fault(conn, merge, why, now)
            if len(subject.members) > 1:  # any of them may have met it
                runs.set_batch(conn, subject.target, max(len(subject.members) // 2, 1))
            return
        elif of_target:
            fault = f"{merge['target']} without any change fails like it: {why}"
            pauses.record_fault(conn, merge, fault, now, proven=True)
            return
        elif (reason := evidence.of_second_run(conn, merge, subject.control, receipt)) is not None:
            end = {"reason": reason, "receipt_id": receipt["receipt_id"]}
            land.end(conn, self._on_settled, merge["merge_id"], MergeState.FAILED, now=now, **end)
            return
        elif (apart := evidence.of_other_slots(conn, merge, subject.control, receipt, run.path)) is not None:
            pauses.record_fault(conn, merge, apart, now)
            return
        if not of_target:
            merges.judged(conn, merge["merge_id"], subject.candidate_sha, receipt["receipt_id"])

    def _without_clash(self, conn: Connection, run: VerificationRun, verdict: Verdict, tries: int) -> Verdict:
        """Blame nobody for a port that somebody else may have had; beside another verification the next ones go one at a time.

        Agents are nearly always at work, and some tests print such words whoever has the port: in the end the evidence decides.
        """
        if not blame.is_of_port(verdict.refusal):
            return verdict
        if runs.was_beside(conn, run.run_id):
            runs.set_apart(conn, run.run_id)
            who = _CLASH.format(number=runs.RUNS_APART)
        elif tries < PAUSE_AFTER and runs.were_agents_at_work(conn, run.run_id):
            who = _TAKEN_AT_WORK
        else:
            return verdict
        return replace(verdict, suspect=False, reason=with_remedy(f"{verdict.reason}\n{who}", _OWN_PORTS))
