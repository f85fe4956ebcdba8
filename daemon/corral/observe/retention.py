"""Retention: maximum ages of rows by kind, and which log files to delete."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from corral.config.sections.upkeep import Retention

LOG_FOLDERS = ("tasks", "merges", "worktrees")
"""Subfolders of ``logs/``: logs of attempts, verifications and setups."""


@dataclass(frozen=True)
class LogFile:
    """One log; ``at`` is its last change, Unix time."""

    path: Path
    at: float
    size: int


def cutoff(settings: Retention, kind: str, now: datetime) -> datetime | None:
    """The instant before which data of this kind is old; None: it is kept for ever.

    Args:
        kind: The first part of a setting's name, such as ``events`` of ``events_days``.
    """
    days = getattr(settings, f"{kind}_days")
    return None if days is None else now - timedelta(days=days)


def old_logs(logs_dir: Path, settings: Retention, now: datetime, kept: Collection[str]) -> list[LogFile]:
    """The logs to delete, oldest first: those that are too old, then as many as needed to keep within ``logs_mb``.

    Args:
        kept: Ids of tasks and merge requests, and names of worktrees, whose logs stay.

    Raises:
        OSError: A folder cannot be read.
    """
    found = sorted((file for name in LOG_FOLDERS for file in _logs(logs_dir / name)), key=lambda file: file.at)
    moment = cutoff(settings, "logs", now)
    excess = sum(file.size for file in found) - settings.logs_mb * 1_000_000
    going = []
    for file in found:
        is_old = moment is not None and file.at < moment.timestamp()
        if (is_old or excess > 0) and not {file.path.stem, file.path.parent.name} & set(kept):
            going.append(file)
            excess -= file.size
    return going


def _logs(folder: Path, *, inner: bool = False) -> Iterator[LogFile]:
    """Regular files in the folder and one level below; links are not followed."""
    try:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            return
    except FileNotFoundError:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not inner:
                yield from _logs(Path(entry.path), inner=True)
            elif entry.name.endswith(".log") and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield LogFile(Path(entry.path), status.st_mtime, status.st_size)
