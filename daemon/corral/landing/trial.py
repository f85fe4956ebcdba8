"""One commit on trial: the worktree laid out and made usable, the commands run, and run again while they are red.

Red once and green again on the same tree is a flake: recorded, and nobody's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from corral.config.model import Landing
from corral.errors import CorralError
from corral.git.command import Git
from corral.landing import bench
from corral.landing.verification import Verdict, Verification
from corral.models.states import ReceiptStatus
from corral.observe.redaction import redact
from corral.runners.environment import verification_environment


@dataclass(frozen=True)
class Subject:
    """What is tried: for which request, by which candidate, and which commit: the candidate, or the tip without it."""

    merge_id: str
    candidate_sha: str
    sha: str
    tree: str
    fingerprint: str


@dataclass(frozen=True)
class Room:
    """Where trials are held.

    Attributes:
        bench: The verification worktree's folder.
        logs: The folder of this project's logs of merges.
        prepare: Makes the worktree usable; returns what its commands need in their environment.
        environ: The daemon's environment; what is no credential of it is passed on.
    """

    bench: Path
    logs: Path
    prepare: Callable[[Path], Mapping[str, str]]
    environ: Mapping[str, str]


class Trial:
    """Made started; :meth:`step` gives the verdict in the end."""

    def __init__(self, repo: Git, room: Room, subject: Subject, landing: Landing, now: datetime) -> None:
        self.subject = subject
        self.commands = list(landing.verify)
        self._repo = repo
        self._room = room
        self._landing = landing
        self._red: list[Verdict] = []
        self._failure: Verdict | None = None
        self._run: Verification | None = None
        self._start(now)

    @property
    def pid(self) -> int | None:
        """The process to watch."""
        return self._run.pid if self._run else None

    def due_at(self, now: datetime) -> datetime:
        """When to call :meth:`step` again at the latest."""
        return self._run.due_at(now) if self._run else now

    def step(self, now: datetime) -> Verdict | None:
        """Move on without waiting; the verdict, once."""
        verdict = self._run.poll(now) if self._run else self._failure
        if verdict is None:
            return None
        if verdict.status is ReceiptStatus.FAILED:
            self._red.append(verdict)
            if len(self._red) <= self._landing.reruns:
                self._start(now)
                return None
        if verdict.status is ReceiptStatus.PASSED and self._red:
            return verdict.because(
                f"Flaky: red {len(self._red)} times, then green on the same tree. {self._red[-1].reason}"
            )
        return verdict

    @property
    def flaky(self) -> bool:
        """Whether it was red at least once."""
        return bool(self._red)

    def stop(self) -> None:
        """End whatever runs."""
        if self._run is not None:
            self._run.stop()

    def close(self) -> None:
        """Let go of what a run holds open; for the thread that steps, once it steps no more."""
        if self._run is not None:
            self._run.close()

    def _start(self, now: datetime) -> None:
        self.close()
        try:
            checkout, extra = self._lay_out()
            log = self._next_log()
        except (CorralError, OSError) as error:
            said = f"{error.message} {error.cause}" if isinstance(error, CorralError) else str(error)
            reason = redact(f"The verification worktree could not be made usable: {said}")
            self._failure, self._run = Verdict(ReceiptStatus.ERROR, None, None, 0.0, None, reason), None
            return
        self._run = Verification(
            checkout,
            self._room.bench,
            self.subject.sha,
            self.commands,
            env=verification_environment(self._room.environ, {**extra, "CORRAL_MERGE_ID": self.subject.merge_id}),
            log=log,
            timeout_s=self._landing.timeout_s,
            now=now,
        )

    def _lay_out(self) -> tuple[Git, Mapping[str, str]]:
        try:
            checkout = bench.lay_out(self._repo, self._room.bench, self.subject.sha)
            return checkout, self._room.prepare(self._room.bench)
        except PermissionError:
            bench.make_writable(self._room.bench)
        checkout = bench.lay_out(self._repo, self._room.bench, self.subject.sha)
        return checkout, self._room.prepare(self._room.bench)

    def _next_log(self) -> Path:
        folder = self._room.logs / self.subject.merge_id
        return folder / f"{sum(1 for _ in folder.glob('*.log')) + 1}.log"
