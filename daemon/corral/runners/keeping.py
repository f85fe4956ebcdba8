"""Keepers, from the daemon's side: start one, find one that another daemon started, and speak to it.

What is kept is the worker of an attempt, or a command of a verification; "worker" below means both. The folder of its keeper
holds, from before the keeper's start until what came of the worker is stored:

=============  =====================================================================================================
``keeper.py``  the keeper's program, as it was when the attempt began
``record``     the daemon's line (JSON: what the next daemon needs to follow the worker), then the keeper's: its pid, the
               worker's, what the worker read, its exit. The keeper holds a lock on it for its whole life.
``input``      messages to the worker, appended by the daemon. The keeper holds a lock on it until the exit is recorded.
``followed``   how far the worker's output was told to others. Locked by the daemon that follows the worker.
=============  =====================================================================================================

Nothing of a worker's command, prompt or environment is in it. Both sides hold the files open: who cleans the folder away under a
running daemon takes nothing from the worker but its adoption by the next one.
"""

from __future__ import annotations

import errno
import fcntl
import json
import marshal
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from corral.core.errors import OutOfResources
from corral.core.logs import logger
from corral.runners import keeper
from corral.runners.keeper import FOLLOWED, INPUT, RECORD
from corral.runners.process import LogTail, end_leftovers, kernel_kills, open_private, refused, start_time
from corral.runners.protocol import Assignment, Limits, PastConversation, Usage
from corral.runners.tags import PROJECT_MARK, TASK_MARK, tagging

log = logger("keeper")

KEEPER_MARK = "CORRAL_KEEPER"
"""In the environment of a keeper: the name of what it keeps. The worker does not get it."""

MOST_ADOPTIONS = 10
"""How often a worker is adopted within :data:`ADOPTIONS_S`: one that its daemons die of, again and again, is ended."""

ADOPTIONS_S = 600.0

_REPLY_S = 60.0
"""How long a keeper may take to start its worker on a machine that does much else."""
_DEADLY = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP)
_LONGEST_RECORD = 1 << 20
_FIELD = 20
"""Bytes of a number in the file ``followed``: what was told, then the instant of each adoption."""
_started: list[int] = []
_reaping = threading.Lock()


class Charge(Protocol):
    """What a keeper is started for."""

    @property
    def name(self) -> str:
        """Unique in the project: an attempt's, or a verification's."""

    @property
    def keeper(self) -> Path:
        """The folder of its keeper, made at the start."""

    @property
    def project_id(self) -> str:
        """The project whose processes these are."""

    @property
    def worktree(self) -> Path:
        """The folder that it works in."""

    @property
    def log(self) -> Path:
        """Its output; created with mode 0600, appended to if it exists."""

    @property
    def limits(self) -> Limits:
        """Those of time, memory and output are enforced by the keeper too."""

    @property
    def marks(self) -> Mapping[str, str]:
        """The marks in the environment of each of its processes."""

    @property
    def told(self) -> Mapping[str, Any]:
        """What the next daemon needs to go on with it, beside these; JSON."""


@dataclass(frozen=True)
class Exit:
    """The end of a worker's process.

    Attributes:
        code: Negative for a signal; None: the keeper died before it could tell, and the worker may live.
        limit: The error code of the limit for which the keeper ended it, or of a full disk on which it failed; None: neither.
        used: What it had used of that limit.
    """

    code: int | None
    limit: str | None = None
    used: float = 0.0


def is_killed(ended: Exit) -> bool:
    """Whether a worker died by a signal that neither its keeper nor a daemon sent."""
    return ended.limit is None and ended.code in _DEADLY


