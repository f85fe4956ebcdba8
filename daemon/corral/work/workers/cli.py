"""``corral pause`` and ``corral resume``: stop and continue claiming and landing."""

from __future__ import annotations

from corral.faces.cli.asking import Field, Request, asks
from corral.faces.cli.terminal.output import report


@asks("POST /pause", Field("reason", "--reason", "TEXT"))
def pause(request: Request) -> None:
    """Pause claiming and landing until `corral resume`. Running tasks continue; the pause survives restarts."""
    report(request.send(), "paused: nothing is claimed or landed until `corral resume`")


@asks("POST /resume")
def resume(request: Request) -> None:
    """Resume claiming and landing."""
    answer = request.send()
    report(answer, "resumed" if answer["was_paused"] else "Corral was not paused.")
