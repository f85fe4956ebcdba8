"""The tables about the project as a whole: whose database it is, what is paused or switched on for it, who did what, its alerts;
the loops, whose history outlives their tasks; and the record of its agents.

The conventions are those of :mod:`corral.store.schema`.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
)

from corral.store.schema import metadata, only

target_pauses = Table(
    "target_pauses",
    metadata,
    Column("target", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("since_at", String(24), nullable=False),
    Column("look_at", String(24), nullable=False),
)

target_freezes = Table(
    "target_freezes",
    metadata,
    Column("target", Text, primary_key=True),
    Column("reason", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("since_at", String(24), nullable=False),
)

direct_tips = Table(
    "direct_tips",
    metadata,
    Column("target", Text, primary_key=True),
    Column("base_sha", String(64), nullable=False),
    Column("tip_sha", String(64), nullable=False),
    Column("whose", Text, nullable=False),
    Column("seen_at", String(24), nullable=False),
    # Verifications in a row that ended without a verdict, and when the next one may begin.
    Column("tries", Integer, nullable=False),
    Column("look_at", String(24), nullable=True),
    Column("reason", Text, nullable=True),
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
    **only(audit_lines.c.task_id.is_not(None)),
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
"""``raised_at`` is the last time; ``told`` is the state that the last notification reported."""
Index("ix_alerts_open", alerts.c.rule, alerts.c.subject, unique=True, **only(alerts.c.resolved_at.is_(None)))
Index("ix_alerts_raised_at", alerts.c.raised_at)

told_needs = Table(
    "told_needs",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("told_at", String(24), nullable=False),
)
"""Needs of a person that a notification has reported."""

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
Index("ix_deliveries_waiting", deliveries.c.not_before_at, **only(deliveries.c.state == "waiting"))

loops = Table(
    "loops",
    metadata,
    Column("task_id", String(36), primary_key=True),
    Column("title", Text, nullable=False),
    Column("spec", JSON, nullable=False),
    Column("target", Text, nullable=True),
    Column("base_sha", String(64), nullable=True),
    Column("counted_from", Integer, nullable=False),
    Column("created_at", String(24), nullable=False),
    CheckConstraint("counted_from >= 0", name="counted_from"),
)
"""``base_sha`` is where the first iteration started; iterations up to ``counted_from`` count for no limit. No row refers to the
task: retention deletes it, and the history stays."""

loop_iterations = Table(
    "loop_iterations",
    metadata,
    Column("task_id", String(36), primary_key=True),
    Column("iteration", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, nullable=False),
    Column("session_id", String(128), nullable=False),
    Column("base_sha", String(64), nullable=False),
    Column("head_sha", String(64), nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("is_success", Boolean, nullable=False),
    Column("record", Text, nullable=False),
    Column("duration_s", Float, nullable=False),
    Column("started_at", String(24), nullable=False),
    Column("ended_at", String(24), nullable=False),
    CheckConstraint("verdict IN ('converged', 'not_converged', 'inconclusive', 'failed')", name="verdict"),
)
"""The checkpoints. ``record`` is JSON text, so that a damaged one can be skipped: the evaluations, the result of the work, its
usage, and its instructions."""

agent_versions = Table(
    "agent_versions",
    metadata,
    Column("agent", String(128), primary_key=True),
    Column("content_hash", String(64), primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("version", String(32), nullable=False),
    Column("content", Text, nullable=False),
    Column("changelog", Text, nullable=True),
    Column("author", Text, nullable=True),
    Column("reason", Text, nullable=True),
    Column("created_at", String(24), nullable=False),
    UniqueConstraint("agent", "version"),
)
"""Every text that an agent's definition has worked with. ``agent`` is its name without case; ``seq`` counts its versions."""

agent_runs = Table(
    "agent_runs",
    metadata,
    Column("task_id", String(36), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("agent", String(128), nullable=False),
    Column("content_hash", String(64), nullable=True),
    Column("task_type", String(64), nullable=False),
    Column("model", String(128), nullable=True),
    Column("began_at", String(24), nullable=False),
    Column("outcome", String(16), nullable=True),
    Column("duration_s", Float, nullable=True),
    Column("tokens", Integer, nullable=True),
    Column("cost_usd", Float, nullable=True),
    Column("choice_id", String(36), nullable=True),
)
"""Attempts by agents. Their outcome is set when retention deletes the attempt, which has it until then; ``choice_id`` is the
rollout that chose the version."""
Index("ix_agent_runs_agent_began_at", agent_runs.c.agent, agent_runs.c.began_at)

task_feedback = Table(
    "task_feedback",
    metadata,
    Column("task_id", String(36), primary_key=True),
    Column("rating", Integer, nullable=True),
    Column("comment", Text, nullable=True),
    Column("given_at", String(24), nullable=False),
    CheckConstraint("rating IS NULL OR rating BETWEEN 1 AND 5", name="rating"),
    CheckConstraint("rating IS NOT NULL OR comment IS NOT NULL", name="said"),
)
"""A person's opinion of a task's work; the last word counts."""

agent_choices = Table(
    "agent_choices",
    metadata,
    Column("choice_id", String(36), primary_key=True),
    Column("agent", String(128), nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("from_hash", String(64), nullable=True),
    Column("share", Float, nullable=True),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=True),
    Column("created_at", String(24), nullable=False),
    Column("ended_at", String(24), nullable=True),
    Column("seen_at", String(24), nullable=True),
    CheckConstraint("state IN ('running', 'stopped', 'rolled_back')", name="state"),
    CheckConstraint("(state = 'running') = (ended_at IS NULL)", name="ended"),
    CheckConstraint("(from_hash IS NULL) = (share IS NULL)", name="kind"),
)
"""The versions that agents work by instead of what their files say: a pin of all tasks, or a rollout to a share of them."""
_RUNNING = agent_choices.c.ended_at.is_(None)
Index("uq_agent_choices_running", agent_choices.c.agent, unique=True, **only(_RUNNING))
Index("ix_agent_choices_agent_created_at", agent_choices.c.agent, agent_choices.c.created_at)

agent_improvements = Table(
    "agent_improvements",
    metadata,
    Column("improvement_id", String(36), primary_key=True),
    Column("agent", String(128), nullable=False),
    Column("state", String(16), nullable=False),
    Column("base_hash", String(64), nullable=False),
    Column("new_hash", String(64), nullable=True),
    Column("material", Text, nullable=False),
    Column("deploys", Boolean, nullable=False),
    Column("plan", JSON, nullable=True),
    Column("report", JSON, nullable=True),
    Column("reason", Text, nullable=True),
    Column("created_at", String(24), nullable=False),
    Column("ended_at", String(24), nullable=True),
    CheckConstraint("state IN ('proposing', 'testing', 'done', 'failed')", name="state"),
)
"""Improvements of definitions: the meta-agent's input and plan, and how the versions compared."""
Index("ix_agent_improvements_agent_created_at", agent_improvements.c.agent, agent_improvements.c.created_at)

totals = Table(
    "totals",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("label", String(128), primary_key=True),
    Column("outcome", String(16), primary_key=True),
    Column("number", Float, nullable=False),
)
"""Numbers that only grow: how often something happened, or how much was used, by the agent or the error code, and the outcome."""
