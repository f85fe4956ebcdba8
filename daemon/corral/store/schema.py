"""The tables. Checks say which columns must be set in which state: the schema itself refuses an impossible row.

A table's columns are the type of its rows (:func:`corral.store.table.table`). Instants are text (``corral.core.instants``),
identifiers are text, shapes that only ever travel whole are JSON. A new database is made from them. A change here needs a
migration in ``migrations/versions`` too; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import Index, and_, false, func, literal_column, select, text

from corral.core.states import (
    AttemptOutcome,
    Combine,
    MergeState,
    ReceiptStatus,
    RunnerName,
    SessionStatus,
    TaskStatus,
    WorktreePurpose,
    WorktreeState,
)
from corral.store.rows.mail import NoticeRow
from corral.store.rows.merges import (
    BranchPushRow,
    FlakeRow,
    IntentRow,
    MergeRow,
    ReceiptRow,
    RemoteRow,
    TargetRow,
    VerificationRunRow,
)
from corral.store.rows.records import EventRow
from corral.store.rows.sessions import LockRow, SessionRow
from corral.store.rows.tasks import AttemptRow, ClaimRow, DependencyRow, StoredTask, TaskStateRow, WorktreeRow
from corral.store.table import one_of, only, table

agent_sessions = table(
    "agent_sessions",
    SessionRow,
    key="session_id",
    first="session_id, agent_name, agent_type, agent, parent_session_id, status, waiting_for, unguarded_since_at, "
    "capabilities, current_task, task_id, worktree, cwd, branch, client_pid, client_started, entrypoint, "
    "last_words, transcript_path, started_at, last_heartbeat, ended_at, end_reason, heir_session_id",
    unique=["agent_name"],
    checks={
        "status": one_of("status", SessionStatus.values()),
        "ended": "(status = 'disconnected') = (ended_at IS NOT NULL)",
    },
    indexes=["status", "parent_session_id", "client_pid"],
)
Index("ix_agent_sessions_folded", func.lower(agent_sessions.c.agent_name))
Index("ix_agent_sessions_agent_status", func.lower(agent_sessions.c.agent), agent_sessions.c.status)

file_locks = table(
    "file_locks",
    LockRow,
    key="lock_id",
    unique=["session_id, match_key, checkout"],
    references={"session_id": "agent_sessions.session_id"},
    checks={"ttl": "ttl_s > 0"},
    indexes=["match_key", "expires_at"],
)
Index("ix_file_locks_globs", file_locks.c.expires_at, **only(file_locks.c.is_pattern.is_(True)))

_parents = agent_sessions.alias("parents")
VIEWS = {
    "live_holds": select(
        *(
            file_locks.c[name]
            for name in ("match_key", "is_pattern", "checkout", "exclusive", "automatic", "expires_at")
        ),
        agent_sessions.c.session_id,
        agent_sessions.c.agent_name,
        func.coalesce(agent_sessions.c.client_pid, _parents.c.client_pid).label("client_pid"),
        func.coalesce(agent_sessions.c.client_started, _parents.c.client_started).label("client_started"),
    )
    .join(agent_sessions, agent_sessions.c.session_id == file_locks.c.session_id)
    .outerjoin(_parents, _parents.c.session_id == agent_sessions.c.parent_session_id)
    .where(agent_sessions.c.ended_at.is_(None))
}
"""``live_holds``: what `client/last_look.py` reads where no daemon answers: the locks of sessions that have not ended. Columns
are only added: bridges of an earlier version read it too."""

tasks = table(
    "tasks",
    StoredTask,
    numbered="seq",
    first="seq, task_id, task_type, title, description, status, priority, runner, agent, command, prompt, "
    "input_data, agent_requirements, deadline_at, thread_id, submitted_by, author_name, author_email, target, "
    "timeout_s, limits, max_retries, retries_chosen, attempts, crashes, faults, ignore_dependency_failure, "
    "idempotency_key, fencing_token, current_attempt, not_before_at, cancel_reason, result, error_code, "
    "error_message, created_at, completed_at, dismissed_at, metadata, template, parent_task_id, "
    "agents_wanted, combine, steps_wanted",
    unique=["task_id", "idempotency_key"],
    defaults={"retries_chosen": false(), "crashes": "0", "faults": "0"},
    checks={
        "status": one_of("status", TaskStatus.values()),
        "runner": f"runner IS NULL OR {one_of('runner', RunnerName.values())}",
        "combine": f"combine IS NULL OR {one_of('combine', Combine.values())}",
        "agents_wanted": "(agents_wanted IS NULL) = (combine IS NULL) AND (agents_wanted IS NULL OR agents_wanted > 0)",
        "priority": "priority BETWEEN 0 AND 10",
        "attempts": "attempts >= 0 AND max_retries >= 0",
        "completed": "(status IN ('completed', 'failed', 'cancelled', 'dead')) = (completed_at IS NOT NULL)",
        "owned": "status <> 'running' OR (current_attempt IS NOT NULL AND current_attempt = fencing_token)",
        "explained": "status NOT IN ('failed', 'dead') OR error_code IS NOT NULL",
    },
    indexes=["status, not_before_at", "thread_id, seq"],
)
Index("ix_tasks_status_priority_seq", tasks.c.status, tasks.c.priority.desc(), tasks.c.seq)
Index(
    "ix_tasks_offered",  # a session's claim passes none of the tasks that wait for a runner
    tasks.c.status,
    tasks.c.priority.desc(),
    tasks.c.seq,
    **only(tasks.c.runner.is_(None)),
)
Index("ix_tasks_parent_task_id", tasks.c.parent_task_id, **only(tasks.c.parent_task_id.is_not(None)))
Index(
    "ix_tasks_open_followers",
    tasks.c.parent_task_id,
    **only(and_(tasks.c.parent_task_id.is_not(None), tasks.c.completed_at.is_(None))),
)
Index("ix_tasks_open_combined", tasks.c.seq, **only(and_(tasks.c.combine.is_not(None), tasks.c.completed_at.is_(None))))

SETBACKS = tasks.c.faults + tasks.c.crashes > literal_column("0")
"""Of a task: the machine prevented its start, or it is suspected of crashing workers."""
Index("ix_tasks_held_back", tasks.c.status, tasks.c.runner, tasks.c.seq, **only(SETBACKS))

attempts = table(
    "attempts",
    AttemptRow,
    key="task_id, number",
    first="task_id, number, session_id, claim_key, agent, runner, model, host, lease_expires_at, worktree_id, "
    "branch, base_sha, head_sha, pid, pid_started, progress, progress_at, usage, memory_mb, claimed_at",
    references={"task_id": "tasks.task_id"},
    checks={
        "outcome": f"outcome IS NULL OR {one_of('outcome', AttemptOutcome.values())}",
        "ended": "(ended_at IS NULL) = (outcome IS NULL)",
        "leased": "(ended_at IS NULL) = (lease_expires_at IS NOT NULL)",
    },
    sqlite_with_rowid=False,
)
Index("uq_attempts_open", attempts.c.task_id, unique=True, **only(attempts.c.ended_at.is_(None)))
Index("ix_attempts_open_session_id", attempts.c.session_id, **only(attempts.c.ended_at.is_(None)))

task_dependencies = table(
    "task_dependencies",
    DependencyRow,
    key="task_id, depends_on",
    references={"task_id": "tasks.task_id", "depends_on": "tasks.task_id"},
    checks={"not_self": "task_id <> depends_on"},
    indexes=["depends_on"],
)

task_state = table("task_state", TaskStateRow, key="task_id, key", references={"task_id": "tasks.task_id"})

task_claims = table("task_claims", ClaimRow, key="task_id, claim", references={"task_id": "tasks.task_id"})

worktrees = table(
    "worktrees",
    WorktreeRow,
    key="worktree_id",
    first="worktree_id, name",
    checks={
        "state": one_of("state", WorktreeState.values()),
        "purpose": one_of("purpose", WorktreePurpose.values()),
        "removed": "(state = 'removed') = (removed_at IS NOT NULL)",
        "branch": "state IN ('removed', 'pooled') OR purpose = 'verify' OR branch IS NOT NULL",
    },
)
Index("ix_worktrees_stacked", worktrees.c.branch, **only(worktrees.c.stacked_on.is_not(None)))
_LIVE = worktrees.c.state != "removed"
Index("uq_worktrees_live_name", worktrees.c.name, unique=True, **only(_LIVE))
Index("uq_worktrees_live_port", worktrees.c.port_base, unique=True, **only(_LIVE))

receipts = table(
    "receipts",
    ReceiptRow,
    key="receipt_id",
    checks={
        "status": one_of("status", ReceiptStatus.values()),
        "green": "status <> 'passed' OR (exit_code = 0 AND (tests IS NULL OR tests > 0))",
    },
    indexes=["tree, fingerprint", "merge_id"],
)

merge_requests = table(
    "merge_requests",
    MergeRow,
    numbered="seq",
    unique=["merge_id"],
    references={"task_id": "tasks.task_id", "receipt_id": "receipts.receipt_id"},
    checks={
        "state": one_of("state", MergeState.values()),
        "landed": "(state = 'landed') = (landed_sha IS NOT NULL)",
        "receipt": "state <> 'landed' OR receipt_id IS NOT NULL",
        "finished": "(state IN ('queued', 'verifying', 'held')) = (finished_at IS NULL)",
        "explained": "state NOT IN ('conflict', 'failed', 'held') OR reason IS NOT NULL",
    },
    indexes=["state, seq", "receipt_id", "task_id", "branch, seq"],
)
Index(
    "uq_merge_requests_open_branch",
    merge_requests.c.branch,
    merge_requests.c.target,
    unique=True,
    **only(text("state IN ('queued', 'verifying', 'held') AND replaced_by IS NULL")),
)
Index("ix_merge_requests_reverts", merge_requests.c.reverts, **only(merge_requests.c.reverts.is_not(None)))

landing_intents = table(
    "landing_intents",
    IntentRow,
    key="target",
    first="target, old_sha, new_sha, merge_ids, failed_at, created_at",
)

verification_runs = table("verification_runs", VerificationRunRow, numbered="run_id", indexes=["merge_id"])
Index("ix_verification_runs_running", verification_runs.c.slot, **only(verification_runs.c.ended_at.is_(None)))

flakes = table("flakes", FlakeRow, numbered="flake_id", indexes=["target, test"])

landing_targets = table("landing_targets", TargetRow, key="target")

landing_remotes = table("landing_remotes", RemoteRow, key="target")

branch_pushes = table("branch_pushes", BranchPushRow, key="merge_id")

notices = table(
    "notices",
    NoticeRow,
    numbered="notice_id",
    references={"session_id": "agent_sessions.session_id"},
    indexes=["session_id, injected_at"],
)

events = table("events", EventRow, numbered="event_id", first="event_id, at, kind, task_id, session_id, merge_id")
Index("ix_events_task_id", events.c.task_id, **only(events.c.task_id.is_not(None)))
DEED = text("kind NOT IN ('lock.acquired', 'message.acknowledged', 'message.read', 'message.sent', 'session.changed')")
"""Of an event: it is not of a frequent kind; only such events are indexed by their session."""
Index("ix_events_session_id", events.c.session_id, **only(DEED))
