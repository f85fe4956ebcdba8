"""The life of an alert: it is raised once, reminded of after its cooldown, and resolves when its cause is gone.

Alert fatigue is bounded: one open alert for each subject, a cooldown for each rule and subject, so many an hour of a rule and in
all. A finding that is held back is raised later, if its cause still stands then. An alert of the future is one from before the
clock was set back: it holds nothing back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict

from corral.config.sections.alerts import Alerts
from corral.core.instants import parse
from corral.observe.alerts.rules import Finding

HOUR = timedelta(hours=1)


class Known(TypedDict):
    """An alert that was raised, open or resolved.

    Attributes:
        raised_at: When it was last raised.
    """

    alert_id: str
    rule: str
    subject: str
    raised_at: str
    acknowledged_at: str | None
    resolved_at: str | None


@dataclass(frozen=True)
class Decision:
    """The changes to make.

    Attributes:
        raised: New alerts.
        again: Alerts that are open and unacknowledged after their cooldown, by id.
        resolved: Ids of alerts whose cause is gone.
        held_back: Findings that a bound keeps from being raised now.
    """

    raised: list[Finding] = field(default_factory=list)
    again: dict[str, Finding] = field(default_factory=dict)
    resolved: list[str] = field(default_factory=list)
    held_back: list[Finding] = field(default_factory=list)


def decide(findings: Iterable[Finding], known: Sequence[Known], settings: Alerts, now: datetime) -> Decision:
    """Compare the findings with the known alerts.

    Args:
        known: The open alerts, and those raised within the longest cooldown; of each rule and subject the last one counts.
    """
    firing = {(finding.rule, finding.subject): finding for finding in findings}
    last = {(alert["rule"], alert["subject"]): alert for alert in sorted(known, key=lambda alert: alert["raised_at"])}
    recent = Counter(alert["rule"] for alert in known if timedelta(0) <= now - parse(alert["raised_at"]) < HOUR)
    decision = Decision()
    gone = [alert["alert_id"] for key, alert in last.items() if alert["resolved_at"] is None and key not in firing]
    decision.resolved.extend(gone)
    for key, finding in firing.items():
        before = last.get(key)
        is_open = before is not None and before["resolved_at"] is None
        if before is not None and is_open and before["acknowledged_at"] is not None:
            continue
        if before is not None and 0 <= (now - parse(before["raised_at"])).total_seconds() < finding.cooldown_s:
            if not is_open:
                decision.held_back.append(finding)
            continue
        if recent[finding.rule] >= settings.max_per_rule_per_hour or recent.total() >= settings.max_per_hour:
            decision.held_back.append(finding)
            continue
        recent[finding.rule] += 1
        if before is not None and is_open:
            decision.again[before["alert_id"]] = finding
        else:
            decision.raised.append(finding)
    return decision
