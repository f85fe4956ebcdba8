"""The timeline: what each agent's place and each verification slot was used for, and when. Drawn as SVG from rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.instants import iso, parse
from corral.faces.web.live import following
from corral.faces.web.rendering import Visit, tone
from corral.store import events
from corral.store.rows.merges import RanVerification
from corral.store.rows.tasks import WorkedAttempt
from corral.work.merges.store import runs
from corral.work.swarm import swarm

SPANS = {"auto": 24.0, "1h": 1.0, "6h": 6.0, "24h": 24.0, "7d": 168.0}
"""How far back one can look, in hours; ``auto``: as far as anything was done in these hours."""
USUAL = "auto"
SHORTEST = timedelta(minutes=1)
LEFT, RIGHT, WIDTH, ROW, TOP = 150, 12, 1000, 26, 24
MARKS = 6
MOST_ROWS = 60
"""Places and slots that are drawn."""
MOST_RUNS = 2000
"""Verifications that are drawn: the newest."""


@dataclass(frozen=True)
class Bar:
    """An attempt or a verification; ``tip`` says all of it."""

    x: float
    width: float
    tone: str
    tip: str
    label: str
    link: str


@dataclass(frozen=True)
class Lane:
    """A place, and what it was used for."""

    y: int
    name: str
    bars: list[Bar]


async def page(services: Services, visit: Visit, _item: str) -> dict[str, Any]:
    """The timeline of the last hours."""
    chosen, now = visit.query.get("span", ""), services.now()
    span = chosen if chosen in SPANS else USUAL
    since = now - timedelta(hours=SPANS[span])

    def look(conn: Connection) -> tuple[list[WorkedAttempt], list[RanVerification], int]:
        ran = runs.ran_since(conn, iso(since), MOST_RUNS)
        return swarm.worked_since(conn, iso(since)), ran, events.newest(conn)

    rows, ran, seq = await services.store.read(look)
    if span == USUAL:
        since = max(since, min((parse(row["claimed_at"]) for row in rows), default=since))
        since = min(since, now - SHORTEST)
    lanes = _lanes(rows, ran, since, now)
    return {
        "title": "Timeline", "lanes": lanes[:MOST_ROWS], "left_out": max(0, len(lanes) - MOST_ROWS), "span": span,
        "spans": [*SPANS], "rows": rows[::-1][:200], "marks": _marks(since, now), "live": following(seq),
        "width": WIDTH, "height": TOP + ROW * max(1, min(len(lanes), MOST_ROWS)) + 6,
    }  # fmt: skip


def _lanes(rows: Sequence[WorkedAttempt], ran: Sequence[RanVerification], since: datetime, now: datetime) -> list[Lane]:
    """A lane for each place of an agent, an attempt in the first one that was free, and for each slot."""
    places: list[list[WorkedAttempt]] = []
    for row in rows:
        free = next((place for place in places if (place[-1]["ended_at"] or "9") <= row["claimed_at"]), None)
        if free is None:
            places.append(free := [])
        free.append(row)
    bars = {f"agent {number}": [_work(row, since, now) for row in place] for number, place in enumerate(places, 1)}
    for run in sorted(ran, key=lambda run: run["slot"]):
        bars.setdefault(f"slot {run['slot']}", []).append(_run(run, since, now))
    return [Lane(TOP + number * ROW, name, of_lane) for number, (name, of_lane) in enumerate(bars.items())]


def _work(row: WorkedAttempt, since: datetime, now: datetime) -> Bar:
    what, named = row["outcome"] or "running", f"{row['seq']} {row['title']}"
    tip = f"{named}: attempt {row['number']} by {row['agent_name']}, {what}"
    return _bar((row["claimed_at"], row["ended_at"]), (since, now), what, tip, named, f"/tasks/{row['task_id']}")


def _run(run: RanVerification, since: datetime, now: datetime) -> Bar:
    what = run["status"] or ("dropped" if run["ended_at"] else "running")
    others = f" and {len(run['members']) - 1} more" if len(run["members"]) > 1 else ""
    named = f"{run['title']}{others}" if run["title"] is not None else f"{run['target']} as it is"
    tip = f"Verification of {named}: {what}"
    return _bar(
        (run["started_at"], run["ended_at"]),
        (since, now),
        what,
        tip,
        named,
        f"/merges/{run['merge_id']}" if run["title"] is not None else "/queue",
    )


def _bar(
    lasted: tuple[str, str | None], drawn: tuple[datetime, datetime], what: str, tip: str, named: str, link: str
) -> Bar:
    (began, ended), (since, now) = lasted, drawn
    x = _x(max(since, parse(began)), since, now)
    width = max(3.0, _x(parse(ended) if ended else now, since, now) - x)
    label = named[: int(width // 7)] if width > 40 else ""
    tip = f"{tip}, from {began} to {ended or 'now'}"
    return Bar(round(x, 1), round(width, 1), tone(what), tip, label, link)


def _x(at: datetime, since: datetime, now: datetime) -> float:
    share = (at - since).total_seconds() / (now - since).total_seconds()
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _marks(since: datetime, now: datetime) -> list[tuple[float, str]]:
    step = (now - since) / MARKS
    moments = [since + step * number for number in range(MARKS + 1)]
    lasts = now - since
    written = "%a %H:%M" if lasts > timedelta(hours=24) else "%H:%M" if lasts > timedelta(minutes=12) else "%H:%M:%S"
    return [(round(_x(at, since, now), 1), at.strftime(written)) for at in moments]
