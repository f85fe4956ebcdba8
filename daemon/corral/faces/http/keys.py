"""Where the daemon has the key for the Messages API from; never the key."""

from __future__ import annotations

from typing import Any

from corral.coordination.services import Services
from corral.core.errors import ApiKeyUnavailable
from corral.core.routing import Routes

router = Routes("keys", "/keys")


@router.get("")
async def status(services: Services) -> dict[str, Any]:
    """The place that the key comes from, and at most its last four characters; ``problem`` and ``remedy`` if none can be used."""
    return await services.work(lambda: _status(services))


@router.post("/reload")
async def reload(services: Services) -> dict[str, Any]:
    """Look for the key again: it was stored or removed. The answer is that of `GET /keys`."""
    services.api_key.forget()
    services.nudge("supervisor")
    return await services.work(lambda: _status(services))


def _status(services: Services) -> dict[str, Any]:
    nothing = {"source": None, "ending": None, "problem": None, "remedy": None}
    try:
        key = services.api_key.find()
    except ApiKeyUnavailable as error:
        return {**nothing, "problem": f"{error.message} {error.cause}", "remedy": error.remedy}
    return nothing if key is None else {**nothing, "source": key.source.value, "ending": key.ending}
