"""Change several files of a project at once, with a backup; a change that was interrupted is completed by the next start.

First everything is written into ``.corral/template-change`` (what each file was, what it becomes); its rename into place is
the intent.
Then the files are replaced one by one, and the folder becomes the backup. Completing it is the same whatever was done before: a
file that is neither what it was nor what it becomes has been changed by somebody meanwhile, and stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from corral.config.paths import Project
from corral.core.errors import InvalidInput, NotFound
from corral.core.instants import iso

_PENDING = "template-change"
_PARTIAL = "template-change.partial"
_BACKUPS = "template-backups"
MOST_BACKUPS = 10


@dataclass(frozen=True)
class New:
    """The content that a file gets; ``data`` None deletes it."""

    data: bytes | None
    executable: bool = False


@dataclass(frozen=True)
class Done:
    """A change that is complete.

    Attributes:
        backup: The folder with what the files were.
        left: The files that somebody changed meanwhile; they stay.
    """

    backup: Path
    left: tuple[str, ...] = ()


def apply(project: Project, contents: Mapping[str, New], now: datetime) -> Done:
    """Change files, all of them even if the machine stops in between.

    Args:
        contents: By path from the project's root, in the order in which they are written.

    Raises:
        InvalidInput: They cannot be written.
    """
    with _locked(project):
        return _apply(project, contents, now)


def _apply(project: Project, contents: Mapping[str, New], now: datetime) -> Done:
    _complete(project)
    partial, pending = project.home / _PARTIAL, project.home / _PENDING
    try:
        for folder in (partial / "old", partial / "new"):
            folder.mkdir(mode=0o700, parents=True)
        rows = [_noted(project, partial, number, path, new) for number, (path, new) in enumerate(contents.items())]
        _write(partial / "plan.json", json.dumps({"at": iso(now), "files": rows}, indent=2).encode())
        partial.rename(pending)
        _sync(project.home)
        done = _complete(project)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise InvalidInput(
            f"Cannot write {error.filename or project.home}.",
            cause=str(error.strerror or error),
            remedy="Make it writable, or free space, and try again; a change that has begun is then completed.",
        ) from error
    assert done is not None
    return done


def recover(project: Project) -> Done | None:
    """Complete a change that was interrupted; None if there is none. Waits for a command that is at it."""
    if not any((project.home / name).exists() for name in (_PENDING, _PARTIAL)):
        return None
    with _locked(project):
        return _complete(project)


@contextlib.contextmanager
def _locked(project: Project) -> Iterator[None]:
    import portalocker

    with (project.home / "template-change.lock").open("w") as lock:
        portalocker.lock(lock, portalocker.LockFlags.EXCLUSIVE)
        yield


def _complete(project: Project) -> Done | None:
    shutil.rmtree(project.home / _PARTIAL, ignore_errors=True)
    pending = project.home / _PENDING
    if not (pending / "plan.json").exists():
        return None
    plan = json.loads((pending / "plan.json").read_bytes())
    left_as_is = tuple(row["path"] for row in plan["files"] if not _completed(project, pending, row))
    backup = project.home / _BACKUPS / plan["at"].replace(":", "")
    backup.parent.mkdir(mode=0o700, exist_ok=True)
    while backup.exists():
        backup = backup.with_name(f"{backup.name}-")
    pending.rename(backup)
    for old in _backups(project)[:-MOST_BACKUPS]:
        shutil.rmtree(old, ignore_errors=True)
    return Done(backup, left_as_is)


def roll_back(project: Project, lock: str, now: datetime) -> tuple[Done, list[str]]:
    """Restore what the files were before the last change, if that was an update; a file that was changed since stays.

    Args:
        lock: The path of the file that says what is installed: it was there before an update, and not before an installation.

    Returns:
        The change, whose backup is then gone, and the restored paths.

    Raises:
        NotFound: There is no backup, or none of an update.
    """
    with _locked(project):
        return _rolled_back(project, lock, now)


def _rolled_back(project: Project, lock: str, now: datetime) -> tuple[Done, list[str]]:
    _complete(project)
    backups = _backups(project)
    if not backups:
        raise NotFound(
            "There is no backup of a template's update.",
            cause="Nothing was updated, or every update was undone.",
            remedy="Nothing was changed.",
        )
    last = backups[-1]
    rows: list[dict[str, Any]] = json.loads((last / "plan.json").read_bytes())["files"]
    if any(row["path"] == lock and row["before"] is None for row in rows):
        raise NotFound(
            "The template was not updated since it was installed.",
            cause="A rollback undoes an update.",
            remedy="Nothing was changed. To take its files out: `corral uninstall`.",
        )
    ours = [row for row in rows if _digest(project.root / row["path"]) == row["after"]]
    contents = {row["path"]: New(_old(last, row), row["was_executable"]) for row in ours}
    done = _apply(project, contents, now)
    shutil.rmtree(last)
    shutil.rmtree(done.backup)
    kept = tuple(row["path"] for row in rows if row not in ours)
    return Done(last, (*kept, *done.left)), [row["path"] for row in ours]


def _backups(project: Project) -> list[Path]:
    return sorted(place for place in (project.home / _BACKUPS).glob("*") if (place / "plan.json").exists())


def _noted(project: Project, partial: Path, number: int, path: str, new: New) -> dict[str, Any]:
    file = project.root / path
    if file.exists():
        _write(partial / "old" / str(number), file.read_bytes())
    if new.data is not None:
        _write(partial / "new" / str(number), new.data)
    return {
        "number": number,
        "path": path,
        "before": _digest(file),
        "after": None if new.data is None else hashlib.sha256(new.data).hexdigest(),
        "executable": new.executable,
        "was_executable": os.access(file, os.X_OK),
    }


def _completed(project: Project, pending: Path, row: Mapping[str, Any]) -> bool:
    file = project.root / row["path"]
    now = _digest(file)
    if now == row["after"]:
        return True
    if now != row["before"] or not file.parent.resolve().is_relative_to(project.root.resolve()):
        return False
    if row["after"] is None:
        file.unlink(missing_ok=True)
        return True
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.corral-new")
    _write(partial, (pending / "new" / str(row["number"])).read_bytes())
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
    partial.chmod(mode | 0o111 if row["executable"] else mode)
    partial.replace(file)
    return True


def _old(backup: Path, row: Mapping[str, Any]) -> bytes | None:
    return (backup / "old" / str(row["number"])).read_bytes() if row["before"] is not None else None


def _digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def _write(file: Path, data: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
