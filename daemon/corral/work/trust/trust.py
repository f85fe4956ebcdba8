"""Which tasks wait until the user has approved the commands in project files that they would execute, or until somebody is
capable of what they require."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from sqlalchemy import Connection

from corral.config.roster import TEAM, Agent, Roster
from corral.config.trust import AGENTS, CLAUDE_COMMAND, SETUP, Claim, not_trusted
from corral.core.errors import CorralError
from corral.core.states import RunnerName
from corral.store.rows.tasks import ReadyTask, TaskDoer
from corral.work.agents.choosing import Choosing, claims_of
from corral.work.tasks import scheduling
from corral.work.tasks.agents import nobody_capable


class TrustGate:
    """Trust: commands that are not approved yet, and the tasks that they keep from starting.

    Args:
        untrusted: The commands in files that the user has not approved.
        roster: Reads the agents; called only where a command of an agent is not approved, or a capability is required.
        choosing: The versions that tasks work by instead of what the files say.
        missing: Those of some commands that the user has not approved.
    """

    def __init__(
        self,
        untrusted: Sequence[Claim],
        roster: Callable[[], Roster],
        choosing: Choosing | None = None,
        missing: Callable[[Iterable[Claim]], list[Claim]] = list,
    ) -> None:
        self._untrusted = untrusted
        self._make_roster = roster
        self._choosing = choosing or Choosing()
        self._missing = missing
        self.lacks_anybody = False
        """Whether a task was asked about of which nobody is capable."""

    def needed(self, task: TaskDoer) -> list[Claim]:
        """Commands that a task would execute and that are not approved; empty: it may start."""
        if not self._may_wait and task["agent_version"] is None:
            return []
        if not self._choosing.is_any and task["agent_version"] is None:
            return [claim for claim in self._untrusted if self._concerns(claim, task, lambda: self._roster)]
        try:
            roster = self._choosing.roster(self._roster, task)
        except CorralError:
            return []  # nobody is started for it; what is wrong is said when it starts
        stored = roster.replaced
        untrusted = [claim for claim in self._untrusted if claim.key.removeprefix(AGENTS).casefold() not in stored]
        unapproved = self._missing(claim for definition in stored.values() for claim in claims_of(definition))
        return [claim for claim in (*untrusted, *unapproved) if self._concerns(claim, task, lambda: roster)]

    @property
    def _may_wait(self) -> bool:
        return bool(self._untrusted) or self._choosing.is_any

    def reason(self, task: TaskDoer) -> str | None:
        """Why a task waits, as :meth:`needed` and :meth:`lacking` say; None where it need not."""
        claims = self.needed(task)
        return not_trusted(claims).message if claims else self.lacking(task)

    def lacking(self, task: TaskDoer) -> str | None:
        """Why nobody can do a task any more, although somebody could when it was submitted; None: somebody can."""
        if not _required(task) or task["agent"] is not None:
            return None
        try:
            reason = nobody_capable(task, self._choosing.roster(self._roster, task))
        except CorralError:
            return None  # nobody is started for it; what is wrong is said when it starts
        self.lacks_anybody = self.lacks_anybody or reason is not None
        return reason

    def startable(
        self, conn: Connection, now: str, *, priority: int | None = None, without: Iterable[str] = ()
    ) -> Iterator[ReadyTask]:
        """As :func:`corral.work.tasks.scheduling.startable`, without those that wait for an approval."""
        return filter(self.allows, scheduling.startable(conn, now, priority=priority, without=without))

    def allows(self, task: TaskDoer) -> bool:
        """Whether a task need not wait."""
        return self.reason(task) is None

    def _concerns(self, claim: Claim, task: TaskDoer, roster: Callable[[], Roster]) -> bool:
        if claim.key == SETUP:
            return True
        if claim.key == CLAUDE_COMMAND:
            return bool(task["runner"] == RunnerName.CLAUDE) or self._is_given_by_capability(task)
        if not claim.key.startswith(AGENTS):
            return False
        return any(_works_by(agent, claim) for agent in self._agents(task, roster))

    def _agents(self, task: TaskDoer, roster: Callable[[], Roster]) -> list[Agent]:
        """Agents that may get the task: the one that it names, or those that are capable of it."""
        if task["agent"] is not None:
            try:
                return [roster().find(task["agent"])]
            except CorralError:
                return []  # nobody is started for it; what is wrong is said when it starts
        return list(roster().capable(_required(task))) if self._is_given_by_capability(task) else []

    @staticmethod
    def _is_given_by_capability(task: TaskDoer) -> bool:
        return bool(_required(task)) and task["command"] is None and task["agent"] is None

    @cached_property
    def _roster(self) -> Roster:
        return self._make_roster()


def _required(task: TaskDoer) -> list[str]:
    return (task["agent_requirements"] or {}).get("capabilities") or []


def _works_by(agent: Agent, claim: Claim) -> bool:
    """Whether an agent may be started by that definition. A member of the team may run by the program of any of them."""
    own = agent.definition.name if agent.definition is not None else agent.name
    return agent.source == TEAM or claim.key == f"{AGENTS}{own}"
