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
    * Nothing lands on a target that a person froze. A request that a person lets bypass its verification lands alone, upon the
      tip; that tip is verified afterwards, as is everything that did not come through the queue
      (:mod:`corral.landing.direct_commits`).

Everything is decided from rows and refs, and from the verifications that run (:mod:`corral.landing.verify.slots`).
Safe to call at any time, any number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from shlex import quote

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.sections.sharing import Landing
from corral.core.errors import ConfigInvalid, CorralError, DatabaseUnavailable, NotAProject
from corral.core.instants import parse
from corral.core.logs import logger
from corral.core.remedies import with_remedy
from corral.core.states import MergeState
from corral.git import refs
from corral.git.land import kept
from corral.git.land.upstream import joined_ref, seen_ref
from corral.git.process.command import Git
from corral.landing import (
    blockers,
    direct_commits,
    ladder,
    land,
    pauses,
    receipt_notes,
    stacks,
)
from corral.landing.executor import Executor, because
from corral.landing.facts import Facts
from corral.landing.ladder import Judgement
from corral.landing.land import Tidy
from corral.landing.line import Line, Next, is_bypassed
from corral.landing.push.place import Waits
from corral.landing.push.remotes import FRESH, Remotes
from corral.landing.rewinds import Rewinds
from corral.landing.settled_elsewhere import LOOK_AGAIN, ReturnedRequests
from corral.landing.verify import blame
from corral.landing.verify.slots import VerificationSlots, WatchExit
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_run import RunSpec
from corral.store.rows.merges import DirectTipRow, MergeRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import direct_tips, freezes, intents, merges, runs
from corral.work.merges.store import pauses as pause_rows
from corral.work.merges.store import remotes as remote_rows
from corral.work.merges.store import stacks as stack_rows
from corral.work.merges.wire import STOPPED, tells_of_all, waits_for_red_target
from corral.work.tasks.store import work_pause

log = logger("landing")
TIDY_AGAIN = timedelta(seconds=20)


