"""Rows of events, audit lines, handoffs, memories, features, alerts, deliveries, and of the database's identity."""

from typing import Annotated, Any, TypedDict

from corral.store.rows import Id, Instant, Name, Sha, State, Word


class AttemptEnd(TypedDict):
    """How an attempt at a task ended: the event's part."""

    at: Instant
    kind: Word
    data: dict[str, object]


class EventRow(AttemptEnd):
    """Something that happened; :func:`corral.core.events.payload` reads its ``data``."""

    event_id: int
    task_id: Id | None
    session_id: Name | None
    merge_id: Id | None


class AuditDraft(TypedDict):
    """A deed before it has its place in the audit; ``parameters`` and ``result`` are JSON texts."""

    at: Instant
    agent_id: Name
    session_id: Name | None
    task_id: Id | None
    action: Name
    parameters: str
    result: str


class AuditRow(AuditDraft):
    """A line of the audit; ``hash`` covers all its other values."""

    seq: int
    previous_hash: Sha
    hash: Sha


class AuditEnds(TypedDict):
    """Both ends of the audit's chain: the last line that was removed, and the newest line; ``seq`` is 0 where there is none."""

    removed_seq: int
    removed_hash: Sha
    removed_at: Instant | None
    last_seq: int
    last_hash: Sha


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
    handoff_id: Id
    session_id: Name
    agent_name: Name
    automatic: bool
    summary: str
    completed_work: list[str]
    in_progress: list[str]
    decisions: list[str]
    next_steps: list[str]
    relevant_files: list[str]
    worktree: str | None
    branch: str | None
    created_at: Instant


class MemoryRow(TypedDict):
    """A lesson that an agent recorded.

    ``digest`` is of the fields that make two memories equal; ``times``: how often it was recorded; ``seen_at``: the last time.
    """

    seq: int
    memory_id: Id
    session_id: Name | None
    agent_name: Name
    event_type: Annotated[str, 32]
    summary: str
    details: Any | None
    outcome: str | None
    lessons: list[str]
    tags: list[str]
    digest: Sha
    times: int
    created_at: Instant
    seen_at: Instant


class FeatureRow(TypedDict):
    """A line of work that was registered; ``data``: ``{merge_priority, metadata}``."""

    feature_id: Name
    title: str | None
    status: State
    registered_by: Name | None
    branch: str | None
    data: dict[str, Any]
    created_at: Instant
    updated_at: Instant
    ended_at: Instant | None


class NewFeatureClaim(TypedDict):
    """A lock key that a feature is to claim."""

    claim: str
    match_key: str
    is_pattern: bool


class FeatureClaimRow(NewFeatureClaim):
    """A lock key that a feature claims."""

    feature_id: Name


class Identity(TypedDict):
    """Which repository a database belongs to."""

    project_id: Id
    root: str
    common_dir: str
    folder_id: Annotated[str, 48]
    created_at: Instant


class IdentityRow(Identity):
    """The repository that a database belongs to, with the row's key."""

    id: int


class AlertRow(TypedDict):
    """An alert that was raised, open or resolved.

    ``raised_at`` is the last time; ``told`` is the state that the last notification reported.
    """

    alert_id: Id
    rule: Word
    subject: str
    reason: str
    remedy: str
    times: int
    first_raised_at: Instant
    raised_at: Instant
    acknowledged_at: Instant | None
    resolved_at: Instant | None
    told: State | None


class DeliveryRow(TypedDict):
    """A notification on its way to the webhook."""

    delivery_id: Id
    body: dict[str, Any]
    state: State
    tries: int
    error: str | None
    created_at: Instant
    not_before_at: Instant
    settled_at: Instant | None


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


class CursorRow(TypedDict):
    """The last event that a reader has handled, updated in the transaction that handles it."""

    reader: Annotated[str, 32]
    event_id: int


class MemoryTagRow(TypedDict):
    """A tag of a memory; ``seen_at``: the memory's, so that the newest with a tag are read from the end of an index."""

    seq: int
    tag: Name
    seen_at: Instant


class SupervisionRow(TypedDict):
    """That the roadmap is supervised."""

    id: int
    since_at: Instant


class ToldNeedRow(TypedDict):
    """A need of a person that a notification has reported."""

    key: Word
    told_at: Instant
