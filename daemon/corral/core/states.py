"""The states of every stored noun, and which of them are final."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class _Text(str, Enum):
    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def values(cls) -> tuple[str, ...]:
        """All values in order of declaration, for CHECK constraints."""
        return tuple(member.value for member in cls)


class SessionStatus(_Text):
    """The state of a session."""

    ACTIVE = "active"
    IDLE = "idle"
    DISCONNECTED = "disconnected"


class ShownStatus(_Text):
    """A session's status as users see it: ``stalled`` is an active session without a recent heartbeat."""

    ACTIVE = "active"
    IDLE = "idle"
    STALLED = "stalled"
    DISCONNECTED = "disconnected"


class TaskStatus(_Text):
    """The state of a task."""

    WAITING = "waiting"
    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    DEAD = "dead"


class TaskSort(_Text):
    """The order of a list of tasks."""

    PRIORITY = "priority"
    """Highest first, then oldest first."""
    OLDEST = "oldest"
    NEWEST = "newest"


class AttemptOutcome(_Text):
    """How an attempt at a task ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    FAULTED = "faulted"
    """The machine failed, not the task."""
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    """Corral cut it short, or died while it ran."""
    RETURNED = "returned"
    """The session that had claimed the task ended."""


TERMINAL_TASKS = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.DEAD)
OPEN_TASKS = tuple(status for status in TaskStatus if status not in TERMINAL_TASKS)


class MergeState(_Text):
    """The state of a merge request."""

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
    """The result of a verification."""

    PASSED = "passed"
    FAILED = "failed"
    UNVERIFIED = "unverified"
    ERROR = "error"
    BYPASSED = "bypassed"
    """Nothing ran: a person let it land without a verification."""


class ReceiptRole(_Text):
    """The role of a verification's commit for the request that it ran for."""

    CANDIDATE = "candidate"
    """The request's change, merged with its target."""
    CONTROL = "control"
    """The target without it."""
    CHECK = "check"
    """The candidate, by its check alone."""
    CHECK_CONTROL = "check-control"
    """The target without it, by its check alone."""

    @property
    def is_check(self) -> bool:
        """Whether only the check ran."""
        return self in (ReceiptRole.CHECK, ReceiptRole.CHECK_CONTROL)


class WorktreeState(_Text):
    """The state of an allocated worktree; intent is stored before effect."""

    ALLOCATING = "allocating"
    READY = "ready"
    RECLAIMING = "reclaiming"
    POOLED = "pooled"
    REMOVED = "removed"


LIVE_WORKTREES = (WorktreeState.ALLOCATING, WorktreeState.READY, WorktreeState.RECLAIMING, WorktreeState.POOLED)


class WorktreePurpose(_Text):
    """The purpose of a worktree."""

    TASK = "task"
    SESSION = "session"
    VERIFY = "verify"
    PERSON = "person"


class RunnerName(_Text):
    """The runner of a task."""

    COMMAND = "command"
    CLAUDE = "claude"
    ANTHROPIC = "anthropic"


class Combine(_Text):
    """How the results of several agents at one task become its result."""

    ALL = "all"
    FIRST = "first"
    VOTE = "vote"
    CONCAT = "concat"
    SYNTHESIZE = "synthesize"


class Importance(_Text):
    """The importance of a message; an unread ``urgent`` one holds a session's Stop once."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class RecipientRole(_Text):
    """How a message is addressed to a recipient."""

    TO = "to"
    CC = "cc"
    BCC = "bcc"


class MailWay(_Text):
    """How a message entered its recipient's context."""

    HOOK = "hook"
    WAKE = "wake"
    TURN = "turn"
    PROMPT = "prompt"
    RUNNER = "runner"
    TOOL = "tool"


class FeatureStatus(_Text):
    """Whether a feature's claims count."""

    ACTIVE = "active"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


# -- The phases of an agent's work on a task of the roadmap, each of which leaves a file

PHASES: Mapping[str, str] = {
    "STRATEGIZE": "the goal, the approach, and what was decided against",
    "SPEC": "what must be true when it is done, each point so that it can be checked",
    "PLAN": "the steps, the files, and the order",
    "THINK": "what may go wrong, the cases at the edges, open questions",
    "IMPLEMENT": "what was changed and why",
    "VERIFY": "the commands that were run, and their results",
    "REVIEW": "your own work against the specification: what is missing or weak",
    "MONITOR": "what to watch after it has landed, and how a regression would show",
}
"""Each with what is written of it, in the order of the work."""


def read_phases(value: object) -> list[str]:
    """A list of phases as a person writes it, or a single one, in their order; an empty list is none.

    Raises:
        ValueError: Something else, which is named.
    """
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"must be a list of {', '.join(PHASES)}")
    for word in words:
        if word.upper() not in PHASES:
            raise ValueError(f"unknown phase {word[:40]!r}: use {', '.join(PHASES)}")
    chosen = {word.upper() for word in words}
    return [phase for phase in PHASES if phase in chosen]
