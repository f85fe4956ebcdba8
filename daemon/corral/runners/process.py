"""Processes: each in its own group, identified by its start time and marks, and never abandoned.

A worker outlives the daemon that started it. It is found again by its marks, which every descendant inherits in its
environment: the project's, unique to its daemon, and the task's. One that empties its environment is found by the tag for these
marks (:mod:`corral.runners.tags`). The recorded pid and start time find the rest of its process group.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from corral.core.errors import OutOfResources, RunnerUnavailable
from corral.runners.tags import PROJECT_MARK, is_tagged, tagging

Marks = Mapping[str, str]
"""Variables that all must match in the environment of a process for it to be ours."""

_SAME_START_S = 0.05 if psutil.LINUX else 1.0
_CHUNK = 1 << 20
_EXEC_READS = 1000
OUT_OF_RESOURCES = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO}
)
"""Errors of a start that blame the machine."""
_KERNEL_EVENTS = Path("/proc/vmstat")


def script(command: str) -> str:
    """Shell text of which no line's failure is passed over: of several lines, the shell itself tells only the last one's."""
    text = command.strip()
    return f"set -e\n{text}" if "\n" in text else text


def ends_early(command: str) -> str:
    """Why such text may have failed although its last line would not have, in a sentence; empty: it has one line."""
    several = "\n" in command.strip()
    return "The first of its lines that fails ends it; a line that may fail ends in `|| true`." if several else ""


def spawn(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path, takes_input: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process that leads its own session, with its output going straight into a file.

    A pipe would end with the daemon and take the worker along; the file does not.

    Args:
        env: Its whole environment; the marks in it decide about its tag.
        log: Created with mode 0600, its folders with 0700; appended to if it exists.
        takes_input: Whether it gets a pipe as standard input (see :class:`Feed`), else nothing.

    Raises:
        OutOfResources: The machine has no room for a process now.
        RunnerUnavailable: The system refused for another reason.
    """
    output = open_private(log, os.O_WRONLY | os.O_APPEND)
    try:
        return subprocess.Popen(
            tagging(argv, env),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            bufsize=0,
            close_fds=True,
            start_new_session=True,
        )
    except OSError as error:
        raise refused(argv[0], cwd, error) from error
    finally:
        os.close(output)


def refused(program: str, cwd: Path, error: OSError) -> OutOfResources | RunnerUnavailable:
    """Why a program could not be started: the machine has no room for it now, or another reason."""
    if error.errno in OUT_OF_RESOURCES:
        return OutOfResources(f"{program} could not be started: {error.strerror}.")
    return RunnerUnavailable(
        f"{program} could not be started in {cwd}: {error.strerror}.",
        cause="The program or the folder is missing or not accessible, or the command is too long.",
        remedy="Put a long command into a script; check that the program runs by hand in that folder.",
    )


def open_private(log: Path, flags: int) -> int:
    """Open a log; created with mode 0600, its folders with 0700, if missing."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(log, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


class Feed:
    """A process's standard input, written without blocking.

    Attributes:
        waiting: Bytes that did not fit into the pipe yet.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._pipe = process.stdin
        self._is_all = False
        self.waiting = bytearray()
        if self._pipe:
            os.set_blocking(self._pipe.fileno(), False)

    @property
    def is_open(self) -> bool:
        """Whether the pipe is open."""
        return self._pipe is not None

    def send(self, data: bytes) -> bool:
        """Queue bytes and write what fits; False if the pipe is closed."""
        self.waiting += data
        self.flush()
        return self.is_open

    def flush(self) -> None:
        """Write what fits now."""
        while self._pipe and self.waiting:
            try:
                written = self._pipe.write(self.waiting[:_CHUNK])
            except BrokenPipeError:
                self.close()
                return
            if not written:
                return
            del self.waiting[:written]
        if self._is_all:
            self.close()

    def finish(self) -> None:
        """End the input once everything is written."""
        self._is_all = True
        self.flush()

    def close(self) -> None:
        """End the input; unread bytes are lost."""
        if self._pipe:
            self._pipe.close()
        self._pipe = None
        self.waiting.clear()


