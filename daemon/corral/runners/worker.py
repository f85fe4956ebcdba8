"""One worker from start to end, with any runner: follow its output, enforce its limits, end it in bounded steps.

Its process belongs to its keeper (:mod:`corral.runners.keeping`), so it is the same whether this daemon started it or an earlier
one. From its output, read again from the start, the :class:`Output` of its runner computes usage, progress and result anew.

A stop sends SIGTERM to the whole group; so does the end of the leader, for the processes that it left behind. After the
grace period SIGKILL goes to every living process. Finished is reported only when none is alive.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

import psutil

from corral.runners.blame import DISK_FULL, OUT_OF_MEMORY
from corral.runners.keeping import Exit, Kept
from corral.runners.process import Load, kernel_kills, lives, load_of, signal_each, survivors
from corral.runners.protocol import Assignment, Finished, Observation, ToolCall, Usage, failure
from corral.runners.stream import one_line

_SAMPLE_S = 1.0
_LINGER_S = 5.0
_BUSY_SHARE = 0.05
_MOST_LEFT = 20
_UNDYING_S = 10.0
"""Seconds after SIGKILL until a process that still lives is reported: another user's, or one stuck in the kernel."""
_MOST_AT_ONCE = 8 << 20
"""Maximum bytes of output that one observation parses: more would keep every other worker waiting."""
_MOST_AGAIN = 64 << 20
"""Maximum bytes of output that were told already and are parsed again when a worker is adopted."""
_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
_KEEPER_LOST = "killed", "Its keeper was killed, and it was ended."

LEFT = "left_processes"
"""The entry of a result that names the processes which a worker left behind, and which were ended."""


class Output(Protocol):
    """Interprets the output of a kind of worker."""

    @property
    def usage(self) -> Usage:
        """The usage so far."""

    @property
    def progress(self) -> str | None:
        """The last line for a person."""

    @property
    def settled(self) -> bool:
        """Whether the result is known and only the process has to exit."""

    @property
    def waits(self) -> bool:
        """Whether a settled worker has reason to keep running for a while."""

    def feed(self, data: bytes) -> bool:
        """Process output; returns whether it shows progress."""

    def take_tool_calls(self) -> list[ToolCall]:
        """The tool calls that ended since they were last taken."""

    def verdict(self, exit_code: int) -> Finished:
        """The end of the worker, if nobody stopped it."""


@dataclass
class _Ending:
    since: datetime
    error: tuple[str, str] | None
    killed: bool = False
    left_behind: list[str] = field(default_factory=list)
    signalled: set[psutil.Process] = field(default_factory=set)


