"""The page of the landing queue: its lanes, its candidates as a graph, and what landed in the last day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.pages import page as one_page
from corral.core.payload import Payload
from corral.core.states import OPEN_MERGES, MergeState
from corral.faces.web.live import following
from corral.faces.web.rendering import Visit, tone
from corral.landing import pauses
from corral.observe.metrics import figures
from corral.observe.view import landing_order
from corral.store import events
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import merges, runs
from corral.work.merges.wire import outcome_of
from corral.work.swarm import swarm

MOST_OPEN = 200
MOST_DRAWN = 40
"""Requests in the graph; the lanes have the others."""
MOST_ENDED = 30
HISTORY = timedelta(days=1)
ENDED = tuple(state for state in MergeState if state not in OPEN_MERGES)


async def page(services: Services, _visit: Visit, _item: str) -> dict[str, Any]:
    """The queue."""
    now = services.now()

    def look(conn: Connection) -> dict[str, Any]:
        return {
            **landing_order.queue(services, conn, MOST_OPEN),
            "working": swarm.members(conn)[:MOST_OPEN],
            "rows": merges.in_order(conn, MOST_DRAWN),
            "tips": [run for run in runs.running(conn) if not run["merge_id"]],
            "stopped": pauses.stops(conn),
            "ended": _ended(conn),
            "history": figures.collect(conn, now - HISTORY, None),
            "seq": events.newest(conn),
        }

    shown = await services.store.read(look)
    drawings = of_targets(shown.pop("rows"))
    verifying = [row for row in shown["queue"] if row["slot"] is not None]
    waiting = [row for row in shown.pop("queue") if row["slot"] is None]
    lanes = {"verifying": sorted(verifying, key=lambda row: (row["slot"], row["position"])), "waiting": waiting}
    return {**shown, **lanes, "title": "Queue", "drawings": drawings, "live": following(shown["seq"])}


def _ended(conn: Connection) -> list[Payload]:
    rows = sorted(merges.latest_ended(conn, MOST_ENDED), key=lambda row: row["finished_at"] or "", reverse=True)
    return one_page(({**row, "outcome": outcome_of(row)} for row in rows), MOST_ENDED).rows


# -- The candidates of the landing queue as a graph: on which commit each one is built. Drawn as SVG from rows alone

COLUMN, ROW, WIDTH, HEIGHT = 190, 58, 158, 40
"""Distances between boxes, and their size, in units of the drawing."""
MARGIN = 12


@dataclass(frozen=True)
class Box:
    """A commit: the target's tip, or a candidate."""

    x: int
    y: int
    label: str
    detail: str
    tone: str
    link: str | None


@dataclass(frozen=True)
class Line:
    """From the commit that a candidate is built on to the candidate; ``is_planned``: it is not built yet."""

    path: str
    is_planned: bool


@dataclass(frozen=True)
class Drawing:
    """The graph of one target."""

    target: str
    width: int
    height: int
    boxes: list[Box]
    lines: list[Line]


def of_targets(rows: Sequence[MergeRow]) -> list[Drawing]:
    """A drawing for each target that something waits for; ``rows`` stand in landing order."""
    targets = dict.fromkeys(row["target"] for row in rows)
    return [_drawing(target, [row for row in rows if row["target"] == target]) for target in targets]


def _drawing(target: str, rows: Sequence[MergeRow]) -> Drawing:
    candidates = {row["candidate_sha"] for row in rows}
    tip = next((row["tip_sha"] for row in rows if row["tip_sha"] and row["tip_sha"] not in candidates), None)
    boxes = [Box(MARGIN, MARGIN, target, (tip or "tip")[:12], "target", None)]
    built = {row["candidate_sha"]: number for number, row in enumerate(rows, 1) if row["candidate_sha"]}
    columns, rows_of, lines, used = [0], [0], [], dict[int, int]()
    before = 0  # the last one that is in the way of a request that is not built yet
    for number, row in enumerate(rows, 1):
        is_built = row["candidate_sha"] is not None
        parent = built.get(row["tip_sha"] or "", 0) if is_built else before
        if parent >= number:
            parent = 0
        column = columns[parent] + 1
        columns.append(column)
        line = max(used.get(column, 0), rows_of[parent])
        rows_of.append(line)
        used[column] = line + 1
        box = Box(
            MARGIN + column * COLUMN, MARGIN + line * ROW, row["title"],
            f"{row['state']} {(row['candidate_sha'] or '')[:8]}".strip(), tone(row["state"]), f"/merges/{row['merge_id']}",
        )  # fmt: skip
        lines.append(Line(_curve(boxes[parent], box), not is_built))
        boxes.append(box)
        if row["state"] != MergeState.HELD:
            before = number if columns[number] < 6 else 0  # a long queue breaks into lines rather than run off the page
    width = max(box.x for box in boxes) + WIDTH + MARGIN
    return Drawing(target, width, max(box.y for box in boxes) + HEIGHT + MARGIN, boxes, lines)


def _curve(start: Box, end: Box) -> str:
    x0, y0, x1, y1 = start.x + WIDTH, start.y + HEIGHT // 2, end.x, end.y + HEIGHT // 2
    middle = (x0 + x1) // 2
    return f"M{x0} {y0}C{middle} {y0} {middle} {y1} {x1} {y1}"
