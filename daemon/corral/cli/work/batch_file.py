"""The size of a file of tasks with its aliases written out: six lines of YAML can mean gigabytes."""

from __future__ import annotations

import math
from typing import Any

MOST_VALUES = 1_000_000
"""Values in a file, each alias counted with all that it stands for."""


def count_values(value: Any, known: dict[int, float] | None = None) -> float:
    """The number of values with all aliases written out; infinite where one contains itself. Takes time for the file alone."""
    known = {} if known is None else known
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf  # as long as it is being counted: what contains itself has no end
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(count_values(part, known) for part in parts)
    return known[id(value)]
