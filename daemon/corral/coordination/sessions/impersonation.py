"""A session acts for itself only: an attempt to act for another is refused and recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from corral.coordination.mail import addresses
from corral.coordination.services import Services
from corral.core.errors import NotPermitted


@asynccontextmanager
async def refusals(services: Services, session_id: str | None) -> AsyncIterator[None]:
    """Record that a write was refused (NotPermitted), whose transaction is rolled back; ``session_id``: who asked."""
    try:
        yield
    except NotPermitted as error:
        refusal, now = error, services.now()
        await services.store.write(lambda conn: addresses.refused(conn, session_id, refusal, now))
        raise
