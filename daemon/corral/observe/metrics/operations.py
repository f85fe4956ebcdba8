"""The figures over HTTP: as JSON, and as Prometheus reads them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from datetime import timedelta
from typing import Annotated

import psutil
from pydantic import Field
from sqlalchemy import Connection
from starlette.responses import Response

from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.instants import LONGEST_SPAN_S
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, MACHINE, Routes
from corral.observe.metrics import exposition, figures
from corral.observe.metrics.api import By, Metrics, ProcessUse, RecentWork
from corral.observe.metrics.latencies import Latencies
from corral.observe.view.needs_you import every_need
from corral.store import totals
from corral.store.rows.metrics import TotalRow
from corral.work.merges.store import merges, runs

router = Routes("metrics", "/metrics", scope=MACHINE, callers=EVERYONE)
prometheus = Routes("metrics", prefix="", scope=MACHINE, callers=EVERYONE)
DAY_S = 86_400


@router.get("")
async def metrics(
    services: Services,
    since_s: Annotated[float, Field(gt=0, le=LONGEST_SPAN_S, description="How far back.")] = DAY_S,
    until_s: Annotated[float, Field(ge=0, le=LONGEST_SPAN_S, description="Until how long ago.")] = 0,
    by: Annotated[By | None, Field(description="Also tell these apart.")] = None,
) -> Metrics:
    """Counts, rates, durations and use of the tasks that ended lately, of all and by group, and of the daemon itself."""
    now = services.now()
    since, until = now - timedelta(seconds=since_s), now - timedelta(seconds=until_s) if until_s else None
    collected = await services.store.read(figures.collect, since, by, until)
    return {**collected, "daemon": _process(), "hooks": services.of(Latencies).shown()}


@prometheus.get("/metrics", answer=str, media="text/plain")
async def scrape(services: Services) -> Response:
    """The totals, how long the newest work took, and what is there now, in the text format of Prometheus."""

    def look(conn: Connection) -> tuple[list[TotalRow], RecentWork, Payload]:
        return totals.every(conn), figures.recent(conn), present(services, conn)

    counted, recent, now = await services.store.read(look)
    write = asyncio.get_running_loop().run_in_executor
    text = await write(services.pool, exposition.text, counted, recent, now, _process(), services.of(Latencies))
    return Response(text, media_type=exposition.CONTENT_TYPE)


def _process() -> ProcessUse:
    process = psutil.Process(os.getpid())
    times = process.cpu_times()
    return {
        "memory_mb": round(process.memory_info().rss / (1 << 20)),
        "cpu_s": round(times.user + times.system, 2),
    }


def present(services: Services, conn: Connection) -> Payload:
    """What there is now: what needs a person by kind, requests by state, connected sessions by status, and the landing queue."""
    needs = list(every_need(services, conn))
    red = {need.ids.get("target", "") for need in needs if need.kind == "red_target"}
    default = services.settings.target().removeprefix("refs/heads/")
    return {
        "needs_you": Counter(need.kind for need in needs),
        "target_red": {target: int(target in red) for target in {default, *merges.busy_targets(conn), *red}},
        "verification_slots_busy": Counter(run["target"] for run in runs.running(conn)),
        "verification_runs": runs.number(conn),
        "merges": merges.counts(conn),
        "sessions": Counter(str(sessions.shown_status(row)) for row in sessions.live(conn)),
    }
