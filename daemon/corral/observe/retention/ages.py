"""Retention: maximum ages of rows by kind, and which log files to delete."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from corral.config.paths import LOG_FOLDERS
from corral.config.sections.upkeep import Retention
from corral.core.log_files import DRY_RUN_LOG

_REVISION = re.compile(r"\d{4}")


@dataclass(frozen=True)
class LogFile:
    """One log, or one copy of the database; ``at`` is its last change, Unix time."""

    path: Path
    at: float
    size: int

    @property
    def owners(self) -> frozenset[str]:
        """The names of its possible owners: its own and its folder's."""
        return frozenset((self.path.stem, self.path.parent.name))


def cutoff(settings: Retention, kind: str, now: datetime) -> datetime | None:
    """The instant before which data of this kind is old; None: it is kept for ever.

    Args:
        kind: The first part of a setting's name, such as ``events`` of ``events_days``.
    """
    days = getattr(settings, f"{kind}_days")
    return None if days is None else now - timedelta(days=days)


def old_logs(
    logs_dir: Path,
    settings: Retention,
    now: datetime,
    owners_kept: Collection[str],
    landed: Collection[str] = (),
    excess: int = 0,
) -> list[LogFile]:
    """The logs to delete: those that are too old, then as many as needed to keep within ``logs_mb`` and the disk budget.

    Beyond a limit the logs of landed work go first, then the others of finished work, each time the oldest first.

    Args:
        owners_kept: Ids of tasks and merge requests, and names of worktrees, whose logs stay.
        landed: Ids of landed merge requests and their tasks.
        excess: Bytes by which all files together exceed the disk budget.

    Raises:
        OSError: A folder cannot be read.
    """
    logs = all_logs(logs_dir)
    moment = cutoff(settings, "logs", now)
    excess = max(excess, sum(file.size for file in logs) - settings.logs_mb * 1_000_000)

    def order(file: LogFile) -> tuple[bool, bool, float]:
        is_old = moment is not None and file.at < moment.timestamp()
        return not is_old, file.owners.isdisjoint(landed), file.at

    going = []
    for file in sorted(logs, key=order):
        if (not order(file)[0] or excess > 0) and file.owners.isdisjoint(owners_kept):
            going.append(file)
            excess -= file.size
    return going


def all_logs(logs_dir: Path) -> list[LogFile]:
    """The logs of attempts, verifications, setups and the last dry run.

    Raises:
        OSError: A folder cannot be read.
    """
    logs = [file for name in LOG_FOLDERS for file in _logs(logs_dir / name)]
    with contextlib.suppress(FileNotFoundError):
        status = (logs_dir / DRY_RUN_LOG).lstat()
        if stat.S_ISREG(status.st_mode):
            logs.append(LogFile(logs_dir / DRY_RUN_LOG, status.st_mtime, status.st_size))
    return logs


def backups(database: Path) -> list[LogFile]:
    """The copies of the database from before upgrades: files with the name of a revision; any other is a person's."""
    files = []
    for path in sorted(database.parent.glob(f"{database.name}.before-*")):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and _REVISION.fullmatch(path.name.removeprefix(f"{database.name}.before-")):
                files.append(LogFile(path, status.st_mtime, status.st_size))
    return files


def disk_use(home: Path, state_dir: Path) -> int:
    """Bytes of the database, its copies, the logs and the exports; a file that goes meanwhile does not count."""
    folders = (home / "logs", state_dir / "analytics")
    files = [*home.glob("corral.db*"), *(file for folder in folders for file in folder.rglob("*"))]
    size = 0
    for file in files:
        try:
            status = file.lstat()
        except FileNotFoundError:
            continue
        size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size


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
