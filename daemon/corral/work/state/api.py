"""The shared state of a task: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from corral.core.answers import Instant
from corral.work.tasks.api import Short, StateKey

Version = Annotated[int, Field(ge=0)]


class NewValue(BaseModel):
    """A value to set, any JSON; ``if_version``: only if the key has this version (0: only if it is not there)."""

    key: StateKey = Field(examples=["schema"])
    value: Any = Field(examples=[{"tables": 3}])
    if_version: Version | None = None
    session_id: Short | None = None


class Gone(BaseModel):
    """A key to delete; ``if_version``: only if it has this version."""

    key: StateKey = Field(examples=["schema"])
    if_version: Version | None = Field(None, examples=[2])


class Value(TypedDict):
    """A value that agents share about a task, any JSON; ``version`` counts its changes, ``updated_by`` is a session's id."""

    key: str
    value: Any
    version: int
    updated_by: str | None
    updated_at: Instant


class Deleted(TypedDict):
    """The key that is gone."""

    key: str
    deleted: bool
