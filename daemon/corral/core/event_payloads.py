"""The payloads of events: the keys and values of an event's ``data``, one type per shape; kinds of the same shape share it.

:class:`corral.core.events.EventKind` is the table of kinds and their payloads. These types exist for mypy and the tests: other
modules import them only for type checking, so that a start does not pay for them. Paths in a payload are lock keys, as in
``file_path`` of a lock; a key that is ``NotRequired`` is absent where there is nothing to say.
"""
# ruff: noqa: UP013 - one line per shape, so that the table can be seen at once

from __future__ import annotations

from typing_extensions import NotRequired, TypedDict

Nothing = TypedDict("Nothing", {})
Reason = TypedDict("Reason", {"reason": str | None})

# -- tasks
TaskAssigned = TypedDict("TaskAssigned", {"agent": str | None, "runner": str, "model": str | None})
TaskClaimed = TypedDict(
    "TaskClaimed",
    {
        "attempt": int,
        "token": int,
        "key": NotRequired[str],
        "agent_name": NotRequired[str],  # of the worker that will be started
        "expires_at": NotRequired[str],
    },
)
TaskStarted = TypedDict("TaskStarted", {"pid": int})
TaskCompleted = TypedDict("TaskCompleted", {"attempt": int, "head_sha": str | None})
TaskSetback = TypedDict(
    "TaskSetback",
    {
        "error_code": str | None,
        "error_message": NotRequired[str | None],
        "reason": NotRequired[str],  # of a cancellation
        "attempt": NotRequired[int],
        "delay_s": NotRequired[float],
        "crashes": NotRequired[int],
        "faults": NotRequired[int],
        "is_counted": NotRequired[bool],
    },
)
TaskIterated = TypedDict("TaskIterated", {"iteration": int, "verdict": str})
TaskRetryRequested = TypedDict("TaskRetryRequested", {"was": str})
TaskReprioritized = TypedDict("TaskReprioritized", {"from": int, "to": int})

# -- merge requests and their targets
MergeEnd = TypedDict("MergeEnd", {"reason": str | None, "landed_sha": str | None})
MergeHeld = TypedDict(
    "MergeHeld", {"reason": str, "paths": NotRequired[list[str]], "checkout": NotRequired[str | None]}
)
MergeRequeued = TypedDict("MergeRequeued", {"reason": str | None, "tries": int, "not_before_at": str | None})
MergeApproved = TypedDict("MergeApproved", {"head_sha": str, "paths": list[str]})
MergeBypassed = TypedDict("MergeBypassed", {"head_sha": str, "reason": str})
TargetFrozen = TypedDict("TargetFrozen", {"target": str, "reason": str, "by": str})
TargetPaused = TypedDict("TargetPaused", {"target": str, "reason": str, "red_sha": NotRequired[str]})
TargetResumed = TypedDict("TargetResumed", {"target": str, "green_sha": NotRequired[str]})
TargetThawed = TypedDict("TargetThawed", {"target": str})
TargetRewound = TypedDict("TargetRewound", {"target": str, "lost_sha": str, "merge_ids": list[str], "reason": str})
TargetPushed = TypedDict("TargetPushed", {"target": str, "remote": str, "sha": str})
TargetFollowed = TypedDict("TargetFollowed", {"target": str, "remote": str, "sha": str})
TargetBypassed = TypedDict("TargetBypassed", {"target": str, "commits": list[str], "reason": str})

# -- limits of all workers together
LimitReached = TypedDict("LimitReached", {"limit": str, "used": float, "allowed": float})
ModelParked = TypedDict("ModelParked", {"until": str, "cause": str})
LimitCleared = TypedDict("LimitCleared", {"limit": str})

