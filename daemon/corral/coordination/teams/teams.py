"""The members of the team: for messages that name a role, and for discovery by capability."""

from __future__ import annotations

from collections.abc import Sequence

from corral.config.teams import TeamAgent


class Teams:
    """The team at one moment. Names and roles are the same whatever their case.

    Args:
        agents: As ``.corral/teams.yaml`` has them.
    """

    def __init__(self, agents: Sequence[TeamAgent] = ()) -> None:
        self.agents = tuple(agents)
        self._by_name = {agent.name.casefold(): agent for agent in agents}
        self._by_role: dict[str, list[str]] = {}
        for agent in agents:
            self._by_role.setdefault(agent.role.casefold(), []).append(agent.name)

    def members(self, address: str) -> list[str] | None:
        """The names of the members with a role, in the file's order, or of the member with that name; None: neither exists."""
        folded = address.strip().casefold()
        member = self._by_name.get(folded)
        return self._by_role.get(folded) or (None if member is None else [member.name])

    def capabilities(self, agent_name: str) -> list[str]:
        """An agent's capabilities by the team's definition; none for an agent outside it."""
        agent = self._by_name.get(agent_name.strip().casefold())
        return list(agent.capabilities) if agent else []
