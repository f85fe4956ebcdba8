"""Edits of files that are in no checkout of a session's own project: the daemon of the project that they are in decides.

A session that was started in another repository, or in a folder above several, edits by an absolute path. Standard library only.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corral.client import last_look
from corral.config.paths import Project, find_guarded
from corral.core.errors import CorralError

MARK = '"is_elsewhere"'
"""What is in the answer about such an edit."""
ENDS = ("PostToolUse", "PostToolUseFailure")
MOST_CALLS = 256
"""Edits whose end is waited for."""

Ask = Callable[[str, dict[str, Any]], str]
"""Ask a project's daemon about an event; the answer is JSON. It never raises."""


class Elsewhere:
    """The other projects in which a session edits.

    Args:
        own: The session's project; None if there is none.
        make: The way to ask a project's daemon, in one of its folders.
    """

    def __init__(self, own: Project | None, make: Callable[[Project, str], Ask]) -> None:
        self._own = own
        self._make = make
        self._asks: dict[Path, Ask] = {}
        self._begun: OrderedDict[str, Ask] = OrderedDict()

    def ask(self, event: str, fields: dict[str, Any]) -> str:
        """The answer of the daemon of the project that the file of an edit is in; ``{}`` if it is in none."""
        ask = self._of(fields) if last_look.is_edit(fields) else None
        if ask is None:
            return "{}"
        self._begun[str(fields.get("tool_use_id"))] = ask
        while len(self._begun) > MOST_CALLS:
            self._begun.popitem(last=False)
        return ask(event, fields)

    def end(self, event: str, fields: dict[str, Any]) -> None:
        """Tell the end of an edit to whom was asked about it."""
        if event in ENDS and (ask := self._begun.pop(str(fields.get("tool_use_id")), None)) is not None:
            ask(event, fields)

    def _of(self, fields: dict[str, Any]) -> Ask | None:
        for folder in (Path(path).parent for path in last_look.real_paths(fields)):
            with contextlib.suppress(CorralError):
                project = find_guarded(folder)
                if self._own is None or project.home != self._own.home:
                    if project.home not in self._asks:
                        self._asks[project.home] = self._make(project, str(folder))
                    return self._asks[project.home]
        return None
