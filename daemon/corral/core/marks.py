"""Environment variables that mark the processes of a project's tasks and verifications."""

from __future__ import annotations

from collections.abc import Mapping


def started_by_work_of(environ: Mapping[str, str], project: str) -> str | None:
    """The task or verification of a project that a process belongs to; None for other processes.

    Every descendant of a worker inherits the marks. A process that removes them from its environment is not recognised:
    between processes of one user there is no hard boundary.

    Args:
        environ: The environment of the process.
        project: The project's top folder, as its daemon names it.
    """
    if environ.get("CORRAL_PROJECT") != project:
        return None
    if task := environ.get("CORRAL_TASK_ID"):
        return f"Task {task[:8]}"
    return "A verification" if environ.get("CORRAL_VERIFICATION") else None
