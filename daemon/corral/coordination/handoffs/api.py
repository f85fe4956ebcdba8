"""Handoffs: what is asked for, and what is answered."""

from __future__ import annotations

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from corral.coordination.sessions.api import Acting
from corral.core.answers import Instant

Items = list[str] | str | None


class NewHandoff(Acting):
    """A note that one session leaves for the next. A list may also be a text with an item on each line."""

    summary: str = Field(
        description="State of the work.", examples=["The login works; the password reset is half done."]
    )
    completed_work: Items = Field(None, description="Completed work.")
    in_progress: Items = Field(None, description="Work in progress.")
    decisions: Items = Field(None, description="A decision and its reason.")
    next_steps: Items = Field(None, description="The next step.", examples=[["Mail the token"]])
    relevant_files: Items = Field(None, description="A relevant file.")
    session_id: str | None = Field(None, max_length=128, description="Its author; none: the person.")


class Handoff(TypedDict):
    """A note that one session left for the next; ``automatic``: Corral wrote it when the session ended."""

    handoff_id: str
    agent_name: str
    session_id: str
    automatic: bool
    summary: str
    completed_work: list[str]
    in_progress: list[str]
    decisions: list[str]
    next_steps: list[str]
    relevant_files: list[str]
    worktree: str | None
    branch: str | None
    created_at: Instant


class Handoffs(TypedDict):
    """Handoffs, the newest first; ``left_out``: not all of them fit."""

    handoffs: list[Handoff]
    left_out: NotRequired[bool]


class Written(TypedDict):
    """The handoff that was left."""

    success: bool
    handoff_id: str