class Queue:
    """Lands what was submitted.

    Args:
        context: Where verifications run. It spawns what no step waits for, and tells when that is done, to have :meth:`step`
            called soon.
        repo: Opens the repository for ref-only work.
        settings: The settings in force.
        verify_settings: The ``landing`` section as it is committed on a target, given by its full ref name: never from the
            branch that wants to land.
        on_settled: Told in the transaction in which a request ends.
        nudge: Told after a request has ended, so that others look soon.
        watch_exit: Asked to have :meth:`step` called soon after a process ends, given a function that returns then.

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
        watch_exit: WatchExit,
    ) -> None:
        self._context = context
        self._db = context.db
        self._open = repo
        self._settings = settings
        self._verify_settings = verify_settings
        self._on_settled = on_settled
        self._nudge = nudge
        self._slots = VerificationSlots(context, on_settled, watch_exit)
        self.rewinds = Rewinds(context.db, on_settled, nudge)
        self._facts = Facts(context, settings)
        self._executor = Executor(context.db, self._facts, self._slots, self.rewinds, settings, on_settled)
        self.stuck_checkouts: dict[str, str] = {}
        self._stopped = False
        self._returned = ReturnedRequests()
        self._remotes = Remotes(context.db, context.spawn, nudge, on_settled)
        self._is_looked_through = True
        self._untidy = False
        self._tidy_at: datetime | None = None

    def recover(self, now: datetime) -> None:
        """Go on with, finish or undo what a dead daemon left: verifications, intents, refs of ended requests."""
        repo = self._open()
        left = self._slots.take_over(repo, partial(self._in_force, repo), now)
        self._is_looked_through = False
        self._resume(repo, now)
        receipt_notes.make_up(self._db, repo, now)
        self.rewinds.recover(repo, self._settings().retention.landed_days, now)
        self.look_at_paused(now)
        self._slots.seal_left()
        self._requeue_verifying(now, [run.subject.merge_id for run in self._slots.of()], left)
        self._untidy = land.sweep(self._db, repo, orphans=True) is not Tidy.DONE

    def _in_force(self, repo: Git, subject: RunSpec, now: datetime) -> Landing | None:
        """The settings of a run's target, if a run would have the same fingerprint now; else None."""
        for ref in (refs.branch_ref(subject.target), seen_ref(subject.target), joined_ref(subject.target)):
            if refs.read(repo, ref) is None:
                continue
            landing = self._verify_settings(ref)
            commands = landing.check if subject.is_check else landing.verify
            if commands and self._facts.basis(commands, subject.tip_sha, now).fingerprint == subject.basis.fingerprint:
                return landing
        return None

    def look_at_paused(self, now: datetime) -> None:
        """Have paused targets looked at in the next step: something has changed that may have been why. From any thread."""

        def look(conn: Connection) -> None:
            pause_rows.look_at_once(conn, now)
            remote_rows.look_at_once(conn, now)

        self._db.write(look)

    def _resume(self, repo: Git, now: datetime) -> set[str]:
        self._remotes.collect(now)
        push = partial(self._remotes.push, repo, now=now)
        begun = {intent["target"] for intent in self._db.read(intents.listing)}
        stuck = land.resume(self._db, repo, push=push, on_settled=self._on_settled, now=now)
        self._untidy |= stuck < begun
        return stuck

    @property
    def unsettled_count(self) -> int:
        """How many verifications are being prepared, so that the next daemon would have to begin them again."""
        return self._slots.unsettled_count()

    def stop(self, now: datetime, *, leaves_runs: bool = False) -> None:
        """End what is verified, whose requests go back to the queue, and take no further step.

        May be called from another thread than :meth:`step`: the second of the two ends the verification.

        Args:
            leaves_runs: Verifications whose commands run go on, for the next daemon.
        """
        self._stopped = True
        self._requeue_verifying(now, self._slots.stop(leaves_runs=leaves_runs))

    def step(self, now: datetime) -> datetime | None:
        """Do what is due.

        Returns:
            When to be called again: None when nothing waits for time, only for a nudge.
        """
        if self._stopped:
            return None
        repo = self._open()
        due = self.rewinds.look(repo, now)
        if self._slots.of():
            if self._slots.follow(now):
                self._nudge()
            elif (
                len(self._slots.of()) >= self._executor.number()
                and self._is_looked_through
                and self._all_run()
                and not self._db.read(merges.bypassed_targets)
                and not self._db.read(intents.listing)
            ):
                return min([*due, *([at] if (at := self._slots.due_at(now)) else [])], default=None)
        stuck = self._resume(repo, now)
        due += [now + land.AGAIN] if stuck else []
        due += self._remotes.follow(repo, now) + self._remotes.publish(repo, now)
        due += self._tidy(repo, now)
        look_again, self.stuck_checkouts = land.verify_landed(repo, now)
        due += look_again
        due += self._settle_returned(repo, now)
        if self._db.read(pauses.are_too_long, now):
            self._db.write(pauses.shorten, now)
        if self._db.read(work_pause.current) is not None:
            return min(due, default=None)
        paused = self._db.write(pauses.current) if self._db.read(pause_rows.anyone) else {}
        with self._db.reading() as conn:
            targets, at_work = merges.busy_targets(conn), merges.targets_at_work(conn)
            bypassed, direct = merges.bypassed_targets(conn) - set(freezes.frozen(conn)), direct_tips.listing(conn)
            last_run = runs.last_of_targets(conn) if len(targets) + len(direct) > 1 else {}
        due += self._look_at_idle(repo, {*targets, *stuck}, now)
        targets += [target for target in direct if target not in targets]
        at_work -= stuck | {name for name, pause in paused.items() if now < parse(pause["look_at"])}
        for target in sorted(
            targets, key=lambda target: last_run.get(target, 0)
        ):  # whose last run is the longest ago, then the longest waiting
            if target in stuck:
                continue
            is_paused = target in paused and now < (look_at := parse(paused[target]["look_at"]))
            if is_paused:
                due.append(look_at)
            if is_paused and target not in bypassed:
                continue
            share = self._share(target, len(at_work | {target}))
            outcome = self._advance_queue(
                repo,
                target,
                now,
                direct.get(target),
                paused=target in paused,
                only_bypassed=is_paused,
                slots=share,
                due=due,
            )
            if outcome is Next.AGAIN:
                self._untidy = True
                self._tidy(repo, now)
                self._nudge()
                return now
            if outcome is Next.BLOCKED:
                with self._db.reading() as conn:
                    due.append(blockers.next_look(conn, target, now))
        self._is_looked_through = True
        due += [at] if (at := self._slots.due_at(now)) else []
        with self._db.reading() as conn:
            waiting = merges.next_due_at(conn, now)
        if waiting is not None:
            due.append(parse(waiting))
        return min(due, default=None)

    def _all_run(self) -> bool:
        """Whether every target with open requests has a verification running, so that nothing can be done for any.

        One that was begun on the work of others is an exception: its run may take the place of one of theirs.
        """
        running = {run.subject.target for run in self._slots.of()}
        return running.issuperset(self._db.read(merges.busy_targets)) and not self._db.read(stack_rows.is_any_unbuilt)

    def _settle_returned(self, repo: Git, now: datetime) -> list[datetime]:
        """Mark returned requests as landed once their target has their commits; returns when to look again, if any remain."""
        landed, others = self._returned.landed(self._db, repo)
        for row in landed:
            target = refs.branch_ref(row["target"])
            try:
                tip = refs.read(repo, target) or row["head_sha"]
                landing = self._verify_settings(target)
                basis = self._facts.basis(landing.verify, tip, now)
                self._executor.already_there(repo, row, tip, landing, basis, now)
            except DatabaseUnavailable:
                raise
            except (CorralError, OSError) as error:
                log.warning("returned_request_not_settled", merge_id=row["merge_id"], reason=blame.describe(error))
                others = True
                continue
            self._nudge()
        return [now + LOOK_AGAIN] if others else []

    def _tidy(self, repo: Git, now: datetime) -> list[datetime]:
        """Remove what ended requests left; returns when to try again, if git met a lock."""
        if self._untidy and (self._tidy_at is None or not now < self._tidy_at <= now + TIDY_AGAIN):
            outcome = land.sweep(self._db, repo, orphans=False)
            self._untidy = outcome is not Tidy.DONE
            self._tidy_at = now + TIDY_AGAIN if outcome is Tidy.FAILED else None
        return [self._tidy_at] if self._tidy_at else []

    def _advance_queue(
        self, repo: Git, target: str, now: datetime, direct: DirectTipRow | None, *, paused: bool, only_bypassed: bool,
        slots: int, due: list[datetime],
    ) -> Next | None:  # fmt: skip
        """Do what its plan says, until that waits for something."""
        with self._db.reading() as conn:
            is_look = paused and not only_bypassed
            requests = merges.open_of(conn, target) if is_look else merges.eligible(conn, target, now)
            batch = runs.batch(conn, target) or max(slots, 1)
            standing = stacks.of_target(conn, target)
            is_frozen = freezes.is_frozen(conn, target)
        requests = stacks.settle(self._db, requests, standing, self._on_settled, now)
        requests = stacks.in_order(requests, standing, self._settings().landing.ageing_s, now)
        if only_bypassed:
            requests = [row for row in requests if is_bypassed(row)]
        elif is_look:  # fewest tries first: a request that always meets a fault must not block the others
            requests = sorted(requests, key=lambda row: row["tries"])
        if not requests and direct is None:
            return None
        try:
            tip = refs.read(repo, refs.branch_ref(target))
            if tip is None:
                self.rewinds.remember(target)
                last = refs.read(repo, kept.tip_ref(target)) or "COMMIT"
                remedy = f"Rename it back, or make it again: `git branch {quote(target)} {last[:12]}`."
                if requests:
                    id_, branch = requests[0]["merge_id"][:8], quote(requests[0]["branch"])
                    other = f"`corral merge cancel {id_}`, then `corral merge submit {branch} --target NAME`"
                    remedy = f"To land on another branch: {other}. Else rename{remedy.removeprefix('Rename')}"
                gone = f"{STOPPED} {target}. There is no branch {target} any more."
                return self._executor.hold_first(requests, with_remedy(gone, remedy), now)
            landing = self._verify_settings(refs.branch_ref(target))
            place = self._remotes.place(repo, target, tip, landing, now)
            if isinstance(place, Waits):
                return self._executor.hold_first(requests, place.reason, now) if place.reason else Next.RUNNING
            if place.ref != refs.branch_ref(target):
                landing = self._verify_settings(place.ref)
            basis = self._facts.basis(landing.verify, place.tip, now)
            check_basis = self._facts.basis(landing.check, place.tip, now) if landing.check else basis
            if not landing.verify:  # nothing can be red
                batch = ladder.LONGEST_BATCH
            line = Line(target, place, landing, basis, check_basis, batch, slots, standing, is_frozen=is_frozen)
            if direct is not None:
                is_known = self._look_at_tip(repo, line, direct, now, due)
                if is_known and self._remotes.bring(repo, target, place, now, is_frozen=is_frozen):
                    return Next.AGAIN
        except ConfigInvalid as error:
            return self._executor.hold_first(requests, f"{STOPPED} {target}. {because(error)}", now)
        except DatabaseUnavailable:
            raise
        except (CorralError, OSError) as error:
            return self._executor.fault_first(requests, error, now)
        requests = [self._goes_on(merge, now) if tells_of_all(merge) else merge for merge in requests]
        self._admit(repo, line, requests, now, most=1 if paused else 2 * ladder.LONGEST_BATCH)
        try:
            while (outcome := self._executor.act(repo, line, now)) is Next.PASSED:
                pass
        except DatabaseUnavailable:
            raise
        except (CorralError, OSError) as error:  # with which of them, git does not say: one fault stops one target
            return self._executor.fault_first([*line.rows.values()], error, now)
        return Next.BLOCKED if outcome is None and line.waits else outcome

    def _goes_on(self, merge: MergeRow, now: datetime) -> MergeRow:
        """Queue a request again that was held with a reason for all of its target: that reason is gone."""
        return self._db.write(merges.requeue, merge["merge_id"], now) or merge

    def _look_at_tip(self, repo: Git, line: Line, row: DirectTipRow, now: datetime, due: list[datetime]) -> bool:
        """Find out what is known of a tip that did not come from a verification; True: it is green, or nothing verifies it."""
        if not line.landing.verify:
            direct_commits.forget(self._db, row, now)
            return True
        tree = self._facts.tree(repo, line.tip)
        sides = line.place.sides
        max_age_s = line.landing.verdict_max_age_s
        line.direct = direct_commits.look(
            self._db, repo, row, line.tip, sides, tree, line.basis.fingerprint, max_age_s, now
        )
        due += [line.direct.due_at] if line.direct.due_at is not None else []
        due += (
            [now + FRESH] if line.direct.red_since is not None and line.place.remote else []
        )  # nobody announces a push
        return self._db.read(direct_tips.of, line.target) is None

    def _look_at_idle(self, repo: Git, busy: Collection[str], now: datetime) -> list[datetime]:
        """Look at what others pushed to targets for which nothing waits; returns when to look again."""
        due = []
        for target in self._remotes.targets(self._settings().landing) - set(busy):
            ref = refs.branch_ref(target)
            try:
                tip = refs.read(repo, ref)
                at = self._remotes.look(repo, target, tip, self._verify_settings(ref), now) if tip else None
            except DatabaseUnavailable:
                raise
            except (CorralError, OSError) as error:
                log.warning("remote_not_looked_at", target=target, reason=blame.describe(error))
                continue
            due += [at] if at is not None else []
        return due

    def _admit(self, repo: Git, line: Line, requests: Sequence[MergeRow], now: datetime, *, most: int) -> None:
        """Take the requests into the line that nothing keeps from landing but their verification, in landing order."""
        passed: set[str] = set()
        for merge in requests:
            if len(line.rows) == most:
                return
            if merge["branch"] in passed or line.lacks_base(merge["merge_id"]):
                continue
            if not is_bypassed(merge):
                if line.blocked_by is not None and not self._facts.may_repair(merge, line.blocked_by):
                    continue
                if line.direct.red_since is not None and merge["created_at"] <= line.direct.red_since:
                    continue
            try:
                outcome = self._gate(repo, line, merge, now)
            except DatabaseUnavailable:
                raise
            except ConfigInvalid as error:
                outcome = self._executor.hold(merge, because(error), now)
            except (CorralError, OSError) as error:
                self._executor.fault(merge, error, now)
                continue
            if outcome is Next.PASSED:
                passed.add(merge["branch"])
                line.waits = True
            elif outcome is Next.BLOCKED:
                line.block(self._facts.row(merge))
            else:
                line.rows[merge["merge_id"]] = merge

    def _gate(self, repo: Git, line: Line, merge: MergeRow, now: datetime) -> Next | None:
        """What keeps a request from being verified; None: nothing."""
        try:
            if blockers.remain(self._db, repo, merge, line.tip):
                return self._executor.stand_aside(merge, now)
        except NotAProject as error:  # the target's checkout is broken and blocks the request
            self._executor.hold(merge, f"{merge['target']} cannot be moved: {blame.describe(error)}", now)
            return self._executor.stand_aside(merge, now)
        if undecided := self.rewinds.holds(repo, merge):
            self._executor.hold(merge, undecided, now)
            return Next.PASSED
        if waits := self._facts.waits_for_approval(repo, line, merge):
            self._executor.hold(merge, waits, now)
            return Next.PASSED
        is_here = merge["tip_sha"] == line.tip
        if (
            is_here
            and waits_for_red_target(merge)
            and self._facts.member(repo, line, merge, now).judgement is Judgement.TARGET_RED
        ):
            return Next.BLOCKED
        return None

    def _share(self, target: str, targets: int) -> int:
        """How many of the slots are for a target: what it has, and of the free ones its part."""
        all_runs, own = len(self._slots.of()), len(self._slots.of(target))
        part = max(-(-self._executor.number() // targets), 1)
        return min(max(part, own), own + max(self._executor.number() - all_runs, 0))

    def _requeue_verifying(
        self, now: datetime, going_on: Collection[str], left: Mapping[str, str] | None = None
    ) -> None:
        """Queue again the requests whose verification ended without an outcome.

        Args:
            going_on: Those of which one goes on.
            left: Because the daemon died; by request, why what it left cannot go on.
        """

        def requeue(conn: Connection) -> None:
            landing = {merge_id for intent in intents.listing(conn) for merge_id in intent["merge_ids"]}
            for row in merges.listing(conn, [MergeState.VERIFYING]):
                if row["merge_id"] in landing or row["merge_id"] in going_on:
                    continue
                if left is not None:
                    pauses.record_death(conn, row, now, left.get(row["merge_id"]))
                    if row["tries"]:  # not for the first time: it may be any of a chain
                        runs.set_batch(conn, row["target"], 1)
                else:
                    merges.requeue(conn, row["merge_id"], now, tries=row["tries"])

        self._db.write(requeue)
