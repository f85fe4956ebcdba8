"""Environment variables that mark the processes of tasks, verifications and agent sessions.

A process that removes them is not recognised: between processes of one user there is no hard boundary.
"""

from __future__ import annotations

from collections.abc import Mapping

MARKS = (
    "CORRAL_TASK_ID", "CORRAL_SESSION_ID", "CORRAL_MERGE_ID", "CORRAL_VERIFICATION", "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
)  # fmt: skip
"""Variables set in a worker, a verification or an agent session."""


def of_a_session(environ: Mapping[str, str]) -> str | None:
    """The variable that marks a process of a worker, a verification or an agent session; None: none does."""
    return next((name for name in MARKS if environ.get(name)), None)


def sessions_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the sessions that a process runs in, the one first by which its commands act."""
    return tuple(filter(None, map(environ.get, ("CORRAL_SESSION_ID", "CLAUDE_CODE_SESSION_ID"))))


def started_by_work_of(environ: Mapping[str, str], project: str) -> str | None:
    """The task or verification of a project that a process belongs to; None for other processes.

    Every descendant of a worker inherits the marks.

    Args:
        environ: The environment of the process.
        project: The project's top folder, as its daemon names it.
    """
    if environ.get("CORRAL_PROJECT") != project:
        return None
    if task := environ.get("CORRAL_TASK_ID"):
        return f"Task {task[:8]}"
    return "A verification" if environ.get("CORRAL_VERIFICATION") else None
