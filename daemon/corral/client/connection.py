"""The blocking client of the command line and the bridge: HTTP over the daemon's socket. Standard library only.

Everything goes through the daemon. If none runs, one is started, detached; its lock decides between concurrent starts,
and a client only waits for an answer.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from corral import PROTOCOL
from corral.client import wire
from corral.config import account, crashes
from corral.config.links import make_own_folder
from corral.config.paths import Project, find_project, find_socket
from corral.core.errors import Conflict, CorralError, DaemonUnreachable, InvalidInput, from_wire
from corral.core.log_files import open_log
from corral.core.volumes import is_full, no_room

if TYPE_CHECKING:
    from corral.config.service import Service

START_TIMEOUT_S = 20.0
"""Time limit for the start of a daemon, seconds."""
_LOOK_S = 0.5
"""Between two looks at the state of a unit that starts, seconds."""
_MOST = 65536


class Exchange(NamedTuple):
    """A request to the daemon and its answer."""

    method: str
    target: str
    sent: bytes | None
    status: int
    answer: bytes
    duration_s: float


class Observer(Protocol):
    """Observes the steps and requests of clients, for people who look for a fault."""

    def step(self, text: str) -> None:
        """An intermediate step, in a sentence."""

    def exchanged(self, done: Exchange) -> None:
        """A request was answered."""


class Client:
    """Talks to one project's daemon. Not thread-safe; make one per thread.

    Args:
        project: The daemon's project.
        autostart: Whether :meth:`request` starts a missing daemon.
        profile: The profile that the daemon must have; None: any.
        on_daemon: Called once, when a running daemon has told its health.

    Attributes:
        observer: Called for each step and request of this process's clients; None: nothing is.
        waiting: Entered while this process waits for a daemon, with the reason or None; None: nothing is shown.
    """

    observer: ClassVar[Observer | None] = None
    waiting: ClassVar[Callable[[str | None], AbstractContextManager[object]] | None] = None

    def __init__(
        self,
        project: Project,
        *,
        autostart: bool = True,
        profile: str | None = None,
        on_daemon: Callable[[Client], None] | None = None,
    ) -> None:
        self.project = project
        self._profile = profile
        self._on_daemon = on_daemon
        self._autostart = autostart
        self._link: socket.socket | None = None

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        timeout_s: float = 30.0,
        is_poll: bool = False,
    ) -> Any:
        """Send a request, starting the daemon if needed, and return the decoded JSON.

        Args:
            method: ``GET``, ``POST`` or ``DELETE``.
            path: Below ``/api/v1``, with a leading slash.
            body: JSON-serialisable, or None.
            query: Query parameters; None values are left out, lists repeat.
            timeout_s: For the answer, seconds.
            is_poll: The answer comes when something happens: the wait is not shown.

        Raises:
            DaemonUnreachable: No daemon runs, and none could be started.
            CorralError: The daemon's error.
        """
        data = None if body is None else json.dumps(body).encode()
        if is_poll:
            return self._ask(method, _target(path, query), data, timeout_s)[0]
        with _showing_wait(None):
            return self._ask(method, _target(path, query), data, timeout_s)[0]

    def parts(self, path: str, query: dict[str, Any] | None = None) -> Iterator[list[Any]]:
        """The pages of a list; a page is requested only when needed.

        Raises:
            DaemonUnreachable: No daemon runs, and none could be started.
            CorralError: The daemon's error.
        """
        target = _target(path, query)
        while target:
            with _showing_wait(None):
                rows, target = self._ask("GET", target, None, 30.0)
            yield rows

    def listing(self, path: str, query: dict[str, Any] | None = None, most: int | None = None) -> list[Any]:
        """The first rows of a list, or all of them; raises as :meth:`parts`."""
        rows = (row for part in self.parts(path, query) for row in part)
        return [*itertools.islice(rows, most)]

    def _ask(self, method: str, target: str, data: bytes | None, timeout_s: float) -> tuple[Any, str]:
        try:
            return self._exchange(method, target, data, timeout_s)
        except (ConnectionError, FileNotFoundError, NotADirectoryError):
            self.close()
        except PermissionError as error:
            self.close()
            raise DaemonUnreachable(
                "Permission denied for the daemon's socket.",
                cause=f"{error.strerror or error}: {find_socket(self.project)}",
                remedy=f"Work as the owner of {self.project.home}, or repair its permissions and remove other "
                "users' files.",
            ) from error
        except TimeoutError as error:
            raise self._timeout_error(timeout_s) from error
        # The connection was refused or closed without an answer. Repeating is safe: requests are idempotent by key or
        # by state.
        if self._autostart:
            if method == "GET":
                self._refuse_read()
            self.ensure_daemon()
        try:
            return self._exchange(method, target, data, timeout_s)
        except TimeoutError as error:
            raise self._timeout_error(timeout_s) from error
        except OSError as error:
            self.close()
            raise DaemonUnreachable("The daemon is not running.", cause=str(error)) from error

    def _timeout_error(self, timeout_s: float) -> DaemonUnreachable:
        self.close()
        return DaemonUnreachable(
            f"Timed out: the daemon did not answer within {timeout_s:g} s.",
            cause="It is overloaded, stopped by a debugger, or stuck.",
            remedy="Run `corral daemon status`; if it still does not answer, `corral daemon restart`.",
        )

    def _refuse_read(self) -> None:
        """Refuse a read-only request after ``corral daemon stop``: reading must not start work."""
        if self.project.stopped_file.exists() and self.health() is None:
            raise DaemonUnreachable(
                "The daemon is not running: it was stopped with `corral daemon stop`.",
                cause="Read-only commands do not start it. Until it runs, nothing is claimed, landed or guarded.",
                remedy="Run `corral daemon start`; to start it without any work, run `corral pause` first.",
            )

    def _exchange(self, method: str, target: str, data: bytes | None, timeout_s: float) -> tuple[Any, str]:
        """Send one request; returns the decoded answer and the next page's address."""
        if self._link is None:
            path = os.fspath(find_socket(self.project))
            _note(f"connecting to {path}")
            self._link = wire.dial(path, timeout_s)
        began = time.monotonic()
        try:
            answer = wire.exchange(self._link, wire.request(method, target, data, _caller()), began + timeout_s)
            if self.observer is not None:
                took = time.monotonic() - began
                self.observer.exchanged(Exchange(method, target, data, answer.status, answer.body, took))
            decoded = json.loads(answer.body) if answer.body else None
        except ValueError as error:
            self.close()
            raise DaemonUnreachable("Cannot read the daemon's answer.", cause=str(error)) from error
        if not answer.keep:
            self.close()
        if answer.status >= 400:
            raise from_wire(decoded if isinstance(decoded, dict) else {})
        return decoded, answer.following

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._link is not None:
            self._link.close()
            self._link = None

    # -- the daemon itself --------------------------------------------------------------------------------------

    def health(self, timeout_s: float = 5.0) -> dict[str, Any] | None:
        """The running daemon's health, or None if none answers. Never starts one.

        Raises:
            Conflict: It has another profile than the chosen one.
        """
        try:
            answer: dict[str, Any] = self._exchange("GET", "/api/v1/health", None, timeout_s)[0]
        except (OSError, CorralError):
            self.close()
            return None
        self._require_profile(answer)
        call, self._on_daemon = self._on_daemon, None
        if call is not None:
            call(self)
        return answer

    def _require_profile(self, health: dict[str, Any]) -> None:
        """Refuse a daemon with another profile than the chosen one, whose settings differ."""
        running = health.get("profile", "default")
        if self._profile is not None and running != self._profile:
            raise Conflict(
                f"The daemon runs with the profile {running!r}, not {self._profile!r}.",
                cause="A daemon has one profile, for all sessions and tasks of its repository.",
                remedy=f"`corral daemon restart --profile {self._profile}` changes it; or leave out --profile, and "
                "CORRAL_PROFILE in your environment.",
            )

    def ensure_daemon(self, timeout_s: float = START_TIMEOUT_S) -> dict[str, Any]:
        """Return the health of a running daemon, starting one if none answers.

        Concurrent calls are safe: every starter but one fails to get the daemon's lock and exits.

        Raises:
            DaemonUnreachable: It did not start; the message has its reason.
            NotAProject: The branch that is checked out has no settings, with which one could start.
        """
        health = self.health()
        if health is None:
            # On a branch without settings none starts: it is refused before there is a process, or a failure on record.
            find_project(self.project.root)
            try:
                with _showing_wait("starting the daemon"):
                    start_daemon(self.project, timeout_s)
            except CorralError as error:
                crashes.note_start(self.project, error)
                raise
            crashes.note_start(self.project, None)
            health = self.health()
        if health is None:
            raise DaemonUnreachable(
                "The daemon was started but does not answer.", remedy=f"Read {start_log(self.project)}."
            )
        if health.get("protocol") != PROTOCOL:
            raise DaemonUnreachable(
                f"The daemon speaks protocol {health.get('protocol')}, this command speaks {PROTOCOL}.",
                cause="Corral was upgraded while its daemon kept running.",
                remedy="Run `corral daemon restart`.",
            )
        return health


