"""The record in ``.corral/metadata.json`` of what ``corral init`` wrote: to undo it, and to detect changes."""

from __future__ import annotations

import json
from typing import Any

from corral.config.paths import Project


def settings(project: Project) -> dict[str, Any] | None:
    """The earlier change of the client's settings; None if there was none."""
    return _recorded(project, "claude_settings")


def local_settings(project: Project) -> dict[str, Any] | None:
    """The earlier change of the person's own settings of the client; None if there was none."""
    return _recorded(project, "claude_local_settings")


def copies(project: Project) -> dict[str, str]:
    """The files that an earlier init copied: path to digest."""
    return _recorded(project, "copies") or {}


def _recorded(project: Project, what: str) -> dict[str, Any] | None:
    try:
        metadata = json.loads((project.home / "metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    value = metadata.get(what) if isinstance(metadata, dict) else None
    return value if isinstance(value, dict) else None
