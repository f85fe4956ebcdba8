"""Ask Claude Code whether it loads the plugin."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from corral.config.paths import bundle_dir

ANSWER_S = 30.0
"""Time for the client's answer, seconds; usually it takes one."""


def status_of(cwd: Path) -> tuple[str, str, str]:
    """Ask the client on the PATH for its plugins in a folder.

    Returns:
        ``ok`` or ``warning``, the finding, and what to type (empty for ``ok``).
    """
    claude = shutil.which("claude")
    bundle = bundle_dir()
    if claude is None:
        return (
            "warning",
            "`claude` is not on the PATH: no session has the plugin",
            "Install Claude Code, then run ./install.sh",
        )
    try:
        process = subprocess.run(
            [claude, "plugin", "list", "--json"],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=True,
        )
        listed: list[dict[str, Any]] = json.loads(process.stdout)
        copies = [plugin for plugin in listed if str(plugin["id"]).partition("@")[0] == "corral"]
        enabled = [plugin for plugin in copies if plugin.get("enabled")]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, AttributeError) as error:
        return "warning", f"cannot list Claude Code's plugins: {error}", "Run: claude plugin list"
    if enabled:
        return _working(enabled[0])
    if copies:
        return (
            "warning",
            f"Claude Code has {copies[0]['id']}, but it is disabled",
            f"Run: claude plugin enable {copies[0]['id']}",
        )
    return (
        "warning",
        "Claude Code has no plugin `corral`: its sessions are not guarded",
        f"Run ./install.sh again, or start sessions with: claude --plugin-dir {bundle}",
    )


def _working(plugin: dict[str, Any]) -> tuple[str, str, str]:
    if errors := plugin.get("errors"):
        return "warning", f"Claude Code cannot load {plugin['id']}: {errors}", "Run ./install.sh again."
    return "ok", f"Claude Code loads {plugin['id']} {plugin.get('version', '')}".rstrip(), ""
