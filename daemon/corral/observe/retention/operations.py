"""Deleting old data at once, over HTTP."""

from __future__ import annotations

from functools import partial

from corral.coordination.services import Services
from corral.core.errors import Conflict, NotFound, NotPermitted
from corral.core.routing import EVERYONE, MACHINE, Routes
from corral.observe.audit.requests import caller
from corral.observe.retention.api import Collected, CollectionWanted
from corral.observe.retention.collection import Collection
from corral.observe.retention.retention import Retention

router = Routes("gc", "/gc", scope=MACHINE, callers=EVERYONE)


@router.post("", errors=(NotFound, Conflict))
async def collect(services: Services, options: CollectionWanted) -> Collected:
    """Delete finished data that is old; say what went and what stays.

    The ages are the ``retention`` settings. ``kept``: as old, and not deleted, with the reason.
    """
    if options.forget and caller.get():
        raise NotPermitted(
            "Only a person deletes work that nothing else has.",
            cause=f"The request comes from the session {caller.get()!r}.",
            remedy="Run `corral gc --unlanded` in a terminal of your own.",
        )
    run = partial(
        Collection(services.of(Retention)).run, services.now(), dry_run=options.dry_run, forget=options.forget
    )
    return await services.work(run)
