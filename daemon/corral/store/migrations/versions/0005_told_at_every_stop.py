"""sessions that give no sign, merge requests that belong to their tasks, and a pause that people order

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

from corral.store.migrations.partial import create_partial_index

revision = "0005"
down_revision = "0004"

OPEN = "('queued', 'verifying', 'held')"


def upgrade() -> None:
    op.add_column("agent_sessions", sa.Column("stalled_since_at", sa.String(length=24), nullable=True))
    op.create_table(
        "work_pause",
        sa.Column("id", sa.Integer(), autoincrement=False, primary_key=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("since_at", sa.String(length=24), nullable=False),
        sa.CheckConstraint("id = 1", name="single"),
    )
    op.add_column("merge_requests", sa.Column("replaced_by", sa.String(length=36), nullable=True))
    op.add_column("merge_requests", sa.Column("dismissed_at", sa.String(length=24), nullable=True))
    op.add_column("tasks", sa.Column("dismissed_at", sa.String(length=24), nullable=True))
    op.add_column("tasks", sa.Column("retries_chosen", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute(sa.update(sa.table("tasks", sa.column("retries_chosen"))).values(retries_chosen=True))
    _link_to_tasks()
    _end_older_requests()
    waiting = f"state IN {OPEN} AND replaced_by IS NULL"
    create_partial_index("uq_merge_requests_open_branch", "merge_requests", ["branch", "target"], waiting, unique=True)


def _link_to_tasks() -> None:
    """A request that a worker made itself named no task: it is that of the worktree whose branch it merges."""
    found = "SELECT max(w.task_id) FROM worktrees w WHERE w.branch = merge_requests.branch AND w.purpose = 'task'"
    one = "SELECT count(DISTINCT w.task_id) FROM worktrees w WHERE w.branch = merge_requests.branch AND w.purpose = 'task'"
    op.execute(f"UPDATE merge_requests SET task_id = ({found}) WHERE task_id IS NULL AND ({one}) = 1")


def _end_older_requests() -> None:
    """Of several open requests of a branch the newest stays; one that is landing just now is only marked."""
    conn = op.get_bind()
    landing = {
        merge_id
        for (ids,) in conn.execute(sa.text("SELECT merge_ids FROM landing_intents"))
        for merge_id in (json.loads(ids) if isinstance(ids, str) else ids)
    }
    query = f"SELECT merge_id, branch, target, updated_at FROM merge_requests WHERE state IN {OPEN} ORDER BY seq DESC"
    newest: dict[tuple[str, str], str] = {}
    for merge_id, branch, target, at in conn.execute(sa.text(query)).all():
        by = newest.setdefault((branch, target), merge_id)
        if by == merge_id:
            continue
        values = {"id": merge_id, "by": by, "at": at, "why": f"{branch} was submitted again as {by}."}
        end = "" if merge_id in landing else ", state = 'superseded', finished_at = :at, reason = :why"
        if not end:
            values = {"id": merge_id, "by": by}
        conn.execute(sa.text(f"UPDATE merge_requests SET replaced_by = :by{end} WHERE merge_id = :id"), values)
