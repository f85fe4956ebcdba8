"""The tables. CHECK constraints say which columns must be set in which state: the schema itself refuses an impossible row.

Instants are text (``corral.core.instants``), identifiers are text, shapes that only ever travel whole are JSON.
A new database is made from them. A change here needs a migration in ``migrations/versions`` too; a test compares the two.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    and_,
    false,
    func,
    literal_column,
    select,
    text,
)

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

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def one_of(column: str, values: tuple[str, ...]) -> str:
    """The condition of a CHECK constraint: the column has one of these values."""
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


def only(where: ColumnElement[bool] | TextClause) -> dict[str, Any]:
    """The options that make an index a partial one, in either database."""
    return {"sqlite_where": where, "postgresql_where": where}


agent_sessions = Table(
    "agent_sessions",
    metadata,
    Column("session_id", String(128), primary_key=True),
    Column("agent_name", String(128), nullable=False, unique=True),
    Column("agent_type", String(64), nullable=False),
    Column("agent", String(128), nullable=True),
    Column("parent_session_id", String(128), nullable=True),
    Column("status", String(16), nullable=False),
    Column("waiting_for", Text, nullable=True),
    Column("unguarded_since_at", String(24), nullable=True),
    Column("capabilities", JSON, nullable=False),
    Column("current_task", Text, nullable=True),
    Column("task_id", String(36), nullable=True),
    Column("worktree", Text, nullable=True),
    Column("cwd", Text, nullable=True),
    Column("branch", Text, nullable=True),
    Column("client_pid", Integer, nullable=True),
    Column("client_started", Float, nullable=True),
    Column("entrypoint", String(64), nullable=True),
    Column("last_words", Text, nullable=True),
    Column("transcript_path", Text, nullable=True),
    Column("started_at", String(24), nullable=False),
    Column("last_heartbeat", String(24), nullable=False),
    Column("ended_at", String(24), nullable=True),
    Column("end_reason", String(64), nullable=True),
    Column("heir_session_id", String(128), nullable=True),
    Column("stalled_since_at", String(24), nullable=True),
    Column("waiting_since_at", String(24), nullable=True),
    Column("waiting_path", Text, nullable=True),
    CheckConstraint(one_of("status", SessionStatus.values()), name="status"),
    CheckConstraint("(status = 'disconnected') = (ended_at IS NOT NULL)", name="ended"),
)
Index("ix_agent_sessions_status", agent_sessions.c.status)
Index("ix_agent_sessions_parent_session_id", agent_sessions.c.parent_session_id)
Index("ix_agent_sessions_client_pid", agent_sessions.c.client_pid)
Index("ix_agent_sessions_folded", func.lower(agent_sessions.c.agent_name))
Index("ix_agent_sessions_agent_status", func.lower(agent_sessions.c.agent), agent_sessions.c.status)

file_locks = Table(
    "file_locks",
    metadata,
    Column("lock_id", String(36), primary_key=True),
    Column("file_path", Text, nullable=False),
    Column("match_key", Text, nullable=False),
    Column("is_pattern", Boolean, nullable=False),
    Column("checkout", Text, nullable=False),
    Column("session_id", String(128), ForeignKey("agent_sessions.session_id"), nullable=False),
    Column("exclusive", Boolean, nullable=False),
    Column("automatic", Boolean, nullable=False),
    Column("reason", Text, nullable=True),
    Column("task_id", String(36), nullable=True),
    Column("ttl_s", Float, nullable=False),
    Column("acquired_at", String(24), nullable=False),
    Column("expires_at", String(24), nullable=False),
    UniqueConstraint("session_id", "match_key", "checkout"),
    CheckConstraint("ttl_s > 0", name="ttl"),
)
Index("ix_file_locks_match_key", file_locks.c.match_key)
Index("ix_file_locks_globs", file_locks.c.expires_at, **only(file_locks.c.is_pattern.is_(True)))
Index("ix_file_locks_expires_at", file_locks.c.expires_at)

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

tasks = Table(
    "tasks",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("task_id", String(36), nullable=False, unique=True),
    Column("task_type", String(64), nullable=False),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=True),
    Column("status", String(16), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("runner", String(16), nullable=True),
    Column("agent", String(128), nullable=True),
    Column("command", Text, nullable=True),
    Column("prompt", Text, nullable=True),
    Column("input_data", JSON, nullable=True),
    Column("agent_requirements", JSON, nullable=True),
    Column("deadline_at", String(24), nullable=True),
    Column("thread_id", String(128), nullable=True),
    Column("submitted_by", String(128), nullable=True),
    Column("author_name", Text, nullable=True),
    Column("author_email", Text, nullable=True),
    Column("target", Text, nullable=True),
    Column("timeout_s", Float, nullable=True),
    Column("limits", JSON, nullable=False),
    Column("max_retries", Integer, nullable=False),
    Column("retries_chosen", Boolean, nullable=False, server_default=false()),
    Column("attempts", Integer, nullable=False),
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("faults", Integer, nullable=False, server_default="0"),
    Column("ignore_dependency_failure", Boolean, nullable=False),
    Column("idempotency_key", String(128), nullable=True, unique=True),
    Column("fencing_token", Integer, nullable=False),
    Column("current_attempt", Integer, nullable=True),
    Column("not_before_at", String(24), nullable=True),
    Column("cancel_reason", Text, nullable=True),
    Column("result", JSON, nullable=True),
    Column("error_code", String(64), nullable=True),
    Column("error_message", Text, nullable=True),
    Column("created_at", String(24), nullable=False),
    Column("completed_at", String(24), nullable=True),
    Column("dismissed_at", String(24), nullable=True),
    Column("metadata", JSON, nullable=True),
    Column("template", String(128), nullable=True),
    Column("parent_task_id", String(36), nullable=True),
    Column("agents_wanted", Integer, nullable=True),
    Column("combine", String(16), nullable=True),
    Column("steps_wanted", Integer, nullable=True),
    Column("step", String(128), nullable=True),
    Column("agent_version", String(64), nullable=True),
    CheckConstraint(one_of("status", TaskStatus.values()), name="status"),
    CheckConstraint(f"runner IS NULL OR {one_of('runner', RunnerName.values())}", name="runner"),
    CheckConstraint(f"combine IS NULL OR {one_of('combine', Combine.values())}", name="combine"),
    CheckConstraint(
        "(agents_wanted IS NULL) = (combine IS NULL) AND (agents_wanted IS NULL OR agents_wanted > 0)",
        name="agents_wanted",
    ),
    CheckConstraint("priority BETWEEN 0 AND 10", name="priority"),
    CheckConstraint("attempts >= 0 AND max_retries >= 0", name="attempts"),
    CheckConstraint(
        "(status IN ('completed', 'failed', 'cancelled', 'dead')) = (completed_at IS NOT NULL)",
        name="completed",
    ),
    CheckConstraint(
        "status <> 'running' OR (current_attempt IS NOT NULL AND current_attempt = fencing_token)", name="owned"
    ),
    CheckConstraint("status NOT IN ('failed', 'dead') OR error_code IS NOT NULL", name="explained"),
)
Index("ix_tasks_status_priority_seq", tasks.c.status, tasks.c.priority.desc(), tasks.c.seq)
Index(
    "ix_tasks_offered",  # a session's claim passes none of the tasks that wait for a runner
    tasks.c.status,
    tasks.c.priority.desc(),
    tasks.c.seq,
    **only(tasks.c.runner.is_(None)),
)
Index("ix_tasks_status_not_before_at", tasks.c.status, tasks.c.not_before_at)
Index("ix_tasks_thread_id_seq", tasks.c.thread_id, tasks.c.seq)
Index("ix_tasks_parent_task_id", tasks.c.parent_task_id, **only(tasks.c.parent_task_id.is_not(None)))
Index(
    "ix_tasks_open_followers",
    tasks.c.parent_task_id,
    **only(and_(tasks.c.parent_task_id.is_not(None), tasks.c.completed_at.is_(None))),
)
Index(
    "ix_tasks_open_combined",
    tasks.c.seq,
    **only(and_(tasks.c.combine.is_not(None), tasks.c.completed_at.is_(None))),
)

SETBACKS = tasks.c.faults + tasks.c.crashes > literal_column("0")
"""Of a task: the machine prevented its start, or it is suspected of crashing workers."""
Index("ix_tasks_held_back", tasks.c.status, tasks.c.runner, tasks.c.seq, **only(SETBACKS))

attempts = Table(
    "attempts",
    metadata,
    Column("task_id", String(36), ForeignKey("tasks.task_id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("session_id", String(128), nullable=False),
    Column("claim_key", String(128), nullable=True),
    Column("agent", String(128), nullable=True),
    Column("runner", String(16), nullable=True),
    Column("model", String(128), nullable=True),
    Column("host", Text, nullable=True),
    Column("lease_expires_at", String(24), nullable=True),
    Column("worktree_id", String(36), nullable=True),
    Column("branch", Text, nullable=True),
    Column("base_sha", String(64), nullable=True),
    Column("head_sha", String(64), nullable=True),
    Column("pid", Integer, nullable=True),
    Column("pid_started", Float, nullable=True),
    Column("progress", Text, nullable=True),
    Column("progress_at", String(24), nullable=True),
    Column("usage", JSON, nullable=False),
    Column("memory_mb", Integer, nullable=True),
    Column("claimed_at", String(24), nullable=False),
    Column("started_at", String(24), nullable=True),
    Column("ended_at", String(24), nullable=True),
    Column("outcome", String(16), nullable=True),
    Column("error_code", String(64), nullable=True),
    Column("error_message", Text, nullable=True),
    CheckConstraint(f"outcome IS NULL OR {one_of('outcome', AttemptOutcome.values())}", name="outcome"),
    CheckConstraint("(ended_at IS NULL) = (outcome IS NULL)", name="ended"),
    CheckConstraint("(ended_at IS NULL) = (lease_expires_at IS NOT NULL)", name="leased"),
    sqlite_with_rowid=False,
)
Index("uq_attempts_open", attempts.c.task_id, unique=True, **only(attempts.c.ended_at.is_(None)))
Index("ix_attempts_open_session_id", attempts.c.session_id, **only(attempts.c.ended_at.is_(None)))

task_dependencies = Table(
    "task_dependencies",
    metadata,
    Column("task_id", String(36), ForeignKey("tasks.task_id"), primary_key=True),
    Column("depends_on", String(36), ForeignKey("tasks.task_id"), primary_key=True),
    Column("clashes_sha", String(64), nullable=True),
    CheckConstraint("task_id <> depends_on", name="not_self"),
)
"""``clashes_sha``: the head of the parent's work on which, together with that of the others, the dependent could not begin."""
Index("ix_task_dependencies_depends_on", task_dependencies.c.depends_on)

