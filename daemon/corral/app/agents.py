"""The agents that a task can name at this moment."""

from __future__ import annotations

from corral.app.runtime.services import Services
from corral.config.roster import Roster


def roster_of(services: Services) -> Roster:
    """The team in force and the definitions; what is asked of it reads files."""
    return Roster(services.project, services.teams().agents)
