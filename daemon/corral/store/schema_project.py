"""The tables about the project as a whole: whose database it is, what is paused or switched on for it, who did what, its alerts;
the loops, whose history outlives their tasks; and the record of its agents.

The conventions are those of :mod:`corral.store.schema`.
"""

from __future__ import annotations

from sqlalchemy import Index, func

from corral.store.rows.agents import AgentChoiceRow, AgentRunRow, AgentVersionRow, FeedbackRow, ImprovementRow
from corral.store.rows.loops import IterationRow, LoopRow
from corral.store.rows.merges import DirectTipRow, FreezeRow, TargetPauseRow
from corral.store.rows.metrics import TotalRow
from corral.store.rows.records import (
    AlertRow,
    AuditEndsRow,
    AuditRow,
    DeliveryRow,
    IdentityRow,
    SupervisionRow,
    ToldNeedRow,
)
from corral.store.rows.tasks import WorkPauseRow
from corral.store.table import only, table

target_pauses = table("target_pauses", TargetPauseRow, key="target")

target_freezes = table("target_freezes", FreezeRow, key="target")

direct_tips = table("direct_tips", DirectTipRow, key="target")

work_pause = table("work_pause", WorkPauseRow, key="id", checks={"single": "id = 1"})

roadmap_supervision = table("roadmap_supervision", SupervisionRow, key="id", checks={"single": "id = 1"})

project_identity = table("project_identity", IdentityRow, key="id", checks={"single": "id = 1"})

audit_lines = table("audit_lines", AuditRow, key="seq", indexes=["at"])
"""Triggers refuse to change a line, and to delete one that retention has not counted in ``audit_chain`` first."""
Index(
    "ix_audit_lines_task_id_seq",
    audit_lines.c.task_id,
    audit_lines.c.seq,
    **only(audit_lines.c.task_id.is_not(None)),
)
Index("ix_audit_lines_folded", func.lower(audit_lines.c.agent_id), audit_lines.c.seq)

audit_chain = table(
    "audit_chain",
    AuditEndsRow,
    key="id",
    checks={"single": "id = 1", "ends": "removed_seq <= last_seq"},
)

alerts = table(
    "alerts",
    AlertRow,
    key="alert_id",
    checks={"times": "times > 0", "told": "told IN ('raised', 'resolved')"},
    indexes=["raised_at"],
)
Index("ix_alerts_open", alerts.c.rule, alerts.c.subject, unique=True, **only(alerts.c.resolved_at.is_(None)))

told_needs = table("told_needs", ToldNeedRow, key="key")

deliveries = table(
    "deliveries",
    DeliveryRow,
    key="delivery_id",
    checks={
        "state": "state IN ('waiting', 'delivered', 'failed', 'dropped')",
        "settled": "(state = 'waiting') = (settled_at IS NULL)",
    },
)
Index("ix_deliveries_waiting", deliveries.c.not_before_at, **only(deliveries.c.state == "waiting"))

loops = table("loops", LoopRow, key="task_id", checks={"counted_from": "counted_from >= 0"})

loop_iterations = table(
    "loop_iterations",
    IterationRow,
    key="task_id, iteration",
    checks={"verdict": "verdict IN ('converged', 'not_converged', 'inconclusive', 'failed')"},
)

agent_versions = table("agent_versions", AgentVersionRow, key="agent, content_hash", unique=["agent, version"])

agent_runs = table("agent_runs", AgentRunRow, key="task_id, number", indexes=["agent, began_at"])

task_feedback = table(
    "task_feedback",
    FeedbackRow,
    key="task_id",
    checks={"rating": "rating IS NULL OR rating BETWEEN 1 AND 5", "said": "rating IS NOT NULL OR comment IS NOT NULL"},
)

agent_choices = table(
    "agent_choices",
    AgentChoiceRow,
    key="choice_id",
    checks={
        "state": "state IN ('running', 'stopped', 'rolled_back')",
        "ended": "(state = 'running') = (ended_at IS NULL)",
        "kind": "(from_hash IS NULL) = (share IS NULL)",
    },
    indexes=["agent, created_at"],
)
Index("uq_agent_choices_running", agent_choices.c.agent, unique=True, **only(agent_choices.c.ended_at.is_(None)))

agent_improvements = table(
    "agent_improvements",
    ImprovementRow,
    key="improvement_id",
    checks={"state": "state IN ('proposing', 'testing', 'done', 'failed')"},
    indexes=["agent, created_at"],
)

totals = table("totals", TotalRow, key="name, label, outcome")