# -- sessions
SessionNamed = TypedDict("SessionNamed", {"agent_name": str})
AgentChosen = TypedDict("AgentChosen", {"agent": str, "version": str | None, "reason": str | None})
AgentFailing = TypedDict("AgentFailing", {"agent": str, "failures": int, "reason": str})
SessionChanged = TypedDict(
    "SessionChanged",
    {
        "agent_name": str,
        "status": str,
        "current_task": str | None,
        "capabilities": list[str],
        "waiting_for": str | None,
    },
    total=False,
)
SessionStalled = TypedDict("SessionStalled", {"last_heartbeat": str})
SessionEnded = TypedDict("SessionEnded", {"reason": str, "released": list[str], "by": NotRequired[str]})
Commit = TypedDict("Commit", {"sha": str, "subject": str})
SessionCommitted = TypedDict("SessionCommitted", {"branch": str | None, "commits": list[Commit]})
IdentityRefused = TypedDict(
    "IdentityRefused", {"session_id": str | None, "agent_name": str, "caller": str}, total=False
)

# -- locks, edits and changes
LockAcquired = TypedDict(
    "LockAcquired", {"paths": list[str], "exclusive": bool, "automatic": bool, "checkout": str | None}
)
LockAwaited = TypedDict("LockAwaited", {"paths": list[str]})
LockReleased = TypedDict("LockReleased", {"paths": list[str], "by": NotRequired[str]})
LockExpired = TypedDict("LockExpired", {"path": str})
LockViolated = TypedDict("LockViolated", {"path": str, "holder": str, "checkout": str})
LockForceReleased = TypedDict("LockForceReleased", {"path": str, "by": str, "note": str | None, "reasons": list[str]})
LockConflict = TypedDict(
    "LockConflict",
    {
        "requested": str,
        "file_path": str,
        "holder": str,
        "session_id": str,
        "task": str | None,
        "task_id": str | None,
        "reason": str | None,
        "exclusive": bool,
        "automatic": bool,
        "waiting": bool,
        "checkout": str | None,
        "expires_at": str,
        "expires_in_s": int,
    },
)
CommandDenied = TypedDict(
    "CommandDenied", {"kind": str, "holders": list[str], "files": list[str], "salvage_ref": str | None}
)
ChangeAttributed = TypedDict(
    "ChangeAttributed", {"paths": list[str], "checkout": str, "evidence": str, "holder": NotRequired[str]}
)
ChangeUnattributed = TypedDict("ChangeUnattributed", {"paths": list[str], "others": str, "checkout": str})
ChangeUnannounced = TypedDict("ChangeUnannounced", {"paths": list[str], "checkout": str})

# -- messages, memories, handoffs, features
MessageSent = TypedDict("MessageSent", {"message_id": str, "seq": int, "thread_id": str, "bounced": list[str]})
MessageMarked = TypedDict("MessageMarked", {"message_id": str})
MessagesBrought = TypedDict("MessagesBrought", {"message_seqs": list[int], "way": str})
NativeMessage = TypedDict("NativeMessage", {"to": str, "summary": str})
MessagesUnseen = TypedDict("MessagesUnseen", {"sender": str, "message_ids": list[str], "count": int})
LetterLost = TypedDict("LetterLost", {"kind": str, "recipients": list[str], "reason": str})
MemoryStored = TypedDict("MemoryStored", {"memory_id": str, "agent_name": str, "event_type": str, "times": int})
HandoffWritten = TypedDict("HandoffWritten", {"handoff_id": str, "automatic": bool})
FeatureRegistered = TypedDict("FeatureRegistered", {"feature_id": str, "claims": int})
FeatureDeregistered = TypedDict("FeatureDeregistered", {"feature_id": str, "status": str})

# -- alerts
AlertRaised = TypedDict(
    "AlertRaised", {"alert_id": str, "rule": str, "subject": str, "reason": str, "remedy": str, "times": int}
)
AlertChanged = TypedDict("AlertChanged", {"alert_id": str, "rule": str, "subject": str})

# -- worktrees, the project
WorktreeReplaced = TypedDict("WorktreeReplaced", {"worktree": str, "path": str, "kept": str | None, "reason": str})
WorktreeSalvaged = TypedDict("WorktreeSalvaged", {"ref": str, "files": list[str], "reason": str, "worktree": str})
ProjectMoved = TypedDict("ProjectMoved", {"from": str, "to": str, "left": list[str]})
DatabaseSetAside = TypedDict("DatabaseSetAside", {"file": str, "owner": str | None})