class Kept:
    """A worker, through its keeper's folder. One thread uses it, but for :meth:`await_exit`.

    Attributes:
        output: What it writes, from :meth:`follow_output` on; closed with the rest.
    """

    output: LogTail

    def __init__(self, folder: Path) -> None:
        with ExitStack() as unless_opened:
            self._record, self._input, self._followed = (
                _opened(unless_opened, folder / name) for name in (RECORD, INPUT, FOLLOWED)
            )
            fcntl.flock(self._followed, fcntl.LOCK_SH)  # the keeper holds it for no longer than a look takes
            self._is_open = True
            self._files = unless_opened.pop_all()
        self._folder = folder
        self._position = 0
        self._keeper: int | None = None
        self._exit: Exit | None = None
        self._is_input_closed = False
        self._monotonic = 0.0
        self.plan: dict[str, Any] = {}
        self.pid = 0
        self.pid_started = 0.0
        self.is_revoked = False
        self._take_record()

    def follow_output(self, log: Path, start: int | None = None) -> None:
        """Open the log of the worker, which may remove it at any time: before it starts, or when it is adopted.

        Args:
            start: As :class:`~corral.runners.process.LogTail` has it.
        """
        self.output = LogTail(log, start)
        self._files.callback(self.output.close)

    @property
    def age_s(self) -> float:
        """How long its worker has run, without the time in which the machine slept, seconds."""
        return max(0.0, time.monotonic() - self._monotonic)

    @property
    def is_kept(self) -> bool:
        """Whether its keeper lives."""
        return _is_locked(self._record)

    @property
    def takes_input(self) -> bool:
        """Whether its worker may still read what is sent."""
        self._take_record()
        return not self._is_input_closed and self._exit is None and self.is_kept

    @property
    def told(self) -> int:
        """Bytes of the worker's output, from its start, that were told to others."""
        return int(os.pread(self._followed, _FIELD, 0))

    def tell_of(self, size: int) -> None:
        """Note, before anybody is told of it, that the output up to here is told."""
        os.pwrite(self._followed, f"{size:0{_FIELD}d}".encode(), 0)

    def count_adoption(self) -> int:
        """Note that a daemon follows a worker that another one started; how often that happened lately, with this one."""
        now, size = time.monotonic(), os.fstat(self._followed).st_size
        os.pwrite(self._followed, f"{now:0{_FIELD}.3f}".encode(), size)
        text = os.pread(self._followed, size + _FIELD, _FIELD).decode()
        instants = (float(text[at : at + _FIELD]) for at in range(0, len(text), _FIELD))
        return sum(now - instant <= ADOPTIONS_S for instant in instants)

    def exit(self) -> Exit | None:
        """The end of the worker's process; None while it lives."""
        self._take_record()
        if self._exit is None and not self.is_kept:
            self._take_record()  # what it wrote between the two looks
            self._exit = self._exit or Exit(None)
        return self._exit

    def await_exit(self) -> None:
        """Return when the worker's exit is recorded, or its keeper has died. Blocks; for a thread of its own."""
        with suppress(FileNotFoundError):
            descriptor = os.open(self._folder / INPUT, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            finally:
                os.close(descriptor)

    def send(self, data: bytes) -> bool:
        """Send bytes to the worker's standard input; False if it takes none any more."""
        if not self.takes_input:
            return False
        try:
            self._append(b"+", data)
        except OSError as error:
            log.warning("message_not_sent", folder=str(self._folder), reason=str(error))
            return False
        return True

    def end_input(self) -> None:
        """End the worker's input; what it has not read is lost."""
        if self.takes_input:
            self._append(b"-")

    def acknowledge(self) -> None:
        """Let the keeper go: from now on the worker's pid may be another process's. Its record stays."""
        try:
            if self.is_kept:
                self._append(b"a")
        except OSError:  # the disk is full: the exit is on it, and the keeper has nothing left to do
            self.kill_keeper()
        self.close()
        _reap()

    def signal_group(self, number: signal.Signals) -> None:
        """Signal the worker's group: while its keeper lives and has not told of an exit, it is certainly the worker's."""
        if self.exit() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    @property
    def name(self) -> str | None:
        """The name of what is kept; in the record of an earlier version that is an attempt."""
        return self.plan.get("name") or f"{self.plan.get('task_id')}/{self.plan.get('attempt')}"

    def has_mark(self) -> bool:
        """Whether its keeper carries the mark of what the record says is kept."""
        with suppress(psutil.Error, OSError):
            environ = psutil.Process(self._keeper).environ() if self._keeper is not None else {}
            return environ.get(KEEPER_MARK) == self.name
        return False

    def kill_keeper(self) -> None:
        """Kill the keeper, if it is certainly that."""
        if self._keeper is not None and self.has_mark():
            with suppress(ProcessLookupError):
                os.kill(self._keeper, signal.SIGKILL)

    def close(self) -> None:
        """Follow it no longer."""
        if self._is_open:
            self._is_open = False
            self._files.close()

    def _append(self, kind: bytes, data: bytes = b"") -> None:
        """Append a message in one write, whole or not at all, and wake the keeper.

        Raises:
            OSError: It could not be written.
        """
        size, message = os.fstat(self._input).st_size, kind + len(data).to_bytes(4, "big") + data
        if os.write(self._input, message) != len(message):
            os.ftruncate(self._input, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._keeper is not None and self.is_kept:
            with suppress(ProcessLookupError):
                os.kill(self._keeper, signal.SIGUSR1)

    def _take_record(self) -> None:
        if not self._is_open:
            return
        text = os.pread(self._record, _LONGEST_RECORD, self._position)
        whole, _, _ = text.rpartition(b"\n")
        if not whole:
            return
        self._position += len(whole) + 1
        lines = whole.decode().split("\n")
        if not self.plan:
            with suppress(ValueError):  # not written whole when the machine went down: the worker went down with it
                self.plan = json.loads(lines.pop(0))
        for line in lines:
            self._take_line(*line.split())

    def _take_line(self, kind: str, *words: str) -> None:
        if kind == "keeper":
            self._keeper = int(words[0])
        elif kind == "worker":
            self.pid, self._monotonic = int(words[0]), float(words[2])
            self.pid_started = start_time(self.pid) or 0.0
        elif kind == "input":
            self._is_input_closed = words[0] == "closed"
        elif kind == "exit":
            self._exit = Exit(int(words[0]), None if words[1] == "-" else words[1], float(words[2]))
        elif kind == "revoked":
            self.is_revoked = True


def keep(
    charge: Charge,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    grace_s: float,
    stdin: bytes | None = None,
    closes_stdin: bool = False,
) -> Kept:
    """Start a worker by a keeper: its output goes straight into its log, and neither ends with the daemon.

    Args:
        argv: The command.
        env: Its whole environment; the marks in it decide about its tag.
        grace_s: Seconds from SIGTERM to SIGKILL, where the keeper enforces a limit.
        stdin: First bytes for its standard input; None: no standard input.
        closes_stdin: Whether its standard input ends after ``stdin``.

    Raises:
        OutOfResources: The machine has no room for a process now.
        RunnerUnavailable: The system refused for another reason.
    """
    _reap()
    folder, limits = charge.keeper, charge.limits
    order = {
        "argv": [os.fsencode(word) for word in tagging(argv, env)],
        "env": {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
        "cwd": os.fsencode(charge.worktree),
        "stdin": stdin,
        "closes_stdin": closes_stdin,
        "grace_s": grace_s,
        "timeout_s": limits.timeout_s,
        "memory_mb": limits.memory_mb,
        "output_mb": limits.output_mb,
    }
    try:
        kept, reply = _begin(charge, marshal.dumps(order))
    except OSError as error:
        forget(folder)
        raise OutOfResources(f"The keeper of {argv[0]} could not be started: {error.strerror}.") from error
    word, _, number = reply.partition(" ")
    if word == "started":
        kept.exit()  # takes in the worker's line, and sees whether the keeper has died since
        return kept
    kept.close()
    while not revoke(folder, charge.marks):
        pass
    forget(folder)
    if word == "failed":
        raise refused(argv[0], charge.worktree, OSError(int(number), os.strerror(int(number))))
    raise OutOfResources(f"The keeper of {argv[0]} ended before it had started it.")


def _begin(charge: Charge, order: bytes) -> tuple[Kept, str]:
    """Lay out the folder of a keeper, whose files are held open from then on, and start the keeper there; gives its reply.

    Raises:
        OSError: It could not be started.
    """
    output = open_private(charge.log, os.O_WRONLY | os.O_APPEND)
    try:
        lay_out(charge, os.fstat(output).st_size)
        kept = Kept(charge.keeper)
        try:
            kept.follow_output(charge.log)
            return kept, _start(charge, order, output)
        except OSError:
            kept.close()
            raise
    finally:
        os.close(output)


def lay_out(charge: Charge, log_start: int) -> None:
    """Make the folder of a keeper that is about to start.

    Args:
        log_start: Where in its log its output will begin, bytes.
    """
    folder = charge.keeper
    forget(folder)  # a start that failed
    for place in (folder.parent.parent, folder.parent):
        place.mkdir(mode=0o700, exist_ok=True)  # the first one is the daemon's, and private, whoever makes it again
    folder.mkdir(mode=0o700)
    shutil.copyfile(keeper.__file__, folder / "keeper.py")
    plan = {
        **charge.told,
        "name": charge.name,
        "project_id": charge.project_id,
        "folder": str(folder),
        "worktree": str(charge.worktree),
        "log": str(charge.log),
        "log_start": log_start,
        "limits": asdict(charge.limits),
        "kernel_kills": kernel_kills(),
    }
    for name, content in ((INPUT, ""), (FOLLOWED, "0" * _FIELD), (RECORD, json.dumps(plan) + "\n")):
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)


def _start(charge: Charge, order: bytes, output: int) -> str:
    """Start the keeper and give it the order; its reply, empty if it died or took too long.

    Raises:
        OSError: It could not be started.
    """
    marks = {PROJECT_MARK: charge.project_id, KEEPER_MARK: charge.name}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "keeper.py"],
        cwd=charge.keeper,
        env=marks,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=output,
        bufsize=0,
        close_fds=True,
        start_new_session=True,
    )
    process.returncode = 0  # nobody waits for it here: it outlives this process, or is reaped when it has gone
    with _reaping:
        _started.append(process.pid)
    assert process.stdin is not None and process.stdout is not None
    reply = b""
    with process.stdin, process.stdout:
        with suppress(BrokenPipeError):
            view = memoryview(order)
            while view:
                view = view[process.stdin.write(view) or 0 :]
        process.stdin.close()
        while not reply.endswith(b"\n") and select.select([process.stdout], [], [], _REPLY_S)[0]:
            if not (data := process.stdout.read(64)):
                break
            reply += data
    return reply.decode().strip()


