"""Run the verification commands in a fresh worktree, and explain what is missing there."""

from __future__ import annotations

from typing import Any

from corral.client.connection import Client
from corral.core.errors import CorralError
from corral.faces.cli.terminal.output import echo, paint
from corral.faces.cli.terminal.progress import progress

INCLUDE_FILE = ".worktreeinclude"
DECLARED_ONLY = (
    "Modules that nothing declares may be among them. To install what the lock file names instead, set "
    "worktrees.setup: [recipe] in .corral/config.yaml."
)
"""The remedy where dependencies were copied from the checkout."""
INIT_LIMIT_S = 20.0
"""Time limit of the run in ``corral init``, which must finish within half a minute."""


def dry_run(client: Client, timeout_s: float) -> dict[str, Any]:
    """Have the daemon run the commands on the target's tip in a fresh worktree.

    Args:
        timeout_s: Seconds.
    """
    with progress("running the verification in a fresh worktree"):
        answer = client.request("POST", "/verification/dry-run", {"timeout_s": timeout_s}, timeout_s=timeout_s + 120)
    assert isinstance(answer, dict)
    return answer


def remedy(result: dict[str, Any]) -> str:
    """The remedy after a dry run that did not pass at once."""
    files = result["needed"] or result["suspected"]
    ignored = [file["path"] for file in files if file["ignored"]]
    uncommitted = [file["path"] for file in files if not file["ignored"]]
    parts = []
    if ignored:
        lines = " ".join(f"'{path}'" for path in ignored)
        add = f"printf '%s\\n' {lines} >> {INCLUDE_FILE}"
        add += f" && git add {INCLUDE_FILE} && git commit -m 'Name files for worktrees' -- {INCLUDE_FILE}"
        parts.append(f"add the files that git ignores to {INCLUDE_FILE}, and commit it: {add}")
    if uncommitted:
        parts.append("commit the uncommitted files: git add -- " + " ".join(f"'{path}'" for path in uncommitted))
    if not parts:
        return f"Correct landing.verify in .corral/config.yaml, or the target; full output: {result['log']}"
    if result["needed"]:
        return "With these files it passes: " + "; ".join(parts)
    return f"It may need files that only the main checkout has: {'; '.join(parts)}. Full output: {result['log']}"


def report(client: Client) -> None:
    """Run the commands that ``corral init`` was given and report the result; a failure does not fail init."""
    echo("  Running the verification in a fresh worktree …")
    try:
        result = dry_run(client, INIT_LIMIT_S)
    except CorralError as error:
        echo(paint(f"  Could not run the verification: {error.message} {error.remedy}", "yellow"))
        return
    if result["status"] == "passed" and not result["needed"]:
        echo(paint("  The verification passes in a fresh worktree.", "green"))
        if result["note"]:
            echo(f"  It ran with {result['note']}. {DECLARED_ONLY}")
        return
    echo(paint("  The verification fails in a fresh worktree, so nothing would land:", "red"))
    for line in str(result["reason"]).splitlines():
        echo(f"      {line}")
    echo(f"  {remedy(result)}")
    echo("  Then try again, without the limit of 20 s: corral doctor --verify")
