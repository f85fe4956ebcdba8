"""``corral hook EVENT``: run the plugin's hook script, wherever Corral is installed."""

from __future__ import annotations

import os
import sys

from corral.config.paths import bundle_dir


def run_script(arguments: list[str]) -> None:
    """Replace this process with the hook script."""
    script = os.fspath(bundle_dir() / "hooks" / "hook.py")
    os.execv(sys.executable, [sys.executable, "-I", "-S", script, *arguments])
