"""The agent and the skill that ``corral init`` copies into ``.claude/``, because prompts name them without ``corral:``.

The plugin's own are called ``corral:task-execution``; a prompt that says ``/task-execution`` or
``subagent_type="OpenCode-Builder"`` means one of the project. The agent sends code to another provider: it is written
only if a person asked for it. Files that are not ours are never touched; ours are recorded by digest, and renewed or
removed only if unchanged.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.config.paths import bundle_dir

OPENCODE = ".claude/agents/OpenCode-Builder.md"
COPIES = {
    OPENCODE: OPENCODE,
    ".claude/skills/task-execution/SKILL.md": "skills/task-execution/SKILL.md",
}
"""Path in a project: path in the plugin."""


@dataclass(frozen=True)
class Copies:
    """The files to copy, by destination, and notes for the person."""

    texts: Mapping[Path, str]
    remarks: tuple[str, ...] = ()


def plan(root: Path, recorded: Mapping[str, str], *, with_opencode: bool) -> Copies:
    """Find the copies that are missing, or ours and outdated.

    Args:
        root: The main checkout.
        recorded: By path, the digest of what an earlier ``corral init`` wrote there.
        with_opencode: Whether a person asked for :data:`OPENCODE`; an existing copy is renewed anyway.
    """
    texts: dict[Path, str] = {}
    remarks: list[str] = []
    for name, source in COPIES.items():
        file = root / name
        if name == OPENCODE and not with_opencode and not os.path.lexists(file):
            continue
        text = (bundle_dir() / source).read_text(encoding="utf-8")
        if not file.parent.resolve().is_relative_to(root.resolve()):
            remarks.append(f"{name} would be outside the repository; skipped.")
        elif not file.exists() and not file.is_symlink():
            texts[file] = text
        elif (current := _digest_of(file)) != digest(text):
            if current is not None and current == recorded.get(name):
                texts[file] = text
            else:
                remarks.append(f"{name} is not Corral's, or was changed; it stays as it is.")
    return Copies(texts, tuple(remarks))


def unchanged(root: Path, recorded: Mapping[str, str]) -> list[Path]:
    """The copies that nobody changed."""
    return [root / name for name in COPIES if name in recorded and _digest_of(root / name) == recorded[name]]


def record(root: Path, copies: Copies, recorded: Mapping[str, str]) -> dict[str, str]:
    """The record of the copies (JSON-serialisable)."""
    return {**recorded, **{file.relative_to(root).as_posix(): digest(text) for file, text in copies.texts.items()}}


def digest(text: str) -> str:
    """The digest that identifies a copy."""
    return hashlib.sha256(text.encode()).hexdigest()


def _digest_of(file: Path) -> str | None:
    """The digest of a file; None if it is no plain readable file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() if not file.is_symlink() else None
    except OSError:
        return None
