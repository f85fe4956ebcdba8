"""The candidates of the landing queue as a graph: on which commit each one is built. Drawn as SVG from rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corral.core.states import MergeState
from corral.faces.web.rendering import tone
from corral.store.rows.merges import MergeRow

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
