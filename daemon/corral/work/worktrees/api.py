"""Worktrees and saved work: what is asked for, and what is answered."""

from __future__ import annotations

from pydantic import Field
from typing_extensions import TypedDict

from corral.coordination.sessions.api import Acting, SessionId
from corral.core.answers import Instant
from corral.core.errors import (
    ConfigInvalid,
    Conflict,
    FolderLinked,
    LimitReached,
    NotTrusted,
    PathReplaced,
    RunnerUnavailable,
    SetupFailed,
    Unsupported,
)
from corral.core.states import WorktreePurpose, WorktreeState

OF_A_WORKTREE = (
    Conflict, LimitReached, PathReplaced, FolderLinked, NotTrusted, ConfigInvalid, SetupFailed, RunnerUnavailable, Unsupported,
)  # fmt: skip
"""What can keep one from being made, or from being made ready to work in."""


class NewWorktree(Acting):
    """A worktree to be made."""

    name: str = Field(
        min_length=1,
        max_length=64,
        description="Name of the folder and, below corral/, of the branch.",
        examples=["login"],
    )
    base: str | None = Field(None, max_length=1024, description="Start at this commit (default: the target's tip).")
    session_id: SessionId | None = Field(None, description="The session that it is for.", examples=["s-1"])


class Worktree(TypedDict):
    """A worktree that Corral made.

    ``port_base``: the first of its ports; ``env``: variables that its commands get; ``note``: what a person should know of it;
    ``salvage_ref``: where what was in it is saved.
    """

    worktree_id: str
    name: str
    path: str
    branch: str | None
    base_sha: str
    purpose: WorktreePurpose
    state: WorktreeState
    task_id: str | None
    session_id: str | None
    port_base: int | None
    note: str | None
    salvage_ref: str | None
    created_at: Instant
    env: dict[str, str]


class RemovedWorktree(Worktree):
    """A worktree that was given back; ``removed`` is false where it had to stay; ``note`` says why, or what was not saved."""

    removed: bool


class RecoveredWorktree(Worktree):
    """A worktree that was made of saved work.

    ``ref``: that; ``ignored_files``: those, ignored by git, that were put there as well, for a person alone; ``aside``: where
    one went that something stood in the way of; ``left_out``: why others had not been saved.
    """

    ref: str
    ignored_files: list[str]
    aside: dict[str, str]
    left_out: dict[str, str]


class SavedWork(TypedDict):
    """The state of a worktree that was saved.

    ``files``: those that its commit changes, or, where it is ``private``, those that git ignores, which only a person sees;
    ``at``: to the second; ``left_out``: why others were not saved.
    """

    name: str
    ref: str
    sha: str
    at: Instant
    reason: str
    files: list[str]
    private: bool
    left_out: dict[str, str]


Recovery = list[SavedWork] | RecoveredWorktree
"""All saved work, or what was made of some."""


class KeptWorktree(TypedDict):
    """A worktree that is kept for the next task; ``note``: why it could not be removed, or was passed over last."""

    name: str
    path: str
    base_sha: str
    size_bytes: int
    kept_at: Instant
    note: str | None


class CountedReason(TypedDict):
    """How often something happened for a reason."""

    reason: str
    count: int


class Pool(TypedDict):
    """The worktrees that are kept for the next tasks, the oldest first, and what became of others since the daemon's start.

    ``most`` and ``most_mb``: its bounds; ``kept``, ``used``: how many were kept, and how many of these served a task;
    ``not_kept``: why worktrees were removed instead, ``not_used``: why new ones were made.
    """

    worktrees: list[KeptWorktree]
    size_bytes: int
    most: int
    most_mb: int
    kept: int
    used: int
    not_kept: list[CountedReason]
    not_used: list[CountedReason]


class PlaceOfWorktrees(TypedDict):
    """The folder in which worktrees are made; ``configured``: `worktrees.root` names it.

    ``passed_over``: why earlier choices were not used; ``finds``: what an upward search from a worktree there finds.
    """

    path: str
    configured: bool
    passed_over: list[str]
    finds: list[str]
    warning: str | None
