"""Alerts, and telling a person."""

from __future__ import annotations

from tests.mutations.table import rows

LIFE = "unit/observe/alerts/test_lifecycle.py"
RULES = "unit/observe/alerts/test_rules.py"
TIMING = "unit/observe/alerts/test_timing.py"
WEBHOOK = "unit/server/alerts/test_webhook.py"
WHOLE = "integration/test_alerts.py"
TRACES = "unit/server/telemetry/test_export.py"
PARTS = "unit/app/traces/test_parts.py"
LIFETIME = "unit/app/traces/test_lifetime.py"

MUTATIONS = (
    *rows(
        "daemon/corral/observe/alerts/lifecycle.py",
        ("an acknowledged alert reminds", "if before is not None and is_open and before[\"acknowledged_at\"] is not None:", "if False:", LIFE, "FR-MONITOR-005"),
        ("a cooldown holds nothing back", ".total_seconds() < finding.cooldown_s:", ".total_seconds() < 0:", LIFE, "FR-MONITOR-005"),
        ("one rule may raise all", "recent[finding.rule] >= settings.max_per_rule_per_hour or ", "", LIFE, "FR-MONITOR-005"),
        ("an alert never resolves", "decision.resolved.extend(gone)", "gone.clear()", LIFE, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/observe/alerts/rules.py",
        ("a window has no end", "if since < one.at <= now", "if one.at <= now", RULES, "FR-MONITOR-005"),
        ("a rate counts single attempts", "if one.is_last]", "]", RULES, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/observe/alerts/timing.py",
        ("quiet hours end at midnight", "return end + timedelta(days=1) if now >= start else None", "return None", TIMING, "FR-MONITOR-005"),
        ("any number is told in an hour", "if len(latest) >= settings.max_per_hour:", "if False:", TIMING, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/server/alerts/webhook.py",
        ("a hanging webhook holds the queue", "if outcome is None and 0 < left_s <= self._settings().webhook_timeout_s:", "if outcome is None:", WEBHOOK, "FR-MONITOR-005"),
        ("a failed delivery is given up at once", "outcome.is_final or tries", "error or tries", WEBHOOK, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/server/alerts/posting.py",
        ("a signature leaves the time out", "timestamp.encode() + b\".\" + body", "body", WEBHOOK, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/app/runtime/settings.py",
        ("an address of a clone is used unasked", "if url is None or any(claim.key == key for claim in self.untrusted()):", "if url is None:", WHOLE, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/app/alerts/news.py",
        ("a secret is sent", "        return redact(value)\n", "        return value\n", WHOLE, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/observe/event_lines.py",
        ("an alert is no error in the log", "EventKind.ALERT_RAISED: logging.ERROR", "EventKind.ALERT_RAISED: logging.INFO", WHOLE, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/server/telemetry/export.py",
        ("spans that were not taken are forgotten", "if outcome.error is not None:", "if False:", TRACES, ""),
        ("spans from before are sent", "self._move(self._db.read(events.newest))", "self._move(0)", TRACES, ""),
        ("a collector that hangs is waited for", "if batch.sending.outcome is None and now < batch.deadline:", "if batch.sending.outcome is None:", TRACES, ""),
        ("a position of before it was off counts", "self._db.write(lambda conn: events.forget_position(conn, READER))", "pass", TRACES, ""),
        ("events wait for ever", "if days is None or is_early or", "if True or", TRACES, ""),
    ),
    *rows(
        "daemon/corral/server/telemetry/otlp.py",
        ("a redirect is an acknowledgement", "if response.status_code // 100 != 2:", "if response.status_code >= 400:", TRACES, ""),
        ("the exporter tries again by itself", "raise _Refused(outcome.error)", "pass", TRACES, ""),
        ("a proxy gets the spans", "session.trust_env = False", "session.trust_env = True", TRACES, ""),
    ),
    *rows(
        "daemon/corral/app/traces/spans.py",
        ("a trace holds secrets", "return _BOUNDS.cut(value) if isinstance(value, str) else value", "return value", PARTS, ""),
    ),
    *rows(
        "daemon/corral/app/traces/lifetime.py",
        ("a task ends before it has landed", "not self._landings and not self._awaits_merge", "not self._landings", LIFETIME, ""),
    ),
)  # fmt: skip