task_state = Table(
    "task_state",
    metadata,
    Column("task_id", String(36), ForeignKey("tasks.task_id"), primary_key=True),
    Column("key", String(256), primary_key=True),
    Column("value", JSON, nullable=False),
    Column("version", Integer, nullable=False),
    Column("updated_by", String(128), nullable=True),
    Column("updated_at", String(24), nullable=False),
)

task_claims = Table(
    "task_claims",
    metadata,
    Column("task_id", String(36), ForeignKey("tasks.task_id"), primary_key=True),
    Column("claim", Text, primary_key=True),
)

worktrees = Table(
    "worktrees",
    metadata,
    Column("worktree_id", String(36), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("path", Text, nullable=False),
    Column("branch", Text, nullable=True),
    Column("base_sha", String(64), nullable=False),
    Column("purpose", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("task_id", String(36), nullable=True),
    Column("session_id", String(128), nullable=True),
    Column("port_base", Integer, nullable=True),
    Column("provision", JSON, nullable=False),
    Column("note", Text, nullable=True),
    Column("salvage_ref", Text, nullable=True),
    Column("folder_id", String(48), nullable=True),
    Column("stacked_on", JSON, nullable=True),
    Column("created_at", String(24), nullable=False),
    Column("removed_at", String(24), nullable=True),
    CheckConstraint(one_of("state", WorktreeState.values()), name="state"),
    CheckConstraint(one_of("purpose", WorktreePurpose.values()), name="purpose"),
    CheckConstraint("(state = 'removed') = (removed_at IS NOT NULL)", name="removed"),
    CheckConstraint("state IN ('removed', 'pooled') OR purpose = 'verify' OR branch IS NOT NULL", name="branch"),
)
"""``stacked_on``: the tasks on whose finished work, not landed then, ``base_sha`` was made, each with the head of that."""
Index("ix_worktrees_stacked", worktrees.c.branch, **only(worktrees.c.stacked_on.is_not(None)))
# PostgreSQL's condition is in the migration that creates them: naming it here would import that whole dialect.
_LIVE = worktrees.c.state != "removed"
Index("uq_worktrees_live_name", worktrees.c.name, unique=True, **only(_LIVE))
Index("uq_worktrees_live_port", worktrees.c.port_base, unique=True, **only(_LIVE))

receipts = Table(
    "receipts",
    metadata,
    Column("receipt_id", String(36), primary_key=True),
    Column("tree", String(64), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("commands", JSON, nullable=False),
    Column("exit_code", Integer, nullable=True),
    Column("tests", Integer, nullable=True),
    Column("duration_s", Float, nullable=False),
    Column("log", Text, nullable=True),
    Column("reason", Text, nullable=True),
    Column("created_at", String(24), nullable=False),
    # What it is of; NULL where nothing ran, and before these were recorded.
    Column("merge_id", String(36), nullable=True),
    Column("commit_sha", String(64), nullable=True),
    Column("role", String(16), nullable=True),
    Column("inputs", JSON, nullable=True),
    # Of a red one: the tests that failed, as far as its output tells; NULL where not everything ran.
    Column("failed_tests", JSON, nullable=True),
    CheckConstraint(one_of("status", ReceiptStatus.values()), name="status"),
    CheckConstraint("status <> 'passed' OR (exit_code = 0 AND (tests IS NULL OR tests > 0))", name="green"),
)
Index("ix_receipts_tree_fingerprint", receipts.c.tree, receipts.c.fingerprint)
Index("ix_receipts_merge_id", receipts.c.merge_id)

merge_requests = Table(
    "merge_requests",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("merge_id", String(36), nullable=False, unique=True),
    Column("task_id", String(36), ForeignKey("tasks.task_id"), nullable=True),
    Column("session_id", String(128), nullable=True),
    Column("title", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("branch", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("base_sha", String(64), nullable=True),
    Column("head_sha", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=True),
    Column("conflicts", JSON, nullable=True),
    Column("candidate_sha", String(64), nullable=True),
    Column("candidate_tree", String(64), nullable=True),
    # What the candidate is built upon: the target's tip, or the candidate of a request before it.
    Column("tip_sha", String(64), nullable=True),
    # A candidate of another request, upon which this one could not be merged; it may be upon the tip.
    Column("clashes_on_sha", String(64), nullable=True),
    # Since when it is judged alone: a chain of candidates was red where it began.
    Column("suspect_at", String(24), nullable=True),
    Column("receipt_id", String(36), ForeignKey("receipts.receipt_id"), nullable=True),
    # The receipt by which its check (landing.check) stands; NULL: it has to run. It may be deleted before the request.
    Column("check_receipt_id", String(36), nullable=True),
    Column("landed_sha", String(64), nullable=True),
    # The commit that the target moved to with it; where that is another one, its receipt covers this.
    Column("landed_tip_sha", String(64), nullable=True),
    # The shape of the candidate; only `merge` and `fast-forward` have the head in their history.
    Column("style", String(16), nullable=True),
    Column("approved_sha", String(64), nullable=True),
    Column("tries", Integer, nullable=False),
    Column("not_before_at", String(24), nullable=True),
    Column("created_at", String(24), nullable=False),
    Column("updated_at", String(24), nullable=False),
    Column("finished_at", String(24), nullable=True),
    # The newer request of the same branch; of an open one: it is landing, and beyond recall.
    Column("replaced_by", String(36), nullable=True),
    Column("dismissed_at", String(24), nullable=True),
    # The request whose work this one takes back.
    Column("reverts", String(36), nullable=True),
    # Since when it counts in its target's order: a person sent it to the back.
    Column("skipped_at", String(24), nullable=True),
    # The head that a person lets land without a verification, and in a sentence who and why.
    Column("bypassed_sha", String(64), nullable=True),
    Column("bypass_reason", Text, nullable=True),
    CheckConstraint(one_of("state", MergeState.values()), name="state"),
    CheckConstraint("(state = 'landed') = (landed_sha IS NOT NULL)", name="landed"),
    CheckConstraint("state <> 'landed' OR receipt_id IS NOT NULL", name="receipt"),
    CheckConstraint("(state IN ('queued', 'verifying', 'held')) = (finished_at IS NULL)", name="finished"),
    CheckConstraint("state NOT IN ('conflict', 'failed', 'held') OR reason IS NOT NULL", name="explained"),
)
Index(
    "uq_merge_requests_open_branch",
    merge_requests.c.branch,
    merge_requests.c.target,
    unique=True,
    **only(text("state IN ('queued', 'verifying', 'held') AND replaced_by IS NULL")),
)
Index("ix_merge_requests_state_seq", merge_requests.c.state, merge_requests.c.seq)
Index("ix_merge_requests_receipt_id", merge_requests.c.receipt_id)
Index("ix_merge_requests_task_id", merge_requests.c.task_id)
Index("ix_merge_requests_branch_seq", merge_requests.c.branch, merge_requests.c.seq)
Index("ix_merge_requests_reverts", merge_requests.c.reverts, **only(merge_requests.c.reverts.is_not(None)))

landing_intents = Table(
    "landing_intents",
    metadata,
    Column("target", Text, primary_key=True),
    Column("old_sha", String(64), nullable=False),
    Column("new_sha", String(64), nullable=False),
    Column("merge_ids", JSON, nullable=False),
    Column("failed_at", String(24), nullable=True),
    Column("created_at", String(24), nullable=False),
    # The remote that it is pushed to first, the commit that its target is at there, and when it had the new one.
    Column("remote", Text, nullable=True),
    Column("remote_sha", String(64), nullable=True),
    Column("pushed_at", String(24), nullable=True),
)

verification_runs = Table(
    "verification_runs",
    metadata,
    Column("run_id", Integer, primary_key=True, autoincrement=True),
    Column("merge_id", String(36), nullable=False),
    Column("target", Text, nullable=False),
    Column("commit_sha", String(64), nullable=False),
    Column("candidate_sha", String(64), nullable=False),
    Column("tree", String(64), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("slot", Integer, nullable=False),
    Column("is_alone", Integer, nullable=False),
    # The requests whose work is in the tree beside what the target has, in the chain's order.
    Column("members", JSON, nullable=False),
    Column("started_at", String(24), nullable=False),
    Column("ended_at", String(24), nullable=True),
    Column("receipt_id", String(36), nullable=True),
    # It met a port that a run beside it may have had: those that begin after this run_id go one at a time for a while.
    Column("apart_after", Integer, nullable=True),
)
Index("ix_verification_runs_running", verification_runs.c.slot, **only(verification_runs.c.ended_at.is_(None)))
Index("ix_verification_runs_merge_id", verification_runs.c.merge_id)

flakes = Table(
    "flakes",
    metadata,
    Column("flake_id", Integer, primary_key=True, autoincrement=True),
    Column("target", Text, nullable=False),
    # As the runner names it; NULL: it did not tell.
    Column("test", Text, nullable=True),
    Column("merge_id", String(36), nullable=False),
    Column("commit_sha", String(64), nullable=False),
    Column("tree", String(64), nullable=False),
    Column("red_log", Text, nullable=True),
    Column("green_log", Text, nullable=True),
    Column("at", String(24), nullable=False),
)
Index("ix_flakes_target_test", flakes.c.target, flakes.c.test)

landing_targets = Table(
    "landing_targets",
    metadata,
    Column("target", Text, primary_key=True),
    # Requests in one chain, at most.
    Column("batch", Integer, nullable=False),
)

landing_remotes = Table(
    "landing_remotes",
    metadata,
    Column("target", Text, primary_key=True),
    Column("remote", Text, nullable=False),
    Column("seen_at", String(24), nullable=True),
    # Where its target was when that was last built upon: what it has lost since is not brought back.
    Column("known_sha", String(64), nullable=True),
    # Commits that the target here has and there has not.
    Column("ahead", Integer, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("reason", Text, nullable=True),
    Column("since_at", String(24), nullable=True),
    Column("look_at", String(24), nullable=True),
    # What has landed there and not here yet, and why not.
    Column("behind_sha", String(64), nullable=True),
    Column("behind_reason", Text, nullable=True),
)

branch_pushes = Table(
    "branch_pushes",
    metadata,
    Column("merge_id", String(36), primary_key=True),
    Column("remote", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("reason", Text, nullable=True),
    Column("look_at", String(24), nullable=False),
)

notices = Table(
    "notices",
    metadata,
    Column("notice_id", Integer, primary_key=True, autoincrement=True),
    Column("session_id", String(128), ForeignKey("agent_sessions.session_id"), nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", String(24), nullable=False),
    Column("injected_at", String(24), nullable=True),
)
Index("ix_notices_session_id_injected_at", notices.c.session_id, notices.c.injected_at)

events = Table(
    "events",
    metadata,
    Column("event_id", Integer, primary_key=True, autoincrement=True),
    Column("at", String(24), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("task_id", String(36), nullable=True),
    Column("session_id", String(128), nullable=True),
    Column("merge_id", String(36), nullable=True),
    Column("data", JSON, nullable=False),
)
Index("ix_events_task_id", events.c.task_id, **only(events.c.task_id.is_not(None)))
DEED = text("kind NOT IN ('lock.acquired', 'message.acknowledged', 'message.read', 'message.sent', 'session.changed')")
"""Of an event: it is not of a frequent kind; only such events are indexed by their session."""
Index("ix_events_session_id", events.c.session_id, **only(DEED))
