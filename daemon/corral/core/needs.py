"""The needs of a person, and lasting failures that are shown as such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from corral.core.instants import iso

MOST_OF_A_KIND = 20
"""Needs of one kind in a view, one by one; one more entry stands for the rest."""
NAMES = {
    "merge_approval": "approval",
    "held_merge": "held",
    "waiting_session": "question",
    "unguarded_session": "unguarded",
    "silent_mod": "no mod",
    "stalled_session": "stalled",
    "red_target": "target red",
    "paused_target": "queue stops",
    "remote_target": "remote",
    "unpushed_commits": "not pushed",
    "target_behind": "behind",
    "unpublished_branch": "not pushed",
    "frozen_target": "frozen",
    "rewound_target": "rewound",
    "paused_work": "paused",
    "paused_claiming": "claims stop",
    "limit_reached": "limit",
    "kept_worktree": "worktree",
    "unknown_worktree": "worktree",
    "task_cannot_start": "no start",
    "nobody_capable": "nobody can",
    "no_workers": "no workers",
    "unclaimed_task": "unclaimed",
    "unwritable_logs": "logs",
    "unverified_merge": "unverified",
    "untrusted_commands": "untrusted",
    "unapproved_roadmap": "roadmap",
    "roadmap_problem": "roadmap",
    "unannounced_changes": "changes",
    "unwatched_worktrees": "no watch",
    "snapshot": "not saved",
    "outdated_daemon": "old daemon",
    "crashing_daemon": "crashes",
    "broken_settings": "settings",
}
"""The kinds in a word or two: every face calls them so. What has ended is called by its outcome."""


_HELD, _SESSIONS = "corral merge list --status held", "corral session list"
LISTS = {
    "merge_approval": _HELD,
    "held_merge": _HELD,
    "unverified_merge": "corral merge list --status queued",
    "returned_merge": "corral merge list --status {outcome}",
    "failed_task": "corral task list --status {outcome}",
    "task_cannot_start": "corral task list --status pending",
    "nobody_capable": "corral task list --status pending",
    "unobserved_worker": "corral swarm status",
    "kept_worktree": "corral worktree list",
    "unknown_worktree": "git worktree list",
    "alert": "corral alert list",
    "roadmap_problem": "corral supervisor status",
    "waiting_session": _SESSIONS,
    "unguarded_session": _SESSIONS,
    "silent_mod": _SESSIONS,
    "stalled_session": _SESSIONS,
}
"""The command that lists all of a kind."""


@dataclass(frozen=True)
class Need:
    """One thing that waits for a person.

    Attributes:
        kind: Stable, one word or two: ``held_merge``, ``unguarded_session``, ….
        what: What happened, to which thing, and why; one line.
        remedy: What to type, or to do.
        since: Instant, or None where it is not known.
        ids: The rows that it is about: ``{"merge_id": …}``.
        title: The title of the task or merge request that it is about, where there is one.
        reason: Why, without that title; None: ``what`` is all that there is to say.
        outcome: The outcome of that task or request, where it has ended: it is the need's name then.
        number: How many things it stands for.
    """

    kind: str
    what: str
    remedy: str
    since: str | None = None
    ids: dict[str, str] = field(default_factory=dict)
    title: str | None = None
    reason: str | None = None
    outcome: str | None = None
    number: int = 1

    def to_wire(self) -> dict[str, Any]:
        """The need as every face gets it."""
        return {
            "kind": self.kind,
            "name": self.outcome or NAMES.get(self.kind) or self.kind.replace("_", " "),
            "what": self.what,
            "title": self.title,
            "reason": self.reason or self.what,
            "since": self.since,
            "remedy": self.remedy,
            "ids": self.ids,
            "number": self.number,
        }


def rest(kind: str, outcome: str | None, number: int) -> Need:
    """One need that stands for so many more of a kind."""
    remedy = LISTS.get(kind, "corral status --json").format(outcome=outcome)
    return Need(kind, f"{number} more of this kind.", f"All of them: {remedy}", outcome=outcome, number=number)


def count(needs: Iterable[Mapping[str, Any]]) -> int:
    """How many things need a person, of needs as every face gets them."""
    return sum(need["number"] for need in needs)


@dataclass(frozen=True)
class Fault:
    """A lasting failure: shown among the needs of a person from its first occurrence until it is over.

    Attributes:
        faults: Where it is shown.
        name: Its place there.
        kind: Of the need.
    """

    faults: dict[str, Need]
    name: str
    kind: str

    def show(self, what: str, remedy: str, now: datetime) -> bool:
        """Show it with its current reason; returns whether it, or its reason, is new."""
        before = self.faults.get(self.name)
        since = before.since if before is not None else iso(now)
        self.faults[self.name] = Need(self.kind, what, remedy, since)
        return before is None or before.what != what

    def end(self) -> bool:
        """Stop showing it; returns whether it was shown."""
        return self.faults.pop(self.name, None) is not None
