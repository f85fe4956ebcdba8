"""One run of the configured commands on one tree, as processes that are started, polled and ended.

Each command has a keeper, as a worker has (:mod:`corral.runners.keeping`): it outlives the daemon. What the next daemon needs to
judge it, and to go on with the commands behind it, stands in the keeper's record before the command is started.

A verdict is green only if every command ran, ended with 0, ran tests where its runner tells, and left the tree as it
was. Anything that keeps a command from ending by itself (not found, killed, out of time, out of log space, a tree it changed, a
full disk that it met) is ``error``: no verdict. Whether the change may be why is said with it (``suspect``), and judged by
:mod:`corral.landing.verify.blame`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from corral.core.clock import AwakeClock
from corral.core.crash import crash_point
from corral.core.errors import RunnerUnavailable
from corral.core.redaction import redact
from corral.core.states import ReceiptStatus
from corral.landing.verify import blame, failed_tests, test_counts
from corral.landing.verify.verification_worktree import LaidOut
from corral.runners import keeping
from corral.runners.keeping import Exit, Kept
from corral.runners.process import Marks, await_end, ends_early, open_private, script, signal_each, survivors
from corral.runners.protocol import Limits
from corral.runners.tags import PROJECT_MARK, VERIFICATION_MARK

POLL_S = 1.0
LOG_LIMIT = 256 * 1024 * 1024
TAIL_BYTES = 1024 * 1024
MOST_PRINTED = 100_000
"""Bytes of affected tests; for more of them, everything runs at once."""
_LOOKS = 5
"""Rounds of looking for survivors, since a killed process may have started another one just before."""
_DYING_S = 5.0
"""How long a killed command is waited for: SIGKILL is not refused, but one may be stuck in the kernel."""
REASON_LINES = 8
_COULD_NOT_RUN = {126: "it is not executable", 127: "a command was not found"}


@dataclass(frozen=True)
class Verdict:
    """The result of one run; the fields are those of a receipt. There is no secret in its reason.

    Attributes:
        suspect: Of an ``error``: the change may have caused it.
        failed_tests: Of a red one, as far as the output tells.
        refusal: What the system refused a command that failed, as that printed it.
        is_partial: Only the tests ran that the change affects: red, it proves nothing against anybody.
    """

    status: ReceiptStatus
    exit_code: int | None
    tests: int | None
    duration_s: float
    log: Path | None
    reason: str | None
    suspect: bool = False
    failed_tests: tuple[str, ...] = ()
    is_partial: bool = False
    refusal: str | None = None


@dataclass(frozen=True)
class _Step:
    """One command.

    Attributes:
        tests: Its arguments: the tests that the change affects.
        prints: It prints these, into this file.
    """

    command: str
    tests: tuple[str, ...] = ()
    prints: Path | None = None

    @property
    def shown(self) -> str:
        """As the log names it."""
        return f"{self.command} ({len(self.tests)} affected tests first)" if self.tests else self.command

    def argv(self) -> list[str]:
        """The shell that runs it; what was printed is never part of a shell's text."""
        command = script(self.command)
        if self.prints is not None:
            self.prints.unlink(missing_ok=True)
            return ["/bin/sh", "-c", f'exec >"$1" || exit\n{command}', "sh", str(self.prints)]
        if self.tests:
            return ["/bin/sh", "-c", f'{command} "$@"', "sh", *self.tests]
        return ["/bin/sh", "-c", command]


@dataclass(frozen=True)
class _Charge:
    """One command, as its keeper is told of it (:class:`corral.runners.keeping.Charge`)."""

    name: str
    keeper: Path
    project_id: str
    worktree: Path
    log: Path
    limits: Limits
    marks: Mapping[str, str]
    told: Mapping[str, Any]


