"""Merge JSON files three ways by key, so that what others put into them stays."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.git.process.command import Git

_NOTHING: Any = object()


@dataclass(frozen=True)
class Merged:
    """A merged text.

    Attributes:
        conflicts: The places where both sides changed the same; there the project's own is kept.
    """

    data: bytes
    conflicts: tuple[str, ...] = ()


def merge_json(base: bytes | None, mine: bytes | None, theirs: bytes | None) -> Merged:
    """Merge objects; None is an empty one.

    Raises:
        ValueError: One is not a JSON object.
    """
    values = [_object(data) for data in (base, mine, theirs)]
    conflicts: list[str] = []
    merged = _merge(values[0], values[1], values[2], "", conflicts)
    if merged == values[1] and mine is not None:
        return Merged(mine, tuple(conflicts))
    return Merged((json.dumps(merged, indent=_indent(mine), ensure_ascii=False) + "\n").encode(), tuple(conflicts))


def _object(data: bytes | None) -> dict[str, Any]:
    value = json.loads(data) if data is not None and data.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("is not a JSON object")
    return value


def _merge(base: Any, mine: Any, theirs: Any, place: str, conflicts: list[str]) -> Any:
    if mine == theirs or base == theirs:
        return mine
    if base == mine:
        return theirs
    if isinstance(mine, dict) and isinstance(theirs, dict):
        before = base if isinstance(base, dict) else {}
        merged = {}
        for key in dict.fromkeys([*mine, *theirs]):
            sides = [side.get(key, _NOTHING) for side in (before, mine, theirs)]
            value = _merge(sides[0], sides[1], sides[2], f"{place}.{key}" if place else key, conflicts)
            if value is not _NOTHING:
                merged[key] = value
        return merged
    if isinstance(mine, list) and isinstance(theirs, list):
        before_list = base if isinstance(base, list) else []
        kept = [item for item in mine if item in theirs or item not in before_list]
        return kept + [item for item in theirs if item not in mine and item not in before_list]
    conflicts.append(place)
    return mine


def added(mine: bytes | None, theirs: bytes | None, before: dict[str, Any]) -> dict[str, Any]:
    """The part of a template's object that is not the project's own.

    Args:
        mine: The file before the template's is merged into it.
        before: The part that an earlier version of the template added.

    Raises:
        ValueError: One is not a JSON object.
    """
    return _added(_object(mine), _object(theirs), before)


def _added(mine: dict[str, Any], theirs: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    additions: dict[str, Any] = {}
    for key, value in theirs.items():
        own, ours = mine.get(key, _NOTHING), before.get(key, _NOTHING)
        if own is _NOTHING or own == ours:
            additions[key] = value
        elif isinstance(own, dict) and isinstance(value, dict):
            if inner := _added(own, value, ours if isinstance(ours, dict) else {}):
                additions[key] = inner
        elif isinstance(own, list) and isinstance(value, list):
            earlier = ours if isinstance(ours, list) else []
            if items := [item for item in value if item not in own or item in earlier]:
                additions[key] = items
    return additions


def without(mine: bytes, ours: dict[str, Any]) -> Merged:
    """A file without what a template added to it.

    Returns:
        Empty data if nothing else is in it; ``conflicts`` are the places that the project changed, which stay.

    Raises:
        ValueError: It is not a JSON object.
    """
    changed: list[str] = []
    fields = _object(mine)
    rest = _without(fields, ours, "", changed)
    if rest == fields:
        return Merged(mine, tuple(changed))
    text = json.dumps(rest, indent=_indent(mine), ensure_ascii=False) + "\n" if rest else ""
    return Merged(text.encode(), tuple(changed))


def _without(mine: dict[str, Any], ours: dict[str, Any], place: str, changed: list[str]) -> dict[str, Any]:
    rest: dict[str, Any] = {}
    for key, value in mine.items():
        here = f"{place}.{key}" if place else key
        if key not in ours:
            rest[key] = value
        elif value == ours[key]:
            continue
        elif isinstance(value, dict) and isinstance(ours[key], dict):
            if inner := _without(value, ours[key], here, changed):
                rest[key] = inner
        elif isinstance(value, list) and isinstance(ours[key], list):
            if items := [item for item in value if item not in ours[key]]:
                rest[key] = items
        else:
            rest[key] = value
            changed.append(here)
    return rest


def _indent(data: bytes | None) -> int | str:
    for line in (data or b"").decode("utf-8", "replace").splitlines():
        lead = line[: len(line) - len(line.lstrip(" \t"))]
        if lead and line.strip():
            return "\t" if lead[0] == "\t" else len(lead)
    return 2


# -- Merge the lines of three versions of a file, as git does

_MOST_CONFLICTS = 127


@dataclass(frozen=True)
class TextMerge:
    """The result of a merge of lines; ``conflicts`` is None if it is no text."""

    data: bytes
    conflicts: int | None


def merge_text(git: Git, base: bytes, mine: bytes, theirs: bytes) -> TextMerge:
    """Merge; places that both sides changed are marked.

    Raises:
        GitFailed: Git cannot do it.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("mine", "base", "theirs")]
        for file, data in zip(files, (mine, base, theirs), strict=True):
            file.write_bytes(data)
        labels = ("-L", "yours", "-L", "as installed", "-L", "new version")
        result = git.run("merge-file", "-p", "--diff3", *labels, *map(str, files))
    if 0 <= result.rc <= _MOST_CONFLICTS:
        return TextMerge(result.stdout, result.rc)
    if "binary" in result.stderr:
        return TextMerge(mine, None)
    raise result.failure()
