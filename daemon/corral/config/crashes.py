"""Deaths of a project's daemon that nobody asked for, so that nothing starts it over and over. Standard library only.

A daemon that ends on purpose removes its ``daemon.json``; a dead one leaves it. Whoever notices a death first records it, once
for each process: an open session's bridge, or the next start.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path

from corral.config.paths import Project
from corral.core.log_files import append_line

MOST = 3
WITHIN_S = 60.0
"""So many deaths in so many seconds, and nothing starts the daemon unasked."""
_GIVEN_UP = "given-up"


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
