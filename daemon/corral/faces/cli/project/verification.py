"""Run the verification commands in a fresh worktree, and explain what is missing there."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corral.client.connection import Client
from corral.core.errors import CorralError
from corral.core.log_files import DRY_RUN_LOG
from corral.core.redaction import redact
from corral.core.visible import one_line
from corral.faces.cli.terminal.output import echo, paint
from corral.faces.cli.terminal.progress import Progress, progress

INCLUDE_FILE = ".worktreeinclude"
DECLARED_ONLY = (
    "Modules that nothing declares may be among them. To install what the lock file names instead, set "
    "worktrees.setup: [recipe] in .corral/config.yaml."
)
"""The remedy where dependencies were copied from the checkout."""
INIT_LIMIT_S = 20.0
"""Time limit of the run in ``corral init``, which must finish within half a minute."""
_LOOK_S = 0.5
"""Between two looks at the output of a dry run, seconds."""


def dry_run(client: Client, timeout_s: float) -> dict[str, Any]:
    """Have the daemon run the commands on the target's tip in a fresh worktree.

    Args:
        timeout_s: Seconds.
    """
    with progress("making a fresh worktree for the verification") as update, _showing(client, update):
        answer = client.request("POST", "/verification/dry-run", {"timeout_s": timeout_s}, timeout_s=timeout_s + 120)
    assert isinstance(answer, dict)
    return answer


@contextmanager
def _showing(client: Client, update: Progress) -> Iterator[None]:
    """Show which command of the dry run runs, and the last whole line of its output."""
    log, began, ended = client.project.logs_dir / DRY_RUN_LOG, time.time(), threading.Event()

    def follow() -> None:
        command, last, rest, offset = "", "", b"", 0
        while not ended.wait(_LOOK_S):
            try:
                with log.open("rb") as file:
                    if os.fstat(file.fileno()).st_mtime < began:  # of an earlier run
                        continue
                    file.seek(offset)
                    *lines, rest = (rest + file.read()).split(b"\n")
                    offset = file.tell()
            except OSError:
                continue  # the commands have not begun
            for line in (one_line(redact(line.decode("utf-8", "replace"))).strip() for line in lines):
                command, last = (line[2:], "") if line.startswith("$ ") else (command, line or last)
            update(f"running {command}" + (f": {last}" if last else ""))

    follower = threading.Thread(target=follow, name="follow-dry-run", daemon=True)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join()


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
        return (
            "Correct landing.verify in .corral/config.yaml and commit it, or the target; what the commands need is installed by "
            f"`worktrees.setup`. Full output: {result['log']}"
        )
    if result["needed"]:
        return "With these files it passes: " + "; ".join(parts)
    return f"It may need files that only the main checkout has: {'; '.join(parts)}. Full output: {result['log']}"


def report(client: Client) -> None:
    """Run the commands that ``corral init`` was given and report the result; a failure does not fail init."""
    echo(f"  Running the verification in a fresh worktree, for {INIT_LIMIT_S:g} s at most …")
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
    if result["unfinished"]:
        echo(paint(f"  {one_line(result['reason'])} Nothing is known about whether it passes.", "yellow"))
        echo("  To run it to its end: corral doctor --verify")
        return
    echo(paint("  The verification fails in a fresh worktree, so nothing would land:", "red"))
    for line in str(result["reason"]).splitlines():
        echo(f"      {line}")
    echo(f"  {remedy(result)}")
    echo(f"  Then try again, without the limit of {INIT_LIMIT_S:g} s: corral doctor --verify")
