"""Which of the shell commands that ran in a checkout changed a path: a path is a command's only if no other could have.

A checkout is looked at when a command begins and when it ends. Between two such looks, a change is evidence against those
commands alone that ran meanwhile; where several did, it is evidence against none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from corral.git.checkouts.salvage import Kept
from corral.git.checkouts.status import Seen, differences


@dataclass(frozen=True)
class Look:
    """The state of a checkout, read between two instants."""

    started: datetime
    finished: datetime
    seen: Seen


@dataclass
class ShellCall:
    """A shell command that runs, or has run.

    Attributes:
        actor: The session or subagent that runs it.
        began: When its first looks were over; it starts to run no sooner.
        ended: When it was known to be over; None while it runs.
        before: A look at each checkout that it might touch, by the checkout's path.
        after: The same, once it is over.
        saved: The copies of other sessions' files from before it ran, by the checkout's path.
        runs_git: Whether it may move HEAD.
        is_told: Whether what it changed was told.
    """

    actor: str
    began: datetime
    ended: datetime | None = None
    before: dict[str, Look] = field(default_factory=dict)
    after: dict[str, Look] = field(default_factory=dict)
    saved: dict[str, Kept] = field(default_factory=dict)
    runs_git: bool = False
    is_told: bool = False


@dataclass(frozen=True)
class Changed:
    """The differences in a checkout since a command began.

    Attributes:
        own: Paths that nobody else's command can have changed.
        shared: Other paths, and who else ran a command meanwhile.
    """

    own: tuple[str, ...] = ()
    shared: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """All of them."""
        return sorted({*self.own, *self.shared})


def changed(call: ShellCall, checkout: str, others: Iterable[ShellCall]) -> Changed:
    """Split the changes in a checkout into those that a command made and those that it may have made.

    Args:
        call: It is over, and has looked at the checkout before and after.
        others: Commands that may have run at the same time, those of the same actor among them.
    """
    first, last = call.before[checkout], call.after[checkout]
    total = differences(first.seen, last.seen)
    calls = [call, *(other for other in others if checkout in other.before and other is not call)]
    looks = {id(look): look for each in calls for look in _looks(each, checkout)}.values()
    between = [look for look in looks if first.started < look.started < last.started]
    timeline = [first, *sorted(between, key=lambda look: look.started), last]
    own, shared = set[str](), dict[str, set[str]]()
    for earlier, later in pairwise(timeline):
        rivals = {each.actor for each in calls if _ran_between(each, earlier.started, later.finished)} - {call.actor}
        paths = differences(earlier.seen, later.seen) if len(timeline) > 2 else total
        if rivals:
            for path in paths:
                shared.setdefault(path, set()).update(rivals)
        else:
            own.update(paths)
    mine = tuple(path for path in total if path in own)
    return Changed(mine, {path: frozenset(shared[path]) for path in total if path in shared and path not in own})


def rivals(call: ShellCall, checkout: str, others: Iterable[ShellCall]) -> list[ShellCall]:
    """The commands of others that ran in a checkout while a command that is over did."""
    start, end = call.before[checkout].started, call.after[checkout].finished
    return [
        other
        for other in others
        if checkout in other.before and other.actor != call.actor and _ran_between(other, start, end)
    ]


def _looks(call: ShellCall, checkout: str) -> Collection[Look]:
    return [look for look in (call.before.get(checkout), call.after.get(checkout)) if look is not None]


def _ran_between(call: ShellCall, start: datetime, end: datetime) -> bool:
    return call.began < end and (call.ended is None or call.ended > start)
