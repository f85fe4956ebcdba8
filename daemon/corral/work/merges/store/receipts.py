"""SQL for receipts: what a verification proved about exactly one tree under one set of commands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from corral.core.identifiers import new_id
from corral.core.instants import after, iso, parse
from corral.core.states import ReceiptRole, ReceiptStatus
from corral.store.engine.fetch import fetch_all, fetch_first
from corral.store.rows.merges import ReceiptRow
from corral.store.schema import receipts


def add(
    conn: Connection,
    *,
    tree: str,
    fingerprint: str,
    status: ReceiptStatus,
    now: datetime,
    commands: Sequence[str] = (),
    exit_code: int | None = None,
    tests: int | None = None,
    duration_s: float = 0.0,
    log: str | None = None,
    reason: str | None = None,
    merge_id: str | None = None,
    commit_sha: str | None = None,
    role: ReceiptRole | None = None,
    inputs: dict[str, Any] | None = None,
    failed_tests: Sequence[str] | None = None,
) -> ReceiptRow:
    """Store a receipt and return it; receipts are never changed afterwards.

    Args:
        merge_id: The request that the run was for.
        commit_sha: The commit that was checked out.
        role: What that commit was to the request.
        inputs: What the run took beside the commit: dependencies, included files, programs.
        failed_tests: Of a red run of everything: the tests that failed, as far as its output tells.

    Its ``created_at`` is later than that of every other: what was proven last counts, also after a clock was set back.
    """
    before = conn.execute(select(func.max(receipts.c.created_at))).scalar()
    at = iso(now) if before is None else max(iso(now), after(parse(before), 0.001))
    row: ReceiptRow = {
        "receipt_id": new_id(),
        "tree": tree,
        "fingerprint": fingerprint,
        "status": status.value,
        "commands": list(commands),
        "exit_code": exit_code,
        "tests": tests,
        "duration_s": round(duration_s, 3),
        "log": log,
        "reason": reason,
        "created_at": at,
        "merge_id": merge_id,
        "commit_sha": commit_sha,
        "role": role.value if role is not None else None,
        "inputs": inputs,
        "failed_tests": list(failed_tests) if failed_tests is not None else None,
    }
    conn.execute(insert(receipts).values(**row))
    return row


def get(conn: Connection, receipt_id: str | None) -> ReceiptRow | None:
    """One receipt by its id."""
    if receipt_id is None:
        return None
    return fetch_first(conn, select(receipts).where(receipts.c.receipt_id == receipt_id), ReceiptRow)


def of_merge(conn: Connection, merge_id: str) -> list[ReceiptRow]:
    """The receipts of what ran for a request, oldest first; the whole id."""
    query = select(receipts).where(receipts.c.merge_id == merge_id).order_by(receipts.c.created_at)
    return fetch_all(conn, query, ReceiptRow)


def latest(conn: Connection, tree: str, fingerprint: str, *statuses: ReceiptStatus) -> ReceiptRow | None:
    """The newest receipt for exactly this tree and these commands, of one of the statuses."""
    proven = (receipts.c.tree == tree, receipts.c.fingerprint == fingerprint, receipts.c.status.in_(statuses))
    query = select(receipts).where(*proven).order_by(receipts.c.created_at.desc()).limit(1)
    return fetch_first(conn, query, ReceiptRow)


def reds_before(conn: Connection, green: ReceiptRow) -> list[ReceiptRow]:
    """The red runs of everything on the tree of a green one, since the green one before it; newest first."""
    of_tree = (receipts.c.tree == green["tree"], receipts.c.fingerprint == green["fingerprint"])
    earlier = receipts.c.created_at < green["created_at"]
    last_green = (
        select(func.coalesce(func.max(receipts.c.created_at), ""))
        .where(*of_tree, earlier, receipts.c.status == ReceiptStatus.PASSED)
        .scalar_subquery()
    )
    is_red = (receipts.c.status == ReceiptStatus.FAILED, receipts.c.created_at > last_green)
    query = select(receipts).where(*of_tree, earlier, *is_red).order_by(receipts.c.created_at.desc())
    return [row for row in fetch_all(conn, query, ReceiptRow) if row["failed_tests"] is not None]
