"""The tables of what sessions tell each other: names, messages, handoffs, features, memory, and who waits for a lock.

The conventions are those of :mod:`corral.store.schema`. Tables that are searched by words have an index beside them that only the
database knows (:mod:`corral.store.engine.search`).
"""

from __future__ import annotations

from sqlalchemy import Index, and_

from corral.core.states import FeatureStatus, Importance, RecipientRole
from corral.store.rows.mail import MessageRow, RecipientRow
from corral.store.rows.records import CursorRow, FeatureClaimRow, FeatureRow, HandoffRow, MemoryRow, MemoryTagRow
from corral.store.rows.sessions import LockWaitRow, NameRow
from corral.store.table import one_of, only, table

_SESSION = "agent_sessions.session_id"

agent_names = table("agent_names", NameRow, key="folded", references={"session_id": _SESSION}, indexes=["session_id"])

messages = table(
    "messages",
    MessageRow,
    numbered="seq",
    first="seq, message_id, thread_id, reply_to, sender_session_id, sender_name, kind, subject, body, data, "
    "importance, ack_required, attachments, idempotency_key, digest",
    unique=["message_id"],
    references={"sender_session_id": _SESSION},
    checks={"importance": one_of("importance", Importance.values())},
    indexes=["thread_id, seq", "sender_session_id, seq"],
)
Index(
    "uq_messages_idempotency_key",
    messages.c.sender_session_id,
    messages.c.idempotency_key,
    unique=True,
    **only(messages.c.idempotency_key.is_not(None)),
)

message_recipients = table(
    "message_recipients",
    RecipientRow,
    key="session_id, seq",
    first="session_id, seq, name, role, injected_at, way, held_at, read_at, acknowledged_at",
    references={"session_id": _SESSION, "seq": "messages.seq"},
    checks={"role": one_of("role", RecipientRole.values())},
    indexes=["seq"],
    sqlite_with_rowid=False,  # the rows of an inbox are adjacent
)
_WAITING = (message_recipients.c.injected_at, message_recipients.c.read_at, message_recipients.c.acknowledged_at)
_ALL_NULL = and_(*(instant.is_(None) for instant in _WAITING))
Index("ix_message_recipients_waiting", message_recipients.c.session_id, *_WAITING, **only(_ALL_NULL))
"""The lookup of every hook event. The columns are all null, and named, or SQLite would read all rows by the primary key."""

event_cursors = table("event_cursors", CursorRow, key="reader")

handoffs = table(
    "handoffs",
    HandoffRow,
    numbered="seq",
    unique=["handoff_id"],
    references={"session_id": _SESSION},
    indexes=["agent_name, seq", "session_id", "worktree, seq"],
)

features = table(
    "features",
    FeatureRow,
    key="feature_id",
    checks={"status": one_of("status", FeatureStatus.values()), "ended": "(status = 'active') = (ended_at IS NULL)"},
    indexes=["status"],
)

feature_claims = table(
    "feature_claims",
    FeatureClaimRow,
    key="feature_id, claim",
    references={"feature_id": "features.feature_id"},
)

memories = table(
    "memories",
    MemoryRow,
    numbered="seq",
    unique=["memory_id"],
    references={"session_id": _SESSION},
    checks={"times": "times > 0"},
    indexes=["digest, seen_at", "seen_at, seq", "event_type, seen_at, seq"],
)

memory_tags = table(
    "memory_tags",
    MemoryTagRow,
    key="seq, tag",
    references={"seq": "memories.seq"},
    indexes=["tag, seen_at, seq"],
)

lock_waits = table(
    "lock_waits",
    LockWaitRow,
    numbered="seq",
    unique=["wait_id"],
    references={"session_id": _SESSION},
    checks={"ttl": "ttl_s > 0"},
)
