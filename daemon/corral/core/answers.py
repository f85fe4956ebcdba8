"""What the types of answers have in common. An answer is a TypedDict: a handler returns a plain dict that mypy has read."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import GetPydanticSchema, WithJsonSchema
from pydantic_core import core_schema
from typing_extensions import TypedDict

Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""UTC, ISO 8601, milliseconds: what :func:`corral.core.instants.iso` writes."""


def one_of(*texts: str) -> WithJsonSchema:
    """The texts that a field can be, for ``Annotated[str, …]``: it comes from a row, and is not checked again."""
    return WithJsonSchema({"type": "string", "enum": list(texts)})


def checked(*texts: str) -> GetPydanticSchema:
    """The texts that an argument can be, for ``Annotated[str, …]``; any other one is refused."""
    return GetPydanticSchema(lambda _source, _handler: core_schema.literal_schema([*texts]))


class Error(TypedDict):
    """What :meth:`corral.core.errors.CorralError.to_wire` tells; ``details`` holds facts of its own in each error."""

    code: str
    name: str
    message: str
    cause: str
    remedy: str
    details: dict[str, Any]


class Refusal(TypedDict):
    """What every operation and command answers that is no success."""

    error: Error


class FieldError(TypedDict):
    """An error in a file: the field, such as ``agents[1].role`` (empty: the whole file), and the reason."""

    field: str
    reason: str
