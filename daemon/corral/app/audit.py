"""A session speaks for itself only: who tries to act for another is refused, and that it tried is on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from corral.app.runtime.services import Services
from corral.coordination.mail import addresses
from corral.errors import NotPermitted

T = TypeVar("T")


async def write(services: Services, who: str | None, operation: Callable[[Connection], T]) -> T:
    """Run a write as somebody; where that is refused (NotPermitted), nothing of it stays but the record.

    Args:
        who: The id of the session that asks.
    """
    try:
        return await services.store.write(operation)
    except NotPermitted as error:
        kept, now = error, services.now()
        await services.store.write(lambda conn: addresses.refused(conn, who, kept, now))
        raise
