"""Operations on alerts: list, acknowledge, and store the alerts that a judgement raises or resolves."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.config.sections.alerts import Alerts
from corral.core.errors import Conflict, NotFound
from corral.core.events import EventKind
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.payload import shaped
from corral.core.redaction import redact
from corral.observe.alerts import store as alerts
from corral.observe.alerts.api import Alert
from corral.observe.alerts.rules import Decision, Finding, decide
from corral.store import events
from corral.store.rows.records import AlertRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corral.core.event_payloads import AlertChanged, AlertRaised

MOST_LISTED = 200
SHOWN_ELSEWHERE = frozenset({"red_target", "unguarded_session", "budget", "task_failures", "error_rate"})
"""Rules whose cause is an entry of needs_you already."""


def wire(row: AlertRow) -> Alert:
    """An alert as the wire has it."""
    state = "resolved" if row["resolved_at"] else "acknowledged" if row["acknowledged_at"] else "raised"
    return shaped(Alert, row, state=state)


def waiting_for_a_person(conn: Connection) -> list[AlertRow]:
    """Open, unacknowledged alerts whose cause nothing else shows."""
    rows = alerts.listing(conn, with_resolved=False, limit=MOST_LISTED)
    return [row for row in rows if row["acknowledged_at"] is None and row["rule"] not in SHOWN_ELSEWHERE]


def acknowledge(conn: Connection, which: str, now: datetime) -> AlertRow:
    """Mark an alert as seen: no reminder follows, until its cause is gone and comes back.

    Args:
        which: Its id, or the beginning of it.

    Raises:
        NotFound: No alert, or more than one, begins so.
        Conflict: It is resolved.
    """
    rows = alerts.named(conn, which)
    if len(rows) != 1:
        several = "More than one alert" if rows else "No alert"
        raise NotFound(
            f"{several} has an id that begins with {which!r}.",
            cause="More of the id tells them apart." if rows else "It is mistyped, or the alert was deleted.",
            remedy="`corral alert list --all` shows them.",
        )
    (row,) = rows
    if row["resolved_at"] is not None:
        raise Conflict("The alert is resolved.", cause=f"Its cause was gone at {row['resolved_at']}.")
    changed = alerts.acknowledge(conn, row["alert_id"], iso(now))
    if changed is None:
        return row
    events.record(conn, now, EventKind.ALERT_ACKNOWLEDGED(_event_data(changed)))
    return changed


def judge(conn: Connection, findings: Sequence[Finding], settings: Alerts, now: datetime) -> Decision:
    """Compare the findings with the stored alerts; changes nothing."""
    longest_s = max([3600.0, *(finding.cooldown_s for finding in findings)])
    return decide(findings, alerts.open_or_raised_since(conn, iso(now - timedelta(seconds=longest_s))), settings, now)


def apply(conn: Connection, decision: Decision, now: datetime) -> None:
    """Store a decision with its events; an alert that changed meanwhile stays as it is."""
    at = iso(now)
    for alert_id in decision.resolved:
        if (row := alerts.resolve(conn, alert_id, at)) is not None:
            events.record(conn, now, EventKind.ALERT_RESOLVED(_event_data(row)))
    for alert_id, finding in decision.again.items():
        row = alerts.raise_again(conn, alert_id, redact(finding.reason), finding.remedy, at)
        if row is not None:
            _record_raised(conn, row, now)
    for finding in decision.raised:
        new: AlertRow = {
            "alert_id": new_id(),
            "rule": finding.rule,
            "subject": finding.subject,
            "reason": redact(finding.reason),
            "remedy": finding.remedy,
            "times": 1,
            "first_raised_at": at,
            "raised_at": at,
            "acknowledged_at": None,
            "resolved_at": None,
            "told": None,
        }
        alerts.create(conn, new)
        _record_raised(conn, new, now)


def _record_raised(conn: Connection, row: AlertRow, now: datetime) -> None:
    data: AlertRaised = {
        "alert_id": row["alert_id"],
        "rule": row["rule"],
        "subject": row["subject"],
        "reason": row["reason"],
        "remedy": row["remedy"],
        "times": row["times"],
    }
    events.record(conn, now, EventKind.ALERT_RAISED(data))


def _event_data(row: AlertRow) -> AlertChanged:
    return {"alert_id": row["alert_id"], "rule": row["rule"], "subject": row["subject"]}
