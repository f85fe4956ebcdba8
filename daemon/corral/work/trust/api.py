"""Commands that nobody has approved on this machine: what is answered."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict


class UnapprovedCommand(TypedDict):
    """A command that waits for an approval: the setting, or ``agents.NAME`` or ``roadmap.ID``, and the file that names it.

    ``value``: what the file says there, as JSON.
    """

    key: str
    value: Any
    source: str


class Untrusted(TypedDict):
    """The commands that wait for the user's approval."""

    untrusted: list[UnapprovedCommand]
