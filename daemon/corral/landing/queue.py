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

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial
from shlex import quote
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.sections.sharing import Landing
from corral.coordination.settings import CONFIG_IN_TREE
from corral.core.crash import crash_point
from corral.core.errors import ConfigInvalid, CorralError, DatabaseUnavailable, GitFailed, NotAProject, Unsupported
from corral.core.instants import parse
from corral.core.logs import logger
from corral.core.remedies import with_remedy
from corral.core.states import MergeState, ReceiptStatus
from corral.git import refs
from corral.git.identity import effective
from corral.git.land import candidates
from corral.git.land.upstream import joined_ref, seen_ref
from corral.git.process.command import Git, Identity
from corral.landing import (
    approval,
    blockers,
    checks,
    direct_commits,
    ladder,
    land,
    pauses,
    receipt_notes,
    shapes,
    signing,
    stacks,
)
from corral.landing.ladder import Judgement, Verdict
from corral.landing.land import Tidy
from corral.landing.push.place import Place, Waits
from corral.landing.push.remotes import FRESH, Remotes
from corral.landing.rewinds import Rewinds
from corral.landing.settled_elsewhere import LOOK_AGAIN, ReturnedRequests
from corral.landing.stacks import Stack
from corral.landing.verify import blame, evidence, verification_receipts
from corral.landing.verify.slots import VerificationSlots, WatchExit
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_run import Basis, RunSpec
from corral.store.rows import required
from corral.store.rows.merges import DirectTipRow, MergeRow, ReceiptRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import direct_tips, freezes, intents, merges, receipts, runs
from corral.work.merges.store import pauses as pause_rows
from corral.work.merges.store import remotes as remote_rows
from corral.work.merges.store import stacks as stack_rows
from corral.work.merges.wire import TARGET_RED, waits_for_red_target
from corral.work.tasks.store import work_pause
from corral.work.worktrees.provision import INCLUDE_FILE

log = logger("landing")
TIDY_AGAIN = timedelta(seconds=20)
_USUAL_SLOTS = 4
"""At most, where the number of slots is left to Corral."""
_RULES = frozenset((CONFIG_IN_TREE, INCLUDE_FILE))
"""Files of the target that say how those who want to land there are judged."""
_REMEMBERED = 1000
"""Answers of git about commits, which never change."""


class _Next(Enum):
    """The effect of one look at one request on its target's queue."""

    AGAIN = auto()
    """Something ended: look at the queue again."""
    RUNNING = auto()
    """Verifications run."""
    BLOCKED = auto()
    """The target's queue is blocked, until the blocker is gone or the target is green."""
    PASSED = auto()
    """The request is blocked, and later requests bypass it; or it went on, and the others are looked at."""


_JUDGEMENTS = {
    blame.Step.RETURN: Judgement.AT_FAULT,
    blame.Step.RUN_TARGET: Judgement.UNKNOWN,
    blame.Step.RUN_AGAIN: Judgement.UNSURE,
    blame.Step.TARGET_RED: Judgement.TARGET_RED,
}


