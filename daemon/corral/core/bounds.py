"""Values as they may be shown and kept: without secrets, of bounded size."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corral.core.redaction import REDACTED, is_secret_name, redact

MOST_SEARCHED = 64 * 1024
"""Characters of a text that are searched for secrets; what follows them is cut off in any case."""


@dataclass(frozen=True)
class Bounds:
    """How much of a value is kept.

    Attributes:
        text: Maximum length of a text, characters.
        items: Maximum number of items of a list or mapping.
        depth: Maximum nesting depth; what is deeper is replaced by the number of its items.
    """

    text: int = 500
    items: int = 20
    depth: int = 3

    def cut(self, text: str) -> str:
        """A text without secrets, cut. Half a secret would not be recognised, so they are removed first."""
        clean = redact(text[:MOST_SEARCHED])
        return clean if len(clean) <= self.text else f"{clean[: self.text]}…"

    def value(self, value: Any, depth: int = 1) -> Any:
        """A JSON value without secrets, cut; a text under the name of a secret is one, whatever it looks like."""
        if isinstance(value, str):
            return self.cut(value)
        if value is None or isinstance(value, (bool, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, Mapping):
            return f"({len(value)} items)" if depth > self.depth else self._mapping(value, depth)
        if isinstance(value, (list, tuple)):
            return f"({len(value)} items)" if depth > self.depth else self._list(value, depth)
        return self.cut(str(value))

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        shortened = {}
        for key, inner in list(value.items())[: self.items]:
            name = str(key)
            is_secret = isinstance(inner, str) and inner and is_secret_name(name)
            shortened[self.cut(name)] = REDACTED if is_secret else self.value(inner, depth + 1)
        return shortened if len(value) <= self.items else {**shortened, "…": f"{len(value) - self.items} more"}

    def _list(self, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        items = [self.value(inner, depth + 1) for inner in value[: self.items]]
        return items if len(value) <= self.items else [*items, f"… {len(value) - self.items} more"]
