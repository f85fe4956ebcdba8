"""The daemon itself: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from corral.core.answers import Instant


class Stop(BaseModel):
    """How to stop; ``drain``: running tasks finish first; ``leave_workers``: they go on, and the next daemon follows them."""

    drain: bool = Field(False, examples=[False])
    leave_workers: bool = Field(False, examples=[False])


class PauseOfWork(BaseModel):
    """Why nothing is to be claimed or landed."""

    reason: str | None = Field(
        None, max_length=500, description="Reason, shown by status.", examples=["The release is cut."]
    )


class Health(TypedDict):
    """The process that answers; ``project``: the repository that it serves; ``protocol``: a client needs the same."""

    version: str
    protocol: int
    pid: int
    project: str
    profile: str
    started_at: Instant
    stopping: bool


class Project(TypedDict):
    """The project as clients of Agent Mail know one; ``human_key``: its folder."""

    id: int
    slug: str
    human_key: str
    created_at: Instant


class SettingsInForce(TypedDict):
    """The settings and their sources.

    ``settings``: each section with its settings, whose values are of any type; ``sources``: by dotted key, ``default``, a file
    or a variable; ``profiles``: the profile that set a key, where one did; ``warnings``: what is ignored, and why.
    """

    settings: dict[str, Any]
    sources: dict[str, str]
    profile: str
    profiles: dict[str, str]
    warnings: list[str]


class Stopping(TypedDict):
    """The process that begins to stop."""

    stopping: Literal[True]
    pid: int


class Library(TypedDict):
    """The library that reads the database; ``wal_fault``: a second program that writes to the database could damage it."""

    version: str
    wal_fault: bool


class Database(TypedDict):
    """A database that is whole; ``schema``: the revision of its tables."""

    integrity: Literal["ok"]
    schema: str | None
    library: Library
