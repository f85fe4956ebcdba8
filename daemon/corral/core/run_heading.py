"""The heading of a verification's log, for every face. Imports nothing heavy: the command line needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ROLES = {
    "candidate": "the candidate (the change, merged)",
    "control": "the control (the target without the change)",
    "check": "the check of the candidate (the change, merged)",
    "check-control": "the check of the target without the change",
}
_STATES = {"running": "running now", "repeated": "red, and repeated", "unknown": "ended without an outcome"}


def run_heading(run: Mapping[str, Any]) -> str:
    """The heading of a log, from a :class:`corral.work.merges.wire.MergeRun` as it is sent: lines that begin with ``#``."""
    which = f"Run {run['number']}" if run["number"] is not None else "A run"
    if not run["is_own"]:
        which += f" for request {run['merge_id'][:8]}" if run["merge_id"] else " whose request was not recorded"
    of = _ROLES.get(run["role"], "a commit whose role was not recorded")
    commit = f" {run['commit_sha'][:12]}" if run["commit_sha"] else ""
    code = f", exit code {run['exit_code']}" if run["exit_code"] is not None else ""
    end = f", ended at {run['ended_at']}" if run["ended_at"] else ""
    begin = f", began at {run['started_at']}" if run["started_at"] and not end else ""
    decided = " (it decided)" if run["decided"] else ""
    heading = f"{which}, of {of}{commit}: {_STATES.get(run['status'], run['status'])}{code}{end or begin}{decided}"
    commands = "".join(f"\nCommand: {command}" for command in run["commands"])
    if run["log"] and not run["is_kept"]:
        heading += f"\nIts log is not kept any more: {run['log']}"
    elif not run["log"] and run["reason"]:
        heading += f"\n{run['reason']}"
    return "".join(f"# {line}\n" for line in (heading + commands).splitlines())
