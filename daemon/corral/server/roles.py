"""Who has which role in the team: for messages that name a role."""

from __future__ import annotations

from corral.coordination.mail.addresses import Roles
from corral.server.services import Services


def roles_of(services: Services) -> Roles:
    """What the team says of roles at this moment."""
    return services.teams().members
