"""Locks: what is asked for, and what is answered."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator
from typing_extensions import NotRequired, TypedDict

from corral.coordination.sessions.api import Acting
from corral.core.answers import Instant

MAX_KEYS = 1000
"""Paths in one call."""
EXTEND_S = 1800.0
"""How much longer a renewed lock lasts where nothing else is said."""
MAX_WAIT_S = 3600.0
"""How long one call may wait."""
MOST_COMMITTED = 20_000
"""Files of one commit that are looked at."""
_SESSION = Field(None, max_length=128, description="For whom; by default the person at the keyboard.")


class Keys(Acting):
    """Paths, globs and logical keys."""

    paths: list[str] = Field(
        default_factory=list,
        max_length=MAX_KEYS,
        description="Paths, globs, or logical keys such as 'api:GET /v1/users'.",
        examples=[["src/api/**", "api:GET /v1/users", "db:schema:users"]],
    )
    file_path: str | None = Field(None, description="One more of them.")
    file_paths: list[str] = Field(default_factory=list, max_length=MAX_KEYS, description="Another word for `paths`.")
    session_id: str | None = _SESSION

    @model_validator(mode="after")
    def _one_list(self) -> Keys:
        if self.file_path is not None or self.file_paths:
            self.paths = [*self.paths, *self.file_paths, *([] if self.file_path is None else [self.file_path])]
        return self


class Acquisition(Keys):
    """What to reserve, all or none."""

    ttl_s: float | None = Field(None, description="Lifetime of the lock, 1 s to 30 days (default: locks.ttl_s).")
    exclusive: bool = Field(True, description="Whether others are kept from it; else they may share it.")
    reason: str | None = Field(None, max_length=2000, description="Reason, shown to others.")
    wait_s: float = Field(0.0, ge=0, le=MAX_WAIT_S, description="Wait in the queue at most this long for all paths.")
    each: bool = Field(False, description="Lock the free paths and list the rest.")


class Commit(Acting):
    """The files of a commit that is about to be made in a checkout.

    It is answered also to a caller who may not act for that session, as for their own: a guard without an answer lets all pass.
    """

    ONLY_ASKS: ClassVar[bool] = True
    checkout: str = Field(min_length=1, max_length=4096, description="The top folder of the checkout.")
    paths: list[str] = Field(max_length=MOST_COMMITTED, description="Relative to it.")
    session_id: str | None = _SESSION


class Named(Keys):
    """Locks by what they are on, or by their ids."""

    lock_ids: list[str] = Field(default_factory=list, max_length=MAX_KEYS, description="Their ids.")


class Release(Named):
    """What to give up."""

    caller: str | None = Field(
        None, max_length=128, description="The session that asks, where it is not the one whose locks they are."
    )


class Renewal(Named):
    """The locks to extend, all or none; nothing named: all that the session has reserved."""

    extend_s: float = Field(EXTEND_S, description="Time to add.")


class Force(Named):
    """What to take from a holder who is gone."""

    note: str = Field("", max_length=2000, description="Message for the former holder.")
    notify: bool = Field(default=True, description="Whether the former holder is told.")
    certain: bool = Field(False, description="Also release locks of a live session; only for a person.")

    @property
    def is_for_a_person(self) -> bool:
        """Whether only a person may ask for it."""
        return self.certain


class Lock(TypedDict):
    """A live lock; ``automatic``: the daemon took it for an edit; ``checkout``: it counts there alone."""

    lock_id: str
    file_path: str
    locked_by: str | None
    session_id: str
    task_id: str | None
    exclusive: bool
    automatic: bool
    checkout: str | None
    reason: str | None
    acquired_at: Instant
    expires_at: Instant


class Conflict(TypedDict):
    """What keeps somebody from a lock; ``waiting``: its holder is in the queue before."""

    requested: str
    file_path: str
    holder: str
    session_id: str
    task: str
    task_id: str | None
    reason: str | None
    exclusive: bool
    automatic: bool
    waiting: bool
    checkout: str | None
    expires_at: Instant
    expires_in_s: float


class Acquired(TypedDict):
    """The locks that were taken; ``conflicts``: with ``each``, what was not free."""

    success: bool
    locks: list[Lock]
    conflicts: NotRequired[list[Conflict]]


class RenewedLock(Lock):
    """A lock that lasts longer now."""

    old_expires_at: Instant


class Renewed(TypedDict):
    """The locks that last longer; ``left_out``: how many more there are."""

    success: bool
    locks: list[RenewedLock]
    left_out: NotRequired[int]


class ForcedLock(Lock):
    """A lock that was taken from its holder, when that was last seen, and why it counts as gone."""

    last_agent_activity_at: Instant | None
    last_mail_activity_at: Instant | None
    last_filesystem_activity_at: Instant | None
    last_git_activity_at: Instant | None
    stale_reasons: list[str]


class Forced(TypedDict):
    """The locks that were taken from their holders."""

    success: bool
    released: list[ForcedLock]


class Released(TypedDict):
    """The paths and keys that were given up."""

    success: bool
    released: list[str]


class Checked(TypedDict):
    """Whether a path or key is locked for the one who asks, and by what; ``left_out``: there is more than is listed."""

    file_path: str
    locked: bool
    conflicts: list[Conflict]
    left_out: NotRequired[bool]


class HeldFile(TypedDict):
    """A file of a commit that another session holds; ``task``: what for."""

    path: str
    held_by: str
    session_id: str
    task: str | None
    automatic: bool
    expires_at: Instant


class CommitChecked(TypedDict):
    """The files of a commit that others hold; ``enforcement``: as in the settings."""

    enforcement: str
    held: list[HeldFile]
