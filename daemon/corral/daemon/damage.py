"""Damage of the open database: logged once, and shown first by every face until the daemon ends."""

from __future__ import annotations

from corral.coordination.services import Services
from corral.core.errors import DatabaseDamaged
from corral.core.instants import iso
from corral.core.logs import logger
from corral.core.needs import Need

FAULT = "database"

log = logger("store")


def watch(services: Services) -> None:
    """Have damage of the database shown, from its first error on."""

    def show(damage: DatabaseDamaged) -> None:
        what = f"{damage.message} Nothing is claimed, landed or answered any more. {damage.cause}"
        services.faults[FAULT] = Need("database_damaged", what, damage.remedy, iso(services.now()))
        log.critical("database_damaged", message=what, remedy=damage.remedy)

    services.db.on_damage = show
    if services.db.damage is not None:  # detected before this call
        show(services.db.damage)
