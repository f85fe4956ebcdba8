"""Whose fault it is that an attempt ended badly: one table, by error code.

What the machine did wrong is not counted against the task: the task comes back after a backoff, and keeps its retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Blame(Enum):
    """What an error code says about the task."""

    TASK = "task"
    """The task's own: counted, and tried again while retries are left."""
    FINAL = "final"
    """The task's own, and another attempt would only meet it again."""
    MACHINE = "machine"
    """Nothing: disk, memory, git, database or daemon failed. Not counted, and tried again."""


WORKER_LOST = "worker_lost"
DAEMON_DIED = "daemon_died"
DISK_FULL = "disk_full"
OUT_OF_MEMORY = "out_of_memory"

BLAME: Mapping[str, Blame] = MappingProxyType(
    {
        # How a worker ended.
        "command_failed": Blame.TASK,
        "api_error": Blame.TASK,
        "timeout": Blame.TASK,
        "stalled": Blame.TASK,
        "memory_limit": Blame.TASK,
        "crashed": Blame.TASK,
        "interrupted": Blame.TASK,
        # A limit that a person set on turns, tokens or money is not multiplied by trying again.
        "cancelled": Blame.FINAL,
        "max_turns": Blame.FINAL,
        "budget_exceeded": Blame.FINAL,
        "token_limit": Blame.FINAL,
        # By a signal that Corral did not send. The task may have done it itself: ``tasks.max_crashes`` bounds it.
        "killed": Blame.MACHINE,
        OUT_OF_MEMORY: Blame.MACHINE,
        WORKER_LOST: Blame.MACHINE,
        DAEMON_DIED: Blame.MACHINE,
        # Why a worker was not started, or its work not brought in: names of errors. An error that is not named has the
        # blame of the class that it is made from, at last that of ``internal_error``.
        "invalid_input": Blame.FINAL,
        "not_found": Blame.FINAL,
        "runner_unavailable": Blame.FINAL,
        "unsupported": Blame.FINAL,
        "config_invalid": Blame.FINAL,
        "not_trusted": Blame.MACHINE,
        "setup_failed": Blame.TASK,
        # A task that replaces its own worktree would do so for ever; a link in the place of all worktrees is the machine's.
        "path_replaced": Blame.TASK,
        "folder_linked": Blame.MACHINE,
        DISK_FULL: Blame.MACHINE,
        "out_of_resources": Blame.MACHINE,
        "git_failed": Blame.MACHINE,
        "not_a_project": Blame.MACHINE,
        "conflict": Blame.MACHINE,
        "database_unavailable": Blame.MACHINE,
        "os_error": Blame.MACHINE,
        "internal_error": Blame.MACHINE,
    }
)


def blame_of(code: str | None) -> Blame:
    """Whose fault an error code is; one that is not known is the task's, and is counted."""
    return BLAME.get(code or "", Blame.TASK)


def blame_of_error(error: Exception) -> Blame:
    """Whose fault an error is, by the nearest class of it that the table names; one of the system's is the machine's."""
    names = (str(vars(kind).get("name")) for kind in type(error).__mro__)
    return next((BLAME[name] for name in names if name in BLAME), Blame.MACHINE)
