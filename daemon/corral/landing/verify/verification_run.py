"""The verification of one commit: lay out the worktree, prepare it, run the commands, and run them again while they are red.

Red once and green again on the same tree is a flake: recorded, and nobody's fault.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from corral.config.sections.sharing import Landing
from corral.config.worktree_root import upward_finds
from corral.core.errors import CorralError, PathReplaced, RunnerUnavailable
from corral.core.inputs import Prepared
from corral.core.redaction import redact
from corral.core.states import ReceiptRole, ReceiptStatus
from corral.git.process.command import Git
from corral.landing.verify import blame, run_logs
from corral.landing.verify.verification import POLL_S, Verdict, Verification, end_marked, marks
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_worktree import LaidOut, VerificationWorktree

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

    @property
    def logs(self) -> str:
        """The name of the folder of its logs: the request's, or one for the tip."""
        return self.merge_id or run_logs.name_of_tip(self.sha)

    @property
    def role(self) -> ReceiptRole:
        """What the commit is to the request."""
        return ReceiptRole.CANDIDATE if self.sha == self.candidate_sha else ReceiptRole.CONTROL


_Preparation = Future["tuple[LaidOut, Prepared, tuple[str, bool] | None] | None"]
"""The worktree that is being laid out and prepared, which may take minutes; with what the setup changed in it."""


class VerificationRun:
    """A verification in progress. The constructor starts it; :meth:`step` returns the verdict at its end.

    Attributes:
        inputs: What it takes beside the commit, for its receipt.
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
    ) -> None:
        self.subject = subject
        self.slot = slot
        self.run_id = run_id
        self.commands = list(landing.verify)
        self.inputs: dict[str, Any] = {}
        self._context = context
        self._worktree = VerificationWorktree(context.db, context.places, repo, str(slot))
        self._landing = landing
        self._started_at = now
        self._red: list[Verdict] = []
        self._failure: Verdict | None = None
        self._run: Verification | None = None
        self._preparation: _Preparation | None = None
        self._unwanted = threading.Event()
        self._start(now)

    @property
    def pid(self) -> int | None:
        """The process to watch."""
        return self._run.pid if self._run else None

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
            self._red.append(verdict)
            if self.subject.is_alone and len(self._red) <= self._landing.reruns:
                self._start(now)
                return None
        if verdict.status is ReceiptStatus.PASSED and self._red:
            reason = f"Flaky: red {len(self._red)} times, then green on the same tree. {self._red[-1].reason}"
            return replace(verdict, reason=reason)
        return verdict

    @property
    def flaky(self) -> bool:
        """Whether it was red at least once."""
        return bool(self._red)

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
            suspect = blame.is_failed_setup(error)
            self._failure, self._run = Verdict(ReceiptStatus.ERROR, None, None, 0.0, None, reason, suspect), None
            return
        if changed is not None:
            reason = f"There is no verdict: its setup, before any command ran, {changed[0]}."
            self._failure = Verdict(ReceiptStatus.ERROR, None, None, 0.0, None, redact(reason), changed[1])
            return
        env = self._context.environment({**prepared.env, "CORRAL_MERGE_ID": self.subject.merge_id})
        self.inputs = {**prepared.inputs, "programs": self._programs(env.get("PATH", os.defpath), now)}
        if above := list(upward_finds(laid.path.parent, self._context.places.home)):
            self.inputs["above"] = above
        self._run = Verification(
            laid,
            self.commands,
            project_id=self._context.project_id,
            env=env,
            log=log,
            put_off_sealing=self._context.put_off_sealing,
            timeout_s=self._landing.timeout_s,
            now=now,
        )

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
