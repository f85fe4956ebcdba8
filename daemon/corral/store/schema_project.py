"""The tables about the project as a whole: whose database it is, what is paused or switched on for it, who did what, its alerts.

The conventions are those of :mod:`corral.store.schema`.
"""

from __future__ import annotations

from sqlalchemy import JSON, CheckConstraint, Column, Index, Integer, String, Table, Text, func

from corral.store.schema import metadata

target_pauses = Table(
    "target_pauses",
    metadata,
    Column("target", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("since_at", String(24), nullable=False),
    Column("look_at", String(24), nullable=False),
)

work_pause = Table(
    "work_pause",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("reason", Text, nullable=True),
    Column("since_at", String(24), nullable=False),
    CheckConstraint("id = 1", name="single"),
)

roadmap_supervision = Table(
    "roadmap_supervision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("since_at", String(24), nullable=False),
    CheckConstraint("id = 1", name="single"),
)

project_identity = Table(
    "project_identity",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("project_id", String(36), nullable=False),
    Column("root", Text, nullable=False),
    Column("common_dir", Text, nullable=False),
    Column("folder_id", String(48), nullable=False),
    Column("created_at", String(24), nullable=False),
    CheckConstraint("id = 1", name="single"),
)

audit_lines = Table(
    "audit_lines",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", String(24), nullable=False),
    Column("agent_id", String(128), nullable=False),
    Column("session_id", String(128), nullable=True),
    Column("task_id", String(36), nullable=True),
    Column("action", String(128), nullable=False),
    Column("parameters", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("previous_hash", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)
"""The audit. ``parameters`` and ``result`` are the JSON text that was hashed. Triggers refuse to change a line, and to delete
one that retention has not counted in ``audit_chain`` first."""
Index(
    "ix_audit_lines_task_id_seq",
    audit_lines.c.task_id,
    audit_lines.c.seq,
    sqlite_where=audit_lines.c.task_id.is_not(None),
)
Index("ix_audit_lines_folded", func.lower(audit_lines.c.agent_id), audit_lines.c.seq)
Index("ix_audit_lines_at", audit_lines.c.at)

audit_chain = Table(
    "audit_chain",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("removed_seq", Integer, nullable=False),
    Column("removed_hash", String(64), nullable=False),
    Column("removed_at", String(24), nullable=True),
    Column("last_seq", Integer, nullable=False),
    Column("last_hash", String(64), nullable=False),
    CheckConstraint("id = 1", name="single"),
    CheckConstraint("removed_seq <= last_seq", name="ends"),
)
"""Both ends of the chain: the last line that retention removed, and the newest line."""

alerts = Table(
    "alerts",
    metadata,
    Column("alert_id", String(36), primary_key=True),
    Column("rule", String(64), nullable=False),
    Column("subject", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("remedy", Text, nullable=False),
    Column("times", Integer, nullable=False),
    Column("first_raised_at", String(24), nullable=False),
    Column("raised_at", String(24), nullable=False),
    Column("acknowledged_at", String(24), nullable=True),
    Column("resolved_at", String(24), nullable=True),
    Column("told", String(16), nullable=True),
    CheckConstraint("times > 0", name="times"),
    CheckConstraint("told IN ('raised', 'resolved')", name="told"),
)
"""``raised_at`` is the last time; ``told`` is what notifications have said of it last."""
Index("ix_alerts_open", alerts.c.rule, alerts.c.subject, unique=True, sqlite_where=alerts.c.resolved_at.is_(None),
      postgresql_where=alerts.c.resolved_at.is_(None))  # fmt: skip
Index("ix_alerts_raised_at", alerts.c.raised_at)

told_needs = Table(
    "told_needs",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("told_at", String(24), nullable=False),
)
"""Needs of a person that a notification has told."""

deliveries = Table(
    "deliveries",
    metadata,
    Column("delivery_id", String(36), primary_key=True),
    Column("body", JSON, nullable=False),
    Column("state", String(16), nullable=False),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=True),
    Column("created_at", String(24), nullable=False),
    Column("not_before_at", String(24), nullable=False),
    Column("settled_at", String(24), nullable=True),
    CheckConstraint("state IN ('waiting', 'delivered', 'failed', 'dropped')", name="state"),
    CheckConstraint("(state = 'waiting') = (settled_at IS NULL)", name="settled"),
)
"""Notifications on their way to the webhook."""
Index("ix_deliveries_waiting", deliveries.c.not_before_at, sqlite_where=deliveries.c.state == "waiting",
      postgresql_where=deliveries.c.state == "waiting")  # fmt: skip
