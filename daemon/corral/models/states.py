"""The states of every stored noun, and which of them are final."""

from __future__ import annotations

from enum import Enum


class _Text(str, Enum):
    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def values(cls) -> tuple[str, ...]:
        """All values in order of declaration, for CHECK constraints."""
        return tuple(member.value for member in cls)


class SessionStatus(_Text):
    """Where a session stands."""

    ACTIVE = "active"
    IDLE = "idle"
    DISCONNECTED = "disconnected"


class ShownStatus(_Text):
    """A session's status as every surface shows it: ``stalled`` is an active one that gave no sign for long."""

    ACTIVE = "active"
    IDLE = "idle"
    STALLED = "stalled"
    DISCONNECTED = "disconnected"


class TaskStatus(_Text):
    """Where a task stands (requirements, decision 2)."""

    WAITING = "waiting"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    DEAD = "dead"


TERMINAL_TASKS = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.DEAD)


class MergeState(_Text):
    """Where a merge request stands."""

    QUEUED = "queued"
    VERIFYING = "verifying"
    HELD = "held"
    LANDED = "landed"
    CONFLICT = "conflict"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"


OPEN_MERGES = (MergeState.QUEUED, MergeState.VERIFYING, MergeState.HELD)
RETURNED_MERGES = (MergeState.CONFLICT, MergeState.FAILED)


class ReceiptStatus(_Text):
    """What a verification proved about one tree."""

    PASSED = "passed"
    FAILED = "failed"
    UNVERIFIED = "unverified"
    ERROR = "error"


class WorktreeState(_Text):
    """Where an allocated worktree stands; intent is stored before effect."""

    ALLOCATING = "allocating"
    READY = "ready"
    RECLAIMING = "reclaiming"
    REMOVED = "removed"


class WorktreePurpose(_Text):
    """What a worktree is for."""

    TASK = "task"
    SESSION = "session"
    VERIFY = "verify"
    PERSON = "person"


class RunnerName(_Text):
    """What executes a task."""

    COMMAND = "command"
    CLAUDE = "claude"


class Importance(_Text):
    """How much a message wants to be read; an unread ``urgent`` one holds a session's Stop once."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class RecipientRole(_Text):
    """How a message is addressed to somebody."""

    TO = "to"
    CC = "cc"
    BCC = "bcc"


class FeatureStatus(_Text):
    """Whether a feature's claims count."""

    ACTIVE = "active"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
