"""The timeline: which session worked on which task, and when. Drawn as SVG from rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.instants import iso, parse
from corral.faces.web.live import following
from corral.faces.web.rendering import tone
from corral.faces.web.visit import Visit
from corral.store import events
from corral.store.rows import required
from corral.store.rows.tasks import WorkedAttempt
from corral.work.swarm import swarm

SPANS = {"auto": 24.0, "1h": 1.0, "6h": 6.0, "24h": 24.0, "7d": 168.0}
"""How far back one can look, in hours; ``auto``: as far as anything was done in these hours."""
USUAL = "auto"
SHORTEST = timedelta(minutes=1)
LEFT, RIGHT, WIDTH, ROW, TOP = 150, 12, 1000, 26, 24
MARKS = 6
MOST_ROWS = 60
"""Sessions that are drawn: those who worked last."""
TONES = {
    "completed": "good",
    "failed": "bad",
    "faulted": "asks",
    "cancelled": "plain",
    "interrupted": "asks",
    "returned": "plain",
}


@dataclass(frozen=True)
class Bar:
    """An attempt; ``tip`` says all of it."""

    x: float
    width: float
    tone: str
    tip: str
    label: str
    link: str


@dataclass(frozen=True)
class Lane:
    """A session, and its attempts."""

    y: int
    name: str
    link: str
    bars: list[Bar]


async def page(services: Services, visit: Visit, _item: str) -> dict[str, Any]:
    """The timeline of the last hours."""
    chosen, now = visit.query.get("span", ""), services.now()
    span = chosen if chosen in SPANS else USUAL
    since = now - timedelta(hours=SPANS[span])

    def look(conn: Connection) -> tuple[list[WorkedAttempt], int]:
        return swarm.worked_since(conn, iso(since)), events.newest(conn)

    rows, seq = await services.store.read(look)
    if span == USUAL:
        since = max(since, min((parse(row["claimed_at"]) for row in rows), default=since))
        since = min(since, now - SHORTEST)
    lanes = _lanes(rows, since, now)
    return {
        "title": "Timeline", "lanes": lanes[:MOST_ROWS], "left_out": max(0, len(lanes) - MOST_ROWS), "span": span,
        "spans": [*SPANS], "rows": rows[::-1][:200], "marks": _marks(since, now), "live": following(seq),
        "width": WIDTH, "height": TOP + ROW * max(1, min(len(lanes), MOST_ROWS)) + 6, "tones": TONES,
    }  # fmt: skip


def _lanes(rows: Sequence[WorkedAttempt], since: datetime, now: datetime) -> list[Lane]:
    """A lane for each session, the one that worked last first."""
    by_session: dict[str, list[WorkedAttempt]] = {}
    for row in sorted(rows, key=lambda row: row["ended_at"] or "9", reverse=True):
        by_session.setdefault(row["session_id"], []).append(row)
    return [
        Lane(
            TOP + number * ROW, required(own[0]["agent_name"]), f"/sessions/{session_id}",
            [_bar(row, since, now) for row in own],
        )
        for number, (session_id, own) in enumerate(by_session.items())
    ]  # fmt: skip


def _bar(row: WorkedAttempt, since: datetime, now: datetime) -> Bar:
    begin = max(since, parse(row["claimed_at"]))
    end = parse(row["ended_at"]) if row["ended_at"] else now
    x = _x(begin, since, now)
    width = max(3.0, _x(end, since, now) - x)
    what = row["outcome"] or "running"
    named = f"{row['seq']} {row['title']}"
    return Bar(
        round(x, 1), round(width, 1), TONES.get(what, tone(what)),
        f"{named}: attempt {row['number']}, {what}, from {row['claimed_at']} to {row['ended_at'] or 'now'}",
        named[: int(width // 7)] if width > 40 else "", f"/tasks/{row['task_id']}",
    )  # fmt: skip


def _x(at: datetime, since: datetime, now: datetime) -> float:
    share = (at - since).total_seconds() / (now - since).total_seconds()
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _marks(since: datetime, now: datetime) -> list[tuple[float, str]]:
    step = (now - since) / MARKS
    moments = [since + step * number for number in range(MARKS + 1)]
    lasts = now - since
    written = "%a %H:%M" if lasts > timedelta(hours=24) else "%H:%M" if lasts > timedelta(minutes=12) else "%H:%M:%S"
    return [(round(_x(at, since, now), 1), at.strftime(written)) for at in moments]