class LogTail:
    """Reads what is appended to a file, through its own descriptor: the file may be moved or removed.

    Args:
        start: Where in the file what is read begins; None: at its present end.
    """

    def __init__(self, log: Path, start: int | None = None) -> None:
        self._descriptor = open_private(log, os.O_RDWR)
        self._offset = self._start = os.fstat(self._descriptor).st_size if start is None else start

    def chunks(self, most: int | None = None, *, up_to: int | None = None) -> Iterator[bytes]:
        """Everything up to the file's current end, in pieces; a writer that never pauses cannot block the reader.

        Args:
            most: Maximum number of bytes; of more, only the last are read, since a writer can be faster than the parser.
            up_to: Bytes since the start that the reading ends at.
        """
        end = os.fstat(self._descriptor).st_size
        if up_to is not None:
            end = min(end, self._start + up_to)
        if most is not None:
            self._offset = max(self._offset, end - most)
        while self._offset < end and (
            data := os.pread(self._descriptor, min(end - self._offset, _CHUNK), self._offset)
        ):
            self._offset += len(data)
            yield data

    @property
    def size(self) -> int:
        """Bytes that were written since the start, read or not: a writer can be faster than the reader."""
        return os.fstat(self._descriptor).st_size - self._start

    @property
    def read(self) -> int:
        """Bytes since the start that were read, or passed over."""
        return self._offset - self._start

    def cut(self, most: int) -> None:
        """Cut the file to at most ``most`` bytes since the start; for a file that nobody writes to any more."""
        if os.fstat(self._descriptor).st_size > self._start + most:
            os.ftruncate(self._descriptor, self._start + most)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


@dataclass(frozen=True)
class Load:
    """Usage of a process tree: resident memory in mebibytes, and processor seconds since each process started."""

    memory_mb: float
    cpu_s: float


def load_of(pid: int, *, enough_mb: float | None) -> Load:
    """Measure a process and its descendants.

    Args:
        enough_mb: Above this resident memory, pages shared by processes are counted once (slower).
    """
    memory = cpu = 0.0
    tree: list[psutil.Process] = []
    with suppress(psutil.Error):
        leader = psutil.Process(pid)
        tree = [leader, *leader.children(recursive=True)]
    for process in tree:
        with suppress(psutil.Error), process.oneshot():
            memory += process.memory_info().rss
            cpu += sum(process.cpu_times()[:4])
    if enough_mb is not None and memory > enough_mb * 2**20:
        memory = sum(_own_memory(process) for process in tree)
    return Load(memory / 2**20, cpu)


def _own_memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.uss))
    return 0


def available_mb() -> float:
    """The memory that the machine can give to processes without swapping, MiB."""
    return float(psutil.virtual_memory().available) / 2**20


def start_time(pid: int) -> float | None:
    """When a process started, or None if there is none: on Linux seconds since the boot, elsewhere Unix time.

    Linux knows only the former, and derives Unix time from that of its boot, which moves whenever the clock is set.
    """
    with suppress(psutil.Error):
        booted_at = psutil.boot_time() if psutil.LINUX else 0.0
        return round(psutil.Process(pid).create_time() - booted_at, 2)
    return None


def is_same_start(begun: float, recorded: float) -> bool:
    """Whether two start times are those of one process."""
    return abs(begun - recorded) < _SAME_START_S


def kernel_kills() -> int | None:
    """The number of processes that the kernel's OOM killer has killed since boot; None if unknown."""
    with suppress(OSError, ValueError):
        for line in _KERNEL_EVENTS.read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return None


def survivors(group: int | None, marks: Marks) -> list[psutil.Process]:
    """Every living process of a group, or with these marks or their tag; without zombies and this process.

    Args:
        group: One whose leader is not reaped, by this process or by its keeper, so certainly ours; None: the marks alone decide.
    """
    processes: list[psutil.Process] = []
    for pid in psutil.pids():
        if _belongs(pid, group, marks):  # nearly none does; what psutil reads of a process takes longer than this
            with suppress(psutil.Error):
                processes.append(psutil.Process(pid))
    # The start time that keeps a signal from a reused pid was read after the first look.
    return [process for process in processes if _belongs(process.pid, group, marks)]


