"""Which version of an agent's definition a task works by: its own pin, a rollout's, the agent's pin, or what the file says.

Each place that looks up the agent of a task asks here: the check at its submission, the trust gate, and the start of an attempt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Connection

from corral.config.agents import AgentDefinition, parse_definition
from corral.config.roster import OWN, Roster, Stored
from corral.config.trust import Claim, of_definition
from corral.core.errors import ConfigInvalid, NotFound
from corral.store.protocol import Store
from corral.store.rows.agents import AgentVersionRow, RunningChoice
from corral.store.rows.tasks import TaskDoer
from corral.work.agents.api import AgentChoice
from corral.work.agents.store import choices, versions

Find = Callable[[str, str], AgentVersionRow | None]
"""Finds the version of an agent by its hash."""
_ARMS = 2**32


def is_in_share(task_id: str, choice_id: str, share: float) -> bool:
    """Whether a task belongs to the share of a rollout that works by the new version; the same at every attempt."""
    number = hashlib.sha256(f"{choice_id}/{task_id}".encode()).digest()[:4]
    return int.from_bytes(number, "big") < share * _ARMS


def definition_of(content: str, agent: str) -> AgentDefinition | None:
    """The definition in a stored text; None if it is none any more."""
    try:
        return parse_definition(content, Path(f"{agent}.md"))
    except ConfigInvalid:
        return None


class Choosing:
    """The versions that tasks work by instead of what the files say.

    Args:
        running: The pins and rollouts in force.
        find: Finds the version that a task itself is pinned to.
    """

    def __init__(self, running: Sequence[RunningChoice] = (), find: Find = lambda _agent, _hash: None) -> None:
        self._running = running
        self._find = find

    @property
    def is_any(self) -> bool:
        """Whether a pin or a rollout is in force."""
        return bool(self._running)

    def of_task(self, task: TaskDoer) -> dict[str, Stored]:
        """The stored versions that count for a task, by the agent's name without case.

        Raises:
            NotFound: The version that it is pinned to is gone, or can no longer be read.
        """
        versions_by_agent: dict[str, Stored] = {}
        for row in self._running:
            is_rollout = row["share"] is not None
            if is_rollout and not (
                task["task_id"] and is_in_share(task["task_id"], row["choice_id"], row["share"] or 0)
            ):
                continue
            definition = definition_of(row["content"], row["agent"]) if row["content"] is not None else None
            if definition is not None:
                versions_by_agent[row["agent"]] = Stored(definition, str(row["version"]), row["from_hash"])
            elif not is_rollout:
                raise _gone(row["agent"], row["content_hash"])
        if task["agent_version"] is not None and task["agent"] is not None:
            name = task["agent"].strip().casefold().removeprefix(OWN)
            pinned = self._find(name, task["agent_version"])
            definition = definition_of(pinned["content"], name) if pinned is not None else None
            if pinned is None or definition is None:
                raise _gone(name, task["agent_version"])
            versions_by_agent[name] = Stored(definition, pinned["version"])
        return versions_by_agent

    def roster(self, roster: Roster, task: TaskDoer) -> Roster:
        """The agents as a task sees them."""
        stored = self.of_task(task) if self.is_any or task["agent_version"] is not None else {}
        return roster.with_versions(stored) if stored else roster

    def stored(self) -> list[Stored]:
        """The versions of all pins and rollouts in force."""
        texts = [
            (definition_of(row["content"], row["agent"]), row) for row in self._running if row["content"] is not None
        ]
        return [
            Stored(definition, str(row["version"]), row["from_hash"])
            for definition, row in texts
            if definition is not None
        ]


def choosing(db: Store) -> Choosing:
    """The pins and rollouts in force at this moment."""

    def find(agent: str, content_hash: str) -> AgentVersionRow | None:
        with db.reading() as conn:
            return versions.by_hash(conn, agent, content_hash)

    return Choosing(db.read(choices.running), find)


def claims_of(stored: Stored) -> list[Claim]:
    """The commands in a stored version: it is trusted as far as they are approved, and not since it was stored."""
    return list(of_definition(stored.definition, f"version {stored.version} of the agent {stored.definition.name}"))


def of_rollout(conn: Connection, agent: str, content_hash: str | None) -> str | None:
    """The rollout that an attempt of an agent belongs to, of either version; None: there is none."""
    row = next((row for row in choices.running(conn) if row["agent"] == agent and row["share"] is not None), None)
    return row["choice_id"] if row and content_hash in (row["content_hash"], row["from_hash"]) else None


def shown(row: RunningChoice) -> AgentChoice:
    """A pin or a rollout in force, as a face shows it."""
    return {
        "choice_id": row["choice_id"],
        "agent": row["agent"],
        "version": row["version"],
        "content_hash": row["content_hash"],
        "share": row["share"],
    }


def _gone(agent: str, content_hash: str) -> NotFound:
    return NotFound(
        f"The version {content_hash[:12]} of the agent {agent}, which is chosen, is not stored or cannot be read.",
        cause="It is not in the database any more, or what is stored is no valid definition.",
        remedy=f"`corral agent versions {agent}` lists the versions; `corral agent pin {agent} --unpin` ends a pin.",
    )
