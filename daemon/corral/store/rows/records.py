"""Rows of events, audit lines, handoffs, memories, features, alerts, deliveries, and of the database's identity."""

from __future__ import annotations

from typing import Any, TypedDict


class AttemptEnd(TypedDict):
    """How an attempt at a task ended: the event's part."""

    at: str
    kind: str
    data: dict[str, object]


class EventRow(AttemptEnd):
    """Something that happened; :func:`corral.core.events.payload` reads its ``data``."""

    event_id: int
    task_id: str | None
    session_id: str | None
    merge_id: str | None


class AuditDraft(TypedDict):
    """A deed before it has its place in the audit; ``parameters`` and ``result`` are JSON texts."""

    at: str
    agent_id: str
    session_id: str | None
    task_id: str | None
    action: str
    parameters: str
    result: str


class AuditRow(AuditDraft):
    """A line of the audit; ``hash`` covers all its other values."""

    seq: int
    previous_hash: str
    hash: str


class AuditEnds(TypedDict):
    """Both ends of the audit's chain: the last line that was removed, and the newest line; ``seq`` is 0 where there is none."""

    removed_seq: int
    removed_hash: str
    removed_at: str | None
    last_seq: int
    last_hash: str


class AuditEndsRow(AuditEnds):
    """Both ends of the audit's chain, with the row's key."""

    id: int


class SessionWork(TypedDict):
    """The name of a session and the task that it works on."""

    session_id: str
    agent_name: str
    task_id: str | None


class HandoffRow(TypedDict):
    """A note that one session leaves for the next."""

    seq: int
    handoff_id: str
    session_id: str
    agent_name: str
    automatic: bool
    summary: str
    completed_work: list[str]
    in_progress: list[str]
    decisions: list[str]
    next_steps: list[str]
    relevant_files: list[str]
    worktree: str | None
    branch: str | None
    created_at: str


class MemoryRow(TypedDict):
    """A lesson that an agent recorded."""

    seq: int
    memory_id: str
    session_id: str | None
    agent_name: str
    event_type: str
    summary: str
    details: Any | None
    outcome: str | None
    lessons: list[str]
    tags: list[str]
    digest: str
    times: int
    created_at: str
    seen_at: str


class FeatureRow(TypedDict):
    """A line of work that was registered; ``data``: ``{merge_priority, metadata}``."""

    feature_id: str
    title: str | None
    status: str
    registered_by: str | None
    branch: str | None
    data: dict[str, Any]
    created_at: str
    updated_at: str
    ended_at: str | None


class NewFeatureClaim(TypedDict):
    """A lock key that a feature is to claim."""

    claim: str
    match_key: str
    is_pattern: bool


class FeatureClaimRow(NewFeatureClaim):
    """A lock key that a feature claims."""

    feature_id: str


class Identity(TypedDict):
    """Which repository a database belongs to."""

    project_id: str
    root: str
    common_dir: str
    folder_id: str
    created_at: str


class IdentityRow(Identity):
    """The repository that a database belongs to, with the row's key."""

    id: int


class AlertRow(TypedDict):
    """An alert that was raised, open or resolved."""

    alert_id: str
    rule: str
    subject: str
    reason: str
    remedy: str
    times: int
    first_raised_at: str
    raised_at: str
    acknowledged_at: str | None
    resolved_at: str | None
    told: str | None


class DeliveryRow(TypedDict):
    """A notification on its way to the webhook."""

    delivery_id: str
    body: dict[str, Any]
    state: str
    tries: int
    error: str | None
    created_at: str
    not_before_at: str
    settled_at: str | None


class EndedAttemptEvent(TypedDict):
    """An event that ended an attempt, with whose attempt it was."""

    event_id: int
    at: str
    kind: str
    task_id: str
    data: dict[str, object]
    agent: str | None
    runner: str | None


class PendingTask(TypedDict):
    """A task that could start."""

    task_id: str
    created_at: str
