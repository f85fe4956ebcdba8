"""The team in force: read at the start, again when its file changes; a broken new version is reported and not taken."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corral.config.teams import TeamAgent, read_team
from corral.core.errors import ConfigInvalid
from corral.core.logs import logger

log = logger("teams")


class TeamsHolder:
    """Gives the team.

    Args:
        file: Where it is described; there need not be one.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._teams = Teams()
        self.error: ConfigInvalid | None = None
        self.reload()

    def __call__(self) -> Teams:
        """The team in force."""
        return self._teams

    def reload(self) -> None:
        """Read the file again. An invalid one is logged and shown by ``corral status``; the last good team stays."""
        try:
            team = read_team(self._file)
        except ConfigInvalid as error:
            if self.error is None or self.error.details != error.details:
                log.error("team_invalid", errors=error.details["errors"])
            self.error = error
            return
        agents = tuple(team.agents) if team else ()
        self.error = None
        if agents != self._teams.agents:
            self._teams = Teams(agents)
            log.info("team_changed", agents=[agent.name for agent in agents])


# -- The members of the team: for messages that name a role, and for discovery by capability


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