ONE_WORKERS = (
    "CORRAL_TASK_ID", "CORRAL_SESSION_ID", "CORRAL_MERGE_ID", "CORRAL_VERIFICATION", "CORRAL_WORKTREE",
    "CORRAL_PROJECT", "CORRAL_PROJECT_ID",
)  # fmt: skip
"""Variables by which a worker's commands are known; they are no settings."""


def start_daemon(project: Project, timeout_s: float = START_TIMEOUT_S) -> None:
    """Start a daemon, fully detached, and wait until it (or a concurrently started one) answers.

    Where a unit is installed for the project, the service manager starts it. Else the process started here forks the daemon
    and exits when the daemon is ready, so that no child stays. Its stderr is in ``logs/daemon-start.log``, with a failure
    as JSON in the last line.

    Raises:
        DaemonUnreachable: It did not start in time.
        CorralError: Its reason for not starting.
    """
    import subprocess  # most commands start nothing

    from corral.config.service import installed

    _note(f"starting the daemon of {project.root}; its errors go to {start_log(project)}")
    # These variables would mark the daemon as a worker's child, and it would be ended with that worker.
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_") and k not in ONE_WORKERS}
    try:
        make_own_folder(project.logs_dir, project.root)
        out = open_log(start_log(project))
    except OSError:  # no log stops a start, and the start itself says what does
        import tempfile

        with tempfile.TemporaryFile() as file:
            out = os.dup(file.fileno())
    began = os.fstat(out).st_size
    try:
        service = installed(project, os.environ, account.home())
        if service is not None and _start_service(project, service, timeout_s, lambda: os.pread(out, _MOST, began)):
            return
        process = subprocess.run(
            [sys.executable, "-m", "corral.daemon", "--project", os.fspath(project.root)],
            cwd="/",
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            timeout=timeout_s,
            check=False,
        )
        if process.returncode != 0:
            raise _start_failure(project, os.pread(out, os.fstat(out).st_size - began, began))
    except subprocess.TimeoutExpired as error:
        raise DaemonUnreachable(
            f"Timed out: the daemon did not start within {timeout_s:g} s.",
            cause="It was still starting: the machine is busy, or something keeps it.",
            remedy=f"Try again. If it stays so, read {start_log(project)}.",
        ) from error
    finally:
        os.close(out)


