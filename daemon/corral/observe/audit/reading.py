"""The audit as it is shown: lines by who, what and when, and whether the chain of all lines is whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.sessions.store import sessions as session_rows
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.observe.audit import store as audit_rows
from corral.observe.audit.api import AuditProblem, AuditVerification
from corral.observe.audit.trail import Check, json_scalar
from corral.store.rows.records import AuditRow

PAGE = 2000
"""Lines that a verification reads in one transaction."""
LOST = "the record of the newest line was removed: which lines there were cannot be told"


def wire(row: AuditRow) -> Payload:
    """A line as the wire has it; ``parameters`` and ``result`` are the values of the JSON texts that were hashed."""
    line: Payload = json.loads(wire_text(row))
    return line


def wire_text(row: AuditRow) -> str:
    """A line's JSON on the wire; the texts that were hashed stand in it as they are."""
    return (
        f'{{"seq": {row["seq"]}, "timestamp": {json_scalar(row["at"])}, "agent_id": {json_scalar(row["agent_id"])}, '
        f'"session_id": {json_scalar(row["session_id"])}, "task_id": {json_scalar(row["task_id"])}, '
        f'"action": {json_scalar(row["action"])}, "parameters": {row["parameters"]}, "result": {row["result"]}, '
        f'"previous_hash": {json_scalar(row["previous_hash"])}, "hash": {json_scalar(row["hash"])}}}'
    )


def listing(
    conn: Connection,
    *,
    agent: str | None,
    task: str | None,
    action: str | None,
    since: datetime | None,
    before: int | None,
    limit: int,
) -> list[Payload]:
    """Lines, the newest first.

    Args:
        agent: A name, or the id of a session that is still known.
    """
    session = session_rows.get(conn, agent) if agent else None
    rows = audit_rows.listing(
        conn,
        agent=session["agent_name"] if session else agent,
        task=task,
        action=action,
        since=iso(since) if since else None,
        before=before,
        limit=limit,
    )
    return [wire(row) for row in rows]


def verify(read: Callable[[Callable[[Connection], Any]], Any]) -> AuditVerification:
    """Check the chain of all lines there are, from the last that retention removed to the newest.

    Args:
        read: Runs a query. Lines that are appended meanwhile are left for the next verification, and lines that retention
            removes meanwhile count as checked.
    """
    ends = read(audit_rows.ends)
    if ends is None:
        problems: list[AuditProblem] = [{"seq": 0, "problem": LOST}] if read(audit_rows.is_lost) else []
        return {
            "valid": not problems,
            "lines": 0,
            "first_seq": 0,
            "last_seq": 0,
            "removed_until": 0,
            "problems": problems,
        }
    check, until = Check(ends["removed_seq"], ends["removed_hash"]), ends["last_seq"]
    at = -1
    while True:
        now, rows = read(lambda conn: (audit_rows.ends(conn), audit_rows.following(conn, at, PAGE)))  # noqa: B023
        if now["removed_seq"] > check.seq:  # retention removed lines meanwhile
            check.seq, check.hash = now["removed_seq"], now["removed_hash"]
        known = [row for row in rows if row["seq"] <= until or now["last_seq"] == until]
        check.feed(known)
        if len(rows) < PAGE or len(known) < len(rows):
            break
        at = rows[-1]["seq"]
    check.end(until, ends["last_hash"])
    return {
        "valid": not check.broken,
        "lines": check.lines,
        "first_seq": ends["removed_seq"] + 1,
        "last_seq": until,
        "removed_until": ends["removed_seq"],
        "problems": check.problems,
    }
