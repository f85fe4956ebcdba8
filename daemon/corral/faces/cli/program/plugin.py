"""``corral plugin``."""

from __future__ import annotations

from corral.config.paths import bundle_dir
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.output import report

app = Group("The Claude Code plugin.")


@app.command(prints="faces.cli.api.PluginFolder")
def path() -> None:
    """Print the plugin's folder, for `claude --plugin-dir`. Needs no repository."""
    report({"path": str(bundle_dir())}, str(bundle_dir()))
