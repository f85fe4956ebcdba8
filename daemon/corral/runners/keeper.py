"""The keeper of one attempt: it starts the worker and stays with it, whatever becomes of the daemon. Standard library only.

A copy of this file lies in the attempt's folder and runs there as ``python -I -S keeper.py``, in a session of its own, so that no
upgrade changes it. It imports nothing of ours, and nothing that takes long to load. The daemon's side is
:mod:`corral.runners.keeping`, which says what lies in the folder.

What is true when (decision 26):
    * Its standard input is the order: the command, its environment, its first input. Half an order starts nothing, and none of
      it reaches a disk, an argument or this process's environment.
    * It holds a lock on the record for its whole life, and one on the input file until the worker's exit is in the record: the
      kernel releases both when it dies. Whoever gets the lock on the record first decides whether a worker may start.
    * The worker waits, before it becomes the command, until its pid is in the record. If the keeper dies before that, it ends.
    * The dead worker stays a zombie until a daemon acknowledges its exit: its pid, and its group's, are not reused.
    * While no daemon follows (nobody holds the lock on ``followed``), the limits of time, memory and output are enforced here.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enumerations of ``signal``: a megabyte, and 3 ms
import errno
import fcntl
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False  # as type checkers know it; ``typing`` takes longer to load than the rest together
if TYPE_CHECKING:
    from typing import Any, NoReturn

RECORD, INPUT, FOLLOWED = "record", "input", "followed"

TICK_S = 1.0
"""Between two looks at what no signal tells."""

MEASURE_S = 3.0
"""Between two measurements of the memory, which look at every process of the machine."""

LONGEST_STEP_S = 5.0
"""Most that is counted between two looks: the machine slept, and that time is not the worker's."""

UNCLAIMED_S = 3600.0
"""How long an exit that is on the disk waits for its acknowledgement; after that the record alone tells of it."""

_AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB
_HEAD = 5
"""Bytes before a message: its kind (``+`` input, ``-`` end of the input, ``a`` acknowledgement), and its length."""
_CHUNK = 1 << 16
_MIB = 1 << 20


