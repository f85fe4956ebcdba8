"""A database that is damaged while it runs: said once in the log, and shown first by every face until the daemon ends."""

from __future__ import annotations

from corral.app.runtime.needs import Need
from corral.app.runtime.services import Services
from corral.errors import DatabaseDamaged
from corral.models.instants import iso
from corral.observe.logs import logger

FAULT = "database"

log = logger("store")


def watch(services: Services) -> None:
    """Have damage of the database shown, from its first error on."""

    def show(damage: DatabaseDamaged) -> None:
        what = f"{damage.message} Nothing is claimed, landed or answered any more. {damage.cause}"
        services.faults[FAULT] = Need("database_damaged", what, damage.remedy, iso(services.now()))
        log.critical("database_damaged", message=what, remedy=damage.remedy)

    services.db.on_damage = show
    if services.db.damage is not None:  # found before anybody watched
        show(services.db.damage)
