"""What the environment of a process says about who started it."""

from __future__ import annotations

from collections.abc import Mapping


def started_by_work_of(environ: Mapping[str, str], project: str) -> str | None:
    """What of a project's own work a process belongs to: its task or its verification; None for everybody else's.

    Every descendant of a worker inherits the marks. One that takes them out of its environment is not known by this: between
    processes of one user there is no hard boundary.

    Args:
        environ: What the process was started with.
        project: The project's top folder, as its daemon names it.
    """
    if environ.get("CORRAL_PROJECT") != project:
        return None
    if task := environ.get("CORRAL_TASK_ID"):
        return f"Task {task[:8]}"
    return "A verification" if environ.get("CORRAL_VERIFICATION") else None