@dataclass(frozen=True)
class KeeperPlace:
    """Where the keeper of a run's present command is.

    Attributes:
        folder: Its own; the name is the run's.
        told: What the next daemon needs beside what stands here; JSON.
    """

    folder: Path
    told: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What its keepers are marked with."""
        return f"verification/{self.folder.name}"


class Verification:
    """A run in progress. Made started; :meth:`poll` moves it on and at last gives the verdict.

    Args:
        laid: The verification worktree, detached at the commit that is verified.
        commands: At least one shell command, run in order by ``/bin/sh -c`` until one fails, or one line of one.
        project_id: Marks the processes of the run as this project's.
        env: The whole environment of the commands.
        base_sha: What ``affected`` compares with. The others do not get it: their verdict counts upon any base.
        log: Where their output goes; made with mode 0600.
        keeper: Where the keepers of its commands are, one after the other.
        put_off_sealing: Given the log when a command has ended: its secrets are to be overwritten, and that may take long.
        timeout_s: Seconds for all commands together, in which the machine was awake.
        now: When the run starts.
        affected: Prints the tests that are run first, with the first of the commands.
        reports: Where the commands leave JUnit XML.
        kept: The command of a run that another daemon started and that is to go on, proven to be its own.
    """

    def __init__(
        self,
        laid: LaidOut,
        commands: Sequence[str],
        *,
        project_id: str,
        env: Mapping[str, str],
        log: Path,
        keeper: KeeperPlace,
        put_off_sealing: Callable[[Path], None],
        timeout_s: float,
        now: datetime,
        affected: str | None = None,
        base_sha: str = "",
        reports: Sequence[str] = (),
        kept: Kept | None = None,
    ) -> None:
        self._laid = laid
        self._waiting = [_Step(command) for command in commands]
        printing = _Step(affected or "landing.affected", prints=log.with_suffix(".affected"))
        self._step = self._waiting[0]
        self._reports = reports
        self._reports_since = 0.0
        self._project_id = project_id
        self._marks = marks(laid.path, project_id)
        self._env = {**env, **self._marks}
        self._base_sha = base_sha
        self.log = log
        self._keeper = keeper
        self._put_off_sealing = put_off_sealing
        self._timeout_s = timeout_s
        self._awake = AwakeClock()
        self._started_at = self._awake.at(now)
        self._tests: int | None = None
        self._kept: Kept | None = None
        self._group: int | None = None
        self._output = b""
        self._written = 0
        self._trouble: str | None = None
        self._refusal: str | None = None
        self._remark = laid.remark()
        if kept is not None:
            self._go_on(kept, printing)
        else:
            self._waiting[:0] = [printing] if affected is not None else []
            self._next(self._started_at)

    @property
    def command(self) -> str:
        """The command that runs now, or ran last."""
        return self._step.command

    @property
    def await_exit(self) -> Callable[[], None] | None:
        """Returns when the command that runs now has ended; blocks, so for a thread of its own. None: there is none."""
        return self._kept.await_exit if self._kept else None

    def due_at(self, now: datetime) -> datetime:
        """When to poll again at the latest."""
        return now + min(timedelta(seconds=max(self._left_s(self._awake.at(now)), 0)), timedelta(seconds=POLL_S))

    def poll(self, now: datetime) -> Verdict | None:
        """Look without waiting: start the next command, end one that is over its limits, or conclude.

        Returns:
            The verdict, once; None while it runs.
        """
        try:
            return self._look(self._awake.at(now))
        except OSError as error:
            self.stop()
            reason = f"`{self.command}` could not be followed: {error}"
            return self._verdict(self._awake.at(now), ReceiptStatus.ERROR, None, reason)

    def stop(self) -> None:
        """End every process of the run and wait for the first one's death. From any thread."""
        group = self._group
        if group is None:
            return
        end_marked(self._marks, group)
        await_end(group, _DYING_S)
        keeping.forget(self._keeper.folder)  # nobody is to go on with it
        self._put_off_sealing(self.log)

    def close(self) -> None:
        """Let the keeper of the last command go; for the polling thread, after what came of it is stored."""
        self._group = None
        if self._kept is not None:
            self._kept.acknowledge()
            keeping.forget(self._keeper.folder)
            self._kept = None

    def _next(self, now: datetime) -> None:
        self.close()
        self._step = self._waiting.pop(0)
        try:
            _write(self.log, f"{self._remark}$ {self._step.shown}\n")
            self._remark, self._output = "", b""
            self._reports_since = self.log.stat().st_mtime
            crash_point("verification.command_intended")
            more = {"CORRAL_BASE_SHA": self._base_sha} if self._step.prints is not None else {}
            self._kept = keeping.keep(self._charge(now), self._step.argv(), {**self._env, **more}, grace_s=0.0)
            self._group = self._kept.pid
            crash_point("verification.command_started")
        except (OSError, RunnerUnavailable) as error:
            self._trouble = str(error)

    def _charge(self, now: datetime) -> _Charge:
        left_s, left_mb = self._left_s(now), max(LOG_LIMIT - self._written, 0) // 1024 // 1024
        record = {
            **self._keeper.told,
            "converted": dict(self._laid.files.converted),
            "behind": len(self._waiting),
            "prints": self._step.prints is not None,
            "affected": list(self._step.tests),
            "tests": self._tests,
            "written": self._written,
            "spent_s": self._timeout_s - left_s,
            "begun": self._reports_since,
        }
        limits = Limits(timeout_s=max(left_s, 0.0), output_mb=left_mb)
        name, folder, place = self._keeper.name, self._keeper.folder, self._laid.path
        return _Charge(name, folder, self._project_id, place, self.log, limits, self._marks, record)

    def _go_on(self, kept: Kept, printing: _Step) -> None:
        """Be where the record of a command says that the run was."""
        plan, self._remark = kept.plan, ""
        before = len(self._waiting) - plan["behind"]
        if plan["prints"]:
            self._step = printing
        elif plan["affected"]:
            self._step = replace(self._waiting[0], tests=tuple(plan["affected"]))
        else:
            self._step = self._waiting[before - 1]
        del self._waiting[:before]
        self._tests, self._written, self._reports_since = plan["tests"], plan["written"], plan["begun"]
        self._started_at -= timedelta(seconds=plan["spent_s"] + kept.age_s)
        self._kept, self._group = kept, kept.pid

    def _left_s(self, now: datetime) -> float:
        return self._timeout_s - (now - self._started_at).total_seconds()

    def _look(self, now: datetime) -> Verdict | None:
        if self._kept is None:
            reason = f"`{self.command}` could not be started: {self._trouble}"
            return self._verdict(now, ReceiptStatus.ERROR, None, reason)
        ended = self._kept.exit()
        self._read(self._kept)
        over = self._over_limit(now, ended)
        if ended is None and over is None:
            return None
        if over is not None:
            self.stop()
            reason = f"`{self.command}` {over} and was ended."
            return self._verdict(now, ReceiptStatus.ERROR, None, reason, suspect=True)
        assert ended is not None
        if not self._kept.is_kept:
            self._group = None  # its pid may be another process's
        end_marked(self._marks, self._group)
        if ended.code is None:
            reason = f"The keeper of `{self.command}` was killed from outside, and the command was ended."
            return self._verdict(now, ReceiptStatus.ERROR, None, reason)
        failure = self._judge(ended.code, now)
        if failure is not None:
            state, reason, suspect = failure
            return self._verdict(now, state, ended.code, reason, suspect=suspect)
        if self._step.prints is not None:
            self._put_first(_printed(self._step.prints) if ended.code == 0 else [])
        if self._waiting:
            self._next(now)
            return None
        return self._verdict(now, ReceiptStatus.PASSED, ended.code, None)

    def _put_first(self, tests: list[str]) -> None:
        """Run these tests first; none: everything at once."""
        if tests:
            self._waiting.insert(0, replace(self._waiting[0], tests=tuple(tests)))

    def _read(self, kept: Kept) -> None:
        before = kept.output.read
        for data in kept.output.chunks(TAIL_BYTES):
            self._output = (self._output + data)[-TAIL_BYTES:]
        self._written += kept.output.read - before

    def _over_limit(self, now: datetime, ended: Exit | None) -> str | None:
        """The limit that a command has passed: while it runs, or by its keeper's account when nobody followed it."""
        limit = ended.limit if ended is not None else None
        if limit == "timeout" or (ended is None and self._left_s(now) <= 0):
            return f"took longer than landing.timeout_s ({self._timeout_s:g} s)"
        if limit == "output_limit" or (ended is None and self._written > LOG_LIMIT):
            return f"wrote more than {LOG_LIMIT // 1024 // 1024} MB of output"
        return None

    def _judge(self, code: int, now: datetime) -> tuple[ReceiptStatus, str, bool] | None:
        """Why an ended command is not green: status, reason, and whether the change may be why there is no verdict."""
        output = self._output.decode("utf-8", "replace")
        changed = self._laid.what_changed(now)
        if changed is not None:
            predicate, suspect = changed
            return ReceiptStatus.ERROR, f"The verdict is void: `{self.command}` {predicate}.", suspect
        if self._step.prints is not None:
            return None
        if code in _COULD_NOT_RUN:
            reason = f"`{self.command}` could not run: {_COULD_NOT_RUN[code]} (exit code {code})."
            return ReceiptStatus.ERROR, reason, True
        if code in blame.KILLED:
            reason = f"`{self.command}` was killed from outside, perhaps for lack of memory."
            return ReceiptStatus.ERROR, reason, False
        ran = test_counts.count(output)
        if ran is not None and not self._step.tests:
            self._tests = (self._tests or 0) + ran
        if code != 0 and (refusal := blame.refusal_in(output)):
            self._refusal = refusal
            reason = f"`{self.command}` failed with exit code {code}, and printed {refusal!r}:\n{last_lines(output)}"
            return ReceiptStatus.ERROR, reason, True
        if code != 0:
            printed = last_lines(output)
            rest = f":\n{printed}\n" if printed else ", and printed nothing. "
            why = f"`{self.command}` failed with exit code {code}{rest}{ends_early(self.command)}"
            return ReceiptStatus.FAILED, why.rstrip(), False
        if ran == 0 and not self._step.tests:
            return ReceiptStatus.FAILED, f"`{self.command}` ran no tests.", False
        return None

    def _verdict(
        self, now: datetime, state: ReceiptStatus, code: int | None, reason: str | None, *, suspect: bool = False
    ) -> Verdict:
        self._put_off_sealing(self.log)
        redacted = redact(reason) if reason is not None else None
        took_s = (now - self._started_at).total_seconds()
        verdict = Verdict(state, code, self._tests, took_s, self.log, redacted, suspect)
        if state is not ReceiptStatus.FAILED:
            return replace(verdict, refusal=self._refusal)
        return replace(verdict, failed_tests=self._failed_tests(), is_partial=bool(self._step.tests))

    def _failed_tests(self) -> tuple[str, ...]:
        output = self._output.decode("utf-8", "replace")
        names = failed_tests.of_run(output, self._laid.path, self._reports, self._reports_since)
        return tuple(map(redact, names))


