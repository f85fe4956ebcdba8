"""The team in force: read at the start, again when its file changes; a broken new version is reported and not taken."""

from __future__ import annotations

from pathlib import Path

from corral.config.teams import read_team
from corral.coordination.teams.teams import Teams
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
