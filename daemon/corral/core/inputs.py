"""The inputs of a verification besides its commit, as its receipt lists them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

INSTALLED = "installed"
"""Dependencies that the recipe's own command installed just before the run."""
CACHED = "cache"
"""Dependencies that it installed before an earlier run with the same lock files."""
COPIED = "copied from the checkout"
"""Dependencies of the person's checkout: modules that nothing declares may be among them."""


@dataclass(frozen=True)
class Prepared:
    """A worktree that is ready for a verification.

    Attributes:
        env: Variables for its commands.
        inputs: ``dependencies``: folders, each ``{path, recipe, from, digest, key?, differs?, because?}``; ``included``: files of
            the person's checkout, each ``{path, sha256}``; ``above``: what tools that search upward find above the worktree;
            ``merge_drivers``: files that programs of this clone's configuration may have merged, by driver;
            ``notes``: lines for a person. Absent where there is nothing to say.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)


def taken_from_checkout(inputs: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """The paths that a verification took from the person's checkout, each with its digest: they may change later."""
    included = {(entry["path"], entry["sha256"]) for entry in (inputs or {}).get("included", ())}
    return included | {(entry["path"], entry["digest"]) for entry in _copied(inputs)}


def _copied(inputs: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    return [entry for entry in (inputs or {}).get("dependencies", ()) if entry["from"] == COPIED]


def note(inputs: Mapping[str, Any] | None) -> str | None:
    """A note for a person besides the result: inputs that may have mattered and are no part of the change."""
    parts = []
    if copied := _copied(inputs):
        differs = sorted({path for entry in copied for path in entry.get("differs", ())})
        more = f" and {len(differs) - 1} more" if len(differs) > 1 else ""
        parts.append(f"dependencies: {COPIED}" + (f", whose {differs[0]}{more} differs" if differs else ""))
    if above := (inputs or {}).get("above"):
        more = f" and {len(above) - 1} more" if len(above) > 1 else ""
        parts.append(f"above its worktree: {above[0]}{more}")
    for driver, paths in (inputs or {}).get("merge_drivers", {}).items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        parts.append(f"merged by this clone's merge.{driver}.driver: {paths[0]}{more}")
    return "; ".join(parts) or None
