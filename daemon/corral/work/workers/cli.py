"""``corral pause`` and ``corral resume``: stop and continue claiming and landing."""

from __future__ import annotations

from typing import Annotated

from corral.faces.cli.terminal.options import client, command, option
from corral.faces.cli.terminal.output import report


@command(prints="work.workers.api.Paused")
def pause(reason: Annotated[str | None, option("--reason", "Reason, shown by status.", "TEXT")] = None) -> None:
    """Pause claiming and landing until `corral resume`. Running tasks continue; the pause survives restarts."""
    answer = client().request("POST", "/pause", {"reason": reason})
    report(answer, "paused: nothing is claimed or landed until `corral resume`")


@command(prints="work.workers.api.Resumed")
def resume() -> None:
    """Resume claiming and landing."""
    answer = client().request("POST", "/resume")
    report(answer, "resumed" if answer["was_paused"] else "Corral was not paused.")
