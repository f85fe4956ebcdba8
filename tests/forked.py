"""The tests' own way to run ``python -m corral`` and ``python -m corral.server``: forked from a process that has imported both.

Most of a command, and half of a daemon's start, is importing; a suite runs thousands of them. What is forked is the same program
in a process of its own, with the environment, folder and files that it was given. What looks at a start itself (imports, memory,
the process's command line) asks for a real one: ``@pytest.mark.executed``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.programs import is_on

SOURCE = Path(__file__).parents[1] / "daemon"
MODULES = ("corral", "corral.server")
_KNOWN = {"cwd", "env", "stdin", "stdout", "stderr", "capture_output", "text", "timeout", "check", "start_new_session"}
_DECIDES = ("PYTHON", "LC_", "LANG")
"""Variables that Python reads when it starts."""
_ASIDE = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Of these, what is looked at by itself, and what changes no answer."""
_run = subprocess.run
_HEAD = 8
_LONGEST = 600
"""Bytes of a command line that a forked process can show."""


class Forks:
    """The process that commands are forked from; it ends with the one that made it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="corral-fork-", dir="/tmp")
        self.address = f"{self._folder.name}/socket"
        self.env = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{SOURCE.parent}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked", self.address, "-" * _LONGEST],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.env,
        )
        assert self._process.stdout is not None and self._process.stdout.readline() == b"ready\n"

    def close(self) -> None:
        """End it; what was forked goes on."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)
        self._folder.cleanup()


@contextlib.contextmanager
def forking(forks: Forks) -> Iterator[None]:
    """Fork, as long as this lasts, what :func:`subprocess.run` would execute, where both are the same."""
    subprocess.run = _through(forks.address, _started_with(forks.env))
    try:
        yield
    finally:
        subprocess.run = _run


def _started_with(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_DECIDES) and name not in _ASIDE}


def _through(address: str, started_with: dict[str, str]) -> Any:
    def run(argv: Any, **how: Any) -> Any:
        env = how.get("env") or os.environ
        is_ours = isinstance(argv, list) and [sys.executable, "-m"] == argv[:2] and argv[2] in MODULES
        is_same = is_ours and set(how) <= _KNOWN and how.get("stdin") in (None, subprocess.DEVNULL)
        path = env.get("PYTHONPATH", "")
        if not is_same or path not in ("", str(SOURCE)) or _started_with(env) != started_with:
            return _run(argv, **how)
        if not is_on("git", env.get("PATH", "")):  # its absence is noticed by an import
            return _run(argv, **how)
        return _forked(address, argv, **{**how, "env": env})

    return run


def _forked(
    address: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    capture_output: bool = False,
    text: bool = False,
    timeout: float | None = None,
    check: bool = False,
    start_new_session: bool = False,
    **_: Any,
) -> subprocess.CompletedProcess[Any]:
    with contextlib.ExitStack() as stack:
        kept: list[Any] = []
        given: list[int] = []
        for number, where in ((1, stdout), (2, stderr)):
            if capture_output or where == subprocess.PIPE:
                kept.append(stack.enter_context(tempfile.TemporaryFile()))
                given.append(kept[-1].fileno())
            elif where == subprocess.STDOUT:
                given.append(given[0])
                kept.append(None)
            else:
                kept.append(None)
                opened = stack.enter_context(Path(os.devnull).open("wb")) if where == subprocess.DEVNULL else where
                given.append(number if opened is None else opened if isinstance(opened, int) else opened.fileno())
        umask = os.umask(0o077)
        os.umask(umask)
        asked = {
            "argv": list(argv), "env": dict(env), "cwd": os.fspath(cwd or Path.cwd()),
            "session": start_new_session, "umask": umask,
        }  # fmt: skip
        link = stack.enter_context(socket.socket(socket.AF_UNIX))
        link.connect(address)
        data = json.dumps(asked).encode()
        socket.send_fds(link, [len(data).to_bytes(_HEAD, "big")], given)
        link.sendall(data)
        pid = int.from_bytes(_exactly(link, _HEAD), "big")
        link.settimeout(timeout)
        try:
            code = int.from_bytes(_exactly(link, _HEAD), "big", signed=True)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(argv, timeout or 0.0) from None
        said: list[Any] = []
        for file in kept:
            if file is not None:
                file.seek(0)
            read = None if file is None else file.read()
            said.append(read.decode() if read is not None and text else read)
    done = subprocess.CompletedProcess[Any](list(argv), code, *said)
    if check:
        done.check_returncode()
    return done


def _exactly(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = link.recv(size - len(data))
        if not more:
            raise ConnectionError("the process that commands are forked from is gone")
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
    subprocess.run = _through(address, _started_with(os.environ))
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
            head, fds, _flags, _sender = socket.recv_fds(link, _HEAD, 2)
            asked = json.loads(_exactly(link, int.from_bytes(head, "big")))
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                selector.close()
                for mine in (wake, woken, listening, link, *running.values()):
                    mine.close()
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
    for number, fd in enumerate((os.open(os.devnull, os.O_RDONLY), *fds)):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    os.umask(asked["umask"])
    _show(asked["argv"])
    sys.argv = asked["argv"][2:]
    if sys.argv[0] == "corral":
        from corral.cli import main
    else:
        from corral.server.__main__ import main

        subprocess.run = _run
    try:
        code: Any = main()
    except SystemExit as ended:
        code = ended.code
    _ending.append(code if isinstance(code, int) else 0 if code is None else 1)
    sys.exit()


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
    """Import what commands and daemons import sooner or later."""
    import importlib

    from corral.cli.nouns import NOUNS

    for module, _sentence in NOUNS.values():
        importlib.import_module(f"corral.cli.{module}")
    for name in (
        "corral.server.__main__",
        "corral.server.process.daemon",
        "corral.server.http.app",
        "corral.git.process.process",
        "git",
    ):
        importlib.import_module(name)


if __name__ == "__main__":
    serve(sys.argv[1])
