"""receipts of messages go by their number; what was sent under a key has a column; what a session said is not among its deeds;
who goes on under a session's name

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from corral.store.migrations.partial import create_partial_index

revision = "0003"
down_revision = "0002"

_KEPT = "session_id, seq, name, role, injected_at, held_at, read_at, acknowledged_at, bounced_at"


def upgrade() -> None:
    op.add_column("messages", sa.Column("digest", sa.String(length=64), nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        taken, left = "json_extract(data, '$.digest')", "json_remove(data, '$.digest')"
    else:
        taken, left = "data ->> 'digest'", "CAST(CAST(data AS jsonb) - 'digest' AS json)"
    op.execute(f"UPDATE messages SET digest = {taken}, data = {left} WHERE idempotency_key IS NOT NULL")
    op.execute(f"CREATE TABLE kept AS SELECT {_KEPT} FROM message_recipients")
    op.drop_table("message_recipients")
    op.create_table(
        "message_recipients",
        sa.Column("session_id", sa.String(length=128), sa.ForeignKey("agent_sessions.session_id"), primary_key=True),
        sa.Column("seq", sa.Integer(), sa.ForeignKey("messages.seq"), autoincrement=False, primary_key=True),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=3), nullable=False),
        sa.Column("injected_at", sa.String(length=24), nullable=True),
        sa.Column("held_at", sa.String(length=24), nullable=True),
        sa.Column("read_at", sa.String(length=24), nullable=True),
        sa.Column("acknowledged_at", sa.String(length=24), nullable=True),
        sa.Column("bounced_at", sa.String(length=24), nullable=True),
        sa.CheckConstraint("role IN ('to', 'cc', 'bcc')", name="role"),
        sqlite_with_rowid=False,
    )
    op.execute(f"INSERT INTO message_recipients ({_KEPT}) SELECT {_KEPT} FROM kept")
    op.drop_table("kept")
    op.create_index("ix_message_recipients_seq", "message_recipients", ["seq"])
    waits = ["injected_at", "read_at", "acknowledged_at"]
    nulls = " AND ".join(f"{instant} IS NULL" for instant in waits)
    create_partial_index("ix_message_recipients_waiting", "message_recipients", ["session_id", *waits], nulls)
    op.add_column("agent_sessions", sa.Column("heir_session_id", sa.String(length=128), nullable=True))
    deeds = "kind NOT IN ('lock.acquired', 'message.acknowledged', 'message.read', 'message.sent', 'session.changed')"
    op.drop_index("ix_events_session_id", "events")
    create_partial_index("ix_events_session_id", "events", ["session_id"], deeds)
