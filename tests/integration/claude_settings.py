"""A project's `.claude/settings.json`, and what stands in it."""

from __future__ import annotations

import json
from pathlib import Path

OWN_HOOK = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo mine"}]}
SETTINGS = {"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Read(.env)"]}, "hooks": {"PreToolUse": [OWN_HOOK]}}


def settings_of(root: Path) -> Path:
    return root / ".claude" / "settings.json"


def write_settings(root: Path, text: str) -> bytes:
    settings_of(root).parent.mkdir(exist_ok=True)
    settings_of(root).write_bytes(text.encode())
    return text.encode()


def hook_command(root: Path, event: str) -> str:
    (group,) = json.loads(settings_of(root).read_text())["hooks"][event]
    return str(group["hooks"][0]["command"])
