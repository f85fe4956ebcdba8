"""Where the daemon has the key for the Messages API from; never the key."""

from __future__ import annotations

from corral.config.keys.api import KeyStatus
from corral.coordination.services import Services
from corral.core.errors import ApiKeyUnavailable
from corral.core.routing import EVERYONE, MACHINE, Routes

router = Routes("keys", "/keys", scope=MACHINE, callers=EVERYONE)


@router.get("")
async def status(services: Services) -> KeyStatus:
    """The place that the key comes from, and at most its last four characters; or why none can be used."""
    return await services.work(lambda: _status(services))


@router.post("/reload")
async def reload(services: Services) -> KeyStatus:
    """Look for the key again: it was stored or removed. The answer is that of `GET /keys`."""
    services.api_key.forget()
    services.nudge("supervisor")
    return await services.work(lambda: _status(services))


def _status(services: Services) -> KeyStatus:
    nothing: KeyStatus = {"source": None, "ending": None, "problem": None, "remedy": None}
    try:
        key = services.api_key.find()
    except ApiKeyUnavailable as error:
        return {**nothing, "problem": f"{error.message} {error.cause}", "remedy": error.remedy}
    return nothing if key is None else {**nothing, "source": key.source.value, "ending": key.ending}
