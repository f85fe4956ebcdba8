"""``corral pause`` and ``corral resume``: stop and continue claiming and landing."""

from __future__ import annotations

from typing import Annotated

import typer

from corral.cli.terminal.options import Json, client
from corral.cli.terminal.output import emit, say


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("pause")(pause)
    app.command("resume")(resume)


def pause(
    reason: Annotated[str | None, typer.Option("--reason", help="Why; shown by status.", metavar="TEXT")] = None,
    as_json: Json = False,
) -> None:
    """Claim and land nothing until `corral resume`. What runs goes on; sessions stay guarded; restarts keep it."""
    answer = client().request("POST", "/pause", {"reason": reason})
    if as_json:
        emit(answer)
    else:
        say("paused: nothing is claimed or landed until `corral resume`")


def resume(as_json: Json = False) -> None:
    """Continue to claim and land."""
    answer = client().request("POST", "/resume")
    if as_json:
        emit(answer)
    else:
        say("work goes on" if answer["was_paused"] else "It was not paused.")
