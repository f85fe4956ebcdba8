"""The tests' own way to run what stands in ``MODULES``, as ``python -m corral``: forked from a process that has imported it.

Most of a command, and half of a daemon's start, is importing; a suite runs thousands of them. What is forked is the same program
in a process of its own, with the environment, folder and files that it was given; so is ``python -c`` with the source of both on
its path. What looks at a start itself (imports, memory, whose child it is) asks for a real one: ``@pytest.mark.executed``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from tests.support.programs import is_on

SOURCE = Path(__file__).parents[2] / "daemon"
MODULES = {
    "corral": "corral.faces.cli",
    "corral.daemon": "corral.daemon.__main__",
    "corral.client.start": "corral.client.start",
}
"""What is run as ``python -m``, and the module whose ``main`` that is."""
_KNOWN = {"cwd", "env", "stdin", "stdout", "stderr", "text", "bufsize", "start_new_session"}
_DECIDES = ("PYTHON", "LC_", "LANG")
"""Variables that Python reads when it starts."""
_ASIDE = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Of these, what is looked at by itself, and what changes no answer."""
_PATHS = ("", str(SOURCE), f"{SOURCE}{os.pathsep}{SOURCE.parent}", f"{SOURCE.parent}{os.pathsep}{SOURCE}")
_popen = subprocess.Popen
_HEAD = 8
_LONGEST = 600
"""Bytes of a command line that a forked process can show."""


class Forks:
    """The process that commands are forked from; it ends with the one that made it."""

    def __init__(self) -> None:
        self.env = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{SOURCE.parent}"}
        self._folder = tempfile.TemporaryDirectory(prefix="corral-fork-", dir="/tmp")
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()

    def address(self) -> str:
        """Where it is asked; started by the first who asks, for many a unit test asks nothing."""
        address = f"{self._folder.name}/socket"
        with self._starting:
            if self._process is None:
                argv = [sys.executable, "-m", "tests.support.forked", address, "-" * _LONGEST]
                self._process = _popen(
                    argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env, cwd=SOURCE.parent
                )
                assert self._process.stdout is not None and self._process.stdout.readline() == b"ready\n"
        return address

    def close(self) -> None:
        """End it; what was forked goes on."""
        if self._process is not None:
            assert self._process.stdin is not None and self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(30)
        self._folder.cleanup()


@contextlib.contextmanager
def forking(forks: Forks) -> Iterator[None]:
    """Fork, as long as this lasts, what :class:`subprocess.Popen` would execute, where both are the same."""
    with _replaced(_through(forks.address, _started_with(forks.env))):
        yield


@contextlib.contextmanager
def _replaced(popen: Any) -> Iterator[None]:
    setattr(subprocess, "Popen", popen)  # noqa: B010 - a class, to a type checker
    try:
        yield
    finally:
        setattr(subprocess, "Popen", _popen)  # noqa: B010


def _started_with(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_DECIDES) and name not in _ASIDE}


def _through(address: Callable[[], str], started_with: dict[str, str]) -> Any:
    def is_same(argv: Any, how: dict[str, Any]) -> bool:
        if not isinstance(argv, list) or len(argv) < 3 or argv[0] != sys.executable or not set(how) <= _KNOWN:
            return False
        env = os.environ if how.get("env") is None else how["env"]
        path = env.get("PYTHONPATH", "")
        if argv[1] == "-m":
            is_ours = argv[2] in MODULES and path in _PATHS
        else:
            is_ours = argv[1] == "-c" and path in _PATHS[1:]
        # The absence of git is noticed by an import.
        return is_ours and _started_with(env) == started_with and is_on("git", env.get("PATH", ""))

    class Popen(_popen):  # type: ignore[type-arg]
        """What is not an instance of it is not initialised by it."""

        def __new__(cls, argv: Any, *more: Any, **how: Any) -> Any:
            if not more and is_same(argv, how):
                return Forked(address(), argv, **how)
            return super().__new__(cls)

    return Popen


