"""``corral plugin``."""

from __future__ import annotations

import typer

from corral.cli.help import Grouped
from corral.cli.terminal.options import Json
from corral.cli.terminal.output import echo, emit
from corral.config.paths import bundle_dir

app = typer.Typer(cls=Grouped, help="The Claude Code plugin.", no_args_is_help=True)


@app.command()
def path(as_json: Json = False) -> None:
    """Print the plugin's folder, for `claude --plugin-dir`. Needs no repository."""
    if as_json:
        emit({"path": str(bundle_dir())})
    else:
        echo(str(bundle_dir()))
