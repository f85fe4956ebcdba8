"""The page of a merge request: where it stands, its receipt, its log."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.payload import Payload
from corral.core.redaction import redact
from corral.core.run_heading import run_heading
from corral.core.states import OPEN_MERGES, RETURNED_MERGES
from corral.faces.web.actions import Button
from corral.faces.web.live import following
from corral.faces.web.pages.tasks import read_tail
from corral.faces.web.rendering import Visit, marked
from corral.landing import requests, runs
from corral.store import events
from corral.work.merges import diffs
from corral.work.merges.store import of_tasks
from corral.work.merges.wire import MergeRun


async def page(services: Services, visit: Visit, item: str) -> dict[str, Any]:
    """One merge request; ``?run=`` shows another run of its verification than the one that decided."""
    seq = await services.store.read(events.newest)
    ageing_s, now = services.settings().landing.ageing_s, services.now()
    merge = await services.work(lambda: requests.detail(services.db, item, ageing_s=ageing_s, now=now))
    named = visit.query.get("run") or None
    listed, run = await services.work(lambda: services.db.read(_runs, services, item, named))
    who = merge["session_id"] or ""
    names = await services.store.read(sessions.names_of, [who])
    log = await services.work(lambda: _log(services, run)) if run is not None else None
    number = run.number if run is not None else None
    source = {"log": f"merges/{merge['merge_id']}/{number or 0}", "offset": log["offset"] if log else 0}
    return {
        "title": merge["title"], "merge": merge, "log": log, "buttons": _buttons(merge), "runs": listed,
        "session": names.get(who, who[:8]), "run": run, "heading": run_heading(run.model_dump()) if run is not None else "",
        "live": following(seq, **(source if merge["state"] in OPEN_MERGES and log and not named else {})),
    }  # fmt: skip


def _runs(conn: Connection, services: Services, item: str, named: str | None) -> tuple[list[MergeRun], MergeRun | None]:
    merge = of_tasks.named(conn, item)
    return runs.listing(conn, services.project, merge), runs.chosen(conn, services.project, merge, named)


def _log(services: Services, run: MergeRun) -> Payload | None:
    file = runs.log_of(services.project, run)
    return read_tail(file, begin=runs.begins_at(file)) if file is not None else None


def _buttons(merge: Payload) -> list[Button]:
    names = ["approve"] if merge["needs_approval"] else []
    if merge["state"] in (*RETURNED_MERGES, "held", "cancelled"):
        names.append("retry")
    if merge["state"] in OPEN_MERGES:
        names += ["cancel", "skip", *([] if merge["bypassed_sha"] == merge["head_sha"] else ["bypass"])]
    if merge["state"] == "landed":
        names.append("revert")
    if merge["state"] in RETURNED_MERGES:
        names.append("dismiss")
    return [Button.of("merges", merge["merge_id"], name) for name in names]


# -- The pages of what a task or a merge request changes


async def of_task(services: Services, _visit: Visit, item: str) -> dict[str, Any]:
    """The changes of a task."""
    values = await services.work(lambda: _values(diffs.of_task(services, item)))
    return {**values, "back": f"/tasks/{values['diff']['task_id']}"}


async def of_merge(services: Services, _visit: Visit, item: str) -> dict[str, Any]:
    """The changes of a merge request on its target."""
    values = await services.work(lambda: _values(diffs.of_merge(services, item)))
    return {**values, "back": f"/merges/{values['diff']['merge_id']}"}


def _values(diff: dict[str, Any]) -> dict[str, Any]:
    return {"title": f"Changes: {diff['title']}", "diff": diff, "lines": [*marked(redact(diff["patch"] or ""))]}
