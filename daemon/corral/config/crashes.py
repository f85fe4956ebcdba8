"""Deaths of a project's daemon that nobody asked for, so that nothing starts it over and over. Standard library only.

A daemon that ends on purpose removes its ``daemon.json``; a dead one leaves it. Whoever notices a death first records it, once
for each process: an open session's bridge, or the next start. Starts that fail have one backoff for all sessions, and one of them
starts at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from corral.config.paths import Project
from corral.core.errors import CorralError, from_wire
from corral.core.log_files import append_line

MOST = 3
WITHIN_S = 60.0
"""So many deaths in so many seconds, and nothing starts the daemon unasked."""
_GIVEN_UP = "given-up"
AGAIN_S = 1.0
"""Seconds after a successful start until a session starts another daemon: that one was killed."""
FAILED_S, MOST_FAILED_S = 5.0, 60.0
"""The same after a failed start, and at most, since the time doubles with each."""
START = "start.json"
"""In ``run/``, locked by the session that starts a daemon: ``{failures, next_at, at, error}`` of the last start."""


def note(project: Project) -> str | None:
    """Record the death of the daemon that ``daemon.json`` names; returns which one it was, None if it was asked to end."""
    if project.stopped_file.exists() or (who := _announced(project)) is None:
        return None
    _record(project, who)
    return who


def note_failed_start(project: Project, dead: str) -> None:
    """Record a start after a death that failed before another daemon announced itself: it counts as a death too."""
    if _announced(project) == dead:
        _record(project, f"start-{time.monotonic_ns()}")


def to_revive(project: Project, now: float) -> str | None:
    """The dead daemon in whose place an open session is to start another; None where it must not.

    It must not after a deliberate stop, where Corral was uninstalled, and after deaths that were close together: that is
    recorded, and shown to a person until they start it themselves.

    Args:
        now: A Unix time.
    """
    if not project.initialised or given_up(project) or (dead := note(project)) is None:
        return None
    times = sorted(at for _who, at in _read(project))[-MOST:]
    if len(times) < MOST or now - times[0] > WITHIN_S:
        return dead
    _record(project, _GIVEN_UP)
    return None


def given_up(project: Project) -> bool:
    """Whether an open session has given up."""
    return _GIVEN_UP in dict(_read(project))


def forget(project: Project) -> None:
    """A person starts or stops it: earlier deaths do not count any more."""
    with suppress(OSError):  # a folder that cannot be written: the start itself says so
        _file(project).unlink()
    with suppress(OSError):
        descriptor = _open(project, os.O_WRONLY)
        os.ftruncate(descriptor, 0)
        os.close(descriptor)


def take_turn(project: Project) -> int | None:
    """The right of a session to start a daemon, as a descriptor to close; None while another one does, or after a failure."""
    try:
        project.run_dir.mkdir(mode=0o700, exist_ok=True)
        descriptor = _open(project, os.O_RDWR | os.O_CREAT)
    except OSError:  # the start itself says what is wrong with the folder
        return os.open(os.devnull, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    if _must_wait(_last_start(project)):
        os.close(descriptor)
        return None
    return descriptor


def failed_lately(project: Project) -> CorralError | None:
    """Why the last start failed, while no session tries again."""
    last = _last_start(project)
    return from_wire(last) if last.get("error") and _must_wait(last) else None


def is_starting(project: Project) -> bool:
    """Whether a session starts a daemon now."""
    with suppress(OSError):
        descriptor = _open(project, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
    return False


def note_start(project: Project, error: CorralError | None) -> None:
    """Record how a start ended; None: a daemon runs."""
    failures = _last_start(project).get("failures", 0) + 1 if error is not None else 0
    wait_s = AGAIN_S if error is None else min(FAILED_S * 2.0 ** min(failures - 1, 10), MOST_FAILED_S)
    now, wire = time.time(), error.to_wire()["error"] if error is not None else None
    content = json.dumps({"failures": failures, "next_at": now + wait_s, "at": now, "error": wire})
    with suppress(OSError):  # a full disk, or a folder that cannot be written: then it is tried again too early
        descriptor = _open(project, os.O_WRONLY | os.O_CREAT)
        try:
            os.ftruncate(descriptor, os.pwrite(descriptor, content.encode(), 0))
        finally:
            os.close(descriptor)


def _open(project: Project, flags: int) -> int:
    """Open the record of the last start, in a folder that nobody else can write to: another one may have been planted.

    Raises:
        OSError: It cannot be opened, or stands in another folder.
    """
    folder = os.open(project.run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(folder)
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(f"{project.run_dir} can be written by others.")
        return os.open(START, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


def _must_wait(last: dict[str, Any]) -> bool:
    return bool(0 < last.get("next_at", 0.0) - time.time() <= MOST_FAILED_S)


def _last_start(project: Project) -> dict[str, Any]:
    """How the last start ended, see :data:`START`; empty where that is not known."""
    try:
        record = json.loads((project.run_dir / START).read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _announced(project: Project) -> str | None:
    try:
        daemon = json.loads(project.daemon_json.read_text(encoding="utf-8"))
        return f"{int(daemon['pid'])}@{daemon['started_at']}"
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _record(project: Project, who: str) -> None:
    if who not in dict(_read(project)):
        with suppress(OSError):  # a full disk: then it is started once more than it should
            append_line(_file(project), f"{who} {time.time():.3f}")


def _read(project: Project) -> list[tuple[str, float]]:
    try:
        lines = _file(project).read_text(encoding="utf-8").splitlines()
        # Two that notice one death at the same time may both record it.
        return [*{who: float(at) for who, at in (line.split() for line in reversed(lines))}.items()]
    except (OSError, ValueError):
        return []


def _file(project: Project) -> Path:
    return project.run_dir / "crashes"
