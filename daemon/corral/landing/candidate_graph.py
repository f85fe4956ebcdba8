"""The candidates of the queue as a graph: on which commit each is built, and what is known of it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.landing import standing
from corral.landing.api import CandidateInGraph, GraphOfTarget
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import receipts
from corral.work.merges.wire import Standing


def of_targets(conn: Connection, most: int, ageing_s: float, now: datetime) -> list[GraphOfTarget]:
    """The first open requests of the queue, by target, each in landing order."""
    rows = standing.of_open(conn, most, ageing_s, now)
    candidates = {row["candidate_sha"] for row, _how in rows}
    graphs: dict[str, GraphOfTarget] = {}
    for row, how in rows:
        graph = graphs.setdefault(row["target"], {"target": row["target"], "tip": None, "candidates": []})
        if row["tip_sha"] not in candidates:
            graph["tip"] = graph["tip"] or row["tip_sha"]
        graph["candidates"].append(_candidate(conn, row, how))
    return list(graphs.values())


def _candidate(conn: Connection, row: MergeRow, how: Standing) -> CandidateInGraph:
    return {
        "merge_id": row["merge_id"],
        "title": row["title"],
        "state": row["state"],
        "standing": how,
        "candidate_sha": row["candidate_sha"],
        "on_sha": row["tip_sha"],
        "verdict": _verdict(conn, row, how),
        "is_alone": row["suspect_at"] is not None,
    }


def _verdict(conn: Connection, row: MergeRow, how: Standing) -> str:
    if row["candidate_sha"] is None:
        return "not built"
    receipt = receipts.get(conn, row["receipt_id"])
    if receipt is not None:
        return receipt["status"]
    return "running" if how["slot"] is not None else "not verified"