def _reap() -> None:
    """Take the exits of keepers that have gone; those of an earlier daemon are nobody's children."""
    with _reaping:
        _started[:] = [pid for pid in _started if _is_child(pid)]


def _is_child(pid: int) -> bool:
    """Whether a keeper of this process runs; takes its exit if it has ended."""
    with suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    return False


def find(folder: Path, marks: Mapping[str, str], attempt: int) -> tuple[Kept, Assignment] | None:
    """The worker of an attempt that another daemon started, if :func:`take_up` proves it.

    Args:
        marks: Those of the task's processes.
        attempt: The fencing token.

    Returns:
        It, with as much of its assignment as following it takes: no command, prompt or environment.
    """
    kept = take_up(folder, marks[PROJECT_MARK], f"{marks[TASK_MARK]}/{attempt}")
    if kept is None:
        return None
    assignment = _assignment_of(kept.plan, folder, attempt)
    if assignment is None:
        kept.close()
        return None
    return kept, assignment


def take_up(folder: Path, project_id: str, name: str) -> Kept | None:
    """What another daemon started, if it is certainly that: its keeper lives, or its exit is recorded.

    The lock on the record proves that the process which took it lives, and that the pids in the record are not reused: a stronger
    proof than a start time, which moves when the clock is set. The keeper must carry the mark of its charge as well. A repository
    that was moved is not where the plan says: what ran there does not follow it.

    Args:
        name: That of the charge.
    """
    try:
        kept = Kept(folder)
    except FileNotFoundError:
        return None
    with ExitStack() as unless_ours:
        unless_ours.callback(kept.close)
        plan = kept.plan
        if (plan.get("project_id"), plan.get("folder"), kept.name) != (project_id, str(folder), name):
            return None
        if plan.get("log_start") is None or "kernel_kills" not in plan or not kept.pid or kept.is_revoked:
            return None
        ended = kept.exit()
        is_ours = kept.has_mark() if ended is None else ended.code is not None
        if not is_ours or kept.count_adoption() > MOST_ADOPTIONS:
            return None
        kept.follow_output(Path(plan["log"]), plan["log_start"])
        unless_ours.pop_all()
    return kept


