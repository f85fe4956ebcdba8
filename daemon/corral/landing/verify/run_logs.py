"""The logs of a request's verifications: one file per try, numbered from 1, whose first line says what the try is of."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from corral.config.links import make_own_folder
from corral.config.paths import Project
from corral.core.instants import iso
from corral.core.states import ReceiptRole
from corral.runners.process import open_private

_HEADING = re.compile(rb"# ([a-z-]{1,20}) ([0-9a-f]{40,64}), started at ([0-9T:.Z-]{24})\n")


@dataclass(frozen=True)
class Heading:
    """The first line of a log: the role and the commit of what was verified, when it began, and the line's length in bytes."""

    role: str
    commit_sha: str
    started_at: str
    length: int


def name_of_tip(sha: str) -> str:
    """The name under which the logs of a target's tip are kept, which is of no request."""
    return f"tip-{sha[:12]}"


def folder_of(project: Project, merge_id: str) -> Path:
    """Where the logs of a request are; the whole id."""
    return project.logs_dir / "merges" / merge_id


def files(project: Project, merge_id: str) -> dict[int, Path]:
    """The logs of a request by their numbers, in order."""
    logs = {int(path.stem): path for path in folder_of(project, merge_id).glob("*.log") if path.stem.isdecimal()}
    return dict(sorted(logs.items()))


def begin(project: Project, merge_id: str, role: ReceiptRole, commit_sha: str, now: datetime) -> Path:
    """Make the next log of a request, with its first line; its mode is 0600.

    Raises:
        OSError: It cannot be written.
        FolderLinked: Its folder was replaced by a link.
    """
    make_own_folder(folder_of(project, merge_id), project.root)
    log = folder_of(project, merge_id) / f"{max(files(project, merge_id), default=0) + 1}.log"
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_APPEND), "ab") as file:
        file.write(f"# {role.value} {commit_sha}, started at {iso(now)}\n".encode())
    return log


def heading(log: Path) -> Heading | None:
    """The first line of a log; None if it has none: an earlier version wrote it, or it is gone."""
    try:
        with log.open("rb") as file:
            match = _HEADING.match(file.read(200))
    except OSError:
        return None
    if match is None:
        return None
    role, sha, at = (part.decode() for part in match.groups())
    return Heading(role, sha, at, match.end())