def marks(path: Path, project_id: str) -> dict[str, str]:
    """The mark that every process of a run in the verification worktree at ``path`` has in its environment."""
    return {PROJECT_MARK: project_id, VERIFICATION_MARK: str(path)}


def end_marked(marks: Marks, group: int | None = None) -> None:
    """Kill a run: its process group, and whatever left it but carries its marks or tag."""
    for _look in range(_LOOKS):
        alive = survivors(group, marks)
        if not alive:
            return
        signal_each(alive, signal.SIGKILL)


def _printed(file: Path) -> list[str]:
    """The tests that a command has printed into a file, which goes; none where they are too many for a command."""
    try:
        with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as printed:
            text = printed.read(MOST_PRINTED + 1)
        file.unlink(missing_ok=True)
    except OSError:
        return []
    lines = text.decode("utf-8", "replace").splitlines() if len(text) <= MOST_PRINTED else []
    return [line.strip() for line in lines if line.strip() and "\0" not in line]


def _write(log: Path, text: str) -> None:
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_APPEND), "ab") as file:
        file.write(text.encode(errors="replace"))


def last_lines(output: str) -> str:
    """The last lines that say something, short enough for a reason. A secret is taken out before it could be cut in two."""
    lines = [line.rstrip()[:200] for line in redact(output).splitlines() if line.strip()]
    return "\n".join(lines[-REASON_LINES:])
