"""How much is tried where more would prove the same: examples of a property, rounds of a storm. All of it with ``--all``."""

from __future__ import annotations

import os

ALL = "ALL_EXAMPLES" in os.environ
"""Set by ``python -m tests.run --all``."""


def examples(many: int, *, usual: int | None = None) -> int:
    """So many with ``--all``; else the usual number, a fifth of them unless told otherwise."""
    return many if ALL else usual or many // 5
