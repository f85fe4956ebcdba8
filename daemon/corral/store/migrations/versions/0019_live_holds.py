"""what living sessions hold can be looked at while no daemon answers

Revision ID: 0019
Revises: 0018
"""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        """
        CREATE VIEW live_holds AS
        SELECT file_locks.match_key, file_locks.is_pattern, file_locks.checkout, file_locks."exclusive",
            file_locks.automatic, file_locks.expires_at, agent_sessions.session_id, agent_sessions.agent_name,
            coalesce(agent_sessions.client_pid, parents.client_pid) AS client_pid,
            coalesce(agent_sessions.client_started, parents.client_started) AS client_started
        FROM file_locks
        JOIN agent_sessions ON agent_sessions.session_id = file_locks.session_id
        LEFT OUTER JOIN agent_sessions AS parents ON parents.session_id = agent_sessions.parent_session_id
        WHERE agent_sessions.ended_at IS NULL
        """
    )
