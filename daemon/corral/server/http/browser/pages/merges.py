"""The page of a merge request: where it stands, its receipt, its log."""

from __future__ import annotations

from typing import Any

from corral.app.runtime.services import Services
from corral.landing import requests
from corral.models.payload import Payload
from corral.models.states import OPEN_MERGES, RETURNED_MERGES
from corral.server.http.browser.actions import Button
from corral.server.http.browser.live import following
from corral.server.http.browser.pages.tasks import read_tail
from corral.server.http.browser.visit import Visit
from corral.store import events


async def page(services: Services, _visit: Visit, item: str) -> dict[str, Any]:
    """One merge request."""
    seq = await services.store.read(events.newest)
    merge = await services.work(lambda: requests.detail(services.db, item))
    log = await services.work(lambda: _log(services, merge["merge_id"]))
    is_open = merge["state"] in OPEN_MERGES
    source = {"log": f"merges/{merge['merge_id']}", "offset": log["offset"]} if is_open and log else {}
    return {
        "title": merge["title"], "merge": merge, "log": log, "buttons": _buttons(merge),
        "live": following(seq, **source),
    }  # fmt: skip


def _log(services: Services, merge_id: str) -> Payload | None:
    file = requests.log_file(services.db, services.project.logs_dir, merge_id)
    return read_tail(file) if file is not None else None


def _buttons(merge: Payload) -> list[Button]:
    names = ["approve"] if merge["needs_approval"] else []
    if merge["state"] in (*RETURNED_MERGES, "held", "cancelled"):
        names.append("retry")
    if merge["state"] in OPEN_MERGES:
        names.append("cancel")
    if merge["state"] in RETURNED_MERGES:
        names.append("dismiss")
    return [Button.of("merges", merge["merge_id"], name) for name in names]
