"""``corral plugin``."""

from __future__ import annotations

import typer

from corral.cli.help import Grouped
from corral.cli.output import say
from corral.config.paths import bundle_dir

app = typer.Typer(cls=Grouped, help="The Claude Code plugin.", no_args_is_help=True)


@app.command()
def path() -> None:
    """Print the plugin's folder, for `claude --plugin-dir`. Needs no repository."""
    say(str(bundle_dir()))
