"""The files of a project template that Corral installs; everything else in its repository is ignored."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

CONFIG = ".corral/config.yaml"
MANIFEST = ".corral/template.yaml"
SETTINGS = ".claude/settings.json"
MCP = ".mcp.json"
OLD_MCP = ".claude/mcp.json"
AGENTS = ".claude/agents/"
TASK_TEMPLATES = ".corral/templates/"
_FILES = frozenset({CONFIG, MANIFEST, ".corral/teams.yaml", SETTINGS, MCP, OLD_MCP})
_FOLDERS = (AGENTS, ".claude/skills/", ".claude/commands/", ".claude/hooks/", TASK_TEMPLATES)
MERGED_BY_KEY = frozenset({SETTINGS, MCP})
"""JSON files that a project has in common with others: a template adds to them."""

MOST_FILES = 2000
MOST_BYTES = 20_000_000
"""Bounds of the installed parts together."""


@dataclass(frozen=True)
class Part:
    """One file of a template.

    Attributes:
        kind: ``link`` and ``submodule`` are never installed.
        data: The content; of a link its target.
    """

    data: bytes
    executable: bool = False
    kind: Literal["file", "link", "submodule"] = "file"

    @property
    def sha256(self) -> str:
        """The checksum of the content."""
        return hashlib.sha256(self.data).hexdigest()


Parts = Mapping[str, Part]
"""By path from the template's top, with ``/``."""


def is_part(path: str) -> bool:
    """Whether a template's file of this path is installed, as far as the path tells."""
    return path in _FILES or path.startswith(_FOLDERS) or f"{path}/" in _FOLDERS or path in (".corral", ".claude")


def installed(parts: Parts) -> dict[str, Part]:
    """The parts by their path in a project: the servers of ``.claude/mcp.json`` belong into ``.mcp.json`` there."""
    by_path = {path: part for path, part in parts.items() if path not in (OLD_MCP, MANIFEST)}
    if OLD_MCP in parts:
        by_path.setdefault(MCP, parts[OLD_MCP])
    return by_path


def unsafe_path(path: str) -> str | None:
    """Why a file of this path may not be written; None if it may."""
    pure = PurePosixPath(path)
    if path.startswith("/") or ".." in pure.parts:
        return "leads out of the template"
    if "\\" in path or not path.isprintable() or any(part.lower() == ".git" for part in pure.parts):
        return "is no path that every system can have"
    return None
