"""what a swarm needs: parents, rules to combine results, shared state, peak memory, a pool of worktrees, a roadmap

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

INDEXES: dict[str, list[Any]] = {
    "ix_tasks_status_not_before_at": ["status", "not_before_at"],
    "ix_tasks_status_priority_seq": ["status", sa.literal_column("priority DESC"), "seq"],
    "ix_tasks_thread_id_seq": ["thread_id", "seq"],
}
CHECKS = {
    "runner": "runner IS NULL OR runner IN ('command', 'claude', 'anthropic')",
    "combine": "combine IS NULL OR combine IN ('all', 'first', 'vote', 'concat', 'synthesize')",
    "agents_wanted": "(agents_wanted IS NULL) = (combine IS NULL) AND (agents_wanted IS NULL OR agents_wanted > 0)",
}


def upgrade() -> None:
    for name in INDEXES:  # one of them is by an expression, which is not reflected where a table is written again
        op.drop_index(name, "tasks")
    with op.batch_alter_table("tasks") as batch:
        batch.add_column(sa.Column("metadata", sa.JSON(), nullable=True))
        batch.add_column(sa.Column("template", sa.String(length=128), nullable=True))
        batch.add_column(sa.Column("parent_task_id", sa.String(length=36), nullable=True))
        batch.add_column(sa.Column("agents_wanted", sa.Integer(), nullable=True))
        batch.add_column(sa.Column("combine", sa.String(length=16), nullable=True))
        batch.drop_constraint(op.f("ck_tasks_runner"), type_="check")
    with op.batch_alter_table("tasks") as batch:
        for name, condition in CHECKS.items():
            batch.create_check_constraint(op.f(f"ck_tasks_{name}"), sa.text(condition))
    for name, columns in INDEXES.items():
        op.create_index(name, "tasks", columns)
    is_child = sa.text("parent_task_id IS NOT NULL")
    op.create_index(
        "ix_tasks_parent_task_id", "tasks", ["parent_task_id"], sqlite_where=is_child, postgresql_where=is_child
    )
    op.add_column("attempts", sa.Column("memory_mb", sa.Integer(), nullable=True))
    _make_room_for_a_pool()
    op.create_table(
        "task_state",
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=256), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("updated_by", sa.String(length=128), nullable=True),
        sa.Column("updated_at", sa.String(length=24), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name=op.f("fk_task_state_task_id")),
        sa.PrimaryKeyConstraint("task_id", "key", name=op.f("pk_task_state")),
    )
    op.create_table(
        "roadmap_supervision",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("since_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_roadmap_supervision_single")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_roadmap_supervision")),
    )


def _make_room_for_a_pool() -> None:
    states = "'allocating', 'ready', 'reclaiming', 'pooled', 'removed'"
    is_live = sa.text("state != 'removed'")
    for column in ("name", "port"):
        op.drop_index(f"uq_worktrees_live_{column}", "worktrees")
    with op.batch_alter_table("worktrees") as batch:
        for name in ("state", "branch"):
            batch.drop_constraint(op.f(f"ck_worktrees_{name}"), type_="check")
    with op.batch_alter_table("worktrees") as batch:
        batch.create_check_constraint(op.f("ck_worktrees_state"), sa.text(f"state IN ({states})"))
        batch.create_check_constraint(
            op.f("ck_worktrees_branch"),
            sa.text("state IN ('removed', 'pooled') OR purpose = 'verify' OR branch IS NOT NULL"),
        )
    for index, column in {"name": "name", "port": "port_base"}.items():
        op.create_index(
            f"uq_worktrees_live_{index}",
            "worktrees",
            [column],
            unique=True,
            sqlite_where=is_live,
            postgresql_where=is_live,
        )
