"""The blame for a failed attempt: one table, by error code.

A fault of the machine is not counted against the task: the task is tried again after a backoff, and keeps its retries.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Blame(Enum):
    """The party to blame for an error code."""

    TASK = "task"
    """The task: counted, and retried while retries are left."""
    FINAL = "final"
    """The task, and a retry would fail the same way."""
    MACHINE = "machine"
    """The machine: disk, memory, git, database or daemon failed. Not counted, and retried."""


WORKER_LOST = "worker_lost"
DAEMON_DIED = "daemon_died"
DISK_FULL = "disk_full"
OUT_OF_MEMORY = "out_of_memory"
CONVERSATION_LOST = "conversation_lost"
"""The conversation that an attempt was to go on in is gone or was refused: nothing was done, and a new one can begin."""
TARGET_GONE = "target_gone"
"""The branch that a task is to land on was renamed or deleted: the task waits until it is back."""
LIMIT_REACHED = "limit_reached"
"""All workers together used more than a limit allows, and this one was stopped for it."""

BY_ITSELF = frozenset({"command_failed", "api_error", "crashed", "failed"})
"""Ends that a worker came to by itself, perhaps because its worktree was no longer there."""

DIED = frozenset({"killed", "crashed", "agent_killed", OUT_OF_MEMORY, WORKER_LOST, DAEMON_DIED})
"""Ends of workers that died, whoever killed them, or that nobody watches any more: they gave nothing back."""

BLAME: Mapping[str, Blame] = MappingProxyType(
    {
        # Ends of a worker.
        "command_failed": Blame.TASK,
        "api_error": Blame.TASK,
        "timeout": Blame.TASK,
        "stalled": Blame.TASK,
        "memory_limit": Blame.TASK,
        "crashed": Blame.TASK,
        "interrupted": Blame.TASK,
        LIMIT_REACHED: Blame.MACHINE,
        CONVERSATION_LOST: Blame.MACHINE,
        "agent_killed": Blame.TASK,
        # A retry must not multiply a limit that a person set on turns, tokens or money.
        "cancelled": Blame.FINAL,
        "max_turns": Blame.FINAL,
        "budget_exceeded": Blame.FINAL,
        "token_limit": Blame.FINAL,
        "output_limit": Blame.FINAL,
        # By a signal that Corral did not send. The task may have sent it: ``tasks.max_crashes`` bounds the retries.
        "killed": Blame.MACHINE,
        OUT_OF_MEMORY: Blame.MACHINE,
        WORKER_LOST: Blame.MACHINE,
        DAEMON_DIED: Blame.MACHINE,
        # Why a worker was not started, or its work not collected: names of errors. An unlisted error has the blame of
        # its base class, in the end that of ``internal_error``.
        "invalid_input": Blame.FINAL,
        "not_found": Blame.FINAL,
        "runner_unavailable": Blame.FINAL,
        "api_key_unavailable": Blame.MACHINE,
        "unsupported": Blame.FINAL,
        "config_invalid": Blame.FINAL,
        "not_trusted": Blame.MACHINE,
        TARGET_GONE: Blame.MACHINE,
        "setup_failed": Blame.TASK,
        # A task that replaces its own worktree would do it at every retry; a link in place of all worktrees is the
        # machine's fault.
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
    """The blame for an error code; an unknown code is the task's, and is counted."""
    return BLAME.get(code or "", Blame.TASK)


def blame_of_error(error: Exception) -> Blame:
    """The blame for an error, by its nearest base class in the table; an OSError is the machine's."""
    names = (str(vars(kind).get("name")) for kind in type(error).__mro__)
    return next((BLAME[name] for name in names if name in BLAME), Blame.MACHINE)
