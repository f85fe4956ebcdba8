"""The verification of one commit: lay out the worktree, prepare it, run the commands, and run them again while they are red.

Red once and green again on the same tree is a flake: recorded, and nobody's fault.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Any

from corral.config.sections.sharing import Landing
from corral.config.worktree_root import upward_finds
from corral.core.errors import CorralError, PathReplaced, RunnerUnavailable
from corral.core.inputs import Prepared
from corral.core.redaction import redact
from corral.core.remedies import with_remedy
from corral.core.states import ReceiptRole, ReceiptStatus
from corral.git.process.command import Git
from corral.landing.verify import blame, run_logs
from corral.landing.verify.verification import POLL_S, KeeperPlace, Verdict, Verification, end_marked, marks
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_worktree import LaidOut, VerificationWorktree
from corral.runners.keeping import Kept
from corral.work.merges.store import flakes

FULL_BYTES = 64 * 1024
"""A file system with less free space than this counts as full."""


@dataclass(frozen=True)
class Basis:
    """What a run stands on beside its tree: the ``fingerprint`` of it all, and the names of its ``programs``."""

    fingerprint: str
    programs: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunSpec:
    """The subject of a run: for which request, by which candidate, and which commit: the candidate, or the tip without it.

    Attributes:
        merge_id: The request; ``""``: for none, since the target's tip is judged by itself.
        target: Where the request is to land; the short name.
        tip_sha: What the candidate is built upon, whose ``.worktreeinclude`` counts.
        control: Of a candidate that is tried again: the receipt of the green tip that was verified since its first try.
        members: The requests whose work is in the tree beside what the target has.
        is_alone: Nobody else's work is judged by it, so that red is run again before it counts.
        is_check: Only ``landing.check`` runs.
    """

    merge_id: str
    target: str
    candidate_sha: str
    sha: str
    tree: str
    basis: Basis
    tip_sha: str
    control: str | None = None
    members: tuple[str, ...] = ()
    is_alone: bool = True
    is_check: bool = False

    @property
    def logs(self) -> str:
        """The name of the folder of its logs: the request's, or one for the tip."""
        return self.merge_id or run_logs.name_of_tip(self.sha)

    @property
    def role(self) -> ReceiptRole:
        """What the commit is to the request."""
        if self.is_check:
            return ReceiptRole.CHECK if self.sha == self.candidate_sha else ReceiptRole.CHECK_CONTROL
        return ReceiptRole.CANDIDATE if self.sha == self.candidate_sha else ReceiptRole.CONTROL


_Preparation = Future["tuple[LaidOut, Prepared, tuple[str, bool] | None] | None"]
"""The worktree that is being laid out and prepared, which may take minutes; with what the setup changed in it."""


@dataclass(frozen=True)
class Left:
    """A run that a dead daemon left, and that is provably its own (:mod:`corral.landing.verify.left_runs`).

    Attributes:
        kept: Its command that runs, or has ended.
        laid: Its worktree.
        reds: Its tries that were red.
        inputs: What it takes beside the commit.
        env: What its preparation gave to its commands.
    """

    kept: Kept
    laid: LaidOut
    reds: Sequence[Verdict]
    inputs: Mapping[str, Any]
    env: Mapping[str, str]


