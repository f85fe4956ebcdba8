"""Changes of the configuration, for the audit: which settings, from what to what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from corral.config.model import Settings
from corral.coordination.services import Services
from corral.observe.audit.trail import AuditTrail

UNKNOWN = "unknown"
"""The agent of a change in a file: anybody may have written it."""


def settings_changes(services: Services) -> Callable[[Settings], None]:
    """A listener that notes the differences whenever the settings are read again."""
    before = services.settings().model_dump(mode="json")

    def note(new: Settings) -> None:
        nonlocal before
        after = new.model_dump(mode="json")
        changed = dict(_changes(before, after))
        before = after
        if changed:
            services.of(AuditTrail).note(
                services.now(), "config.change", session_id=None, agent_id=UNKNOWN, parameters=changed
            )

    return note


def _changes(before: Any, after: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted names of the settings that differ, each with what it was and what it is."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from _changes(before.get(key), after.get(key), f"{name}.{key}" if name else str(key))
    elif before != after:
        yield name, {"from": before, "to": after}
