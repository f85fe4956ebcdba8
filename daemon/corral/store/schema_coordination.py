"""The tables of what sessions tell each other: names, messages, handoffs, features, memory, and who waits for a lock.

The conventions are those of :mod:`corral.store.schema`. Tables that are searched by words have an index beside them that only the
database knows (:mod:`corral.store.engine.search`).
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    and_,
)

from corral.core.states import FeatureStatus, Importance, RecipientRole
from corral.store.schema import metadata, one_of, only

_SESSION = "agent_sessions.session_id"

agent_names = Table(
    "agent_names",
    metadata,
    Column("folded", String(128), primary_key=True),
    Column("name", String(128), nullable=False),
    Column("session_id", String(128), ForeignKey(_SESSION), nullable=False),
    Column("program", Text, nullable=True),
    Column("model", Text, nullable=True),
    Column("task_description", Text, nullable=True),
    Column("registered_at", String(24), nullable=False),
)
"""Further names of sessions besides their own; ``folded`` is the name in lower case."""
Index("ix_agent_names_session_id", agent_names.c.session_id)

messages = Table(
    "messages",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("message_id", String(36), nullable=False, unique=True),
    Column("thread_id", String(128), nullable=False),
    Column("reply_to", String(36), nullable=True),
    Column("sender_session_id", String(128), ForeignKey(_SESSION), nullable=True),
    Column("sender_name", String(128), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("subject", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Column("importance", String(8), nullable=False),
    Column("ack_required", Boolean, nullable=False),
    Column("attachments", JSON, nullable=False),
    Column("idempotency_key", String(128), nullable=True),
    Column("digest", String(64), nullable=True),
    Column("created_at", String(24), nullable=False),
    CheckConstraint(one_of("importance", Importance.values()), name="importance"),
)
"""``sender_session_id`` null: Corral itself; ``kind`` is ``message``, or what happened (``task.completed``);
``digest`` says what was sent under an idempotency key."""
Index(
    "uq_messages_idempotency_key",
    messages.c.sender_session_id,
    messages.c.idempotency_key,
    unique=True,
    **only(messages.c.idempotency_key.is_not(None)),
)
Index("ix_messages_thread_id_seq", messages.c.thread_id, messages.c.seq)
Index("ix_messages_sender_session_id_seq", messages.c.sender_session_id, messages.c.seq)

message_recipients = Table(
    "message_recipients",
    metadata,
    Column("session_id", String(128), ForeignKey(_SESSION), primary_key=True),
    Column("seq", Integer, ForeignKey("messages.seq"), primary_key=True, autoincrement=False),
    Column("name", String(128), nullable=False),
    Column("role", String(3), nullable=False),
    Column("injected_at", String(24), nullable=True),
    Column("way", String(8), nullable=True),
    Column("held_at", String(24), nullable=True),
    Column("read_at", String(24), nullable=True),
    Column("acknowledged_at", String(24), nullable=True),
    Column("bounced_at", String(24), nullable=True),
    CheckConstraint(one_of("role", RecipientRole.values()), name="role"),
    sqlite_with_rowid=False,  # the rows of an inbox are adjacent
)
"""``seq``: the message's own, so that an inbox is read from its end; ``name``: as it was addressed; ``injected_at``: when it
entered the model's context, ``way``: how (:class:`~corral.core.states.MailWay`); ``held_at``: when it held a Stop."""
Index("ix_message_recipients_seq", message_recipients.c.seq)
_WAITING = (message_recipients.c.injected_at, message_recipients.c.read_at, message_recipients.c.acknowledged_at)
_ALL_NULL = and_(*(instant.is_(None) for instant in _WAITING))
Index(
    "ix_message_recipients_waiting",
    message_recipients.c.session_id,
    *_WAITING,
    **only(_ALL_NULL),
)
"""The lookup of every hook event. The columns are all null, and named, or SQLite would read all rows by the primary key."""

event_cursors = Table(
    "event_cursors",
    metadata,
    Column("reader", String(32), primary_key=True),
    Column("event_id", Integer, nullable=False),
)
"""The last event that each reader has handled, updated in the transaction that handles it."""

