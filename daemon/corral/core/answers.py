"""What the types of answers have in common. An answer is a TypedDict: a handler returns a plain dict that mypy has read."""

from __future__ import annotations

from typing import Annotated

from pydantic import WithJsonSchema

Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""UTC, ISO 8601, milliseconds: what :func:`corral.core.instants.iso` writes."""


def one_of(*texts: str) -> WithJsonSchema:
    """The texts that a field can be, for ``Annotated[str, …]``: it comes from a row, and is not checked again."""
    return WithJsonSchema({"type": "string", "enum": list(texts)})
