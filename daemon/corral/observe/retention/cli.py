"""``corral gc``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request, asks
from corral.faces.cli.parsing import Exit, Option
from corral.faces.cli.terminal.options import client
from corral.faces.cli.terminal.output import echo, paint, printed
from corral.faces.cli.terminal.person import confirm

TIMEOUT_S = 150.0


@asks("POST /gc", Field("dry_run", "--dry-run"), "unlanded", "yes")
def gc(
    request: Request,
    unlanded: Annotated[
        bool, Option("--unlanded", help="Also delete old saved work that nothing else has; asks first.")
    ] = False,
    yes: Annotated[bool, Option("--yes", help="Do not ask about --unlanded.")] = False,
) -> None:
    """Delete finished data that is older than the retention settings; say what went and what is kept.

    Open work, unread mail and unlanded work stay, however old they are. The daemon does the same every hour. Exits with 1 if
    something could not be deleted.
    """
    if unlanded:
        request["forget"] = _refs_to_forget(yes, request["dry_run"])
    result = request.send(timeout_s=TIMEOUT_S)
    if not printed(result):
        _show(result)
    if result["problems"]:
        raise Exit(1)


def _refs_to_forget(yes: bool, dry_run: bool) -> list[str]:
    """The saved states that a person agrees to lose."""
    plan = client().request("POST", "/gc", {"dry_run": True}, timeout_s=TIMEOUT_S)
    refs = [ref for group in plan["kept"] for ref in group["refs"]]
    names = [str(ref["ref"]) for ref in refs]
    if not refs or dry_run:
        return names
    for ref in refs:
        print(f"{ref['created_at'][:10]}  {ref['sha'][:12]}  {one_line(ref['ref'])}", file=sys.stderr)
    agreed = yes or confirm(f"Delete {len(refs)} saved states? Nothing else has this work.", default=False)
    return names if agreed else []


def _show(result: Mapping[str, Any]) -> None:
    verb = "would go" if result["dry_run"] else "deleted"
    for group in result["removed"]:
        echo(f"{group['kind']:<10} {group['count']:>7}  {verb}")
    if not result["removed"] and not result["problems"]:
        echo("Nothing is old enough to go.")
    for group in result["kept"]:
        echo(paint(f"{group['kind']:<10} {group['count']:>7}  kept: {group['reason']}", "dim"))
        for ref in group["refs"]:
            echo(paint(f"  {ref['created_at'][:10]}  {ref['sha'][:12]}  {one_line(ref['ref'])}", "dim"))
    if result["freed_bytes"]:
        echo(f"{result['freed_bytes'] / 1e6:.1f} MB {'would be ' if result['dry_run'] else ''}freed.")
    if result["more"]:
        echo("There is more to delete: run it again, or let the daemon's hourly job go on.")
    for part, reason in result["problems"].items():
        echo(paint(f"{part} could not be deleted: {one_line(reason)}", "yellow"))
