"""What ``corral init`` copies into ``.claude/``: the agent and the skill that prompts name without the plugin's name before them.

A plugin's are called ``corral:task-execution``; who says ``/task-execution`` or ``subagent_type="OpenCode-Builder"`` means
one of the project's own. The agent sends code to another provider: it is written only for a person who asked for it. What stands
there and is not ours is never touched; ours is recorded by its digest, so that it is renewed and taken out only where nobody
changed it.
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
"""Where each goes in a project, and where it is in the plugin."""


@dataclass(frozen=True)
class Copies:
    """What is to be copied, by the file it becomes, and remarks for the person."""

    texts: Mapping[Path, str]
    remarks: tuple[str, ...] = ()


def plan(root: Path, recorded: Mapping[str, str], *, with_opencode: bool) -> Copies:
    """Work out what is missing, or is ours and of an older version.

    Args:
        root: The main checkout.
        recorded: By path, the digest of what an earlier ``corral init`` wrote there.
        with_opencode: Whether a person asked for :data:`OPENCODE`; one that is there already is renewed all the same.
    """
    texts: dict[Path, str] = {}
    remarks: list[str] = []
    for name, source in COPIES.items():
        file = root / name
        if name == OPENCODE and not with_opencode and not os.path.lexists(file):
            continue
        text = (bundle_dir() / source).read_text(encoding="utf-8")
        if not file.parent.resolve().is_relative_to(root.resolve()):
            remarks.append(f"{name} would lie outside of the repository; it is left out.")
        elif not file.exists() and not file.is_symlink():
            texts[file] = text
        elif (found := _digest_of(file)) != digest(text):
            if found is not None and found == recorded.get(name):
                texts[file] = text
            else:
                remarks.append(f"{name} is not Corral's, or was changed; it stays as it is.")
    return Copies(texts, tuple(remarks))


def unchanged(root: Path, recorded: Mapping[str, str]) -> list[Path]:
    """Those that were copied, and that nobody changed since."""
    return [root / name for name in COPIES if name in recorded and _digest_of(root / name) == recorded[name]]


def record(root: Path, copies: Copies, recorded: Mapping[str, str]) -> dict[str, str]:
    """What must be remembered of the copies (JSON-serialisable)."""
    return {**recorded, **{file.relative_to(root).as_posix(): digest(text) for file, text in copies.texts.items()}}


def digest(text: str) -> str:
    """What a copy is known by."""
    return hashlib.sha256(text.encode()).hexdigest()


def _digest_of(file: Path) -> str | None:
    """None: it is not a plain file that can be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() if not file.is_symlink() else None
    except OSError:
        return None
