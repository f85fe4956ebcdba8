"""``corral hook EVENT``: the plugin's hook script, for a hook that must work wherever Corral is installed."""

from __future__ import annotations

import os
import sys

from corral.config.paths import bundle_dir


def run_script(arguments: list[str]) -> None:
    """Become the hook script; does not return."""
    script = os.fspath(bundle_dir() / "hooks" / "hook.py")
    os.execv(sys.executable, [sys.executable, "-I", "-S", script, *arguments])
