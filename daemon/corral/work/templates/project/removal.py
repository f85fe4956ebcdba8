"""Plan what is left of a project's template when Corral is removed: files that the project did not change go, others stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.config.paths import Project
from corral.git.remote.parts import MERGED_BY_KEY
from corral.work.templates.project.lock import Lock, change_of
from corral.work.templates.project.merging import without


@dataclass(frozen=True)
class Removal:
    """The files to write, and those that stay.

    Attributes:
        contents: By file its content; None: it is deleted.
        kept: By path, why a file of the template stays.
    """

    contents: Mapping[Path, bytes | None]
    kept: Mapping[str, str]


def plan(project: Project, lock: Lock, current: Mapping[Path, bytes | None]) -> Removal:
    """Compare a template's files with what the project has of them. The files in ``.corral`` go with the folder.

    Args:
        current: The content that files will have, where that is not what they have now; None: none.
    """
    contents: dict[Path, bytes | None] = {}
    kept: dict[str, str] = {}
    for path, checksum in lock.files.items():
        file = project.root / path
        if file.is_relative_to(project.home) or not _is_plain(project, file):
            continue
        if path in MERGED_BY_KEY:
            now = current[file] if file in current else file.read_bytes()
            if now is not None:
                contents[file] = _taken_out(path, now, lock, kept)
        elif path in lock.had:
            kept[path] = "it was there before the template"
        elif change_of(file, checksum) == "unchanged":
            contents[file] = None
        else:
            kept[path] = "you changed it"
    return Removal(contents, kept)


def _taken_out(path: str, now: bytes, lock: Lock, kept: dict[str, str]) -> bytes | None:
    try:
        rest = without(now, lock.added.get(path, {}))
    except ValueError:
        kept[path] = "it is no JSON object"
        return now
    if rest.conflicts:
        kept[path] = f"you changed {', '.join(rest.conflicts)}"
    return rest.data or (b"{}\n" if path in lock.had else None)


def _is_plain(project: Project, file: Path) -> bool:
    inside = file.parent.resolve().is_relative_to(project.root.resolve())
    return inside and file.is_file() and not file.is_symlink()
