"""``corral plugin``."""

from __future__ import annotations

from typing import Annotated

from corral.config.paths import bundle_dir
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.options import json_of
from corral.faces.cli.terminal.output import report

app = Group("The Claude Code plugin.")


@app.command()
def path(as_json: Annotated[bool, json_of("faces.cli.api.PluginFolder")] = False) -> None:
    """Print the plugin's folder, for `claude --plugin-dir`. Needs no repository."""
    report({"path": str(bundle_dir())}, str(bundle_dir()), as_json=as_json)
