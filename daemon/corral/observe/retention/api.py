"""Deleting old data: what is asked for, and what is answered."""

from __future__ import annotations

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from corral.core.answers import Instant


class CollectionWanted(BaseModel):
    """How to delete."""

    dry_run: bool = Field(False, description="Only show what would go.", examples=[True])
    forget: list[str] = Field(
        [],
        max_length=1000,
        description="Saved states, by their refs, that go although nothing else has their work.",
        examples=[[]],
    )


class Removed(TypedDict):
    """How much of a kind of data went or would go: rows, files or refs."""

    kind: str
    count: int


class SavedState(TypedDict):
    """Work that was saved before its worktree went."""

    ref: str
    sha: str
    created_at: Instant


class Kept(Removed):
    """How much of a kind of data is old enough and stays, and why; ``refs``: the first of the saved states that stay."""

    reason: str
    refs: list[SavedState]


class Collected(TypedDict):
    """What went or would go, and what stays.

    ``freed_bytes``: of files and pages of the database; ``more``: there is more to delete; ``problems``: what could not be
    deleted, and why, by part.
    """

    dry_run: bool
    removed: list[Removed]
    kept: list[Kept]
    freed_bytes: int
    more: bool
    problems: dict[str, str]
