"""Plan the installation or update of a template: the effect on each file of a project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.config.paths import Project
from corral.git.remote.parts import MERGED_BY_KEY, Part, Parts
from corral.work.templates.api import UpdateAction
from corral.work.templates.project.lock import Lock, change_of
from corral.work.templates.project.merging import TextMerge, merge_json, without

CHANGING = frozenset({"add", "replace", "merge", "remove"})

_EMPTY = Part(b"")


MergeText = Callable[[bytes, bytes, bytes], TextMerge]
"""``(base, mine, theirs)``."""


@dataclass(frozen=True)
class Step:
    """The effect on one file.

    Attributes:
        data: The content to write; None deletes the file. Of a conflict: with both sides, marked.
        reason: Why a file is kept, or where it conflicts; empty: nothing to say.
        theirs: The template's content, of a conflict.
    """

    path: str
    action: UpdateAction
    data: bytes | None = None
    executable: bool = False
    reason: str = ""
    theirs: bytes = b""


def steps(root: Path, base: Parts, theirs: Parts, merge_text: MergeText, *, installs: bool = False) -> list[Step]:
    """Compare what the template was, what the project has, and what the template is now.

    Args:
        base: The parts as they were installed; none for a first installation.
        installs: Whether this is a first installation, which keeps what is there already.
    """
    planned = []
    for path in sorted({*base, *theirs}):
        if (reason := _unwritable(root, path)) is not None:
            planned.append(Step(path, "keep", reason=reason))
            continue
        mine = (root / path).read_bytes() if (root / path).exists() else None
        if path in MERGED_BY_KEY:
            planned.append(_by_key(path, base.get(path), mine, theirs.get(path)))
        elif mine is not None and installs and path in theirs and mine != theirs[path].data:
            planned.append(Step(path, "keep", reason="is there already, and stays as it is"))
        else:
            planned.append(_step(path, base.get(path), mine, theirs.get(path), merge_text))
    return planned


def _unwritable(root: Path, path: str) -> str | None:
    file = root / path
    if not file.parent.resolve().is_relative_to(root.resolve()):
        return "would be outside the repository"
    if file.is_symlink() or (file.exists() and not file.is_file()):
        return "is no plain file here"
    return None


def _step(path: str, base: Part | None, mine: bytes | None, theirs: Part | None, merge_text: MergeText) -> Step:
    before = base.data if base is not None else None
    after = theirs.data if theirs is not None else None
    executable = theirs is not None and theirs.executable
    if mine == after:
        return Step(path, "same")
    if mine is None:
        if base is None:
            return Step(path, "add", after, executable)
        reason = "you removed it" if before == after else "you removed it; the new version changes it"
        return Step(path, "keep", reason=reason)
    if before == after:
        return Step(path, "keep", reason="you changed it")
    if mine == before:
        return Step(path, "replace", after, executable) if theirs is not None else Step(path, "remove")
    if theirs is None:
        return Step(path, "keep", reason="you changed it; the new version no longer has it")
    merged = merge_text(before or b"", mine, theirs.data)
    if merged.conflicts is None:
        return Step(path, "conflict", mine, executable, "both changed it, and it is no text", theirs.data)
    if merged.conflicts:
        places = "1 place" if merged.conflicts == 1 else f"{merged.conflicts} places"
        return Step(path, "conflict", merged.data, executable, f"both changed {places} of it", theirs.data)
    return (
        Step(path, "merge", merged.data, executable, theirs=theirs.data) if merged.data != mine else Step(path, "same")
    )


def _by_key(path: str, base: Part | None, mine: bytes | None, theirs: Part | None) -> Step:
    try:
        merged = merge_json((base or _EMPTY).data, mine, (theirs or _EMPTY).data)
    except ValueError as error:
        return Step(path, "keep", reason=f"cannot be merged: {error}")
    reason = f"yours stays at {', '.join(merged.conflicts)}" if merged.conflicts else ""
    if merged.data == (mine or b"{}\n"):
        return Step(path, "keep", reason=reason) if reason else Step(path, "same")
    return Step(path, "merge" if mine is not None else "add", merged.data, reason=reason)


# -- Plan what is left of a project's template when Corral is removed: files that the project did not change go,
# others stay


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
