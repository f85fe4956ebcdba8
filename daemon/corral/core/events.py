"""The kinds of events, ``<noun>.<past participle>``, each with the type of its payload. The store accepts no others.

To record one, call its kind: ``EventKind.TASK_STARTED({"pid": 42})``; a wrong or missing key is an error of mypy's, and costs
nothing at run time. To read one back, ask :func:`payload`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from corral.core.states import MergeState, TaskStatus

if TYPE_CHECKING:
    from corral.core import event_payloads as payloads

P = TypeVar("P", bound=Mapping[str, object])


class Event(NamedTuple):
    """An event to be recorded; created by calling its kind."""

    kind: str
    data: Mapping[str, object]


class Kind(str, Generic[P]):
    """The kind of an event, a text as the log and the event stream have it, whose payload is of type ``P``."""

    __slots__ = ()

    def __call__(self, data: P) -> Event:
        """An event of this kind."""
        return Event(self, data)


class EventKind:
    """All kinds and their payloads (:mod:`corral.core.event_payloads`)."""

    TASK_SUBMITTED: Kind[payloads.Nothing] = Kind("task.submitted")
    TASK_ASSIGNED: Kind[payloads.TaskAssigned] = Kind("task.assigned")
    TASK_CLAIMED: Kind[payloads.TaskClaimed] = Kind("task.claimed")
    TASK_STARTED: Kind[payloads.TaskStarted] = Kind("task.started")
    TASK_COMPLETED: Kind[payloads.TaskCompleted] = Kind("task.completed")
    TASK_FAILED: Kind[payloads.TaskSetback] = Kind("task.failed")
    TASK_DEAD: Kind[payloads.TaskSetback] = Kind("task.dead")
    TASK_CANCELLED: Kind[payloads.TaskSetback] = Kind("task.cancelled")
    TASK_CANCEL_REQUESTED: Kind[payloads.Reason] = Kind("task.cancel_requested")
    TASK_INTERRUPTED: Kind[payloads.TaskSetback] = Kind("task.interrupted")
    TASK_RETRIED: Kind[payloads.TaskSetback] = Kind("task.retried")
    TASK_REQUEUED: Kind[payloads.TaskSetback] = Kind("task.requeued")
    TASK_ITERATED: Kind[payloads.TaskIterated] = Kind("task.iterated")
    TASK_RESUMED: Kind[payloads.Nothing] = Kind("task.resumed")
    TASK_RETRY_REQUESTED: Kind[payloads.TaskRetryRequested] = Kind("task.retry_requested")
    TASK_REPRIORITIZED: Kind[payloads.TaskReprioritized] = Kind("task.reprioritized")
    TASK_DISMISSED: Kind[payloads.Nothing] = Kind("task.dismissed")
    TASK_UNBLOCKED: Kind[payloads.Nothing] = Kind("task.unblocked")
    TASK_BLOCKED: Kind[payloads.Nothing] = Kind("task.blocked")
    TASK_REVIVED: Kind[payloads.Nothing] = Kind("task.revived")
    TASK_BASE_CHANGED: Kind[payloads.Reason] = Kind("task.base_changed")
    MERGE_QUEUED: Kind[payloads.Nothing] = Kind("merge.queued")
    MERGE_LANDED: Kind[payloads.MergeEnd] = Kind("merge.landed")
    MERGE_CONFLICT: Kind[payloads.MergeEnd] = Kind("merge.conflict")
    MERGE_FAILED: Kind[payloads.MergeEnd] = Kind("merge.failed")
    MERGE_HELD: Kind[payloads.MergeHeld] = Kind("merge.held")
    MERGE_FLAKY: Kind[payloads.Reason] = Kind("merge.flaky")
    MERGE_REQUEUED: Kind[payloads.MergeRequeued] = Kind("merge.requeued")
    MERGE_RETRIED: Kind[payloads.Nothing] = Kind("merge.retried")
    MERGE_SUPERSEDED: Kind[payloads.MergeEnd] = Kind("merge.superseded")
    MERGE_CANCELLED: Kind[payloads.MergeEnd] = Kind("merge.cancelled")
    MERGE_APPROVED: Kind[payloads.MergeApproved] = Kind("merge.approved")
    MERGE_SKIPPED: Kind[payloads.TaskReprioritized] = Kind("merge.skipped")
    MERGE_BYPASSED: Kind[payloads.MergeBypassed] = Kind("merge.bypassed")
    MERGE_DISMISSED: Kind[payloads.Nothing] = Kind("merge.dismissed")
    TARGET_PAUSED: Kind[payloads.TargetPaused] = Kind("target.paused")
    TARGET_RESUMED: Kind[payloads.TargetResumed] = Kind("target.resumed")
    TARGET_FROZEN: Kind[payloads.TargetFrozen] = Kind("target.frozen")
    TARGET_THAWED: Kind[payloads.TargetThawed] = Kind("target.thawed")
    TARGET_REWOUND: Kind[payloads.TargetRewound] = Kind("target.rewound")
    TARGET_RESTORED: Kind[payloads.TargetRewound] = Kind("target.restored")
    TARGET_REWIND_ACCEPTED: Kind[payloads.TargetRewound] = Kind("target.rewind_accepted")
    TARGET_PUSHED: Kind[payloads.TargetPushed] = Kind("target.pushed")
    TARGET_FOLLOWED: Kind[payloads.TargetFollowed] = Kind("target.followed")
    TARGET_BYPASSED: Kind[payloads.TargetBypassed] = Kind("target.bypassed")
    SUPERVISOR_PAUSED: Kind[payloads.Reason] = Kind("supervisor.paused")
    SUPERVISOR_RESUMED: Kind[payloads.Nothing] = Kind("supervisor.resumed")
    LIMIT_REACHED: Kind[payloads.LimitReached] = Kind("limit.reached")
    MODEL_PARKED: Kind[payloads.ModelParked] = Kind("model.parked")
    LIMIT_CLEARED: Kind[payloads.LimitCleared] = Kind("limit.cleared")
    WORK_PAUSED: Kind[payloads.Reason] = Kind("work.paused")
    WORK_RESUMED: Kind[payloads.Nothing] = Kind("work.resumed")
    SESSION_STARTED: Kind[payloads.SessionNamed] = Kind("session.started")
    SESSION_RESUMED: Kind[payloads.Nothing] = Kind("session.resumed")
    SESSION_CHANGED: Kind[payloads.SessionChanged] = Kind("session.changed")
    SESSION_STALLED: Kind[payloads.SessionStalled] = Kind("session.stalled")
    SESSION_ENDED: Kind[payloads.SessionEnded] = Kind("session.ended")
    SESSION_COMMITTED: Kind[payloads.SessionCommitted] = Kind("session.committed")
    AGENT_FAILING: Kind[payloads.AgentFailing] = Kind("agent.failing")
    AGENT_PINNED: Kind[payloads.AgentChosen] = Kind("agent.pinned")
    AGENT_UNPINNED: Kind[payloads.AgentChosen] = Kind("agent.unpinned")
    AGENT_ROLLOUT_STARTED: Kind[payloads.AgentChosen] = Kind("agent.rollout_started")
    AGENT_ROLLOUT_STOPPED: Kind[payloads.AgentChosen] = Kind("agent.rollout_stopped")
    AGENT_ROLLED_BACK: Kind[payloads.AgentChosen] = Kind("agent.rolled_back")
    AGENT_IMPROVEMENT_ENDED: Kind[payloads.AgentChosen] = Kind("agent.improvement_ended")
    AGENT_REGISTERED: Kind[payloads.SessionNamed] = Kind("agent.registered")
    IDENTITY_REFUSED: Kind[payloads.IdentityRefused] = Kind("identity.refused")
    LOCK_ACQUIRED: Kind[payloads.LockAcquired] = Kind("lock.acquired")
    LOCK_AWAITED: Kind[payloads.LockAwaited] = Kind("lock.awaited")
    LOCK_RELEASED: Kind[payloads.LockReleased] = Kind("lock.released")
    LOCK_EXPIRED: Kind[payloads.LockExpired] = Kind("lock.expired")
    LOCK_VIOLATED: Kind[payloads.LockViolated] = Kind("lock.violated")
    LOCK_FORCE_RELEASED: Kind[payloads.LockForceReleased] = Kind("lock.force_released")
    EDIT_DENIED: Kind[payloads.LockConflict] = Kind("edit.denied")
    COMMAND_DENIED: Kind[payloads.CommandDenied] = Kind("command.denied")
    CHANGE_ATTRIBUTED: Kind[payloads.ChangeAttributed] = Kind("change.attributed")
    CHANGE_UNATTRIBUTED: Kind[payloads.ChangeUnattributed] = Kind("change.unattributed")
    CHANGE_UNANNOUNCED: Kind[payloads.ChangeUnannounced] = Kind("change.unannounced")
    MESSAGE_SENT: Kind[payloads.MessageSent] = Kind("message.sent")
    MESSAGE_READ: Kind[payloads.MessageMarked] = Kind("message.read")
    MESSAGE_ACKNOWLEDGED: Kind[payloads.MessageMarked] = Kind("message.acknowledged")
    MESSAGE_BROUGHT: Kind[payloads.MessagesBrought] = Kind("message.brought")
    MESSAGE_NATIVE: Kind[payloads.NativeMessage] = Kind("message.native")
    MESSAGE_BOUNCED: Kind[payloads.MessagesUnseen | payloads.LetterLost] = Kind("message.bounced")
    MEMORY_STORED: Kind[payloads.MemoryStored] = Kind("memory.stored")
    HANDOFF_WRITTEN: Kind[payloads.HandoffWritten] = Kind("handoff.written")
    FEATURE_REGISTERED: Kind[payloads.FeatureRegistered] = Kind("feature.registered")
    FEATURE_UPDATED: Kind[payloads.FeatureRegistered] = Kind("feature.updated")
    FEATURE_DEREGISTERED: Kind[payloads.FeatureDeregistered] = Kind("feature.deregistered")
    WORKTREE_REPLACED: Kind[payloads.WorktreeReplaced] = Kind("worktree.replaced")
    WORKTREE_SALVAGED: Kind[payloads.WorktreeSalvaged] = Kind("worktree.salvaged")
    ALERT_RAISED: Kind[payloads.AlertRaised] = Kind("alert.raised")
    ALERT_ACKNOWLEDGED: Kind[payloads.AlertChanged] = Kind("alert.acknowledged")
    ALERT_RESOLVED: Kind[payloads.AlertChanged] = Kind("alert.resolved")
    PROJECT_MOVED: Kind[payloads.ProjectMoved] = Kind("project.moved")
    PROJECT_DATABASE_SET_ASIDE: Kind[payloads.DatabaseSetAside] = Kind("project.database_set_aside")


TASK_SETBACKS: Mapping[str, Kind[payloads.TaskSetback]] = {
    TaskStatus.PENDING: EventKind.TASK_RETRIED,
    TaskStatus.FAILED: EventKind.TASK_FAILED,
    TaskStatus.DEAD: EventKind.TASK_DEAD,
    TaskStatus.CANCELLED: EventKind.TASK_CANCELLED,
    TaskStatus.INTERRUPTED: EventKind.TASK_INTERRUPTED,
}
"""The event of an attempt that did not complete its task, by the state that the task is in then."""

MERGE_ENDS: Mapping[MergeState, Kind[payloads.MergeEnd]] = {
    MergeState.LANDED: EventKind.MERGE_LANDED,
    MergeState.CONFLICT: EventKind.MERGE_CONFLICT,
    MergeState.FAILED: EventKind.MERGE_FAILED,
    MergeState.SUPERSEDED: EventKind.MERGE_SUPERSEDED,
    MergeState.CANCELLED: EventKind.MERGE_CANCELLED,
}
"""The event of a merge request's end, by its last state."""


def payload(event: Mapping[str, Any], *kinds: Kind[P]) -> P | None:
    """The data of a recorded event, typed by its kind; None if it is of none of these kinds.

    Args:
        event: With ``kind`` and ``data``, as it is stored or came over the wire.
    """
    return cast("P", event["data"]) if event["kind"] in kinds else None