class Worker:
    """A :class:`~corral.runners.protocol.Running` over one process, started by its constructor.

    Args:
        kept: Its process.
        now: The start, by the clock of :meth:`observe` and :meth:`stop`: one that stands still while the machine sleeps
            (:class:`corral.core.clock.AwakeClock`).
        grace_s: Seconds from SIGTERM to SIGKILL.
    """

    _answers_for_group = True
    """Whether a process of its group that outlives it counts as left behind; a client's servers end a moment after it."""

    def __init__(self, assignment: Assignment, output: Output, kept: Kept, *, now: datetime, grace_s: float) -> None:
        self._kept = kept
        self.pid, self.pid_started = kept.pid, kept.pid_started
        self._kernel_kills: int | None = kept.plan["kernel_kills"]
        self._tail = kept.output
        self._marks = assignment.marks
        self._limits = assignment.limits
        self._output = output
        self._grace_s = grace_s
        self._started = now - timedelta(seconds=kept.age_s)
        self._progressed_at = self._sampled_at = self._busy_since = now
        self._busy_cpu_s = 0.0
        self._memory_mb: float | None = None
        self._ending: _Ending | None = None
        self._finished: Finished | None = None
        self._undying: str | None = None
        for data in self._tail.chunks(_MOST_AGAIN, up_to=kept.told):
            output.feed(data)
        output.take_tool_calls()  # which an earlier daemon told of

    def observe(self, now: datetime) -> Observation:
        """Read new output, enforce the limits, continue a stop; never blocks."""
        progressed = False
        if self._finished is None:
            ended = self._kept.exit()  # read afterwards, so that the output of a dead process is complete
            if ended is None and self._ending is None and self._writes_too_much():
                self._enforce(now)  # before it is read, which takes time in which more is written
            progressed = self._read(now)
            if ended is None and self._ending is None:
                self._enforce(now)
            if ended is not None or self._ending:
                self._finished = self._end(now, ended)
        output = self._output
        calls, undying = output.take_tool_calls(), self._undying
        return Observation(self._finished, output.usage, output.progress, progressed, self._memory_mb, calls, undying)

    def stop(self, now: datetime, reason_code: str, message: str) -> None:
        """Send SIGTERM to the whole group; the first reason counts."""
        if self._ending is None and self._finished is None:
            self._begin_end(now, (reason_code, message))

    @property
    def listens(self) -> bool:
        """Whether it accepts a message now."""
        return False

    def tell(self, text: str) -> bool:
        """Refuse a message; runners that accept messages override this."""
        return False

    def await_exit(self) -> None:
        """Return when its process has ended. Blocks; for a thread of its own."""
        self._kept.await_exit()

    def _read(self, now: datetime) -> bool:
        before = self._tail.read
        progressed = sum(self._output.feed(data) for data in self._tail.chunks(_MOST_AT_ONCE)) > 0
        if self._tail.read > before:
            self._kept.tell_of(self._tail.read)
        if self._output.settled:
            self._kept.end_input()
        if progressed:
            self._progressed_at = now
        return progressed

    def _enforce(self, now: datetime) -> None:
        reason = self._exceeded_limit(now)
        if self._output.settled:
            quiet_s = (now - self._progressed_at).total_seconds()
            if (reason and reason[0] in ("timeout", "stalled")) or (not self._output.waits and quiet_s > _LINGER_S):
                self._begin_end(now, None)
        elif reason:
            self._begin_end(now, reason)

    def _exceeded_limit(self, now: datetime) -> tuple[str, str] | None:
        limits, usage = self._limits, self._output.usage
        age_s = (now - self._started).total_seconds()
        if limits.timeout_s is not None and age_s >= limits.timeout_s:
            return self._passed("timeout", age_s)
        if limits.max_tokens is not None and usage.input_tokens + usage.output_tokens > limits.max_tokens:
            return "token_limit", f"The worker used more than {limits.max_tokens} tokens."
        if self._writes_too_much():
            return self._passed("output_limit", self._tail.size / 2**20)
        load = self._sample(now)
        if load and limits.memory_mb is not None and load.memory_mb > limits.memory_mb:
            return self._passed("memory_limit", load.memory_mb)
        if limits.stall_s is not None and (now - self._progressed_at).total_seconds() >= limits.stall_s:
            return "stalled", f"The worker made no progress for {limits.stall_s:g} s.{self._last_output}"
        return None

    def _passed(self, limit: str, used: float) -> tuple[str, str]:
        """A limit that the keeper enforces too, and its message."""
        limits = self._limits
        if limit == DISK_FULL:
            return limit, f"The volume of its worktree was full when it failed.{self._last_output}"
        if limit == "timeout":
            return limit, f"The worker timed out after {limits.timeout_s:g} s.{self._last_output}"
        if limit == "output_limit":
            return (
                limit,
                f"The worker wrote more than {limits.output_mb} MB of output; let it write less, or into a file.",
            )
        return limit, f"Its processes used {used:.0f} MiB; the limit is {limits.memory_mb}."

    def _writes_too_much(self) -> bool:
        most = self._limits.output_mb
        return most is not None and self._tail.size > most << 20

    @property
    def _last_output(self) -> str:
        """The last output, which often contains the cause: a client that retries reports the error."""
        return f" Last output: {self._output.progress}" if self._output.progress else ""

    def _sample(self, now: datetime) -> Load | None:
        if (now - self._sampled_at).total_seconds() < _SAMPLE_S:
            return None
        self._sampled_at = now
        load = load_of(self.pid, enough_mb=self._limits.memory_mb)
        self._memory_mb = load.memory_mb
        self._notice_work(now, load)
        return load

    def _notice_work(self, now: datetime, load: Load) -> None:
        """Count processor use as progress: a long build or test run prints nothing for minutes."""
        span_s = (now - self._busy_since).total_seconds()
        if self._limits.stall_s is None or span_s < self._limits.stall_s / 3:
            return
        if load.cpu_s - self._busy_cpu_s >= _BUSY_SHARE * span_s:
            self._progressed_at = now
        self._busy_since, self._busy_cpu_s = now, load.cpu_s

    def _begin_end(self, now: datetime, error: tuple[str, str] | None) -> None:
        self._ending = _Ending(now, error)
        self._kept.signal_group(signal.SIGTERM)

    def _end(self, now: datetime, ended: Exit | None) -> Finished | None:
        ending = self._ending = self._ending or _Ending(now, self._error_of(ended))
        if (now - ending.since).total_seconds() >= self._grace_s:
            ending.killed = True
            self._kept.signal_group(signal.SIGKILL)
        is_late = (now - ending.since).total_seconds() >= self._grace_s + _UNDYING_S
        if ended is None:
            self._undying = f"pid {self.pid}" if is_late else None
            return None
        alive = survivors(self.pid if self._kept.is_kept else None, self._marks)
        # A process that is dying has no environment, and is not among the survivors.
        alive += [process for process in ending.signalled if process not in alive and lives(process)]
        if alive:
            self._end_survivors(ending, alive)
            self._undying = ", ".join(f"pid {process.pid}" for process in alive[:_MOST_LEFT]) if is_late else None
            return None
        self._undying = None
        if self._limits.output_mb is not None:
            self._tail.cut(self._limits.output_mb << 20)
        self._kept.acknowledge()  # only now: while it is a zombie, its pid and its group's are not reused
        error = ending.error or (_KEEPER_LOST if ended.code is None else None)
        if error is None and ended.code is not None:
            return self._with_leftovers(self._judge(ended.code), ending.left_behind)
        assert error is not None
        return failure(*error, exit_code=ended.code)

    def _error_of(self, ended: Exit | None) -> tuple[str, str] | None:
        """The limit for which the keeper ended the worker while no daemon followed it, or the full disk on which it failed."""
        if ended is None or ended.limit is None or self._output.settled:
            return None
        return self._passed(ended.limit, ended.used)

    def _judge(self, exit_code: int) -> Finished:
        verdict = self._output.verdict(exit_code)
        if verdict.success or exit_code not in _KILLED:
            return verdict
        kills = kernel_kills()
        if kills is None or self._kernel_kills is None or kills <= self._kernel_kills:
            return verdict
        why = "The machine ran out of memory, and the kernel killed the worker."
        return failure(OUT_OF_MEMORY, why, exit_code=exit_code, result=verdict.result)

    def _with_leftovers(self, verdict: Finished, left_behind: list[str]) -> Finished:
        """The verdict with the processes that it left behind, since nothing else reports that they were ended."""
        leftovers = {LEFT: left_behind[:_MOST_LEFT]} if left_behind else {}
        return replace(verdict, result={**verdict.result, **leftovers})

    def _end_survivors(self, ending: _Ending, alive: list[psutil.Process]) -> None:
        new = [process for process in alive if process not in ending.signalled]
        ending.left_behind += [description for process in new if (description := self._describe_leftover(process))]
        if ending.killed:
            signal_each(alive, signal.SIGKILL)
        else:
            signal_each(new, signal.SIGTERM)
        ending.signalled.update(alive)

    def _describe_leftover(self, process: psutil.Process) -> str | None:
        """A process as shown to a person; None if it has ended by itself, or is a server that ends with its client."""
        with suppress(psutil.Error, OSError):
            if self._answers_for_group or os.getpgid(process.pid) != self.pid:
                words = process.cmdline() or [process.name()]
                return f"{one_line(' '.join(words))} (pid {process.pid})"
        return None
