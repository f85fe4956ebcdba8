"""The state that the rules of alerts judge, gathered from the database and the daemon's parts."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.coordination.sessions.store import sessions
from corral.core.events import EventKind
from corral.core.instants import iso, parse
from corral.observe.alerts import store as alerts
from corral.observe.alerts.rules import Ended, Facts, longest_window_s
from corral.observe.view import composing, needs_of_landing
from corral.runners.process import available_mb
from corral.store import events
from corral.store.rows.records import EndedAttemptEvent
from corral.work.merges.store import flakes
from corral.work.swarm.performance import kind_of
from corral.work.tasks.store import lists, work_pause

if TYPE_CHECKING:
    from corral.coordination.services import Services

MOST_ENDED = 5000
"""Ended attempts that are counted; older ones of a window fall out."""
BACKLOG = 50_000
"""Events before the newest in which a start looks for ended attempts."""


class EndedAttempts:
    """The attempts that ended within the window, read from the events once each."""

    def __init__(self) -> None:
        self._ended: deque[Ended] = deque(maxlen=MOST_ENDED)
        self._last: int | None = None

    def within(self, conn: Connection, window_s: float, now: datetime) -> list[Ended]:
        """The attempts that ended in the window before ``now``, oldest first."""
        since = now - timedelta(seconds=window_s)
        if self._last is None:
            self._last = max(0, events.newest(conn) - BACKLOG)
        while page := alerts.ended_attempts(conn, self._last, iso(since), MOST_ENDED):
            self._ended.extend(_ended(row) for row in page if row["data"].get("is_counted") is not False)
            self._last = page[-1]["event_id"]
        while self._ended and self._ended[0].at <= since:
            self._ended.popleft()
        return list(self._ended)


def _ended(row: EndedAttemptEvent) -> Ended:
    return Ended(
        at=parse(row["at"]),
        task_id=row["task_id"],
        agent=kind_of(row["agent"], row["runner"]),
        failed=row["kind"] != EventKind.TASK_COMPLETED,
        is_last=row["kind"] != EventKind.TASK_RETRIED,
    )


def gather(services: Services, conn: Connection, ended: EndedAttempts, now: datetime) -> Facts:
    """Gather the present state, inside a read transaction; measures free disk and memory too."""
    settings = services.settings()
    recent = ended.within(conn, longest_window_s(settings.alerts), now)
    pending = None if work_pause.current(conn) is not None else alerts.oldest_pending(conn)
    task_ids = {attempt.task_id for attempt in recent if attempt.failed} | ({pending["task_id"]} if pending else set())
    used = composing.resources(services, composing.use_of_day(conn, now))
    return Facts(
        ended=recent,
        titles=lists.titles(conn, list(task_ids)),
        budgets=_budgets(settings, used),
        free_disk_mb=used["free_disk_mb"],
        free_memory_mb=available_mb(),
        oldest_pending=(parse(pending["created_at"]), pending["task_id"]) if pending else None,
        red_targets={
            need.ids["target"]: parse(need.since) if need.since else None
            for need in needs_of_landing.red_targets(services, conn)
        },
        flaky=flakes.shares(conn, iso(now - timedelta(seconds=settings.alerts.flaky_target.window_s))),
        unguarded={
            row["session_id"]: (row["agent_name"], parse(row["unguarded_since_at"]))
            for row in sessions.live(conn)
            if row["unguarded_since_at"] is not None
        },
    )


def _budgets(settings: Settings, used: dict[str, dict[str, float]]) -> dict[str, tuple[float, float]]:
    allowed = {"tokens_per_day": settings.limits.tokens_per_day, "cost_usd_per_day": settings.limits.cost_usd_per_day}
    return {f"limits.{name}": (used[name]["used"], limit) for name, limit in allowed.items() if limit is not None}
