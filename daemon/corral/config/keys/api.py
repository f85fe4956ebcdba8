"""The key for the Messages API: what is answered about it; never the key."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from corral.core.answers import one_of

KeyPlace = Annotated[str, one_of("environment", "keychain", "encrypted_file", "dotenv")]
"""A place that can have the key."""


class KeyStatus(TypedDict):
    """Where the daemon has the key from.

    ``ending``: at most its last four characters, null for a short one; ``problem`` and ``remedy``: why none can be used, and
    what to do. All are null where no place has a key.
    """

    source: KeyPlace | None
    ending: str | None
    problem: str | None
    remedy: str | None
