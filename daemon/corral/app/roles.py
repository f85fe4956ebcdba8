"""Who has which role in the team: for messages that name a role."""

from __future__ import annotations

from corral.app.runtime.services import Services
from corral.coordination.mail.addresses import Roles


def roles_of(services: Services) -> Roles:
    """What the team says of roles at this moment."""
    return services.teams().members