def _start_service(project: Project, service: Service, timeout_s: float, complaints: Callable[[], bytes]) -> bool:
    """Start a daemon through its unit and wait until it answers; False if the service manager cannot start it.

    Raises:
        DaemonUnreachable: It did not start in time.
        CorralError: Its reason for not starting.
    """
    import subprocess

    from corral.config.service import manager, words

    chosen, deadline = manager(), time.monotonic() + timeout_s
    project.stopped_file.unlink(missing_ok=True)  # the unit starts nothing that was stopped
    for command in chosen.start:
        try:
            done = subprocess.run(
                words(command, service), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            _note(f"{command.split()[0]} cannot be asked ({error}); starting the daemon without its unit")
            return False
    if done.returncode != 0:
        _note(f"{service.name} cannot be started ({done.stderr.strip()}); starting the daemon without its unit")
        return False
    look_at = time.monotonic() + _LOOK_S
    while time.monotonic() < deadline:
        try:
            wire.dial(os.fspath(find_socket(project)), 1).close()
            return True
        except OSError:
            time.sleep(0.05)
        if chosen.state and time.monotonic() > look_at:
            look_at = time.monotonic() + _LOOK_S
            state = subprocess.run(
                words(chosen.state, service), stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
            if state.stdout.strip() == "failed":
                raise _start_failure(project, complaints())
    raise DaemonUnreachable(
        f"Timed out: the daemon did not start within {timeout_s:g} s.",
        cause=f"It is started by the unit {service.name}.",
        remedy=f"Read {start_log(project)}; or take the unit back: corral daemon uninstall.",
    )


def adopt_database(project: Project, source: Path, timeout_s: float = 120.0) -> dict[str, Any]:
    """Make a copy of another database the project's own, in a process that holds the daemon's lock.

    Returns:
        ``adopted``, and ``replaced``: the new path of the previous database, or None.

    Raises:
        Conflict: The daemon runs.
        CorralError: The file cannot be adopted.
    """
    import subprocess

    argv = [sys.executable, "-m", "corral.daemon", "--project", os.fspath(project.root), "--adopt", os.fspath(source)]
    try:
        process = subprocess.run(
            argv, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
        answer: dict[str, Any] = json.loads(process.stdout.decode("utf-8", "replace").splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
        raise CorralError(f"Cannot adopt {source}.", cause=str(error)) from error
    if process.returncode != 0:
        raise from_wire(answer)
    return answer


def _note(text: str) -> None:
    """Report a step to the observer."""
    if Client.observer is not None:
        Client.observer.step(text)


def _showing_wait(reason: str | None) -> AbstractContextManager[object]:
    """The context that shows a person that this process waits."""
    return nullcontext() if Client.waiting is None else Client.waiting(reason)


def start_log(project: Project) -> Path:
    """What a daemon says while it starts; a failure is JSON in its last line.

    No part of ``Project``: the bridge of a session that is older than this installation has loaded an older one.
    """
    return project.logs_dir / "daemon-start.log"


def _start_failure(project: Project, complaints: bytes) -> CorralError:
    """The error in the last line of a failed start's stderr, else a general one."""
    lines = complaints.decode("utf-8", "replace").strip().splitlines()
    for line in reversed(lines):
        try:
            envelope = json.loads(line)
        except ValueError:
            continue
        if isinstance(envelope, dict) and "error" in envelope:
            return from_wire(envelope)
    if not lines and is_full(project.home):  # the log could not take its reason
        return no_room("Cannot start the daemon.")
    return DaemonUnreachable(
        "Cannot start the daemon.",
        cause=lines[-1] if lines else "It gave no reason.",
        remedy=f"Read {start_log(project)}.",
    )


def _caller() -> dict[str, str]:
    """The header that names the session which runs this process, if any: the audit tells who did what."""
    session = os.environ.get("CORRAL_SESSION_ID") or os.environ.get("CLAUDE_CODE_SESSION_ID")
    return {"X-Corral-Session": session} if session else {}


def _target(path: str, query: dict[str, Any] | None) -> str:
    """The address of a request below ``/api/v1``; None values are left out, lists repeat."""
    if not query:
        return f"/api/v1{path}"
    from urllib.parse import urlencode  # importing it takes as long as the rest of a small command

    return f"/api/v1{path}?" + urlencode({k: v for k, v in query.items() if v is not None}, doseq=True)


def segment(text: str) -> str:
    """Quote a value as one segment of a request path.

    Raises:
        InvalidInput: It is empty, so the path would be a different one.
    """
    from urllib.parse import quote

    if not text:
        raise InvalidInput("The argument is empty.", remedy="Pass a name or an id; the `list` command shows them.")
    return quote(text, safe="")