class Keeper:
    """One worker, from its start to the acknowledgement of its exit.

    Args:
        order: ``argv``, ``env`` and ``cwd`` (bytes), ``stdin`` (bytes; None: no input), ``closes_stdin``, ``grace_s``, and the
            limits ``timeout_s``, ``memory_mb`` and ``output_mb``, each of which may be None.
    """

    def __init__(self, order: dict[str, Any], record: int, wake: int) -> None:
        self._order = order
        self._record = record
        self._wake = wake
        self._messages = os.open(INPUT, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._followed = os.open(FOLLOWED, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._log_start = os.fstat(2).st_size
        self._stdin: int | None = None
        self._waiting = bytearray()
        self._read = 0
        self._closes = False
        self._age_s = 0.0
        self._looked = self._measured = time.monotonic()
        self._reason: tuple[str, float] | None = None
        self._ending_since: float | None = None
        self._is_acknowledged = False
        self.pid = 0

    def start(self) -> None:
        """Start the worker: in the record first, then as the command.

        Raises:
            OSError: It could not be started; nothing of it is left.
        """
        order = self._order
        stdin, feed = os.pipe() if order["stdin"] is not None else (os.open(os.devnull, os.O_RDONLY), None)
        gate, opening = os.pipe()
        failure, failing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(opening)
            _become(order, stdin, gate, failing)
        for descriptor in (stdin, gate, failing):
            os.close(descriptor)
        fcntl.flock(self._messages, fcntl.LOCK_EX)
        try:
            _note(self._record, f"worker {self.pid} {time.time()} {time.monotonic()}")
            os.write(opening, b"go")
        finally:
            os.close(opening)
        if number := os.read(failure, 16):
            os.waitpid(self.pid, 0)
            raise OSError(int(number), os.strerror(int(number)))
        os.close(failure)
        if feed is not None:
            os.set_blocking(feed, False)
            self._stdin, self._closes = feed, bool(order["closes_stdin"])
            self._waiting += order["stdin"]
        order["stdin"] = order["env"] = None  # nothing of it stays longer than it has to

    def stay(self) -> None:
        """Feed the worker and watch it, until its exit is acknowledged, or nobody can ever ask for it."""
        exit_at: float | None = None
        while True:
            self._take_messages()
            self._feed()
            if exit_at is None and (status := _status_of(self.pid)) is not None:
                exit_at = time.monotonic() if self._has_noted(status) else None
            if not os.path.exists(RECORD) and not self._is_followed():  # no daemon will ever know of it
                self._signal(signal.SIGKILL)
                return
            if exit_at is None:
                self._enforce()
            elif self._is_acknowledged or time.monotonic() - exit_at > UNCLAIMED_S:
                if hasattr(os, "waitid"):
                    os.waitpid(self.pid, 0)
                return
            writing = [self._stdin] if self._waiting and self._stdin is not None else []
            if select.select([self._wake], writing, [], TICK_S)[0]:
                os.read(self._wake, _CHUNK)

    # -- the input -------------------------------------------------------------------------------------------------

    def _take_messages(self) -> None:
        """Take in every whole message that was appended; the last one may still be being written."""
        while len(head := os.pread(self._messages, _HEAD, self._read)) == _HEAD:
            size = int.from_bytes(head[1:], "big")
            data = os.pread(self._messages, size, self._read + _HEAD)
            if len(data) < size:
                return
            self._read += _HEAD + size
            if head[:1] == b"+":
                self._waiting += data
            elif head[:1] == b"-":
                self._close_input()
            else:
                self._is_acknowledged = True

    def _feed(self) -> None:
        if self._stdin is None:
            return
        before = len(self._waiting)
        try:
            while self._waiting:
                del self._waiting[: os.write(self._stdin, self._waiting[:_CHUNK])]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._close_input()
            return
        if self._closes:
            self._close_input()
        elif before:
            self._try_to_note(f"input {self._read}")

    def _close_input(self) -> None:
        """End the worker's input; what it did not read is lost."""
        self._waiting.clear()
        if self._stdin is not None:
            os.close(self._stdin)
            self._stdin = None
            self._try_to_note("input closed")

    # -- the exit --------------------------------------------------------------------------------------------------

    def _has_noted(self, status: int) -> bool:
        """Put the exit on the disk, then let those go on who wait for it; False: the disk is full, and it is tried again."""
        reason, used = self._reason or ("disk_full" if status > 0 and _is_full(self._order["cwd"]) else "-", 0.0)
        try:
            _note(self._record, f"exit {status} {reason} {used:g}")
            os.fsync(self._record)
        except OSError:
            return False
        self._close_input()
        fcntl.flock(self._messages, fcntl.LOCK_UN)
        return True

    def _try_to_note(self, line: str) -> None:
        try:
            _note(self._record, line)
        except OSError:
            return  # the disk is full: nobody depends on it

    # -- the limits ------------------------------------------------------------------------------------------------

    def _is_followed(self) -> bool:
        """Whether a daemon follows the worker, and enforces its limits."""
        try:
            fcntl.flock(self._followed, _AT_ONCE)
        except BlockingIOError:
            return True
        fcntl.flock(self._followed, fcntl.LOCK_UN)
        return False

    def _enforce(self) -> None:
        now = time.monotonic()
        self._age_s += min(now - self._looked, LONGEST_STEP_S)
        self._looked = now
        if self._ending_since is None and not self._is_followed():
            self._reason = self._exceeded()
            if self._reason is not None:
                self._ending_since = now
                self._signal(signal.SIGTERM)
        elif self._ending_since is not None and now - self._ending_since >= self._order["grace_s"]:
            self._signal(signal.SIGKILL)

    def _exceeded(self) -> tuple[str, float] | None:
        timeout_s, memory_mb, output_mb = (self._order[name] for name in ("timeout_s", "memory_mb", "output_mb"))
        if timeout_s is not None and self._age_s >= timeout_s:
            return "timeout", self._age_s
        written = (os.fstat(2).st_size - self._log_start) / _MIB
        if output_mb is not None and written > output_mb:
            return "output_limit", written
        if memory_mb is not None and self._looked - self._measured >= MEASURE_S:
            self._measured = self._looked
            if (used := _memory_mb(self.pid, memory_mb)) > memory_mb:
                return "memory_limit", used
        return None

    def _signal(self, number: int) -> None:
        """Signal the worker's group, which is certainly its own as long as it is not reaped."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # it consists of the dead worker alone


def _become(order: dict[str, Any], stdin: int, gate: int, failing: int) -> NoReturn:
    """In the worker's process: wait until it is in the record, then be the command."""
    try:
        os.setsid()
        if os.read(gate, 2) == b"go":  # before anything that can fail: who opens the gate would meet a closed one
            os.chdir(order["cwd"])
            os.dup2(stdin, 0)
            os.dup2(2, 1)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and an exec would not change
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(order["argv"][0], order["argv"], order["env"])
    except OSError as error:
        os.write(failing, str(error.errno or errno.EIO).encode())
    finally:
        os._exit(127)


def _note(record: int, line: str) -> None:
    """Append a line in one write: whole, or not at all."""
    size = os.fstat(record).st_size
    data = f"{line}\n".encode()
    if os.write(record, data) != len(data):
        os.ftruncate(record, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _status_of(pid: int) -> int | None:
    """The exit code of the worker, negative for a signal; None while it lives. It stays a zombie where the system can."""
    if not hasattr(os, "waitid"):
        ended, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None
    result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _memory_mb(leader: int, enough_mb: float) -> float:
    """The resident memory of a process and its descendants, MiB; above ``enough_mb`` shared pages count once if possible."""
    parents, pages = _processes()
    tree, pids = [leader], {leader}
    for pid in tree:
        children = [child for child, parent in parents.items() if parent == pid and child not in pids]
        tree += children
        pids.update(children)
    resident = sum(pages.get(pid, 0) for pid in tree) / _MIB
    if resident <= enough_mb:
        return resident
    return sum(_share_of(pid, pages.get(pid, 0)) for pid in tree) / _MIB


def _processes() -> tuple[dict[int, int], dict[int, int]]:
    """The parent, and the resident bytes, of every process."""
    parents, resident = dict[int, int](), dict[int, int]()
    if os.path.isdir("/proc/self"):
        page = os.sysconf("SC_PAGE_SIZE")
        for name in os.listdir("/proc"):
            if name.isdigit() and (fields := _read(f"/proc/{name}/stat").rpartition(")")[2].split()):
                parents[int(name)], resident[int(name)] = int(fields[1]), int(fields[21]) * page
        return parents, resident
    import subprocess  # takes long, and only without /proc

    ps = subprocess.run(["/bin/ps", "-A", "-o", "pid=,ppid=,rss="], stdout=subprocess.PIPE, check=False)
    for line in ps.stdout.splitlines():
        pid, parent, kibibytes = map(int, line.split())
        parents[pid], resident[pid] = parent, kibibytes << 10
    return parents, resident


def _share_of(pid: int, resident: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return resident


def _is_full(folder: bytes) -> bool:
    """Whether the volume has no room left; later it may have, and the worker's own words of it found none."""
    try:
        volume = os.statvfs(folder)
    except OSError:
        return False
    return volume.f_bavail * volume.f_frsize < _MIB or (volume.f_files > 0 and volume.f_favail == 0)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # it has ended


def main() -> None:
    """Read the order, keep its worker, and report on the standard output whether it was started."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        with open(0, "rb", closefd=False) as orders:
            order = marshal.load(orders)
    except (EOFError, ValueError, TypeError):
        return  # the daemon died before it had said everything
    os.dup2(nothing, 0)
    record = os.open(RECORD, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(record, _AT_ONCE)
    except BlockingIOError:
        return  # a daemon is giving this attempt up
    if os.pread(record, _MIB, 0).count(b"\n") != 1:  # more than the daemon's own line: it has
        return
    wake, waking = os.pipe()
    for descriptor in (wake, waking):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, lambda _number, _frame: None)
    _note(record, f"keeper {os.getpid()}")
    keeper = Keeper(order, record, wake)
    try:
        keeper.start()
    except OSError as error:
        os.write(1, f"failed {error.errno}\n".encode())
        return
    os.write(1, f"started {keeper.pid}\n".encode())
    os.dup2(nothing, 1)
    keeper.stay()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