class Forked:
    """What :class:`subprocess.Popen` is to who started it: a process that another one has forked."""

    def __init__(
        self,
        address: str,
        argv: Sequence[str],
        *,
        cwd: Any = None,
        env: Mapping[str, str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool | None = None,
        bufsize: int = -1,
        start_new_session: bool = False,
    ) -> None:
        self.args = argv
        self.returncode: int | None = None
        self.stdin: Any = None
        self.stdout: Any = None
        self.stderr: Any = None
        self._ending = threading.Lock()
        self._readers: dict[str, _Reader] = {}
        self._link = socket.socket(socket.AF_UNIX)
        with contextlib.ExitStack() as stack:
            descriptors: list[int] = []
            for number, (name, where) in enumerate((("stdin", stdin), ("stdout", stdout), ("stderr", stderr))):
                if where == subprocess.PIPE:
                    reading, writing = os.pipe()
                    theirs, ours = (writing, reading) if number else (reading, writing)
                    stack.callback(os.close, theirs)
                    setattr(self, name, _opened(ours, "rb" if number else "wb", bufsize, text))
                    descriptors.append(theirs)
                elif where == subprocess.STDOUT:
                    descriptors.append(descriptors[1])
                elif where == subprocess.DEVNULL or (where is None and not number):
                    descriptors.append(os.open(os.devnull, os.O_RDWR))
                    stack.callback(os.close, descriptors[-1])
                else:
                    descriptors.append(number if where is None else where if isinstance(where, int) else where.fileno())
            umask = os.umask(0o077)
            os.umask(umask)
            asked = {
                "argv": list(argv), "env": dict(os.environ if env is None else env), "cwd": os.fspath(cwd or Path.cwd()),
                "session": start_new_session, "umask": umask,
            }  # fmt: skip
            self._link.connect(address)
            data = json.dumps(asked).encode()
            socket.send_fds(self._link, [len(data).to_bytes(_HEAD, "big")], descriptors)
            self._link.sendall(data)
            self.pid = int.from_bytes(_exactly(self._link, _HEAD), "big")

    def poll(self) -> int | None:
        """How it ended, or None."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._link], [], [], timeout)[0]:
            with self._ending:
                if self.returncode is None:
                    self.returncode = int.from_bytes(_exactly(self._link, _HEAD), "big", signed=True)
                    self._link.close()
        return self.returncode

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Give it its input, and wait for its end and what it said."""
        until = None if timeout is None else time.monotonic() + timeout
        for name, stream in (("stdout", self.stdout), ("stderr", self.stderr)):
            if stream is not None and name not in self._readers:
                self._readers[name] = _Reader(stream)
        if self.stdin is not None and not self.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                if input:
                    self.stdin.write(input)
                self.stdin.close()
        for reader in self._readers.values():
            reader.join(None if until is None else max(0.0, until - time.monotonic()))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.wait(None if until is None else max(0.0, until - time.monotonic()))
        outputs = [self._readers[name].said if name in self._readers else None for name in ("stdout", "stderr")]
        return outputs[0], outputs[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it is over."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *error: object) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.wait()

    def __del__(self) -> None:
        self._link.close()


class _Reader(threading.Thread):
    """Reads a stream to its end."""

    def __init__(self, stream: IO[Any]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self.said: Any = None
        self.start()

    def run(self) -> None:
        self.said = self._stream.read()
        self._stream.close()


def _opened(fd: int, mode: str, bufsize: int, text: bool | None) -> IO[Any]:
    if text:
        return open(fd, mode[0], bufsize if mode == "wb" and bufsize else -1)
    return open(fd, mode, bufsize)


def _exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise ConnectionError("the other end is gone")
        data += more
    return data


# -- the process that is forked from --------------------------------------------------------------------------------


_ending: list[int] = []
"""In what was forked, its exit code; 1 as long as it is not over."""


def serve(address: str) -> None:
    """Fork what is asked for, and say how it ended, until standard input ends. In what was forked this raises SystemExit.

    Args:
        address: Of the Unix socket to make.
    """
    atexit.register(_leave)  # before all others, and so after them
    _import()
    popen = _through(lambda: address, _started_with(os.environ))
    running: dict[int, socket.socket] = {}
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    listening, selector = socket.socket(socket.AF_UNIX), selectors.DefaultSelector()
    listening.bind(address)
    listening.listen(64)
    for file in (listening, wake, sys.stdin):
        selector.register(file, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        ready = {key.fileobj for key, _ in selector.select()}
        if wake in ready:
            with contextlib.suppress(BlockingIOError):
                wake.recv(4096)
            _reap(running)
        if listening in ready:
            link, _peer = listening.accept()
            fds: list[int] = []
            try:
                head, fds, _flags, _sender = socket.recv_fds(link, _HEAD, 3)
                head += _exactly(link, _HEAD - len(head))
                asked = json.loads(_exactly(link, int.from_bytes(head, "big")))
            except ConnectionError:  # who asked was killed meanwhile
                link.close()
                for fd in fds:
                    os.close(fd)
                continue
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                selector.close()
                for mine in (wake, woken, listening, link, *running.values()):
                    mine.close()
                with _replaced(_popen if asked["argv"][2] == "corral.daemon" else popen):
                    _become(asked, fds)
            for fd in fds:
                os.close(fd)
            running[pid] = link
            with contextlib.suppress(OSError):  # who asked may be gone
                link.sendall(pid.to_bytes(_HEAD, "big"))
        if sys.stdin in ready:
            return


def _reap(running: dict[int, socket.socket]) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            link = running.pop(ended[0])
            with contextlib.suppress(OSError), link:
                link.sendall(os.waitstatus_to_exitcode(ended[1]).to_bytes(_HEAD, "big", signed=True))


def _become(asked: dict[str, Any], fds: Sequence[int]) -> NoReturn:
    """Be the process that was asked for, to its end."""
    _ending.append(1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if asked["session"]:
        os.setsid()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    for fd in set(fds) - {0, 1, 2}:
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    os.umask(asked["umask"])
    _show(asked["argv"])
    sys.argv = asked["argv"][2:]
    try:
        code: Any = _main(asked["argv"][1])
    except SystemExit as ended:
        code = ended.code
    _ending.append(code if isinstance(code, int) else 0 if code is None else 1)
    sys.exit()


def _main(how: str) -> Any:
    if how == "-c":
        code, sys.argv[0] = sys.argv[0], "-c"
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(code, vars(main))
        return 0
    return importlib.import_module(MODULES[sys.argv[0]]).main()


def _leave() -> None:
    """End what was forked, as the last thing that it does: to take apart all that was imported takes a second."""
    if _ending:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_ending[-1])


def _show(argv: list[str]) -> None:
    """Have the system's list of processes show a command line; tests and people look for daemons there."""
    with contextlib.suppress(OSError):  # only Linux says where it is
        begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
        text = b"\0".join(map(os.fsencode, argv))[: end - begin - 1]
        ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def _import() -> None:
    """Import what commands and daemons import sooner or later, and build what a daemon builds of it."""
    from corral.faces.cli.nouns import NOUNS

    for module, _sentence in NOUNS.values():
        importlib.import_module(f"corral.{module}")
    for name in (
        "corral.faces.cli.app",
        "corral.work.templates.cli.installing",
        "corral.faces.cli.terminal.suggestions",
        "corral.faces.cli.completion",
        "corral.faces.cli.help",
        "encodings.ascii",
        "encodings.utf_8_sig",
        *MODULES.values(),
        "corral.daemon.life",
        "corral.faces.http.router",
        "corral.git.process.process",
        "git",
        "pytest",
        "tests.conftest",
    ):
        importlib.import_module(name)
    from tests.support.warmed import warm

    warm()
    gc.collect()
    gc.freeze()  # or what is forked would look through it for garbage


if __name__ == "__main__":
    serve(sys.argv[1])
