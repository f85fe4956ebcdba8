"""What a verification took beside its commit, as its receipt names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INSTALLED = "installed"
"""Dependencies that the recipe's own command made just before the run."""
CACHED = "cache"
"""Dependencies that it made before an earlier run of the same lock files."""
COPIED = "copied from the checkout"
"""Dependencies of the person's checkout: modules that nothing declares may be among them."""


@dataclass(frozen=True)
class Prepared:
    """A worktree that is ready for a verification.

    Attributes:
        env: Variables for its commands.
        inputs: ``dependencies``: folders, each ``{path, recipe, from, digest, key?, differs?, because?}``; ``included``: files of
            the person's checkout, each ``{path, sha256}``; ``above``: what tools that search upward find above the worktree;
            ``notes``: lines for a person. Absent where there is nothing to say.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)


def taken_from_checkout(inputs: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """What a verification took from the person's checkout, each with its digest: it may be different at another time."""
    given = inputs or {}
    included = {(one["path"], one["sha256"]) for one in given.get("included", ())}
    return included | {(one["path"], one["digest"]) for one in given.get("dependencies", ()) if one["from"] == COPIED}


def note(inputs: Mapping[str, Any] | None) -> str | None:
    """What a person should know beside the result: what may have counted and is no part of the change."""
    given = inputs or {}
    parts = []
    if copied := [one for one in given.get("dependencies", ()) if one["from"] == COPIED]:
        differs = sorted({path for one in copied for path in one.get("differs", ())})
        more = f" and {len(differs) - 1} more" if len(differs) > 1 else ""
        parts.append(f"dependencies: {COPIED}" + (f", whose {differs[0]}{more} differs" if differs else ""))
    if above := given.get("above"):
        more = f" and {len(above) - 1} more" if len(above) > 1 else ""
        parts.append(f"above its worktree: {above[0]}{more}")
    return "; ".join(parts) or None