def _assignment_of(plan: Mapping[str, Any], folder: Path, attempt: int) -> Assignment | None:
    """The assignment in a record, which another version may have written; None: it is none."""
    try:
        if plan["attempt"] != attempt:
            return None
        past, limits = plan["resumes"], Limits.__annotations__
        return Assignment(
            task_id=plan["task_id"],
            attempt=attempt,
            title=plan["title"],
            command=None,
            prompt=None,
            worktree=Path(plan["worktree"]),
            log=Path(plan["log"]),
            session_id=plan["session_id"],
            env={},
            limits=Limits(**{name: value for name, value in plan["limits"].items() if name in limits}),
            identity_env={},
            project_id=plan["project_id"],
            keeper=folder,
            resumes=past and PastConversation(past["session_id"], Path(past["file"]), Usage(**past["usage"])),
        )
    except (KeyError, TypeError, AttributeError):
        return None


def revoke(folder: Path, marks: Mapping[str, str]) -> bool:
    """Make certain that no keeper works on a charge, now or later: one that comes late finds the record revoked, and goes.

    Args:
        marks: Those of its processes.

    Returns:
        False while one lives, which was killed, or something of its worker; call again until it is True.
    """
    try:
        kept = Kept(folder)
    except FileNotFoundError:
        return not end_leftovers(marks, None, None)
    try:
        try:
            fcntl.flock(kept._record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            kept.kill_keeper()
            return False
        os.write(kept._record, b"revoked\n")
        return not end_leftovers(marks, None, None)
    finally:
        kept.close()
        _reap()


def forget(folder: Path) -> None:
    """Remove the folder of a keeper whose charge is over; what resists is tried again at the next start."""
    shutil.rmtree(folder, ignore_errors=True)


def forget_others(keepers: Path, names: Collection[str]) -> None:
    """Remove the folders of all keepers but these: those of charges that an earlier daemon had closed when it died."""
    for folder in keepers.glob("*"):
        if folder.name not in names:
            forget(folder)


def _opened(files: ExitStack, path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND * (path.name != FOLLOWED) | os.O_CLOEXEC | os.O_NOFOLLOW)
    files.callback(os.close, descriptor)
    return descriptor


def _is_locked(descriptor: int) -> bool:
    """Whether another process holds a lock on a file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