def _belongs(pid: int, group: int | None, marks: Marks) -> bool:
    with suppress(psutil.Error, OSError):
        if pid == os.getpid():
            return False
        its_group = os.getpgid(pid)
        if its_group == 0:  # a thread of the kernel
            return False
        is_ours = (
            its_group == group
            or is_tagged(pid, marks)
            or (not _surely_lacks(pid, marks) and _carries(_environ(psutil.Process(pid), its_group), marks))
        )
        return is_ours and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def await_end(pid: int, timeout_s: float) -> None:
    """Return when a process has ended, reaped or not, or the time is over; at once where the system has no way to wait for it."""
    with suppress(OSError, AttributeError):
        descriptor = os.pidfd_open(pid)
        try:
            select.select([descriptor], [], [], timeout_s)
        finally:
            os.close(descriptor)


def lives(process: psutil.Process) -> bool:
    """Whether it still runs: it is neither gone nor a zombie, and its pid was not reused."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _surely_lacks(pid: int, marks: Marks) -> bool:
    """Whether the environment certainly lacks a mark; fast, since hundreds of processes are checked at a worker's end."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - a Path takes longer than the rest
            environ = file.read()
    except OSError:
        return False
    return bool(environ) and any(f"{name}={value}".encode() not in environ for name, value in marks.items())


def _carries(environ: Mapping[str, str], marks: Marks) -> bool:
    return bool(marks) and marks.items() <= environ.items()


def _environ(process: psutil.Process, group: int) -> dict[str, str]:
    """The environment of a process. During an exec both it and the arguments seem empty: read again."""
    for _ in range(_EXEC_READS):
        environ = process.environ()
        if environ or not group or process.cmdline():  # a kernel thread has no group, and always neither of the two
            return dict(environ)
    return {}


def end(process: subprocess.Popen[bytes], marks: Marks, *, grace_s: float) -> None:
    """End a process of ours, and every other one of its group or with its marks or tag; waits for the first's death.

    Args:
        grace_s: Seconds from SIGTERM to SIGKILL.
    """
    signal_each(survivors(process.pid, marks), signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    signal_each(survivors(process.pid, marks), signal.SIGKILL)
    process.wait()


def signal_each(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to processes; one that ended, or whose pid was reused, is skipped."""
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


def working_in(folder: Path, *, files: bool = False) -> list[psutil.Process]:
    """Every other living process that is in a folder, as far as we may look.

    Args:
        files: Also those that have a file in it open.
    """
    top = folder.resolve()
    return [process for process in psutil.process_iter() if _is_in(process, top, files=files)]


def _is_in(process: psutil.Process, top: Path, *, files: bool) -> bool:
    with suppress(psutil.Error, OSError):
        if process.pid == os.getpid():
            return False
        places = [process.cwd(), *((file.path for file in process.open_files()) if files else ())]
        return any(place and Path(place).is_relative_to(top) for place in places)
    return False


def kill_leftover(pid: int, started: float, marks: Marks, folder: Path | None = None) -> bool:
    """Kill the process group of a worker that an earlier daemon started.

    Args:
        pid: The recorded leader.
        started: Its recorded start time; a process with another start time is never touched.
        marks: The marks that the leader must carry.
        folder: The worktree it was started in. A leader without tag and any project's mark (an earlier version started it,
            or it has overwritten its environment) must work there.

    Returns:
        Whether the leader was alive and was sent SIGKILL with its group.
    """
    begun = start_time(pid)
    if begun is None or not is_same_start(begun, started) or not _is_ours(pid, marks, folder):
        return False
    with suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
            return True
    return False


def _is_ours(pid: int, marks: Marks, folder: Path | None) -> bool:
    with suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        if is_tagged(pid, marks):
            return True
        environ = _environ(process, os.getpgid(pid))
        if PROJECT_MARK in environ:
            return _carries(environ, marks)
        return folder is not None and Path(process.cwd()).is_relative_to(folder.resolve())
    return False


def end_leftovers(marks: Marks, pid: int | None, started: float | None, folder: Path | None = None) -> list[int]:
    """Kill the remains of an earlier daemon's worker: its group, and every process with its marks or tag.

    Args:
        folder: See :func:`kill_leftover`.

    Returns:
        The pids that are still alive; call again until there are none.
    """
    if pid is not None and started is not None:
        kill_leftover(pid, started, marks, folder)
    alive = survivors(None, marks)
    signal_each(alive, signal.SIGKILL)
    return [process.pid for process in alive]