@dataclass
class _Line:
    """The queue of one target in one step.

    Attributes:
        basis: What its verifications stand on; ``check_basis``: its checks.
        batch: Requests in its chain, at most.
        place: Where its chain begins.
        slots: Verifications that it may have running.
        stacks: What requests stand on that were begun on the work of others.
        rows: The requests that nothing keeps from landing but their verification, by id, in landing order.
        blocked_by: The request that the others have to wait for.
        waits: Something waits for what nobody announces.
        is_frozen: Nothing lands.
        direct: What is known of its tip, if that did not come from a verification.
        identities: Who makes the candidates, by the submitter.
    """

    target: str
    place: Place
    landing: Landing
    basis: Basis
    check_basis: Basis
    batch: int
    slots: int
    stacks: Mapping[str, Stack]
    rows: dict[str, MergeRow] = field(default_factory=dict)
    blocked_by: MergeRow | None = None
    waits: bool = False
    is_frozen: bool = False
    direct: direct_commits.Standing = field(default_factory=direct_commits.Standing)
    identities: dict[tuple[str, str] | None, Identity] = field(default_factory=dict)

    @property
    def tip(self) -> str:
        """The commit that its first candidate is built upon."""
        return self.place.tip

    def block(self, merge: MergeRow) -> None:
        """Let only repairs pass from now on."""
        self.blocked_by, self.waits = self.blocked_by or merge, True

    def stack(self, merge_id: str) -> Stack:
        """What a request stands on; most on nothing."""
        return self.stacks.get(merge_id, Stack())

    def lacks_base(self, merge_id: str) -> bool:
        """Whether what a request was begun on is not to land now, so that itself cannot."""
        base = [self.rows.get(other) for other in self.stack(merge_id).behind]
        return any(row is None or row["suspect_at"] is not None for row in base)

    def before(self, merge_id: str) -> tuple[str, ...]:
        """The requests whose work the candidate of a request brings, with its own."""
        built = {row["candidate_sha"]: row for row in self.rows.values()}
        members = [self.rows[merge_id]]
        while (earlier := built.get(members[0]["tip_sha"])) is not None and earlier not in members:
            members.insert(0, earlier)
        return tuple(row["merge_id"] for row in members)


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
        self._approvals: dict[tuple[object, ...], str] = {}
        self._trees: dict[str, str] = {}
        self._rules: dict[tuple[str, str], bool] = {}
        self._linkless, self._plain = set[str](), set[str]()
        self.rewinds = Rewinds(context.db, on_settled, nudge)
        self.stuck_checkouts: dict[str, str] = {}
        self._stopped = False
        self._returned = ReturnedRequests()
        self._checks = checks.Checks(context.db, self._tree)
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
        """The settings of a run's target, if it would stand on the same now; None: it would not."""
        for ref in (refs.branch_ref(subject.target), seen_ref(subject.target), joined_ref(subject.target)):
            if refs.read(repo, ref) is None:
                continue
            landing = self._verify_settings(ref)
            commands = landing.check if subject.is_check else landing.verify
            if commands and self._basis(commands, subject.tip_sha, now).fingerprint == subject.basis.fingerprint:
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
                len(self._slots.of()) >= self._number()
                and self._is_looked_through
                and self._all_run()
                and not self._db.read(merges.bypassed_targets)
            ):
                return min([*due, *([at] if (at := self._slots.due_at(now)) else [])], default=None)
        stuck = self._resume(repo, now)
        due += [now + land.AGAIN] if stuck else []
        due += self._remotes.follow(repo, now) + self._remotes.publish(repo, now)
        due += self._tidy(repo, now)
        look_again, self.stuck_checkouts = land.verify_landed(repo, now)
        due += look_again
        due += self._settle_returned(repo, now)
        if self._db.read(lambda conn: pauses.are_too_long(conn, now)):
            self._db.write(lambda conn: pauses.shorten(conn, now))
        if self._db.read(work_pause.current) is not None:
            return min(due, default=None)
        paused = self._db.write(pauses.current) if self._db.read(pause_rows.anyone) else {}
        with self._db.reading() as conn:
            targets, at_work = merges.busy_targets(conn), merges.targets_at_work(conn)
            bypassed, direct = merges.bypassed_targets(conn) - set(freezes.frozen(conn)), direct_tips.listing(conn)
        targets += [target for target in direct if target not in targets]
        at_work -= stuck | {name for name, pause in paused.items() if now < parse(pause["look_at"])}
        for target in sorted(
            targets, key=self._slots.turn
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
            if outcome is _Next.AGAIN:
                self._untidy = True
                self._tidy(repo, now)
                self._nudge()
                return now
            if outcome is _Next.BLOCKED:
                due.append(self._db.read(lambda conn, target=target: blockers.next_look(conn, target, now)))  # type: ignore[misc]
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
            merge_id, head = row["merge_id"], row["head_sha"]
            reopened = self._db.write(lambda conn, i=merge_id, h=head: merges.reopen(conn, i, h, now))  # type: ignore[misc]
            if reopened is not None:
                target = refs.branch_ref(row["target"])
                tip = refs.read(repo, target) or head
                basis = self._basis(self._verify_settings(target).verify, tip, now)
                self._already_there(repo, reopened, tip, basis.fingerprint, now)
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

    def _advance_queue(
        self, repo: Git, target: str, now: datetime, direct: DirectTipRow | None, *, paused: bool, only_bypassed: bool,
        slots: int, due: list[datetime],
    ) -> _Next | None:  # fmt: skip
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
            requests = [row for row in requests if _is_bypassed(row)]
        elif is_look:  # fewest tries first: a request that always meets a fault must not block the others
            requests = sorted(requests, key=lambda row: row["tries"])
        if not requests and direct is None:
            return None
        try:
            tip = refs.read(repo, refs.branch_ref(target))
            if tip is None:
                self.rewinds.remember(target)
                remedy = f"Make it again: git branch {quote(target)} COMMIT"
                return self._hold_first(requests, with_remedy(f"There is no branch {target} any more.", remedy), now)
            landing = self._verify_settings(refs.branch_ref(target))
            place = self._remotes.place(repo, target, tip, landing, now)
            if isinstance(place, Waits):
                return self._hold_first(requests, place.reason, now) if place.reason else _Next.RUNNING
            if place.ref != refs.branch_ref(target):
                landing = self._verify_settings(place.ref)
            basis = self._basis(landing.verify, place.tip, now)
            check_basis = self._basis(landing.check, place.tip, now) if landing.check else basis
            if not landing.verify:  # nothing can be red
                batch = ladder.LONGEST_BATCH
            line = _Line(target, place, landing, basis, check_basis, batch, slots, standing, is_frozen=is_frozen)
            if direct is not None:
                self._look_at_tip(repo, line, direct, now, due)
        except ConfigInvalid as error:
            return self._hold_first(requests, _because(error), now)
        except DatabaseUnavailable:
            raise
        except (CorralError, OSError) as error:
            return self._fault_first(requests, error, now)
        self._admit(repo, line, requests, now, most=1 if paused else 2 * ladder.LONGEST_BATCH)
        try:
            while (outcome := self._act(repo, line, now)) is _Next.PASSED:
                pass
        except DatabaseUnavailable:
            raise
        except (CorralError, OSError) as error:  # with which of them, git does not say: one fault stops one target
            return self._fault_first([*line.rows.values()], error, now)
        return _Next.BLOCKED if outcome is None and line.waits else outcome

    def _look_at_tip(self, repo: Git, line: _Line, row: DirectTipRow, now: datetime, due: list[datetime]) -> None:
        """Find out what is known of a tip that did not come from a verification."""
        if not line.landing.verify:
            direct_commits.forget(self._db, row, now)
            return
        tree = self._tree(repo, line.tip)
        sides = line.place.sides
        line.direct = direct_commits.look(self._db, repo, row, line.tip, sides, tree, line.basis.fingerprint, now)
        due += [line.direct.due_at] if line.direct.due_at is not None else []
        due += (
            [now + FRESH] if line.direct.red_since is not None and line.place.remote else []
        )  # nobody announces a push

    def _admit(self, repo: Git, line: _Line, requests: Sequence[MergeRow], now: datetime, *, most: int) -> None:
        """Take the requests into the line that nothing keeps from landing but their verification, in landing order."""
        passed: set[str] = set()
        for merge in requests:
            if len(line.rows) == most:
                return
            if merge["branch"] in passed or line.lacks_base(merge["merge_id"]):
                continue
            if not _is_bypassed(merge):
                if line.blocked_by is not None and not self._may_repair(merge, line.blocked_by):
                    continue
                if line.direct.red_since is not None and merge["created_at"] <= line.direct.red_since:
                    continue
            try:
                outcome = self._gate(repo, line, merge, now)
            except DatabaseUnavailable:
                raise
            except ConfigInvalid as error:
                outcome = self._hold(merge, _because(error), now)
            except (CorralError, OSError) as error:
                self._fault(merge, error, now)
                continue
            if outcome is _Next.PASSED:
                passed.add(merge["branch"])
                line.waits = True
            elif outcome is _Next.BLOCKED:
                line.block(self._row(merge))
            else:
                line.rows[merge["merge_id"]] = merge

    def _gate(self, repo: Git, line: _Line, merge: MergeRow, now: datetime) -> _Next | None:
        """What keeps a request from being verified; None: nothing."""
        try:
            if blockers.remain(self._db, repo, merge, line.tip):
                return self._stand_aside(merge, now)
        except NotAProject as error:  # the target's checkout is broken and blocks the request
            self._hold(merge, f"{merge['target']} cannot be moved: {blame.describe(error)}", now)
            return self._stand_aside(merge, now)
        if undecided := self.rewinds.holds(repo, merge):
            self._hold(merge, undecided, now)
            return _Next.PASSED
        if waits := self._waits_for_approval(repo, line, merge):
            self._hold(merge, waits, now)
            return _Next.PASSED
        is_here = merge["tip_sha"] == line.tip
        if (
            is_here
            and waits_for_red_target(merge)
            and self._member(repo, line, merge, now).judgement is Judgement.TARGET_RED
        ):
            return _Next.BLOCKED
        return None

    def _waits_for_approval(self, repo: Git, line: _Line, merge: MergeRow) -> str:
        """Why a request has to wait for a person; answered once for one candidate upon one tip."""
        asked = (
            merge["merge_id"], merge["head_sha"], merge["approved_sha"], merge["candidate_sha"], merge["tip_sha"], line.tip,
            line.landing.approve, *line.landing.approve_paths, *approval.commands(line.landing),
        )  # fmt: skip
        if asked not in self._approvals:
            if len(self._approvals) > _REMEMBERED:
                for remembered in (self._approvals, self._linkless, self._plain):
                    remembered.clear()
            self._approvals[asked] = approval.missing(repo, line.landing, merge, line.tip, self._linkless)
        return self._approvals[asked]

    def _act(self, repo: Git, line: _Line, now: datetime) -> _Next | None:
        """Make a plan and begin to carry it out; :attr:`_Next.PASSED`: look at the line again."""
        members = [self._member(repo, line, row, now) for row in line.rows.values()]
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
            return self._hold(merge, _because(error), now)
        except (CorralError, OSError) as error:
            return self._fault(merge, error, now)

    def _member(self, repo: Git, line: _Line, merge: MergeRow, now: datetime) -> ladder.Member:
        """What the plan has to know of a request."""
        if merge["candidate_sha"] is None:
            return ladder.Member(
                merge["merge_id"],
                is_suspect=merge["suspect_at"] is not None,
                check=self._checks.look(repo, line.landing, line.check_basis, merge, None, now)[0],
                clashes_on=merge["clashes_on_sha"],
                behind=line.stack(merge["merge_id"]).behind,
                is_bypassed=_is_bypassed(merge),
            )
        verdict, judgement, on_sha = None, None, required(merge["tip_sha"])
        with self._db.reading() as conn:
            receipt = receipts.get(conn, merge["receipt_id"])
            green = self._green(conn, line, merge, now) if line.landing.verify else None
            if not line.landing.verify or green is not None:
                verdict = Verdict.GREEN
            elif receipt is not None and _is_red(receipt, line.basis):
                verdict = Verdict.RED
        if verdict is Verdict.RED and receipt is not None and merge["suspect_at"] is not None:
            judgement = _JUDGEMENTS[self._evidence(repo, line, merge, receipt, now)[0]]
        check, row = self._checks.look(repo, line.landing, line.check_basis, merge, green, now)
        if row["merge_id"] in line.rows:
            line.rows[row["merge_id"]] = row
        return ladder.Member(
            merge["merge_id"],
            ladder.Candidate(merge["candidate_sha"], on_sha),
            verdict,
            merge["suspect_at"] is not None,
            judgement,
            check,
            ends_chain=self._changes_rules(repo, on_sha, merge["candidate_sha"]),
            behind=line.stack(merge["merge_id"]).behind,
            is_bypassed=_is_bypassed(merge),
        )

    def _changes_rules(self, repo: Git, before: str, after: str) -> bool:
        """Whether a candidate changes what decides about those behind it: the committed settings, or what a worktree is given."""
        if (before, after) not in self._rules:
            if len(self._rules) > _REMEMBERED:
                self._rules.clear()
            changed = refs.changed_paths(repo, before, after)
            self._rules[before, after] = not _RULES.isdisjoint(changed)
        return self._rules[before, after]

    def _green(self, conn: Connection, line: _Line, merge: MergeRow, now: datetime) -> ReceiptRow | None:
        """The receipt that lets a candidate land."""
        tree, max_age_s = required(merge["candidate_tree"]), line.landing.verdict_max_age_s
        return verification_receipts.green_of(conn, tree, line.basis.fingerprint, merge["receipt_id"], max_age_s, now)

    def _evidence(
        self, repo: Git, line: _Line, merge: MergeRow, receipt: ReceiptRow, now: datetime
    ) -> tuple[blame.Step, ReceiptRow | None]:
        tree = self._tree(repo, required(merge["tip_sha"]))
        with self._db.reading() as conn:
            return evidence.of_candidate(conn, receipt, tree, line.landing.control_max_age_s, now)

    def _tree(self, repo: Git, sha: str) -> str:
        if sha not in self._trees:
            if len(self._trees) > _REMEMBERED:
                self._trees.clear()
            self._trees[sha] = repo.must("rev-parse", "--verify", f"{sha}^{{tree}}")
        return self._trees[sha]

    def _basis(self, commands: Sequence[str], tip_sha: str, now: datetime) -> Basis:
        return verification_receipts.basis(self._context, commands, self._settings().worktrees, tip_sha, now)

    def _may_repair(self, merge: MergeRow, blocked_by: MergeRow) -> bool:
        with self._db.reading() as conn:
            receipt = receipts.get(conn, blocked_by["receipt_id"])
        if receipt is None or receipt["status"] not in verification_receipts.NOT_GREEN:
            return False
        return bool(merge["created_at"] > receipt["created_at"])

    def _row(self, merge: MergeRow) -> MergeRow:
        with self._db.reading() as conn:
            return merges.get(conn, merge["merge_id"])

    # -- what a plan says -----------------------------------------------------------------------------------------

    def _build(self, repo: Git, line: _Line, merge: MergeRow, on_sha: str, now: datetime) -> _Next:
        """Build the candidate commit; create its ref before the row names it."""
        merge_id = merge["merge_id"]
        with self._db.reading() as conn:
            submitter = merges.submitter(conn, merge["task_id"])
        if submitter not in line.identities:
            line.identities[submitter] = effective(repo, Identity(*submitter) if submitter else None)
        try:
            built = shapes.build(
                self._db, repo, line.landing, merge, on_sha, line.tip, line.identities[submitter], now,
                line.stack(merge_id).begun_on, self._plain,
            )  # fmt: skip
        except Unsupported as error:
            return self._end(merge, MergeState.FAILED, now, reason=f"{error.message} {error.remedy}")
        if built is None and on_sha == line.tip:
            place, head = line.place, merge["head_sha"]
            is_here_alone = place.remote and not refs.is_ancestor(repo, head, place.remote_sha)
            also = f" {place.remote} gets it with what lands next." if is_here_alone else ""
            return self._already_there(repo, merge, line.tip, line.basis.fingerprint, now, also)
        if built is None:  # a request before it brings it
            built = candidates.Candidate(on_sha, self._tree(repo, on_sha), line.landing.style)
        if isinstance(built, candidates.Conflicted) and on_sha != line.tip:
            return self._changed(line, merge_id, self._db.write(lambda c: merges.clashes(c, merge_id, on_sha, now)))
        if isinstance(built, candidates.Conflicted):
            conflicts = [{"path": item.path, "kind": item.kind} for item in built.paths]
            reason = f"{merge['branch']} conflicts with {merge['target']} at {on_sha[:12]}: {built.in_words}"
            reason = built.text if isinstance(built, candidates.Behind) else reason
            return self._end(merge, MergeState.CONFLICT, now, reason=reason, conflicts=conflicts)
        crash_point("queue.candidate_built")
        candidates.hold(repo, merge_id, built.sha)
        crash_point("queue.candidate_held")
        candidate = {"candidate_sha": built.sha, "candidate_tree": built.tree, "tip_sha": on_sha, "style": built.style}
        row = self._db.write(lambda conn: merges.built(conn, merge_id, **candidate, now=now))
        crash_point("queue.candidate_stored")
        outcome = self._changed(line, merge_id, row)
        if row is not None and (waits := self._waits_for_approval(repo, line, row)):
            self._hold(row, waits, now)
            del line.rows[merge_id]
            line.waits = True
        return outcome

    def _already_there(
        self, repo: Git, merge: MergeRow, tip: str, fingerprint: str, now: datetime, also: str = ""
    ) -> _Next:
        """The target has the head already, or all that it brings: the request has landed, and nothing is verified."""
        head = merge["head_sha"] if refs.is_ancestor(repo, merge["head_sha"], tip) else tip
        how = self.rewinds.adopt(repo, merge, head, now)
        tree = self._tree(repo, head)

        def store(conn: Connection) -> MergeRow | None:
            green = receipts.latest(conn, tree, fingerprint, ReceiptStatus.PASSED)
            reason = f"The commit was on {merge['target']} already."
            receipt = green or verification_receipts.unverified(conn, tree, fingerprint, reason, now)
            unseen = ": nothing verified it" if how and green is None else ""
            return land.end(
                conn, self._on_settled, merge["merge_id"], MergeState.LANDED, now=now,
                landed_sha=head, receipt_id=receipt["receipt_id"], reason=f"{merge['target']} had it already{how}{unseen}.{also}",
            )  # fmt: skip

        self._db.write(store)
        return _Next.AGAIN

    def _judge(
        self, repo: Git, line: _Line, merge: MergeRow, action: ladder.Suspect | ladder.Acquit | ladder.Return | ladder.Hold,
        now: datetime,
    ) -> _Next:  # fmt: skip
        """Take a request out of the chain, put it back, or decide about it."""
        merge_id = merge["merge_id"]
        if isinstance(action, ladder.Acquit):
            return self._changed(line, merge_id, self._db.write(lambda conn: merges.acquit(conn, merge_id, now)))
        if isinstance(action, ladder.Suspect):
            smaller = max(line.batch // 2, min(line.slots, line.batch), 1)

            def suspect(conn: Connection) -> MergeRow | None:
                runs.set_batch(conn, line.target, smaller)
                is_proof = merge["tip_sha"] == line.tip and runs.was_alone(conn, merge["receipt_id"])
                return merges.suspect(conn, merge_id, now, keeps_receipt=is_proof)

            line.batch = smaller
            return self._changed(line, merge_id, self._db.write(suspect))
        if isinstance(action, ladder.Return) and action.by_check:
            against = self._checks.against(repo, line.landing, line.check_basis, merge, now)
            return self._end(merge, MergeState.FAILED, now, **against)
        with self._db.reading() as conn:
            receipt = required(receipts.get(conn, merge["receipt_id"]))
        control = required(self._evidence(repo, line, merge, receipt, now)[1])
        tip = required(merge["tip_sha"])
        if isinstance(action, ladder.Return):
            reason = evidence.against(receipt, control, merge["target"], tip)
            return self._end(merge, MergeState.FAILED, now, reason=reason)
        failure = f"{merge['target']} at {tip[:12]}, without this change. {control['reason']}"
        self._hold(merge, f"{TARGET_RED}: {failure}\nBy the {evidence.describe(control)}", now)
        return _Next.AGAIN

    def _changed(self, line: _Line, merge_id: str, row: MergeRow | None) -> _Next:
        """Go on with a request as it is stored now; None: it is not what it was, so that the line is."""
        if row is None:
            return _Next.AGAIN
        line.rows[merge_id] = row
        return _Next.PASSED

    def _verify(self, repo: Git, line: _Line, wanted: Sequence[ladder.Verify], now: datetime) -> _Next | None:
        """Have exactly these runs, as far as there are slots; end those that have become pointless."""
        kept = set[tuple[str, str, bool]]()
        keys = {(verify.merge_id, verify.sha, verify.is_check): verify for verify in wanted}
        for run in self._slots.of(line.target):
            key = (run.subject.merge_id, run.subject.sha, run.subject.is_check)
            if key in keys:
                kept.add(key)
            elif self._slots.is_wanted(run):
                self._slots.drop(run)
        for key, verify in keys.items():
            if key not in kept and len(kept) < line.slots:
                if not self._slots.start(repo, self._spec(repo, line, verify, now), line.landing, self._number(), now):
                    break
                kept.add(key)
        return _Next.RUNNING if kept else None

    def _spec(self, repo: Git, line: _Line, verify: ladder.Verify, now: datetime) -> RunSpec:
        if not verify.merge_id:
            tree = self._tree(repo, line.tip)
            return RunSpec("", line.target, "", line.tip, tree, line.basis, line.tip, is_alone=verify.is_alone)
        merge = line.rows[verify.merge_id]
        candidate, on_sha = required(merge["candidate_sha"]), required(merge["tip_sha"])
        if verify.is_check:
            return checks.spec(merge, verify.sha, self._tree(repo, verify.sha), line.check_basis)
        with self._db.reading() as conn:
            receipt = receipts.get(conn, merge["receipt_id"])
        control = self._evidence(repo, line, merge, receipt, now)[1] if receipt and merge["suspect_at"] else None
        return RunSpec(
            merge["merge_id"],
            line.target,
            candidate,
            verify.sha,
            self._tree(repo, verify.sha),
            line.basis,
            line.tip if merge["suspect_at"] is None else on_sha,
            control["receipt_id"] if control is not None and verify.sha == candidate else None,
            line.before(merge["merge_id"]) if verify.sha == candidate else (),
            verify.is_alone,
        )

    def _land(self, repo: Git, line: _Line, action: ladder.Land, now: datetime) -> _Next:
        rows = [line.rows[merge_id] for merge_id in action.merge_ids]
        if line.place.trouble:
            for row in rows:
                self._hold(row, line.place.trouble, now)
            return _Next.BLOCKED
        rest_s = self._settings().landing.rest_s

        def proof(conn: Connection) -> list[ReceiptRow | None]:
            if line.landing.verify and line.landing.verify_each:
                return [self._green(conn, line, row, now) for row in rows]
            if line.landing.verify:
                green = self._green(conn, line, rows[-1], now)
                if green is None and len(rows) == 1 and _is_bypassed(rows[0]):
                    return [verification_receipts.bypassed(conn, rows[0], line.basis.fingerprint, now)]
                return [green] * len(rows)
            fingerprint, reason = line.basis.fingerprint, "No verification command is configured (landing.verify)."
            trees = [required(row["candidate_tree"]) for row in rows]
            return [verification_receipts.unverified(conn, tree, fingerprint, reason, now) for tree in trees]

        proofs = [receipt["receipt_id"] for receipt in self._db.write(proof) if receipt is not None]
        if len(proofs) < len(rows) or not self._sign(repo, line, rows, now):
            return _Next.AGAIN
        rows = [line.rows[merge_id] for merge_id in action.merge_ids]
        state = land.land(self._db, repo, rows, proofs, line.place, rest_s=rest_s, on_settled=self._on_settled, now=now)
        self.rewinds.remember(line.target)
        if state is not MergeState.HELD:
            if state is MergeState.LANDED or (state is None and line.place.remote):
                self._db.write(lambda conn: self._landed(conn, line, action, now))
            return _Next.AGAIN
        for row in rows:
            if self._row(row)["state"] != MergeState.HELD:
                continue
            del line.rows[row["merge_id"]]
            if self._stand_aside(row, now) is _Next.BLOCKED:
                return _Next.BLOCKED
        line.waits = True
        return _Next.PASSED

    def _sign(self, repo: Git, line: _Line, rows: Sequence[MergeRow], now: datetime) -> bool:
        """Sign what is to land, if that is wanted; False: it was not, and the line is not what it was."""
        behind = [row for row in line.rows.values() if row not in rows]
        try:
            renamed = signing.sign(self._db, repo, rows, behind, now)
        except GitFailed as error:
            signing.hold(self._db, repo, rows, with_remedy(error.message, error.remedy), now)
            return False
        if renamed:
            self._slots.rename(renamed)
            line.rows.update({merge_id: self._row(row) for merge_id, row in line.rows.items()})
        return renamed is not None

    def _landed(self, conn: Connection, line: _Line, action: ladder.Land, now: datetime) -> None:
        """The next chain may be twice as long, if nothing of this one was red."""
        if not _is_bypassed(line.rows[action.merge_ids[0]]):
            pauses.record_verdict(conn, line.target, now)
        if action.is_clean and line.batch < ladder.LONGEST_BATCH:
            runs.set_batch(conn, line.target, min(2 * line.batch, ladder.LONGEST_BATCH))

    # -- outcomes -------------------------------------------------------------------------------------------------

    def _number(self) -> int:
        """How many verifications may run at once."""
        number = self._settings().landing.slots
        return self._slots.most(min(max((os.cpu_count() or 1) // 2, 1), _USUAL_SLOTS) if number == "auto" else number)

    def _share(self, target: str, targets: int) -> int:
        """How many of the slots are for a target: what it has, and of the free ones its part."""
        all_runs, own = len(self._slots.of()), len(self._slots.of(target))
        part = max(-(-self._number() // targets), 1)
        return min(max(part, own), own + max(self._number() - all_runs, 0))

    def _stand_aside(self, merge: MergeRow, now: datetime) -> _Next:
        with self._db.reading() as conn:
            passed = blockers.may_be_passed(conn, merge["merge_id"], now)
        return _Next.PASSED if passed else _Next.BLOCKED

    def _fault(self, merge: MergeRow, error: CorralError | OSError, now: datetime) -> _Next:
        reason = blame.describe(error)
        self._db.write(lambda conn: pauses.record_fault(conn, merge, reason, now))
        return _Next.AGAIN

    def _fault_first(self, requests: Sequence[MergeRow], error: CorralError | OSError, now: datetime) -> _Next | None:
        """A fault that is of no request in particular is told with the first one; without one it concerns the tip alone."""
        if requests:
            return self._fault(requests[0], error, now)
        log.warning("tip_not_verified", reason=blame.describe(error))
        return None

    def _hold_first(self, requests: Sequence[MergeRow], reason: str, now: datetime) -> _Next | None:
        return self._hold(requests[0], reason, now) if requests else None

    def _hold(self, merge: MergeRow, reason: str, now: datetime) -> _Next:
        self._db.write(lambda conn: merges.hold(conn, merge["merge_id"], reason, now))
        return _Next.BLOCKED

    def _end(self, merge: MergeRow, state: MergeState, now: datetime, **values: Any) -> _Next:
        self._db.write(lambda conn: land.end(conn, self._on_settled, merge["merge_id"], state, now=now, **values))
        return _Next.AGAIN

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


def _because(error: ConfigInvalid) -> str:
    """Why settings hold a request, and what ends that."""
    return with_remedy(f"{error.message} {error.cause}", error.remedy)


def _is_bypassed(merge: MergeRow) -> bool:
    """Whether a person lets a request land with the head that it has, whatever a verification would say."""
    return merge["bypassed_sha"] == merge["head_sha"]


def _is_red(receipt: ReceiptRow, basis: Basis) -> bool:
    return receipt["status"] in verification_receipts.NOT_GREEN and receipt["fingerprint"] == basis.fingerprint
