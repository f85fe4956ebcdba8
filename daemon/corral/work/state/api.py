"""The shared state of a task: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from corral.core.answers import Instant
from corral.work.tasks.api import Short, StateKey

Version = Annotated[int, Field(ge=0, description="Only if the key has this version; 0: is new.")]
Key = Annotated[StateKey, Field(description="A key.")]


class NewValue(BaseModel):
    """A value to set."""

    key: Key = Field(examples=["schema"])
    value: Any = Field(description="A JSON value.", examples=[{"tables": 3}])
    if_version: Version | None = None
    session_id: Short | None = Field(None, description="The session that sets it.")


class Gone(BaseModel):
    """A key to delete."""

    key: Key = Field(examples=["schema"])
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