handoffs = Table(
    "handoffs",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("handoff_id", String(36), nullable=False, unique=True),
    Column("session_id", String(128), ForeignKey(_SESSION), nullable=False),
    Column("agent_name", String(128), nullable=False),
    Column("automatic", Boolean, nullable=False),
    Column("summary", Text, nullable=False),
    Column("completed_work", JSON, nullable=False),
    Column("in_progress", JSON, nullable=False),
    Column("decisions", JSON, nullable=False),
    Column("next_steps", JSON, nullable=False),
    Column("relevant_files", JSON, nullable=False),
    Column("worktree", Text, nullable=True),
    Column("branch", Text, nullable=True),
    Column("created_at", String(24), nullable=False),
)
Index("ix_handoffs_agent_name_seq", handoffs.c.agent_name, handoffs.c.seq)
Index("ix_handoffs_session_id", handoffs.c.session_id)
Index("ix_handoffs_worktree_seq", handoffs.c.worktree, handoffs.c.seq)

features = Table(
    "features",
    metadata,
    Column("feature_id", String(128), primary_key=True),
    Column("title", Text, nullable=True),
    Column("status", String(16), nullable=False),
    Column("registered_by", String(128), nullable=True),
    Column("branch", Text, nullable=True),
    Column("data", JSON, nullable=False),
    Column("created_at", String(24), nullable=False),
    Column("updated_at", String(24), nullable=False),
    Column("ended_at", String(24), nullable=True),
    CheckConstraint(one_of("status", FeatureStatus.values()), name="status"),
    CheckConstraint("(status = 'active') = (ended_at IS NULL)", name="ended"),
)
Index("ix_features_status", features.c.status)

feature_claims = Table(
    "feature_claims",
    metadata,
    Column("feature_id", String(128), ForeignKey("features.feature_id"), primary_key=True),
    Column("claim", Text, primary_key=True),
    Column("match_key", Text, nullable=False),
    Column("is_pattern", Boolean, nullable=False),
)

memories = Table(
    "memories",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("memory_id", String(36), nullable=False, unique=True),
    Column("session_id", String(128), ForeignKey(_SESSION), nullable=True),
    Column("agent_name", String(128), nullable=False),
    Column("event_type", String(32), nullable=False),
    Column("summary", Text, nullable=False),
    Column("details", JSON, nullable=True),
    Column("outcome", Text, nullable=True),
    Column("lessons", JSON, nullable=False),
    Column("tags", JSON, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("times", Integer, nullable=False),
    Column("created_at", String(24), nullable=False),
    Column("seen_at", String(24), nullable=False),
    CheckConstraint("times > 0", name="times"),
)
"""``digest`` is of the fields that make two memories equal; ``times``: how often it was recorded; ``seen_at``: the last time."""
Index("ix_memories_digest_seen_at", memories.c.digest, memories.c.seen_at)
Index("ix_memories_seen_at_seq", memories.c.seen_at, memories.c.seq)
Index("ix_memories_event_type_seen_at_seq", memories.c.event_type, memories.c.seen_at, memories.c.seq)

memory_tags = Table(
    "memory_tags",
    metadata,
    Column("seq", Integer, ForeignKey("memories.seq"), primary_key=True),
    Column("tag", String(128), primary_key=True),
    Column("seen_at", String(24), nullable=False),
)
"""``seen_at``: the memory's, so that the newest with a tag are read from the end of an index."""
Index("ix_memory_tags_tag_seen_at_seq", memory_tags.c.tag, memory_tags.c.seen_at, memory_tags.c.seq)

lock_waits = Table(
    "lock_waits",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("wait_id", String(36), nullable=False, unique=True),
    Column("session_id", String(128), ForeignKey(_SESSION), nullable=False),
    Column("keys", JSON, nullable=False),
    Column("exclusive", Boolean, nullable=False),
    Column("ttl_s", Float, nullable=False),
    Column("reason", Text, nullable=True),
    Column("created_at", String(24), nullable=False),
    Column("expires_at", String(24), nullable=False),
    CheckConstraint("ttl_s > 0", name="ttl"),
)
"""Sessions that wait, in the order of ``seq``; ``keys``: ``[{file_path, match_key, is_pattern}]``."""