class VerificationRun:
    """A verification in progress. The constructor starts it; :meth:`step` returns the verdict at its end.

    Args:
        left: What there is of it already.

    Attributes:
        inputs: What it takes beside the commit, for its receipt.
        reds: Its tries that were red, in order.
    """

    def __init__(
        self,
        repo: Git,
        context: VerificationContext,
        subject: RunSpec,
        landing: Landing,
        slot: int,
        run_id: int,
        now: datetime,
        left: Left | None = None,
    ) -> None:
        self.subject = subject
        self.slot = slot
        self.run_id = run_id
        self.commands = list(landing.check if subject.is_check else landing.verify)
        self.inputs: dict[str, Any] = {}
        self._context = context
        self._worktree = VerificationWorktree(context.db, context.places, repo, str(slot))
        self._landing = landing
        self._started_at = now
        self.reds: list[Verdict] = []
        self._failure: Verdict | None = None
        self._run: Verification | None = None
        self._preparation: _Preparation | None = None
        self._unwanted = threading.Event()
        if left is None:
            self._start(now)
        else:
            self.reds, self.inputs = list(left.reds), dict(left.inputs)
            log = Path(left.kept.plan["log"])
            self._run = self._verification(left.laid, left.env, log, now, left.kept)

    @property
    def path(self) -> Path:
        """Its worktree."""
        return self._worktree.path

    @property
    def log(self) -> Path | None:
        """Where its commands write now."""
        return self._run.log if self._run else None

    @property
    def await_exit(self) -> Callable[[], None] | None:
        """Returns when the command that runs now has ended; blocks, so for a thread of its own. None: there is none."""
        return self._run.await_exit if self._run else None

    @property
    def is_kept(self) -> bool:
        """Whether the next daemon can go on with it: a command of it runs."""
        return self._preparation is None and self.await_exit is not None

    def due_at(self, now: datetime) -> datetime:
        """When to call :meth:`step` again at the latest."""
        if self._preparation is not None:
            return now if self._preparation.done() else now + timedelta(seconds=POLL_S)
        return self._run.due_at(now) if self._run else now

    @property
    def is_preparing(self) -> bool:
        """Whether its worktree is being laid out or prepared now, so that nothing else may use it."""
        return self._preparation is not None and not self._preparation.done()

    def step(self, now: datetime) -> Verdict | None:
        """Do the next step without waiting; returns the verdict, once."""
        if self._preparation is not None:
            if self.is_preparing:
                return None
            self._begin(self._preparation, now)
        verdict = self._run.poll(now) if self._run else self._failure
        if verdict is None:
            return None
        if (verdict.status is ReceiptStatus.FAILED or verdict.suspect) and (full := self._full_folder()):
            reason = f"There is no space left in {full}, which says nothing about the change. {verdict.reason}"
            return replace(verdict, status=ReceiptStatus.ERROR, reason=reason, suspect=False)
        if verdict.status is ReceiptStatus.FAILED:
            self.reds.append(verdict)
            if len(self.reds) <= self._reruns(verdict):
                self._start(now)
                return None
        if verdict.status is ReceiptStatus.PASSED and (whole := [red for red in self.reds if not red.is_partial]):
            reason = f"Flaky: red {len(whole)} times, then green on the same tree. {whole[-1].reason}"
            return replace(verdict, reason=reason)
        return verdict

    def _reruns(self, red: Verdict) -> int:
        """How often to run again before red counts."""
        at_least = self._landing.reruns if self.subject.is_alone else 0
        if self.subject.is_alone and red.is_partial:  # everything runs before anybody is blamed
            return max(at_least, 1)
        target, db = self.subject.target, self._context.db
        is_flaky = db.read(flakes.are_known, target, red.failed_tests)
        return max(at_least, 1) if is_flaky else at_least

    def stop(self) -> None:
        """End whatever runs; what is being prepared ends soon after (:attr:`is_preparing`)."""
        if self._preparation is not None:
            self._unwanted.set()
            end_marked(marks(self._worktree.path, self._context.project_id))
        if self._run is not None:
            self._run.stop()

    def close(self) -> None:
        """Close what a run holds open; for the stepping thread, after its last step."""
        if self._run is not None:
            self._run.close()

    def _start(self, now: datetime) -> None:
        """Begin to prepare the worktree; :meth:`step` starts the commands in it."""
        self.close()
        self._run, self._preparation = None, _Preparation()
        preparation = self._preparation

        def prepare() -> None:
            try:
                preparation.set_result(self._lay_out())
            except (CorralError, OSError) as error:
                preparation.set_exception(error)
            finally:
                if not preparation.done():
                    preparation.set_result(None)
            self._context.ready()

        self._context.spawn(prepare)
        if preparation.done():
            self._begin(preparation, now)

    def _begin(self, preparation: _Preparation, now: datetime) -> None:
        """Start the commands in the prepared worktree, or store why it could not be prepared."""
        self._preparation = None
        try:
            result = preparation.result()
            if result is None:
                raise RunnerUnavailable("Its preparation ended without a result: `corral daemon logs` says why.")
            laid, prepared, changed = result
            log = run_logs.begin(self._context.project, self.subject.logs, self.subject.role, self.subject.sha, now)
        except (CorralError, OSError) as error:
            reason = f"The verification worktree could not be made usable: {blame.describe(error)}"
            if isinstance(error, PermissionError):  # it names no more than the last part of the path
                what = f"{reason} Something in {self.path} is not yours, as what a container has left."
                reason = with_remedy(what, f"Remove the folder; it is made again: sudo rm -r {quote(str(self.path))}")
            suspect = blame.is_failed_setup(error)
            self._failure, self._run = Verdict(ReceiptStatus.ERROR, None, None, 0.0, None, reason, suspect), None
            return
        if changed is not None:
            reason = f"There is no verdict: its setup, before any command ran, {changed[0]}."
            self._failure = Verdict(ReceiptStatus.ERROR, None, None, 0.0, None, redact(reason), changed[1])
            return
        env = self._environment(prepared.env)
        self.inputs = {**prepared.inputs, "programs": self._programs(env.get("PATH", os.defpath), now)}
        if above := list(upward_finds(laid.path.parent, self._context.places.home)):
            self.inputs["above"] = above
        self._run = self._verification(laid, prepared.env, log, now)

    def _environment(self, prepared: Mapping[str, str]) -> dict[str, str]:
        return self._context.environment({**prepared, "CORRAL_MERGE_ID": self.subject.merge_id})

    def _verification(
        self, laid: LaidOut, prepared: Mapping[str, str], log: Path, now: datetime, kept: Kept | None = None
    ) -> Verification:
        """Start its commands, or go on with the one that is kept."""
        record = {
            "subject": asdict(self.subject),
            "reds": [{**asdict(red), "log": str(red.log)} for red in self.reds],
            "inputs": self.inputs,
            "env": dict(prepared),
        }
        return Verification(
            laid,
            self.commands,
            project_id=self._context.project_id,
            env=self._environment(prepared),
            log=log,
            keeper=KeeperPlace(folder_of(self._context, self.run_id), record),
            put_off_sealing=self._context.put_off_sealing,
            timeout_s=self._landing.timeout_s,
            now=now,
            affected=self._landing.affected if self._takes_affected() else None,
            base_sha=self.subject.tip_sha,
            reports=self._landing.reports,
            kept=kept,
        )

    def _takes_affected(self) -> bool:
        """Whether the tests that the change affects run first: not where these were red before, and the rest has to tell."""
        return self.subject.role is ReceiptRole.CANDIDATE and not self.reds

    def _lay_out(self) -> tuple[LaidOut, Prepared, tuple[str, bool] | None] | None:
        """Checkout and setup; None if nobody wants it any more. Runs in a thread of its own."""
        if self._unwanted.is_set():
            return None
        try:
            laid, prepared = self._lay_out_and_prepare()
        except PermissionError:
            self._worktree.make_writable()
            laid, prepared = self._lay_out_and_prepare()
        return None if self._unwanted.is_set() else (laid, prepared, laid.what_changed(self._started_at))

    def _lay_out_and_prepare(self) -> tuple[LaidOut, Prepared]:
        laid = self._worktree.lay_out(self.subject.sha, self._started_at)
        if self._unwanted.is_set():
            return laid, Prepared()
        try:
            return laid, self._context.prepare(self._worktree, self.subject.tip_sha)
        except PathReplaced:  # by the setup, or while it ran: what_changed says so
            return laid, Prepared()

    def _programs(self, path: str, now: datetime) -> list[dict[str, str | None]]:
        """The programs that the run's PATH finds. The others of their names were asked for the fingerprint already."""
        env = {**self._context.asking_environment(), "PATH": path}
        programs = self._context.programs.look_up(self.subject.basis.programs, env, now, within=self._worktree.path)
        return [
            {"name": program.name, "path": program.path, "version": program.version}
            for program in programs
            if program.path
        ]

    def _full_folder(self) -> Path | None:
        """A folder that a verification writes to and that has no space left: a failure there says nothing of the change."""
        for folder in (self._worktree.path, self._context.project.logs_dir, Path(tempfile.gettempdir())):
            with contextlib.suppress(OSError):
                space = os.statvfs(folder)
                if space.f_bavail * space.f_frsize < FULL_BYTES or (space.f_files and not space.f_favail):
                    return folder
        return None


def folder_of(context: VerificationContext, run_id: int) -> Path:
    """The folder of the keeper of a run's present command."""
    return context.project.verifications_dir / str(run_id)
