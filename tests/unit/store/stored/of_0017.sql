-- A database as a daemon of the first schema wrote it: sessions, mail, tasks that landed, a loop, an audit.
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE agent_sessions (
    session_id VARCHAR(128) NOT NULL,
    agent_name VARCHAR(128) NOT NULL,
    agent_type VARCHAR(64) NOT NULL,
    parent_session_id VARCHAR(128),
    status VARCHAR(16) NOT NULL,
    waiting_for TEXT,
    unguarded_since_at VARCHAR(24),
    capabilities JSON NOT NULL,
    current_task TEXT,
    task_id VARCHAR(36),
    worktree TEXT,
    cwd TEXT,
    branch TEXT,
    client_pid INTEGER,
    client_started FLOAT,
    entrypoint VARCHAR(64),
    last_words TEXT,
    started_at VARCHAR(24) NOT NULL,
    last_heartbeat VARCHAR(24) NOT NULL,
    ended_at VARCHAR(24),
    end_reason VARCHAR(64), transcript_path TEXT, agent VARCHAR(128), heir_session_id VARCHAR(128), stalled_since_at VARCHAR(24), waiting_since_at VARCHAR(24), waiting_path TEXT,
    CONSTRAINT ck_agent_sessions_ended CHECK ((status = 'disconnected') = (ended_at IS NOT NULL)),
    CONSTRAINT ck_agent_sessions_status CHECK (status IN ('active', 'idle', 'disconnected')),
    CONSTRAINT pk_agent_sessions PRIMARY KEY (session_id),
    CONSTRAINT uq_agent_sessions_agent_name UNIQUE (agent_name)
);
CREATE TABLE events (
    event_id INTEGER NOT NULL,
    at VARCHAR(24) NOT NULL,
    kind VARCHAR(64) NOT NULL,
    task_id VARCHAR(36),
    session_id VARCHAR(128),
    merge_id VARCHAR(36),
    data JSON NOT NULL,
    CONSTRAINT pk_events PRIMARY KEY (event_id)
);
CREATE TABLE landing_intents (
    target TEXT NOT NULL,
    old_sha VARCHAR(64) NOT NULL,
    new_sha VARCHAR(64) NOT NULL,
    merge_ids JSON NOT NULL,
    created_at VARCHAR(24) NOT NULL, failed_at VARCHAR(24),
    CONSTRAINT pk_landing_intents PRIMARY KEY (target)
);
CREATE TABLE receipts (
    receipt_id VARCHAR(36) NOT NULL,
    tree VARCHAR(64) NOT NULL,
    fingerprint VARCHAR(64) NOT NULL,
    status VARCHAR(16) NOT NULL,
    commands JSON NOT NULL,
    exit_code INTEGER,
    tests INTEGER,
    duration_s FLOAT NOT NULL,
    log TEXT,
    reason TEXT,
    created_at VARCHAR(24) NOT NULL, merge_id VARCHAR(36), commit_sha VARCHAR(64), role VARCHAR(16), inputs JSON,
    CONSTRAINT ck_receipts_green CHECK (status <> 'passed' OR (exit_code = 0 AND (tests IS NULL OR tests > 0))),
    CONSTRAINT ck_receipts_status CHECK (status IN ('passed', 'failed', 'unverified', 'error')),
    CONSTRAINT pk_receipts PRIMARY KEY (receipt_id)
);
CREATE INDEX ix_receipts_tree_fingerprint ON receipts (tree, fingerprint);
CREATE TABLE file_locks (
    lock_id VARCHAR(36) NOT NULL,
    file_path TEXT NOT NULL,
    match_key TEXT NOT NULL,
    is_pattern BOOLEAN NOT NULL,
    checkout TEXT NOT NULL,
    session_id VARCHAR(128) NOT NULL,
    "exclusive" BOOLEAN NOT NULL,
    automatic BOOLEAN NOT NULL,
    reason TEXT,
    task_id VARCHAR(36),
    ttl_s FLOAT NOT NULL,
    acquired_at VARCHAR(24) NOT NULL,
    expires_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_file_locks_ttl CHECK (ttl_s > 0),
    CONSTRAINT fk_file_locks_session_id FOREIGN KEY(session_id) REFERENCES agent_sessions (session_id),
    CONSTRAINT pk_file_locks PRIMARY KEY (lock_id),
    CONSTRAINT uq_file_locks_session_id_match_key_checkout UNIQUE (session_id, match_key, checkout)
);
CREATE INDEX ix_file_locks_expires_at ON file_locks (expires_at);
CREATE INDEX ix_file_locks_match_key ON file_locks (match_key);
CREATE TABLE merge_requests (
    seq INTEGER NOT NULL,
    merge_id VARCHAR(36) NOT NULL,
    task_id VARCHAR(36),
    session_id VARCHAR(128),
    title TEXT NOT NULL,
    priority INTEGER NOT NULL,
    branch TEXT NOT NULL,
    target TEXT NOT NULL,
    base_sha VARCHAR(64),
    head_sha VARCHAR(64) NOT NULL,
    state VARCHAR(16) NOT NULL,
    reason TEXT,
    conflicts JSON,
    candidate_sha VARCHAR(64),
    candidate_tree VARCHAR(64),
    tip_sha VARCHAR(64),
    receipt_id VARCHAR(36),
    landed_sha VARCHAR(64),
    tries INTEGER NOT NULL,
    not_before_at VARCHAR(24),
    created_at VARCHAR(24) NOT NULL,
    updated_at VARCHAR(24) NOT NULL,
    finished_at VARCHAR(24), approved_sha VARCHAR(64), replaced_by VARCHAR(36), dismissed_at VARCHAR(24),
    CONSTRAINT ck_merge_requests_explained CHECK (state NOT IN ('conflict', 'failed', 'held') OR reason IS NOT NULL),
    CONSTRAINT ck_merge_requests_finished CHECK ((state IN ('queued', 'verifying', 'held')) = (finished_at IS NULL)),
    CONSTRAINT ck_merge_requests_landed CHECK ((state = 'landed') = (landed_sha IS NOT NULL)),
    CONSTRAINT ck_merge_requests_receipt CHECK (state <> 'landed' OR receipt_id IS NOT NULL),
    CONSTRAINT ck_merge_requests_state CHECK (state IN ('queued', 'verifying', 'held', 'landed', 'conflict', 'failed', 'superseded', 'cancelled')),
    CONSTRAINT fk_merge_requests_receipt_id FOREIGN KEY(receipt_id) REFERENCES receipts (receipt_id),
    CONSTRAINT fk_merge_requests_task_id FOREIGN KEY(task_id) REFERENCES tasks (task_id),
    CONSTRAINT pk_merge_requests PRIMARY KEY (seq),
    CONSTRAINT uq_merge_requests_merge_id UNIQUE (merge_id)
);
CREATE INDEX ix_merge_requests_state_seq ON merge_requests (state, seq);
CREATE INDEX ix_merge_requests_task_id ON merge_requests (task_id);
CREATE TABLE notices (
    notice_id INTEGER NOT NULL,
    session_id VARCHAR(128) NOT NULL,
    text TEXT NOT NULL,
    created_at VARCHAR(24) NOT NULL,
    injected_at VARCHAR(24),
    CONSTRAINT fk_notices_session_id FOREIGN KEY(session_id) REFERENCES agent_sessions (session_id),
    CONSTRAINT pk_notices PRIMARY KEY (notice_id)
);
CREATE INDEX ix_notices_session_id_injected_at ON notices (session_id, injected_at);
CREATE TABLE task_claims (
    task_id VARCHAR(36) NOT NULL,
    claim TEXT NOT NULL,
    CONSTRAINT fk_task_claims_task_id FOREIGN KEY(task_id) REFERENCES tasks (task_id),
    CONSTRAINT pk_task_claims PRIMARY KEY (task_id, claim)
);
CREATE TABLE task_dependencies (
    task_id VARCHAR(36) NOT NULL,
    depends_on VARCHAR(36) NOT NULL,
    CONSTRAINT ck_task_dependencies_not_self CHECK (task_id <> depends_on),
    CONSTRAINT fk_task_dependencies_depends_on FOREIGN KEY(depends_on) REFERENCES tasks (task_id),
    CONSTRAINT fk_task_dependencies_task_id FOREIGN KEY(task_id) REFERENCES tasks (task_id),
    CONSTRAINT pk_task_dependencies PRIMARY KEY (task_id, depends_on)
);
CREATE INDEX ix_task_dependencies_depends_on ON task_dependencies (depends_on);
CREATE TABLE features (
    feature_id VARCHAR(128) NOT NULL,
    title TEXT,
    status VARCHAR(16) NOT NULL,
    registered_by VARCHAR(128),
    branch TEXT,
    data JSON NOT NULL,
    created_at VARCHAR(24) NOT NULL,
    updated_at VARCHAR(24) NOT NULL,
    ended_at VARCHAR(24),
    CONSTRAINT ck_features_ended CHECK ((status = 'active') = (ended_at IS NULL)),
    CONSTRAINT ck_features_status CHECK (status IN ('active', 'completed', 'cancelled')),
    CONSTRAINT pk_features PRIMARY KEY (feature_id)
);
CREATE INDEX ix_features_status ON features (status);
CREATE TABLE agent_names (
    folded VARCHAR(128) NOT NULL,
    name VARCHAR(128) NOT NULL,
    session_id VARCHAR(128) NOT NULL,
    program TEXT,
    model TEXT,
    task_description TEXT,
    registered_at VARCHAR(24) NOT NULL,
    CONSTRAINT fk_agent_names_session_id FOREIGN KEY(session_id) REFERENCES agent_sessions (session_id),
    CONSTRAINT pk_agent_names PRIMARY KEY (folded)
);
CREATE INDEX ix_agent_names_session_id ON agent_names (session_id);
CREATE TABLE event_cursors (
    reader VARCHAR(32) NOT NULL,
    event_id INTEGER NOT NULL,
    CONSTRAINT pk_event_cursors PRIMARY KEY (reader)
);
CREATE TABLE feature_claims (
    feature_id VARCHAR(128) NOT NULL,
    claim TEXT NOT NULL,
    match_key TEXT NOT NULL,
    is_pattern BOOLEAN NOT NULL,
    CONSTRAINT fk_feature_claims_feature_id FOREIGN KEY(feature_id) REFERENCES features (feature_id),
    CONSTRAINT pk_feature_claims PRIMARY KEY (feature_id, claim)
);
CREATE TABLE handoffs (
    seq INTEGER NOT NULL,
    handoff_id VARCHAR(36) NOT NULL,
    session_id VARCHAR(128) NOT NULL,
    agent_name VARCHAR(128) NOT NULL,
    automatic BOOLEAN NOT NULL,
    summary TEXT NOT NULL,
    completed_work JSON NOT NULL,
    in_progress JSON NOT NULL,
    decisions JSON NOT NULL,
    next_steps JSON NOT NULL,
    relevant_files JSON NOT NULL,
    worktree TEXT,
    branch TEXT,
    created_at VARCHAR(24) NOT NULL,
    CONSTRAINT fk_handoffs_session_id FOREIGN KEY(session_id) REFERENCES agent_sessions (session_id),
    CONSTRAINT pk_handoffs PRIMARY KEY (seq),
    CONSTRAINT uq_handoffs_handoff_id UNIQUE (handoff_id)
);
CREATE INDEX ix_handoffs_agent_name_seq ON handoffs (agent_name, seq);
CREATE INDEX ix_handoffs_session_id ON handoffs (session_id);
CREATE INDEX ix_handoffs_worktree_seq ON handoffs (worktree, seq);
CREATE INDEX ix_events_task_id ON events (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX ix_file_locks_globs ON file_locks (expires_at) WHERE is_pattern IS 1;
CREATE INDEX ix_agent_sessions_status ON agent_sessions (status);
CREATE INDEX ix_merge_requests_branch_seq ON merge_requests (branch, seq);
CREATE INDEX ix_agent_sessions_parent_session_id ON agent_sessions (parent_session_id);
CREATE TABLE lock_waits (
    seq INTEGER NOT NULL,
    wait_id VARCHAR(36) NOT NULL,
    session_id VARCHAR(128) NOT NULL,
    keys JSON NOT NULL,
    "exclusive" BOOLEAN NOT NULL,
    ttl_s FLOAT NOT NULL,
    reason TEXT,
    created_at VARCHAR(24) NOT NULL,
    expires_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_lock_waits_ttl CHECK (ttl_s > 0),
    CONSTRAINT fk_lock_waits_session_id FOREIGN KEY(session_id) REFERENCES agent_sessions (session_id),
    CONSTRAINT pk_lock_waits PRIMARY KEY (seq),
    CONSTRAINT uq_lock_waits_wait_id UNIQUE (wait_id)
);
CREATE TABLE memories (
    seq INTEGER NOT NULL,
    memory_id VARCHAR(36) NOT NULL,
    session_id VARCHAR(128),
    agent_name VARCHAR(128) NOT NULL,
    event_type VARCHAR(32) NOT NULL,
    summary TEXT NOT NULL,
    details JSON,
    outcome TEXT,
    lessons JSON NOT NULL,
    tags JSON NOT NULL,
    digest VARCHAR(64) NOT NULL,
    times INTEGER NOT NULL,
    created_at VARCHAR(24) NOT NULL,
    seen_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_memories_times CHECK (times > 0),
    CONSTRAINT fk_memories_session_id FOREIGN KEY(session_id) REFERENCES agent_sessions (session_id),
    CONSTRAINT pk_memories PRIMARY KEY (seq),
    CONSTRAINT uq_memories_memory_id UNIQUE (memory_id)
);
CREATE INDEX ix_memories_digest_seen_at ON memories (digest, seen_at);
CREATE INDEX ix_memories_seen_at_seq ON memories (seen_at, seq);
CREATE INDEX ix_memories_event_type_seen_at_seq ON memories (event_type, seen_at, seq);
CREATE TABLE messages (
    seq INTEGER NOT NULL,
    message_id VARCHAR(36) NOT NULL,
    thread_id VARCHAR(128) NOT NULL,
    reply_to VARCHAR(36),
    sender_session_id VARCHAR(128),
    sender_name VARCHAR(128) NOT NULL,
    kind VARCHAR(32) NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    data JSON NOT NULL,
    importance VARCHAR(8) NOT NULL,
    ack_required BOOLEAN NOT NULL,
    attachments JSON NOT NULL,
    idempotency_key VARCHAR(128),
    created_at VARCHAR(24) NOT NULL, digest VARCHAR(64),
    CONSTRAINT ck_messages_importance CHECK (importance IN ('low', 'normal', 'high', 'urgent')),
    CONSTRAINT fk_messages_sender_session_id FOREIGN KEY(sender_session_id) REFERENCES agent_sessions (session_id),
    CONSTRAINT pk_messages PRIMARY KEY (seq),
    CONSTRAINT uq_messages_message_id UNIQUE (message_id)
);
CREATE UNIQUE INDEX uq_messages_idempotency_key ON messages (sender_session_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX ix_messages_sender_session_id_seq ON messages (sender_session_id, seq);
CREATE INDEX ix_messages_thread_id_seq ON messages (thread_id, seq);
CREATE TABLE memory_tags (
    seq INTEGER NOT NULL,
    tag VARCHAR(128) NOT NULL,
    seen_at VARCHAR(24) NOT NULL,
    CONSTRAINT fk_memory_tags_seq FOREIGN KEY(seq) REFERENCES memories (seq),
    CONSTRAINT pk_memory_tags PRIMARY KEY (seq, tag)
);
CREATE INDEX ix_memory_tags_tag_seen_at_seq ON memory_tags (tag, seen_at, seq);
CREATE INDEX ix_agent_sessions_folded ON agent_sessions (lower(agent_name));
CREATE INDEX ix_agent_sessions_agent_status ON agent_sessions (lower(agent), status);
CREATE VIRTUAL TABLE messages_fts USING fts5(subject, body, content='messages', content_rowid='seq', tokenize='unicode61 remove_diacritics 2');
CREATE TRIGGER messages_fts_delete AFTER DELETE ON messages WHEN EXISTS (SELECT 1 FROM messages_fts_docsize WHERE id = old.seq) BEGIN INSERT INTO messages_fts(messages_fts, rowid, subject, body) VALUES ('delete', old.seq, old.subject, old.body); END;
CREATE TRIGGER messages_fts_update AFTER UPDATE OF subject, body ON messages WHEN EXISTS (SELECT 1 FROM messages_fts_docsize WHERE id = old.seq) BEGIN INSERT INTO messages_fts(messages_fts, rowid, subject, body) VALUES ('delete', old.seq, old.subject, old.body); INSERT INTO messages_fts(rowid, subject, body) VALUES (new.seq, new.subject, new.body); END;
CREATE VIRTUAL TABLE memories_fts USING fts5(summary, lessons, content='memories', content_rowid='seq', tokenize='unicode61 remove_diacritics 2');
CREATE TRIGGER memories_fts_insert AFTER INSERT ON memories BEGIN INSERT INTO memories_fts(rowid, summary, lessons) VALUES (new.seq, new.summary, new.lessons); END;
CREATE TRIGGER memories_fts_delete AFTER DELETE ON memories BEGIN INSERT INTO memories_fts(memories_fts, rowid, summary, lessons) VALUES ('delete', old.seq, old.summary, old.lessons); END;
CREATE TRIGGER memories_fts_update AFTER UPDATE OF summary, lessons ON memories BEGIN INSERT INTO memories_fts(memories_fts, rowid, summary, lessons) VALUES ('delete', old.seq, old.summary, old.lessons); INSERT INTO memories_fts(rowid, summary, lessons) VALUES (new.seq, new.summary, new.lessons); END;
CREATE TABLE message_recipients (
    session_id VARCHAR(128) NOT NULL,
    seq INTEGER NOT NULL,
    name VARCHAR(128) NOT NULL,
    role VARCHAR(3) NOT NULL,
    injected_at VARCHAR(24),
    held_at VARCHAR(24),
    read_at VARCHAR(24),
    acknowledged_at VARCHAR(24),
    bounced_at VARCHAR(24),
    CONSTRAINT ck_message_recipients_role CHECK (role IN ('to', 'cc', 'bcc')),
    CONSTRAINT fk_message_recipients_seq FOREIGN KEY(seq) REFERENCES messages (seq),
    CONSTRAINT fk_message_recipients_session_id FOREIGN KEY(session_id) REFERENCES agent_sessions (session_id),
    CONSTRAINT pk_message_recipients PRIMARY KEY (session_id, seq)
)
 WITHOUT ROWID;
CREATE INDEX ix_message_recipients_seq ON message_recipients (seq);
CREATE INDEX ix_message_recipients_waiting ON message_recipients (session_id, injected_at, read_at, acknowledged_at) WHERE injected_at IS NULL AND read_at IS NULL AND acknowledged_at IS NULL;
CREATE INDEX ix_events_session_id ON events (session_id) WHERE kind NOT IN ('lock.acquired', 'message.acknowledged', 'message.read', 'message.sent', 'session.changed');
CREATE TABLE project_identity (
    id INTEGER NOT NULL,
    project_id VARCHAR(36) NOT NULL,
    root TEXT NOT NULL,
    common_dir TEXT NOT NULL,
    folder_id VARCHAR(48) NOT NULL,
    created_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_project_identity_single CHECK (id = 1),
    CONSTRAINT pk_project_identity PRIMARY KEY (id)
);
CREATE TABLE target_pauses (
    target TEXT NOT NULL,
    reason TEXT NOT NULL,
    failures INTEGER NOT NULL,
    since_at VARCHAR(24) NOT NULL,
    look_at VARCHAR(24) NOT NULL,
    CONSTRAINT pk_target_pauses PRIMARY KEY (target)
);
CREATE INDEX ix_merge_requests_receipt_id ON merge_requests (receipt_id);
CREATE TABLE work_pause (
    id INTEGER NOT NULL,
    reason TEXT,
    since_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_work_pause_single CHECK (id = 1),
    CONSTRAINT pk_work_pause PRIMARY KEY (id)
);
CREATE UNIQUE INDEX uq_merge_requests_open_branch ON merge_requests (branch, target) WHERE state IN ('queued', 'verifying', 'held') AND replaced_by IS NULL;
CREATE TABLE attempts (
    task_id VARCHAR(36) NOT NULL,
    number INTEGER NOT NULL,
    session_id VARCHAR(128) NOT NULL,
    claim_key VARCHAR(128),
    agent VARCHAR(128),
    runner VARCHAR(16),
    model VARCHAR(128),
    host TEXT,
    lease_expires_at VARCHAR(24),
    worktree_id VARCHAR(36),
    branch TEXT,
    base_sha VARCHAR(64),
    head_sha VARCHAR(64),
    pid INTEGER,
    pid_started FLOAT,
    progress TEXT,
    progress_at VARCHAR(24),
    usage JSON NOT NULL,
    claimed_at VARCHAR(24) NOT NULL,
    started_at VARCHAR(24),
    ended_at VARCHAR(24),
    outcome VARCHAR(16),
    error_code VARCHAR(64),
    error_message TEXT, memory_mb INTEGER,
    CONSTRAINT ck_attempts_ended CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CONSTRAINT ck_attempts_leased CHECK ((ended_at IS NULL) = (lease_expires_at IS NOT NULL)),
    CONSTRAINT ck_attempts_outcome CHECK (outcome IS NULL OR outcome IN ('completed', 'failed', 'faulted', 'cancelled', 'interrupted', 'returned')),
    CONSTRAINT fk_attempts_task_id FOREIGN KEY(task_id) REFERENCES tasks (task_id),
    CONSTRAINT pk_attempts PRIMARY KEY (task_id, number)
)
 WITHOUT ROWID;
CREATE UNIQUE INDEX uq_attempts_open ON attempts (task_id) WHERE ended_at IS NULL;
CREATE INDEX ix_attempts_open_session_id ON attempts (session_id) WHERE ended_at IS NULL;
CREATE TABLE "tasks" (
    seq INTEGER NOT NULL,
    task_id VARCHAR(36) NOT NULL,
    task_type VARCHAR(64) NOT NULL,
    title TEXT NOT NULL,
    status VARCHAR(16) NOT NULL,
    priority INTEGER NOT NULL,
    runner VARCHAR(16),
    command TEXT,
    prompt TEXT,
    input_data JSON,
    submitted_by VARCHAR(128),
    author_name TEXT,
    author_email TEXT,
    target TEXT,
    timeout_s FLOAT,
    limits JSON NOT NULL,
    max_retries INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    ignore_dependency_failure BOOLEAN NOT NULL,
    idempotency_key VARCHAR(128),
    fencing_token INTEGER NOT NULL,
    not_before_at VARCHAR(24),
    cancel_reason TEXT,
    result JSON,
    error_code VARCHAR(64),
    error_message TEXT,
    created_at VARCHAR(24) NOT NULL,
    completed_at VARCHAR(24),
    agent VARCHAR(128),
    description TEXT,
    agent_requirements JSON,
    deadline_at VARCHAR(24),
    thread_id VARCHAR(128),
    crashes INTEGER DEFAULT '0' NOT NULL,
    faults INTEGER DEFAULT '0' NOT NULL,
    dismissed_at VARCHAR(24),
    retries_chosen BOOLEAN DEFAULT 0 NOT NULL,
    current_attempt INTEGER,
    metadata JSON,
    template VARCHAR(128),
    parent_task_id VARCHAR(36),
    agents_wanted INTEGER,
    combine VARCHAR(16), steps_wanted INTEGER, step VARCHAR(128), agent_version VARCHAR(64),
    CONSTRAINT ck_tasks_agents_wanted CHECK ((agents_wanted IS NULL) = (combine IS NULL) AND (agents_wanted IS NULL OR agents_wanted > 0)),
    CONSTRAINT ck_tasks_attempts CHECK (attempts >= 0 AND max_retries >= 0),
    CONSTRAINT ck_tasks_combine CHECK (combine IS NULL OR combine IN ('all', 'first', 'vote', 'concat', 'synthesize')),
    CONSTRAINT ck_tasks_completed CHECK ((status IN ('completed', 'failed', 'cancelled', 'dead')) = (completed_at IS NOT NULL)),
    CONSTRAINT ck_tasks_explained CHECK (status NOT IN ('failed', 'dead') OR error_code IS NOT NULL),
    CONSTRAINT ck_tasks_owned CHECK (status <> 'running' OR (current_attempt IS NOT NULL AND current_attempt = fencing_token)),
    CONSTRAINT ck_tasks_priority CHECK (priority BETWEEN 0 AND 10),
    CONSTRAINT ck_tasks_runner CHECK (runner IS NULL OR runner IN ('command', 'claude', 'anthropic')),
    CONSTRAINT ck_tasks_status CHECK (status IN ('waiting', 'pending', 'running', 'completed', 'failed', 'cancelled', 'interrupted', 'dead')),
    CONSTRAINT pk_tasks PRIMARY KEY (seq),
    CONSTRAINT uq_tasks_idempotency_key UNIQUE (idempotency_key),
    CONSTRAINT uq_tasks_task_id UNIQUE (task_id)
);
CREATE INDEX ix_tasks_status_not_before_at ON tasks (status, not_before_at);
CREATE INDEX ix_tasks_status_priority_seq ON tasks (status, priority DESC, seq);
CREATE INDEX ix_tasks_thread_id_seq ON tasks (thread_id, seq);
CREATE INDEX ix_tasks_parent_task_id ON tasks (parent_task_id) WHERE parent_task_id IS NOT NULL;
CREATE TABLE "worktrees" (
    worktree_id VARCHAR(36) NOT NULL,
    name VARCHAR(64) NOT NULL,
    path TEXT NOT NULL,
    branch TEXT,
    base_sha VARCHAR(64) NOT NULL,
    purpose VARCHAR(16) NOT NULL,
    state VARCHAR(16) NOT NULL,
    task_id VARCHAR(36),
    session_id VARCHAR(128),
    port_base INTEGER,
    provision JSON NOT NULL,
    note TEXT,
    salvage_ref TEXT,
    created_at VARCHAR(24) NOT NULL,
    removed_at VARCHAR(24),
    folder_id VARCHAR(48),
    CONSTRAINT ck_worktrees_branch CHECK (state IN ('removed', 'pooled') OR purpose = 'verify' OR branch IS NOT NULL),
    CONSTRAINT ck_worktrees_purpose CHECK (purpose IN ('task', 'session', 'verify', 'person')),
    CONSTRAINT ck_worktrees_removed CHECK ((state = 'removed') = (removed_at IS NOT NULL)),
    CONSTRAINT ck_worktrees_state CHECK (state IN ('allocating', 'ready', 'reclaiming', 'pooled', 'removed')),
    CONSTRAINT pk_worktrees PRIMARY KEY (worktree_id)
);
CREATE UNIQUE INDEX uq_worktrees_live_name ON worktrees (name) WHERE state != 'removed';
CREATE UNIQUE INDEX uq_worktrees_live_port ON worktrees (port_base) WHERE state != 'removed';
CREATE TABLE task_state (
    task_id VARCHAR(36) NOT NULL,
    "key" VARCHAR(256) NOT NULL,
    value JSON NOT NULL,
    version INTEGER NOT NULL,
    updated_by VARCHAR(128),
    updated_at VARCHAR(24) NOT NULL,
    CONSTRAINT fk_task_state_task_id FOREIGN KEY(task_id) REFERENCES tasks (task_id),
    CONSTRAINT pk_task_state PRIMARY KEY (task_id, "key")
);
CREATE TABLE roadmap_supervision (
    id INTEGER NOT NULL,
    since_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_roadmap_supervision_single CHECK (id = 1),
    CONSTRAINT pk_roadmap_supervision PRIMARY KEY (id)
);
CREATE INDEX ix_tasks_open_followers ON tasks (parent_task_id) WHERE parent_task_id IS NOT NULL AND completed_at IS NULL;
CREATE INDEX ix_tasks_open_combined ON tasks (seq) WHERE combine IS NOT NULL AND completed_at IS NULL;
CREATE INDEX ix_tasks_held_back ON tasks (status, runner, seq) WHERE faults + crashes > 0;
CREATE TABLE audit_lines (
    seq INTEGER NOT NULL,
    at VARCHAR(24) NOT NULL,
    agent_id VARCHAR(128) NOT NULL,
    session_id VARCHAR(128),
    task_id VARCHAR(36),
    action VARCHAR(128) NOT NULL,
    parameters TEXT NOT NULL,
    result TEXT NOT NULL,
    previous_hash VARCHAR(64) NOT NULL,
    hash VARCHAR(64) NOT NULL,
    CONSTRAINT pk_audit_lines PRIMARY KEY (seq)
);
CREATE INDEX ix_audit_lines_task_id_seq ON audit_lines (task_id, seq) WHERE task_id IS NOT NULL;
CREATE INDEX ix_audit_lines_folded ON audit_lines (lower(agent_id), seq);
CREATE INDEX ix_audit_lines_at ON audit_lines (at);
CREATE TABLE audit_chain (
    id INTEGER NOT NULL,
    removed_seq INTEGER NOT NULL,
    removed_hash VARCHAR(64) NOT NULL,
    removed_at VARCHAR(24),
    last_seq INTEGER NOT NULL,
    last_hash VARCHAR(64) NOT NULL,
    CONSTRAINT ck_audit_chain_ends CHECK (removed_seq <= last_seq),
    CONSTRAINT ck_audit_chain_single CHECK (id = 1),
    CONSTRAINT pk_audit_chain PRIMARY KEY (id)
);
CREATE TRIGGER audit_lines_changed BEFORE UPDATE ON audit_lines BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_lines_deleted BEFORE DELETE ON audit_lines WHEN old.seq > coalesce((SELECT removed_seq FROM audit_chain), 0) BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TABLE alerts (
    alert_id VARCHAR(36) NOT NULL,
    rule VARCHAR(64) NOT NULL,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    remedy TEXT NOT NULL,
    times INTEGER NOT NULL,
    first_raised_at VARCHAR(24) NOT NULL,
    raised_at VARCHAR(24) NOT NULL,
    acknowledged_at VARCHAR(24),
    resolved_at VARCHAR(24),
    told VARCHAR(16),
    CONSTRAINT ck_alerts_times CHECK (times > 0),
    CONSTRAINT ck_alerts_told CHECK (told IN ('raised', 'resolved')),
    CONSTRAINT pk_alerts PRIMARY KEY (alert_id)
);
CREATE UNIQUE INDEX ix_alerts_open ON alerts (rule, subject) WHERE resolved_at IS NULL;
CREATE INDEX ix_alerts_raised_at ON alerts (raised_at);
CREATE TABLE told_needs (
    "key" VARCHAR(64) NOT NULL,
    told_at VARCHAR(24) NOT NULL,
    CONSTRAINT pk_told_needs PRIMARY KEY ("key")
);
CREATE TABLE deliveries (
    delivery_id VARCHAR(36) NOT NULL,
    body JSON NOT NULL,
    state VARCHAR(16) NOT NULL,
    tries INTEGER NOT NULL,
    error TEXT,
    created_at VARCHAR(24) NOT NULL,
    not_before_at VARCHAR(24) NOT NULL,
    settled_at VARCHAR(24),
    CONSTRAINT ck_deliveries_settled CHECK ((state = 'waiting') = (settled_at IS NULL)),
    CONSTRAINT ck_deliveries_state CHECK (state IN ('waiting', 'delivered', 'failed', 'dropped')),
    CONSTRAINT pk_deliveries PRIMARY KEY (delivery_id)
);
CREATE INDEX ix_deliveries_waiting ON deliveries (not_before_at) WHERE state = 'waiting';
CREATE TABLE loops (
    task_id VARCHAR(36) NOT NULL,
    title TEXT NOT NULL,
    spec JSON NOT NULL,
    target TEXT,
    base_sha VARCHAR(64),
    counted_from INTEGER NOT NULL,
    created_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_loops_counted_from CHECK (counted_from >= 0),
    CONSTRAINT pk_loops PRIMARY KEY (task_id)
);
CREATE TABLE loop_iterations (
    task_id VARCHAR(36) NOT NULL,
    iteration INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    session_id VARCHAR(128) NOT NULL,
    base_sha VARCHAR(64) NOT NULL,
    head_sha VARCHAR(64) NOT NULL,
    verdict VARCHAR(16) NOT NULL,
    is_success BOOLEAN NOT NULL,
    record TEXT NOT NULL,
    duration_s FLOAT NOT NULL,
    started_at VARCHAR(24) NOT NULL,
    ended_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_loop_iterations_verdict CHECK (verdict IN ('converged', 'not_converged', 'inconclusive', 'failed')),
    CONSTRAINT pk_loop_iterations PRIMARY KEY (task_id, iteration)
);
CREATE TABLE agent_versions (
    agent VARCHAR(128) NOT NULL,
    content_hash VARCHAR(64) NOT NULL,
    seq INTEGER NOT NULL,
    version VARCHAR(32) NOT NULL,
    content TEXT NOT NULL,
    changelog TEXT,
    author TEXT,
    reason TEXT,
    created_at VARCHAR(24) NOT NULL,
    CONSTRAINT pk_agent_versions PRIMARY KEY (agent, content_hash),
    CONSTRAINT uq_agent_versions_agent_version UNIQUE (agent, version)
);
CREATE TABLE agent_runs (
    task_id VARCHAR(36) NOT NULL,
    number INTEGER NOT NULL,
    agent VARCHAR(128) NOT NULL,
    content_hash VARCHAR(64),
    task_type VARCHAR(64) NOT NULL,
    model VARCHAR(128),
    began_at VARCHAR(24) NOT NULL,
    outcome VARCHAR(16),
    duration_s FLOAT,
    tokens INTEGER,
    cost_usd FLOAT, choice_id VARCHAR(36),
    CONSTRAINT pk_agent_runs PRIMARY KEY (task_id, number)
);
CREATE INDEX ix_agent_runs_agent_began_at ON agent_runs (agent, began_at);
CREATE TABLE task_feedback (
    task_id VARCHAR(36) NOT NULL,
    rating INTEGER,
    comment TEXT,
    given_at VARCHAR(24) NOT NULL,
    CONSTRAINT ck_task_feedback_rating CHECK (rating IS NULL OR rating BETWEEN 1 AND 5),
    CONSTRAINT ck_task_feedback_said CHECK (rating IS NOT NULL OR comment IS NOT NULL),
    CONSTRAINT pk_task_feedback PRIMARY KEY (task_id)
);
CREATE TABLE agent_choices (
    choice_id VARCHAR(36) NOT NULL,
    agent VARCHAR(128) NOT NULL,
    content_hash VARCHAR(64) NOT NULL,
    from_hash VARCHAR(64),
    share FLOAT,
    state VARCHAR(16) NOT NULL,
    reason TEXT,
    created_at VARCHAR(24) NOT NULL,
    ended_at VARCHAR(24),
    seen_at VARCHAR(24),
    CONSTRAINT ck_agent_choices_ended CHECK ((state = 'running') = (ended_at IS NULL)),
    CONSTRAINT ck_agent_choices_kind CHECK ((from_hash IS NULL) = (share IS NULL)),
    CONSTRAINT ck_agent_choices_state CHECK (state IN ('running', 'stopped', 'rolled_back')),
    CONSTRAINT pk_agent_choices PRIMARY KEY (choice_id)
);
CREATE UNIQUE INDEX uq_agent_choices_running ON agent_choices (agent) WHERE ended_at IS NULL;
CREATE INDEX ix_agent_choices_agent_created_at ON agent_choices (agent, created_at);
CREATE TABLE agent_improvements (
    improvement_id VARCHAR(36) NOT NULL,
    agent VARCHAR(128) NOT NULL,
    state VARCHAR(16) NOT NULL,
    base_hash VARCHAR(64) NOT NULL,
    new_hash VARCHAR(64),
    material TEXT NOT NULL,
    deploys BOOLEAN NOT NULL,
    "plan" JSON,
    report JSON,
    reason TEXT,
    created_at VARCHAR(24) NOT NULL,
    ended_at VARCHAR(24),
    CONSTRAINT ck_agent_improvements_state CHECK (state IN ('proposing', 'testing', 'done', 'failed')),
    CONSTRAINT pk_agent_improvements PRIMARY KEY (improvement_id)
);
CREATE INDEX ix_agent_improvements_agent_created_at ON agent_improvements (agent, created_at);
CREATE TABLE totals (
    name VARCHAR(32) NOT NULL,
    label VARCHAR(128) NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    number FLOAT NOT NULL,
    CONSTRAINT pk_totals PRIMARY KEY (name, label, outcome)
);
CREATE INDEX ix_receipts_merge_id ON receipts (merge_id);
INSERT INTO alembic_version VALUES ('0017');
INSERT INTO agent_sessions VALUES ('s-1', 'GreenLake', 'claude', NULL, 'disconnected', NULL, NULL, '["python"]', 'Review it', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-27T01:23:52.953Z', '2026-11-27T01:23:57.626Z', '2026-11-27T01:24:00.566Z', 'ended', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO agent_sessions VALUES ('s-2', 'Cedar', 'claude', NULL, 'active', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-27T01:23:52.978Z', '2026-11-27T01:23:53.985Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO agent_sessions VALUES ('person-ada', 'ada', 'person', NULL, 'active', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-27T01:23:53.273Z', '2026-11-27T01:23:53.576Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO agent_sessions VALUES ('http-851edf6a-2d40-4870-b503-60bea23dbd2c', 'Ash', 'http', NULL, 'active', NULL, NULL, '[]', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '2026-11-27T01:23:54.020Z', '2026-11-27T01:23:54.020Z', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO agent_sessions VALUES ('aec7e094-59c1-40d1-967f-15c13310a007', 'JadeMountain', 'command', NULL, 'disconnected', NULL, NULL, '[]', 'Add a greeting', '0379fde8-ef92-4f17-963e-12160b5b00b6', '/home/ada/api/repo.worktrees/task-0379fde8-ef92-1', '/home/ada/api/repo.worktrees/task-0379fde8-ef92-1', 'corral/task-0379fde8-ef92-1', 2994, 1795742635.32, NULL, NULL, '2026-11-27T01:23:55.458Z', '2026-11-27T01:23:55.537Z', '2026-11-27T01:23:55.707Z', 'completed', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO agent_sessions VALUES ('23cf52aa-943d-4d5b-9134-7006c1709d6b', 'PurpleRobin', 'command', NULL, 'disconnected', NULL, NULL, '[]', 'Add a greeting', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '/home/ada/api/repo.worktrees/task-5b1341ac-04f6-1', '/home/ada/api/repo.worktrees/task-5b1341ac-04f6-1', 'corral/task-5b1341ac-04f6-1', 3130, 1795742637.64, NULL, NULL, '2026-11-27T01:23:57.818Z', '2026-11-27T01:23:57.855Z', '2026-11-27T01:23:57.898Z', 'dead', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO agent_sessions VALUES ('15aaa266-73cc-4c48-91b3-3de2eb8e8f97', 'CopperFjord', 'command', NULL, 'disconnected', NULL, NULL, '[]', 'Add a greeting', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '/home/ada/api/repo.worktrees/task-5b1341ac-04f6-2', '/home/ada/api/repo.worktrees/task-5b1341ac-04f6-2', 'corral/task-5b1341ac-04f6-2', 3161, 1795742638.05, NULL, NULL, '2026-11-27T01:23:58.230Z', '2026-11-27T01:23:58.254Z', '2026-11-27T01:23:58.278Z', 'dead', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO agent_sessions VALUES ('b0c868e8-72c0-41ba-9347-cfe670b501ef', 'FondGlacier', 'command', NULL, 'disconnected', NULL, NULL, '[]', 'Repeat', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', '/home/ada/api/repo.worktrees/task-14d48994-f72d-1', '/home/ada/api/repo.worktrees/task-14d48994-f72d-1', 'corral/task-14d48994-f72d-1', 3179, 1795742638.39, NULL, NULL, '2026-11-27T01:23:58.563Z', '2026-11-27T01:23:58.596Z', '2026-11-27T01:23:59.010Z', 'completed', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO events VALUES (1, '2026-11-27T01:23:52.842Z', 'agent.pinned', NULL, NULL, NULL, '{"agent":"implementer","version":"1.0.0","reason":null}');
INSERT INTO events VALUES (2, '2026-11-27T01:23:52.927Z', 'agent.unpinned', NULL, NULL, NULL, '{"agent":"implementer","version":"1.0.0","reason":null}');
INSERT INTO events VALUES (3, '2026-11-27T01:23:52.953Z', 'session.started', NULL, 's-1', NULL, '{"agent_name":"GreenLake"}');
INSERT INTO events VALUES (4, '2026-11-27T01:23:52.978Z', 'session.started', NULL, 's-2', NULL, '{"agent_name":"Cedar"}');
INSERT INTO events VALUES (5, '2026-11-27T01:23:52.999Z', 'agent.registered', NULL, 's-1', NULL, '{"agent_name":"Boulder"}');
INSERT INTO events VALUES (6, '2026-11-27T01:23:53.086Z', 'lock.acquired', NULL, 's-1', NULL, '{"paths":["src/a.py"],"exclusive":true,"automatic":false,"checkout":null}');
INSERT INTO events VALUES (7, '2026-11-27T01:23:53.206Z', 'lock.released', NULL, 's-1', NULL, '{"paths":["src/a.py"]}');
INSERT INTO events VALUES (8, '2026-11-27T01:23:53.273Z', 'session.started', NULL, 'person-ada', NULL, '{"agent_name":"ada"}');
INSERT INTO events VALUES (9, '2026-11-27T01:23:53.272Z', 'feature.registered', NULL, 'person-ada', NULL, '{"feature_id":"FEAT-123","claims":1}');
INSERT INTO events VALUES (10, '2026-11-27T01:23:53.394Z', 'feature.deregistered', NULL, 'person-ada', NULL, '{"feature_id":"FEAT-123","status":"completed"}');
INSERT INTO events VALUES (11, '2026-11-27T01:23:53.444Z', 'handoff.written', NULL, 'person-ada', NULL, '{"handoff_id":"9697582c-d3c1-4408-9f85-3ca642b3ea48","automatic":false}');
INSERT INTO events VALUES (12, '2026-11-27T01:23:53.576Z', 'memory.stored', NULL, 'person-ada', NULL, '{"memory_id":"f3ec92b2-4487-465b-870e-b0ee6ce9ab3c","agent_name":"ada","event_type":"discovery","times":1}');
INSERT INTO events VALUES (13, '2026-11-27T01:23:53.666Z', 'message.sent', NULL, 's-2', NULL, '{"message_id":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba","seq":1,"thread_id":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba","bounced":[]}');
INSERT INTO events VALUES (14, '2026-11-27T01:23:53.826Z', 'message.sent', NULL, 's-1', NULL, '{"message_id":"01a21a9a-0f62-7606-bd8e-a01b62391ac0","seq":2,"thread_id":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba","bounced":[]}');
INSERT INTO events VALUES (15, '2026-11-27T01:23:53.922Z', 'message.read', NULL, 's-1', NULL, '{"message_id":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba"}');
INSERT INTO events VALUES (16, '2026-11-27T01:23:53.940Z', 'message.acknowledged', NULL, 's-1', NULL, '{"message_id":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba"}');
INSERT INTO events VALUES (17, '2026-11-27T01:23:54.020Z', 'session.started', NULL, 'http-851edf6a-2d40-4870-b503-60bea23dbd2c', NULL, '{"agent_name":"Ash"}');
INSERT INTO events VALUES (18, '2026-11-27T01:23:54.020Z', 'agent.registered', NULL, 'http-851edf6a-2d40-4870-b503-60bea23dbd2c', NULL, '{"agent_name":"Ash"}');
INSERT INTO events VALUES (19, '2026-11-27T01:23:54.020Z', 'lock.acquired', NULL, 'http-851edf6a-2d40-4870-b503-60bea23dbd2c', NULL, '{"paths":["src/**","docs/"],"exclusive":true,"automatic":false,"checkout":null}');
INSERT INTO events VALUES (20, '2026-11-27T01:23:54.081Z', 'agent.registered', NULL, 's-1', NULL, '{"agent_name":"GreenLake"}');
INSERT INTO events VALUES (21, '2026-11-27T01:23:55.047Z', 'work.paused', NULL, NULL, NULL, '{"reason":"The release is cut."}');
INSERT INTO events VALUES (22, '2026-11-27T01:23:55.064Z', 'work.resumed', NULL, NULL, NULL, '{}');
INSERT INTO events VALUES (23, '2026-11-27T01:23:55.100Z', 'task.submitted', '0379fde8-ef92-4f17-963e-12160b5b00b6', NULL, NULL, '{}');
INSERT INTO events VALUES (24, '2026-11-27T01:23:55.128Z', 'task.claimed', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, '{"attempt":1,"token":1,"agent_name":"JadeMountain","expires_at":"2026-11-27T05:23:55.128Z"}');
INSERT INTO events VALUES (25, '2026-11-27T01:23:55.458Z', 'session.started', NULL, 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, '{"agent_name":"JadeMountain"}');
INSERT INTO events VALUES (26, '2026-11-27T01:23:55.458Z', 'task.assigned', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, '{"agent":null,"runner":"command","model":null}');
INSERT INTO events VALUES (27, '2026-11-27T01:23:55.537Z', 'task.started', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, '{"pid":2994}');
INSERT INTO events VALUES (28, '2026-11-27T01:23:55.707Z', 'task.completed', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, '{"attempt":1,"head_sha":"814a6f90ef9cbf0389d5b43e054cfdff285ccf78"}');
INSERT INTO events VALUES (29, '2026-11-27T01:23:55.707Z', 'merge.queued', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'aec7e094-59c1-40d1-967f-15c13310a007', '991b17bd-5fc7-4848-a01c-f04954b64ce3', '{}');
INSERT INTO events VALUES (30, '2026-11-27T01:23:55.707Z', 'session.ended', NULL, 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, '{"reason":"completed","released":[]}');
INSERT INTO events VALUES (31, '2026-11-27T01:23:56.672Z', 'merge.landed', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'aec7e094-59c1-40d1-967f-15c13310a007', '991b17bd-5fc7-4848-a01c-f04954b64ce3', '{"reason":null,"landed_sha":"814a6f90ef9cbf0389d5b43e054cfdff285ccf78"}');
INSERT INTO events VALUES (32, '2026-11-27T01:23:57.439Z', 'task.submitted', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', NULL, NULL, '{}');
INSERT INTO events VALUES (33, '2026-11-27T01:23:57.470Z', 'task.reprioritized', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', NULL, NULL, '{"from":5,"to":9}');
INSERT INTO events VALUES (34, '2026-11-27T01:23:57.599Z', 'task.claimed', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 's-1', NULL, '{"attempt":1,"token":1,"expires_at":"2026-11-27T05:23:57.599Z"}');
INSERT INTO events VALUES (35, '2026-11-27T01:23:57.599Z', 'session.changed', NULL, 's-1', NULL, '{"current_task":"Review it"}');
INSERT INTO events VALUES (36, '2026-11-27T01:23:57.626Z', 'task.completed', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 's-1', NULL, '{"attempt":1,"head_sha":null}');
INSERT INTO events VALUES (37, '2026-11-27T01:23:57.647Z', 'task.submitted', '5b1341ac-04f6-45e8-9601-6cae7153ed24', NULL, NULL, '{}');
INSERT INTO events VALUES (38, '2026-11-27T01:23:57.657Z', 'task.claimed', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, '{"attempt":1,"token":1,"agent_name":"PurpleRobin","expires_at":"2026-11-27T05:23:57.657Z"}');
INSERT INTO events VALUES (39, '2026-11-27T01:23:57.818Z', 'session.started', NULL, '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, '{"agent_name":"PurpleRobin"}');
INSERT INTO events VALUES (40, '2026-11-27T01:23:57.818Z', 'task.assigned', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, '{"agent":null,"runner":"command","model":null}');
INSERT INTO events VALUES (41, '2026-11-27T01:23:57.855Z', 'task.started', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, '{"pid":3130}');
INSERT INTO events VALUES (42, '2026-11-27T01:23:57.898Z', 'task.dead', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, '{"attempt":1,"error_code":"command_failed","error_message":"The command exited with 3: no","delay_s":0.0}');
INSERT INTO events VALUES (43, '2026-11-27T01:23:57.898Z', 'session.ended', NULL, '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, '{"reason":"dead","released":[]}');
INSERT INTO events VALUES (44, '2026-11-27T01:23:58.089Z', 'task.retry_requested', '5b1341ac-04f6-45e8-9601-6cae7153ed24', NULL, NULL, '{"was":"dead"}');
INSERT INTO events VALUES (45, '2026-11-27T01:23:58.089Z', 'task.unblocked', '5b1341ac-04f6-45e8-9601-6cae7153ed24', NULL, NULL, '{}');
INSERT INTO events VALUES (46, '2026-11-27T01:23:58.126Z', 'task.claimed', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, '{"attempt":1,"token":2,"agent_name":"CopperFjord","expires_at":"2026-11-27T05:23:58.126Z"}');
INSERT INTO events VALUES (47, '2026-11-27T01:23:58.230Z', 'session.started', NULL, '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, '{"agent_name":"CopperFjord"}');
INSERT INTO events VALUES (48, '2026-11-27T01:23:58.230Z', 'task.assigned', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, '{"agent":null,"runner":"command","model":null}');
INSERT INTO events VALUES (49, '2026-11-27T01:23:58.254Z', 'task.started', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, '{"pid":3161}');
INSERT INTO events VALUES (50, '2026-11-27T01:23:58.278Z', 'task.dead', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, '{"attempt":1,"error_code":"command_failed","error_message":"The command exited with 3: no","delay_s":0.0}');
INSERT INTO events VALUES (51, '2026-11-27T01:23:58.278Z', 'session.ended', NULL, '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, '{"reason":"dead","released":[]}');
INSERT INTO events VALUES (52, '2026-11-27T01:23:58.354Z', 'task.dismissed', '5b1341ac-04f6-45e8-9601-6cae7153ed24', NULL, NULL, '{}');
INSERT INTO events VALUES (53, '2026-11-27T01:23:58.374Z', 'task.submitted', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', NULL, NULL, '{}');
INSERT INTO events VALUES (54, '2026-11-27T01:23:58.383Z', 'task.claimed', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, '{"attempt":1,"token":1,"agent_name":"FondGlacier","expires_at":"2026-11-27T05:23:58.383Z"}');
INSERT INTO events VALUES (55, '2026-11-27T01:23:58.563Z', 'session.started', NULL, 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, '{"agent_name":"FondGlacier"}');
INSERT INTO events VALUES (56, '2026-11-27T01:23:58.563Z', 'task.assigned', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, '{"agent":null,"runner":"command","model":null}');
INSERT INTO events VALUES (57, '2026-11-27T01:23:58.596Z', 'task.started', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, '{"pid":3179}');
INSERT INTO events VALUES (58, '2026-11-27T01:23:59.010Z', 'task.completed', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, '{"attempt":1,"head_sha":"273a6b65ac1de2a3afe55397285a12451c6fc004"}');
INSERT INTO events VALUES (59, '2026-11-27T01:23:59.010Z', 'merge.queued', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '71d86641-ea52-4df1-9ceb-894a328c7bb1', '{}');
INSERT INTO events VALUES (60, '2026-11-27T01:23:59.010Z', 'session.ended', NULL, 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, '{"reason":"completed","released":[]}');
INSERT INTO events VALUES (61, '2026-11-27T01:23:59.488Z', 'merge.landed', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '71d86641-ea52-4df1-9ceb-894a328c7bb1', '{"reason":null,"landed_sha":"273a6b65ac1de2a3afe55397285a12451c6fc004"}');
INSERT INTO events VALUES (62, '2026-11-27T01:23:59.930Z', 'task.submitted', '070c0ad2-9664-41f9-863a-a8c59df8576f', NULL, NULL, '{}');
INSERT INTO events VALUES (63, '2026-11-27T01:23:59.943Z', 'task.cancelled', '070c0ad2-9664-41f9-863a-a8c59df8576f', NULL, NULL, '{"reason":"It is not needed any more.","error_code":null}');
INSERT INTO events VALUES (64, '2026-11-27T01:24:00.315Z', 'worktree.salvaged', NULL, 's-1', NULL, '{"ref":"refs/corral/salvage/login/20261127T012400207738Z","files":["new.txt"],"reason":"worktree login was removed","worktree":"login"}');
INSERT INTO events VALUES (65, '2026-11-27T01:24:00.566Z', 'handoff.written', NULL, 's-1', NULL, '{"handoff_id":"b618947b-b3a8-4fea-9c41-03dc8799b87a","automatic":true}');
INSERT INTO events VALUES (66, '2026-11-27T01:24:00.566Z', 'session.ended', NULL, 's-1', NULL, '{"reason":"ended","released":[]}');
INSERT INTO receipts VALUES ('53dff91a-c561-41bb-aa68-a6983d8b5b08', 'c3404e80833b1ca4344a5b02c5dee68de53f1724', 'b600b65321134576d29515cc65d844abf30544714b7f4d48696e259d96f5d0e7', 'passed', '["true"]', 0, NULL, 0.039, '.corral/logs/merges/991b17bd-5fc7-4848-a01c-f04954b64ce3/1.log', NULL, '2026-11-27T01:23:56.672Z', '991b17bd-5fc7-4848-a01c-f04954b64ce3', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 'candidate', '{"programs": []}');
INSERT INTO receipts VALUES ('75149d85-ad43-438c-b80f-2616ce95c89a', '93783d5f9651148e957ee940b6b327c9d00f4b92', 'b600b65321134576d29515cc65d844abf30544714b7f4d48696e259d96f5d0e7', 'passed', '["true"]', 0, NULL, 0.023, '.corral/logs/merges/71d86641-ea52-4df1-9ceb-894a328c7bb1/1.log', NULL, '2026-11-27T01:23:59.488Z', '71d86641-ea52-4df1-9ceb-894a328c7bb1', '273a6b65ac1de2a3afe55397285a12451c6fc004', 'candidate', '{"programs": []}');
INSERT INTO file_locks VALUES ('01a21a9a-1024-7ba3-b548-8fb7f74c1dce', 'src/**', 'src/*', 1, '', 'http-851edf6a-2d40-4870-b503-60bea23dbd2c', 1, 0, NULL, NULL, 3600.0, '2026-11-27T01:23:54.020Z', '2026-11-27T02:23:54.020Z');
INSERT INTO file_locks VALUES ('01a21a9a-1024-7fd4-9ec7-d495ba017e72', 'docs/', 'docs/', 0, '', 'http-851edf6a-2d40-4870-b503-60bea23dbd2c', 1, 0, NULL, NULL, 3600.0, '2026-11-27T01:23:54.020Z', '2026-11-27T02:23:54.020Z');
INSERT INTO merge_requests VALUES (1, '991b17bd-5fc7-4848-a01c-f04954b64ce3', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'aec7e094-59c1-40d1-967f-15c13310a007', 'Add a greeting', 5, 'corral/task-0379fde8-ef92-1', 'main', 'ebf2b3f250deadc46ed37f2e34f7938828f47b35', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 'landed', NULL, 'null', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 'c3404e80833b1ca4344a5b02c5dee68de53f1724', 'ebf2b3f250deadc46ed37f2e34f7938828f47b35', '53dff91a-c561-41bb-aa68-a6983d8b5b08', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 0, NULL, '2026-11-27T01:23:55.707Z', '2026-11-27T01:23:56.672Z', '2026-11-27T01:23:56.672Z', NULL, NULL, NULL);
INSERT INTO merge_requests VALUES (2, '71d86641-ea52-4df1-9ceb-894a328c7bb1', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', 'Repeat', 5, 'corral/task-14d48994-f72d-1', 'main', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', '273a6b65ac1de2a3afe55397285a12451c6fc004', 'landed', NULL, 'null', '273a6b65ac1de2a3afe55397285a12451c6fc004', '93783d5f9651148e957ee940b6b327c9d00f4b92', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', '75149d85-ad43-438c-b80f-2616ce95c89a', '273a6b65ac1de2a3afe55397285a12451c6fc004', 0, NULL, '2026-11-27T01:23:59.010Z', '2026-11-27T01:23:59.488Z', '2026-11-27T01:23:59.488Z', NULL, NULL, NULL);
INSERT INTO features VALUES ('FEAT-123', 'Search', 'completed', 'ada', NULL, '{"merge_priority": 5, "metadata": {}}', '2026-11-27T01:23:53.272Z', '2026-11-27T01:23:53.394Z', '2026-11-27T01:23:53.394Z');
INSERT INTO agent_names VALUES ('boulder', 'Boulder', 's-1', 'opencode-coder', 'claude-sonnet-4-5', 'Fix the login', '2026-11-27T01:23:52.999Z');
INSERT INTO agent_names VALUES ('ash', 'Ash', 'http-851edf6a-2d40-4870-b503-60bea23dbd2c', 'p', NULL, NULL, '2026-11-27T01:23:54.020Z');
INSERT INTO agent_names VALUES ('greenlake', 'GreenLake', 's-1', 'p', NULL, NULL, '2026-11-27T01:23:54.081Z');
INSERT INTO event_cursors VALUES ('announcements', 66);
INSERT INTO event_cursors VALUES ('evidence', 61);
INSERT INTO event_cursors VALUES ('log', 66);
INSERT INTO event_cursors VALUES ('audit', 64);
INSERT INTO event_cursors VALUES ('exports', 60);
INSERT INTO feature_claims VALUES ('FEAT-123', 'src/search/**', 'src/search/*', 1);
INSERT INTO handoffs VALUES (1, '9697582c-d3c1-4408-9f85-3ca642b3ea48', 'person-ada', 'ada', 0, 'The login works; the password reset is half done.', '[]', '[]', '[]', '["Mail the token"]', '[]', NULL, NULL, '2026-11-27T01:23:53.444Z');
INSERT INTO handoffs VALUES (2, 'b618947b-b3a8-4fea-9c41-03dc8799b87a', 's-1', 'GreenLake', 1, 'GreenLake ended (ended) at work on: Review it', '["Task completed: Review it"]', '[]', '[]', '[]', '["src/a.py"]', NULL, NULL, '2026-11-27T01:24:00.566Z');
INSERT INTO memories VALUES (1, 'f3ec92b2-4487-465b-870e-b0ee6ce9ab3c', 'person-ada', 'ada', 'discovery', 'The tests need a running database.', 'null', NULL, '["make db"]', '["tests"]', '48c067eb079ffac8f3965226a137b8f62c6789b66a2549d70c524c575caa8c1e', 1, '2026-11-27T01:23:53.576Z', '2026-11-27T01:23:53.576Z');
INSERT INTO messages VALUES (1, '01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba', '01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba', NULL, 's-2', 'Cedar', 'message', 'May I have src/a.py?', 'I need it for ten minutes.', '{}', 'normal', 0, '[]', NULL, '2026-11-27T01:23:53.666Z', NULL);
INSERT INTO messages VALUES (2, '01a21a9a-0f62-7606-bd8e-a01b62391ac0', '01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba', '01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba', 's-1', 'GreenLake', 'message', 'Re: May I have src/a.py?', 'Yes, it is yours in a minute.', '{}', 'normal', 0, '[]', NULL, '2026-11-27T01:23:53.826Z', NULL);
INSERT INTO memory_tags VALUES (1, 'tests', '2026-11-27T01:23:53.576Z');
INSERT INTO message_recipients VALUES ('s-1', 1, 'GreenLake', 'to', NULL, NULL, '2026-11-27T01:23:53.922Z', '2026-11-27T01:23:53.940Z', NULL);
INSERT INTO message_recipients VALUES ('s-2', 2, 'Cedar', 'to', NULL, NULL, NULL, NULL, NULL);
INSERT INTO project_identity VALUES (1, '3466c107-6af5-49d5-bd19-b0ff597adc21', '/home/ada/api/repo', '/home/ada/api/repo/.git', '65024:2162696', '2026-11-27T01:23:47.177Z');
INSERT INTO attempts VALUES ('0379fde8-ef92-4f17-963e-12160b5b00b6', 1, 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, NULL, 'command', NULL, 'laptop', NULL, '0676103c-6af8-4c6b-a5f7-b31b600c5268', 'corral/task-0379fde8-ef92-1', 'ebf2b3f250deadc46ed37f2e34f7938828f47b35', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', NULL, NULL, NULL, NULL, '{"input_tokens":0,"output_tokens":0,"cost_usd":0.0,"turns":0}', '2026-11-27T01:23:55.128Z', '2026-11-27T01:23:55.537Z', '2026-11-27T01:23:55.707Z', 'completed', NULL, NULL, NULL);
INSERT INTO attempts VALUES ('14d48994-f72d-4315-a0b1-fbfc3bfcf154', 1, 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, NULL, 'command', NULL, 'laptop', NULL, 'e9598d98-aff3-4fc0-a1e7-e1ca0a0db90d', 'corral/task-14d48994-f72d-1', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', '273a6b65ac1de2a3afe55397285a12451c6fc004', NULL, NULL, NULL, NULL, '{"input_tokens":0,"output_tokens":0,"cost_usd":0.0,"turns":0}', '2026-11-27T01:23:58.383Z', '2026-11-27T01:23:58.596Z', '2026-11-27T01:23:59.010Z', 'completed', NULL, NULL, NULL);
INSERT INTO attempts VALUES ('5b1341ac-04f6-45e8-9601-6cae7153ed24', 1, '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, NULL, 'command', NULL, 'laptop', NULL, 'ac4fe96c-d573-4739-905c-25cc7884f309', 'corral/task-5b1341ac-04f6-1', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', NULL, NULL, NULL, NULL, NULL, '{"input_tokens":0,"output_tokens":0,"cost_usd":0.0,"turns":0}', '2026-11-27T01:23:57.657Z', '2026-11-27T01:23:57.855Z', '2026-11-27T01:23:57.898Z', 'failed', 'command_failed', 'The command exited with 3: no', NULL);
INSERT INTO attempts VALUES ('5b1341ac-04f6-45e8-9601-6cae7153ed24', 2, '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, NULL, 'command', NULL, 'laptop', NULL, '27aed154-a093-4abc-9733-1dadfc8db642', 'corral/task-5b1341ac-04f6-2', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', NULL, NULL, NULL, NULL, NULL, '{"input_tokens":0,"output_tokens":0,"cost_usd":0.0,"turns":0}', '2026-11-27T01:23:58.126Z', '2026-11-27T01:23:58.254Z', '2026-11-27T01:23:58.278Z', 'failed', 'command_failed', 'The command exited with 3: no', NULL);
INSERT INTO attempts VALUES ('83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 1, 's-1', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', '2026-11-27T01:23:57.599Z', '2026-11-27T01:23:57.599Z', '2026-11-27T01:23:57.626Z', 'completed', NULL, NULL, NULL);
INSERT INTO tasks VALUES (1, '0379fde8-ef92-4f17-963e-12160b5b00b6', 'task', 'Add a greeting', 'completed', 5, 'command', 'echo hi > hello.txt', NULL, NULL, NULL, NULL, NULL, 'main', NULL, '{}', 3, 1, 0, NULL, 1, NULL, NULL, '{"exit_code":0,"output":""}', NULL, NULL, '2026-11-27T01:23:55.100Z', '2026-11-27T01:23:55.707Z', NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tasks VALUES (2, '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'review', 'Review it', 'completed', 9, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', 3, 1, 0, NULL, 1, NULL, NULL, '{"findings":0}', NULL, NULL, '2026-11-27T01:23:57.439Z', '2026-11-27T01:23:57.626Z', NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tasks VALUES (3, '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task', 'Add a greeting', 'dead', 5, 'command', 'echo no; exit 3', NULL, NULL, NULL, NULL, NULL, 'main', NULL, '{}', 3, 1, 0, NULL, 2, NULL, NULL, '{"exit_code":3,"output":"no"}', 'command_failed', 'The command exited with 3: no', '2026-11-27T01:23:57.647Z', '2026-11-27T01:23:58.278Z', NULL, NULL, NULL, NULL, NULL, 0, 0, '2026-11-27T01:23:58.354Z', 0, 2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tasks VALUES (4, '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'task', 'Repeat', 'completed', 5, 'command', 'echo x > looped.txt', NULL, NULL, NULL, NULL, NULL, 'main', NULL, '{}', 3, 1, 0, NULL, 1, NULL, NULL, '{"iterations":1,"best":{"iteration":1,"head_sha":"273a6b65ac1de2a3afe55397285a12451c6fc004","verdict":"converged"},"last":{"exit_code":0,"output":""}}', NULL, NULL, '2026-11-27T01:23:58.374Z', '2026-11-27T01:23:59.010Z', NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO tasks VALUES (5, '070c0ad2-9664-41f9-863a-a8c59df8576f', 'review', 'Review it', 'cancelled', 5, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', 3, 0, 0, NULL, 0, NULL, 'It is not needed any more.', 'null', NULL, 'It is not needed any more.', '2026-11-27T01:23:59.930Z', '2026-11-27T01:23:59.943Z', NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO worktrees VALUES ('0676103c-6af8-4c6b-a5f7-b31b600c5268', 'task-0379fde8-ef92-1', '/home/ada/api/repo.worktrees/task-0379fde8-ef92-1', 'corral/task-0379fde8-ef92-1', 'ebf2b3f250deadc46ed37f2e34f7938828f47b35', 'task', 'removed', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'aec7e094-59c1-40d1-967f-15c13310a007', 20000, '{"env":{"CORRAL_PORT_BASE":"20000","CORRAL_PORTS":"20000 20001 20002 20003 20004 20005 20006 20007 20008 20009","PORT":"20000"},"path_prefixes":[],"owned":[],"copied":[],"exclude":[],"notes":[],"setup":[],"disk_bytes":0}', NULL, NULL, '2026-11-27T01:23:55.256Z', '2026-11-27T01:23:55.980Z', '65024:2361646');
INSERT INTO worktrees VALUES ('ea234f7d-e2e7-4806-946a-50e61ea6762a', 'verify:1', '/home/ada/api/repo.worktrees/verification-3466c107/1', NULL, '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 'verify', 'ready', NULL, NULL, NULL, '{"place":"1"}', NULL, NULL, '2026-11-27T01:23:55.796Z', NULL, '65024:2386455');
INSERT INTO worktrees VALUES ('ac4fe96c-d573-4739-905c-25cc7884f309', 'task-5b1341ac-04f6-1', '/home/ada/api/repo.worktrees/task-5b1341ac-04f6-1', 'corral/task-5b1341ac-04f6-1', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 'task', 'removed', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '23cf52aa-943d-4d5b-9134-7006c1709d6b', 20000, '{"env":{"CORRAL_PORT_BASE":"20000","CORRAL_PORTS":"20000 20001 20002 20003 20004 20005 20006 20007 20008 20009","PORT":"20000"},"path_prefixes":[],"owned":[],"copied":[],"exclude":[],"notes":[],"setup":[],"disk_bytes":0}', NULL, NULL, '2026-11-27T01:23:57.712Z', '2026-11-27T01:23:58.000Z', '65024:2458738');
INSERT INTO worktrees VALUES ('27aed154-a093-4abc-9733-1dadfc8db642', 'task-5b1341ac-04f6-2', '/home/ada/api/repo.worktrees/task-5b1341ac-04f6-2', 'corral/task-5b1341ac-04f6-2', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 'task', 'removed', '5b1341ac-04f6-45e8-9601-6cae7153ed24', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', 20000, '{"env":{"CORRAL_PORT_BASE":"20000","CORRAL_PORTS":"20000 20001 20002 20003 20004 20005 20006 20007 20008 20009","PORT":"20000"},"path_prefixes":[],"owned":[],"copied":[],"exclude":[],"notes":[],"setup":[],"disk_bytes":0}', NULL, NULL, '2026-11-27T01:23:58.159Z', '2026-11-27T01:23:58.414Z', '65024:2458746');
INSERT INTO worktrees VALUES ('e9598d98-aff3-4fc0-a1e7-e1ca0a0db90d', 'task-14d48994-f72d-1', '/home/ada/api/repo.worktrees/task-14d48994-f72d-1', 'corral/task-14d48994-f72d-1', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 'task', 'removed', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', 20000, '{"env":{"CORRAL_PORT_BASE":"20000","CORRAL_PORTS":"20000 20001 20002 20003 20004 20005 20006 20007 20008 20009","PORT":"20000"},"path_prefixes":[],"owned":[],"copied":[],"exclude":[],"notes":[],"setup":[],"disk_bytes":0}', NULL, NULL, '2026-11-27T01:23:58.443Z', '2026-11-27T01:23:59.136Z', '65024:2458746');
INSERT INTO worktrees VALUES ('7f042df2-ce96-4dde-adee-76117542470e', 'judge@14d48994-f72d-1', '/home/ada/api/repo.worktrees/judge@14d48994-f72d-1', NULL, '273a6b65ac1de2a3afe55397285a12451c6fc004', 'verify', 'removed', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', NULL, 20010, '{"env":{"CORRAL_PORT_BASE":"20010","CORRAL_PORTS":"20010 20011 20012 20013 20014 20015 20016 20017 20018 20019","PORT":"20010"},"path_prefixes":[],"owned":[],"copied":[],"exclude":[],"notes":[],"setup":[],"disk_bytes":0}', NULL, NULL, '2026-11-27T01:23:58.722Z', '2026-11-27T01:23:58.913Z', '65024:2541592');
INSERT INTO worktrees VALUES ('59deea15-ab72-44b5-a609-665a819180ce', 'login', '/home/ada/api/repo.worktrees/login', 'corral/login', '273a6b65ac1de2a3afe55397285a12451c6fc004', 'session', 'removed', NULL, 's-1', 20000, '{"env":{"CORRAL_PORT_BASE":"20000","CORRAL_PORTS":"20000 20001 20002 20003 20004 20005 20006 20007 20008 20009","PORT":"20000"},"path_prefixes":[],"owned":[],"copied":[],"exclude":[],"notes":[],"setup":[],"disk_bytes":0}', NULL, 'refs/corral/salvage/login/20261127T012400207738Z', '2026-11-27T01:23:59.996Z', '2026-11-27T01:24:00.411Z', '65024:2542115');
INSERT INTO worktrees VALUES ('62b8d6b6-1c43-4cc9-be15-23b957375e44', 'login-recovered', '/home/ada/api/repo.worktrees/login-recovered', 'corral/login-recovered', '8cbfea90356612fd84b8867ea5f0fa61b570a7ab', 'person', 'ready', NULL, NULL, 20000, '{"env":{"CORRAL_PORT_BASE":"20000","CORRAL_PORTS":"20000 20001 20002 20003 20004 20005 20006 20007 20008 20009","PORT":"20000"},"path_prefixes":[],"owned":[],"copied":[],"exclude":[],"notes":[],"setup":[],"disk_bytes":0}', NULL, NULL, '2026-11-27T01:24:00.483Z', NULL, '65024:2542115');
INSERT INTO audit_lines VALUES (1, '2026-11-27T01:23:52.883Z', 'ada', 'person-ada', NULL, 'agent.pin', '{"name":"implementer","version":"1.0.0"}', '{"answer":{"agent":"implementer","pinned":true,"version":"1.0.0"},"status":"ok"}', '0000000000000000000000000000000000000000000000000000000000000000', '868145b5d2d2d344abacbb9dfa04e5c1f63379243f66955220facc105a1659b9');
INSERT INTO audit_lines VALUES (2, '2026-11-27T01:23:52.944Z', 'ada', 'person-ada', NULL, 'agent.unpin', '{"name":"implementer"}', '{"answer":{"agent":"implementer","was":"1.0.0"},"status":"ok"}', '868145b5d2d2d344abacbb9dfa04e5c1f63379243f66955220facc105a1659b9', 'ccd294ecdaa8a7af04689590fba55de09e34da7c08758942036d0489dc6e6467');
INSERT INTO audit_lines VALUES (3, '2026-11-27T01:23:52.970Z', 'GreenLake', 's-1', NULL, 'session.register', '{"agent_name":"GreenLake","capabilities":["python"],"current_task":"Fix the login","session_id":"s-1"}', '{"answer":{"agent_id":"GreenLake","agent_name":"GreenLake","agent_type":"claude","capabilities":["python"],"current_task":"Fix the login","last_heartbeat":"2026-11-27T01:23:52.953Z","session_id":"s-1","started_at":"2026-11-27T01:23:52.953Z","status":"active","success":true},"status":"ok"}', 'ccd294ecdaa8a7af04689590fba55de09e34da7c08758942036d0489dc6e6467', '0348f9c6117660d9d34bafaa1507f1f73207f598d585a4fe5cf55d3ddb64ea5b');
INSERT INTO audit_lines VALUES (4, '2026-11-27T01:23:52.993Z', 'Cedar', 's-2', NULL, 'session.register', '{"agent_name":"Cedar","capabilities":[],"session_id":"s-2"}', '{"answer":{"agent_id":"Cedar","agent_name":"Cedar","agent_type":"claude","last_heartbeat":"2026-11-27T01:23:52.978Z","session_id":"s-2","started_at":"2026-11-27T01:23:52.978Z","status":"active","success":true},"status":"ok"}', '0348f9c6117660d9d34bafaa1507f1f73207f598d585a4fe5cf55d3ddb64ea5b', '62b423d9b45c633e0d3e312c8ced2af94a07a1e09bc4dad8567529c55c27de16');
INSERT INTO audit_lines VALUES (5, '2026-11-27T01:23:53.023Z', 'GreenLake', 's-1', NULL, 'session.go_by', '{"model":"claude-sonnet-4-5","name":"Boulder","new":false,"program":"opencode-coder","session_id":"s-1","task_description":"Fix the login"}', '{"answer":{"model":"claude-sonnet-4-5","name":"Boulder","program":"opencode-coder","registered_at":"2026-11-27T01:23:52.999Z","session_id":"s-1","success":true,"task_description":"Fix the login"},"status":"ok"}', '62b423d9b45c633e0d3e312c8ced2af94a07a1e09bc4dad8567529c55c27de16', '39620de0ca330b422aa4e027d65fffebeff12ea0f07b19d0f30db6e92ca723b5');
INSERT INTO audit_lines VALUES (6, '2026-11-27T01:23:53.082Z', 'ada', 'person-ada', NULL, 'session.cleanup', '{"stale_threshold_minutes":15.0}', '{"answer":{"success":true},"status":"ok"}', '39620de0ca330b422aa4e027d65fffebeff12ea0f07b19d0f30db6e92ca723b5', '31ca610a916815dea7fce21ab220263a248ca32c0655dbfd0bf8900dba573786');
INSERT INTO audit_lines VALUES (7, '2026-11-27T01:23:52.842Z', 'corral', NULL, NULL, 'agent.pinned', '{"agent":"implementer","reason":null,"version":"1.0.0"}', '{"status":"ok"}', '31ca610a916815dea7fce21ab220263a248ca32c0655dbfd0bf8900dba573786', '4567dc5f0e9ca374168dd5e6656aba131c57c625c05b5c4fae96501551c4687c');
INSERT INTO audit_lines VALUES (8, '2026-11-27T01:23:52.927Z', 'corral', NULL, NULL, 'agent.unpinned', '{"agent":"implementer","reason":null,"version":"1.0.0"}', '{"status":"ok"}', '4567dc5f0e9ca374168dd5e6656aba131c57c625c05b5c4fae96501551c4687c', 'e3be17c8f5b0e1b53ce8a94f60330366f011f72ad8e26d3648651fb90c824c17');
INSERT INTO audit_lines VALUES (9, '2026-11-27T01:23:52.953Z', 'GreenLake', 's-1', NULL, 'session.started', '{"agent_name":"GreenLake"}', '{"status":"ok"}', 'e3be17c8f5b0e1b53ce8a94f60330366f011f72ad8e26d3648651fb90c824c17', 'ad208e65fda80bb1bc4f436da70cfa94c7fffdd3f2229eb55d879bcdfe7fb5cf');
INSERT INTO audit_lines VALUES (10, '2026-11-27T01:23:52.978Z', 'Cedar', 's-2', NULL, 'session.started', '{"agent_name":"Cedar"}', '{"status":"ok"}', 'ad208e65fda80bb1bc4f436da70cfa94c7fffdd3f2229eb55d879bcdfe7fb5cf', '9c44a37371003ee0e0f34d0150585fbb77dc0edf92709fdcd50f704eeecf6336');
INSERT INTO audit_lines VALUES (11, '2026-11-27T01:23:52.999Z', 'GreenLake', 's-1', NULL, 'agent.registered', '{"agent_name":"Boulder"}', '{"status":"ok"}', '9c44a37371003ee0e0f34d0150585fbb77dc0edf92709fdcd50f704eeecf6336', 'c918b07851c0f30f47b6172c0d624f8ad489ff5c5b9e8ef0eb93b09a13fbfba4');
INSERT INTO audit_lines VALUES (12, '2026-11-27T01:23:53.109Z', 'GreenLake', 's-1', NULL, 'lock.acquire', '{"each":false,"exclusive":true,"file_paths":[],"paths":["src/a.py"],"reason":"Fix the login","session_id":"s-1","ttl_s":3600.0,"wait_s":0.0}', '{"answer":{"locks":["01a21a9a-0c7e-78cb-8a87-2289bd7a49ce"],"success":true},"status":"ok"}', 'c918b07851c0f30f47b6172c0d624f8ad489ff5c5b9e8ef0eb93b09a13fbfba4', 'bf9f4da45d9503d5c24da0a308b2ac7d8ebb8388c8de80f76009b63da6c2b326');
INSERT INTO audit_lines VALUES (13, '2026-11-27T01:23:53.139Z', 'GreenLake', 's-1', NULL, 'lock.renew', '{"extend_s":1800.0,"file_paths":[],"lock_ids":[],"paths":["src/a.py"],"session_id":"s-1"}', '{"answer":{"locks":["01a21a9a-0c7e-78cb-8a87-2289bd7a49ce"],"success":true},"status":"ok"}', 'bf9f4da45d9503d5c24da0a308b2ac7d8ebb8388c8de80f76009b63da6c2b326', '2332dc6068d3e6c6cb62590b9f2af2f04e3c353e7fb05d8b7f293fa33e26f914');
INSERT INTO audit_lines VALUES (14, '2026-11-27T01:23:53.194Z', 'Cedar', 's-2', NULL, 'lock.check_commit', '{"checkout":"/repo","paths":["src/a.py","README.md"],"session_id":"s-2"}', '{"answer":{"enforcement":"enforce"},"status":"ok"}', '2332dc6068d3e6c6cb62590b9f2af2f04e3c353e7fb05d8b7f293fa33e26f914', 'dff6b0ccdfc7a7c06075e101e129202cca61c94073900d3f032058f8601d45a4');
INSERT INTO audit_lines VALUES (15, '2026-11-27T01:23:53.265Z', 'GreenLake', 's-1', NULL, 'lock.release', '{"file_paths":[],"lock_ids":[],"paths":["src/a.py"],"session_id":"s-1"}', '{"answer":{"released":["src/a.py"],"success":true},"status":"ok"}', 'dff6b0ccdfc7a7c06075e101e129202cca61c94073900d3f032058f8601d45a4', '034b26587b8a0af893e3d45d59a25ad9e558e409ac1dbb9cd832bf163013d46e');
INSERT INTO audit_lines VALUES (16, '2026-11-27T01:23:53.310Z', 'ada', 'person-ada', NULL, 'feature.register', '{"feature_id":"FEAT-123","merge_priority":5,"metadata":{},"resource_claims":["src/search/**"],"title":"Search"}', '{"answer":{"action":"registered","feature_id":"FEAT-123","merge_priority":5,"registered_at":"2026-11-27T01:23:53.272Z","registered_by":"ada","resource_claims":["src/search/**"],"status":"active","success":true,"title":"Search","updated_at":"2026-11-27T01:23:53.272Z"},"status":"ok"}', '034b26587b8a0af893e3d45d59a25ad9e558e409ac1dbb9cd832bf163013d46e', '58594ad4cd29f7e7346d6c957c9ac68071292abd91bc5b2b393fd10787b0e55d');
INSERT INTO audit_lines VALUES (17, '2026-11-27T01:23:53.206Z', 'GreenLake', 's-1', NULL, 'lock.released', '{"paths":["src/a.py"]}', '{"status":"ok"}', '58594ad4cd29f7e7346d6c957c9ac68071292abd91bc5b2b393fd10787b0e55d', 'c8cac517444dd4fbf72af8dc105a648584ff6e0476a9d3efa832371a09277f51');
INSERT INTO audit_lines VALUES (18, '2026-11-27T01:23:53.273Z', 'ada', 'person-ada', NULL, 'session.started', '{"agent_name":"ada"}', '{"status":"ok"}', 'c8cac517444dd4fbf72af8dc105a648584ff6e0476a9d3efa832371a09277f51', 'eade5b71b0cf86c672951e29c71ce306ef5cba43cd7986f95cf72e452b7a4e93');
INSERT INTO audit_lines VALUES (19, '2026-11-27T01:23:53.272Z', 'ada', 'person-ada', NULL, 'feature.registered', '{"claims":1,"feature_id":"FEAT-123"}', '{"status":"ok"}', 'eade5b71b0cf86c672951e29c71ce306ef5cba43cd7986f95cf72e452b7a4e93', '565b0b1d2214584dd3dd8821467d629771083f02428548a05c260c8510d7a14c');
INSERT INTO audit_lines VALUES (20, '2026-11-27T01:23:53.435Z', 'ada', 'person-ada', NULL, 'feature.deregister', '{"feature_id":"FEAT-123","status":"completed"}', '{"answer":{"completed_at":"2026-11-27T01:23:53.394Z","feature_id":"FEAT-123","merge_priority":5,"registered_at":"2026-11-27T01:23:53.272Z","registered_by":"ada","resource_claims":["src/search/**"],"status":"completed","success":true,"title":"Search","updated_at":"2026-11-27T01:23:53.394Z"},"status":"ok"}', '565b0b1d2214584dd3dd8821467d629771083f02428548a05c260c8510d7a14c', '71422ba52660c5586a00d0add6ff93a2e24bef7e74066911eddedbf0a770b69c');
INSERT INTO audit_lines VALUES (21, '2026-11-27T01:23:53.485Z', 'ada', 'person-ada', NULL, 'handoff.write', '{"next_steps":["Mail the token"],"summary":"The login works; the password reset is half done."}', '{"answer":{"handoff_id":"9697582c-d3c1-4408-9f85-3ca642b3ea48","success":true},"status":"ok"}', '71422ba52660c5586a00d0add6ff93a2e24bef7e74066911eddedbf0a770b69c', 'f634e58fd58c30a02d040c9b636bd056cfcec991acf72eeb949d0a8bbf436658');
INSERT INTO audit_lines VALUES (22, '2026-11-27T01:23:53.394Z', 'ada', 'person-ada', NULL, 'feature.deregistered', '{"feature_id":"FEAT-123","status":"completed"}', '{"status":"ok"}', 'f634e58fd58c30a02d040c9b636bd056cfcec991acf72eeb949d0a8bbf436658', '92423b91ab8f0fe93fa0a91cf8bfbd2434010e13e60c8e04dd09d8917f077329');
INSERT INTO audit_lines VALUES (23, '2026-11-27T01:23:53.444Z', 'ada', 'person-ada', NULL, 'handoff.written', '{"automatic":false,"handoff_id":"9697582c-d3c1-4408-9f85-3ca642b3ea48"}', '{"status":"ok"}', '92423b91ab8f0fe93fa0a91cf8bfbd2434010e13e60c8e04dd09d8917f077329', '87df293e9711584984281513db006351ace9891e8127d0a7b8eed567bcacc602');
INSERT INTO audit_lines VALUES (24, '2026-11-27T01:23:53.576Z', 'ada', 'person-ada', NULL, 'memory.stored', '{"agent_name":"ada","event_type":"discovery","memory_id":"f3ec92b2-4487-465b-870e-b0ee6ce9ab3c","times":1}', '{"status":"ok"}', '87df293e9711584984281513db006351ace9891e8127d0a7b8eed567bcacc602', '6f89fab481055771e29029435ecb5e7ddf1c1d3baf06c9750680bb65704d3d46');
INSERT INTO audit_lines VALUES (25, '2026-11-27T01:23:53.613Z', 'ada', 'person-ada', NULL, 'memory.remember', '{"event_type":"discovery","lessons":["make db"],"summary":"The tests need a running database.","tags":["tests"]}', '{"answer":{"action":"created","memory_id":"f3ec92b2-4487-465b-870e-b0ee6ce9ab3c","success":true},"status":"ok"}', '6f89fab481055771e29029435ecb5e7ddf1c1d3baf06c9750680bb65704d3d46', '2026d48f399ebff460d08e9c1df7d1d6c5b84bc41ff43a9b8f174234125ec987');
INSERT INTO audit_lines VALUES (26, '2026-11-27T01:23:53.703Z', 'Cedar', 's-2', NULL, 'message.send', '{"ack_required":false,"attachments":[],"bcc":[],"body":"(26 characters)","cc":[],"importance":"normal","session_id":"s-2","subject":"May I have src/a.py?","to":["GreenLake"]}', '{"answer":{"created_at":"2026-11-27T01:23:53.666Z","from":"Cedar","id":1,"importance":"normal","kind":"message","message_id":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba","recipients":["s-1"],"subject":"May I have src/a.py?","success":true,"thread_id":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba"},"status":"ok"}', '2026d48f399ebff460d08e9c1df7d1d6c5b84bc41ff43a9b8f174234125ec987', '8defe67c8291c073b798250d6b66d0a72811ebd4bb63a3b0a33cdf2acae17f4c');
INSERT INTO audit_lines VALUES (27, '2026-11-27T01:23:53.897Z', 'GreenLake', 's-1', NULL, 'message.reply', '{"attachments":[],"bcc":[],"body":"(29 characters)","cc":[],"message_id":"1","session_id":"s-1","to":[]}', '{"answer":{"created_at":"2026-11-27T01:23:53.826Z","from":"GreenLake","id":2,"importance":"normal","kind":"message","message_id":"01a21a9a-0f62-7606-bd8e-a01b62391ac0","recipients":["s-2"],"reply_to":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba","subject":"Re: May I have src/a.py?","success":true,"thread_id":"01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba"},"status":"ok"}', '8defe67c8291c073b798250d6b66d0a72811ebd4bb63a3b0a33cdf2acae17f4c', 'be7d865710230372234ad73298e58860868b487e1915169b6d0e64c861045896');
INSERT INTO audit_lines VALUES (28, '2026-11-27T01:23:53.934Z', 'GreenLake', 's-1', NULL, 'message.read', '{"message_id":"1","session_id":"s-1"}', '{"answer":{"id":1,"read_at":"2026-11-27T01:23:53.922Z","state":"read","success":true},"status":"ok"}', 'be7d865710230372234ad73298e58860868b487e1915169b6d0e64c861045896', 'a4692d870fec10dc44b71610f9bd1b769ba323a76aaf5ee9422051b8c25fda66');
INSERT INTO audit_lines VALUES (29, '2026-11-27T01:23:53.959Z', 'GreenLake', 's-1', NULL, 'message.acknowledge', '{"message_id":"1","session_id":"s-1"}', '{"answer":{"acknowledged_at":"2026-11-27T01:23:53.940Z","id":1,"read_at":"2026-11-27T01:23:53.922Z","state":"acknowledged","success":true},"status":"ok"}', 'a4692d870fec10dc44b71610f9bd1b769ba323a76aaf5ee9422051b8c25fda66', 'f2369ce03646382e58c5833e59fd79282b0404cecebd0f07428e224f5586fd9f');
INSERT INTO audit_lines VALUES (30, '2026-11-27T01:23:53.988Z', 'Cedar', 's-2', NULL, 'contact.ask', '{"session_id":"s-2","to":"GreenLake","ttl_s":604800}', '{"answer":{"expires_at":"2026-12-04T01:23:53.985Z","from_":"Cedar","status":"approved","success":true,"to":"GreenLake"},"status":"ok"}', 'f2369ce03646382e58c5833e59fd79282b0404cecebd0f07428e224f5586fd9f', '6f795121203c51405c716cdcbaf0911780dda3b26913330775988b8c5094978a');
INSERT INTO audit_lines VALUES (31, '2026-11-27T01:23:54.002Z', 'GreenLake', 's-1', NULL, 'contact.respond', '{"accept":true,"session_id":"s-1","to":"Cedar","ttl_s":2592000}', '{"answer":{"approved":true,"expires_at":"2026-12-27T01:23:53.999Z","from_":"Cedar","success":true,"to":"GreenLake"},"status":"ok"}', '6f795121203c51405c716cdcbaf0911780dda3b26913330775988b8c5094978a', '207331d94c3f33865839700781ce2579e1ad6602285cd94429ab4208ff4fabb1');
INSERT INTO audit_lines VALUES (32, '2026-11-27T01:23:54.016Z', 'GreenLake', 's-1', NULL, 'contact.choose', '{"policy":"contacts_only","session_id":"s-1"}', '{"answer":{"agent":"GreenLake","policy":"open","success":true},"status":"ok"}', '207331d94c3f33865839700781ce2579e1ad6602285cd94429ab4208ff4fabb1', '9a84469fcedce30b6573a76a9c7529676c418a43e166b464514cbf36b0889d67');
INSERT INTO audit_lines VALUES (33, '2026-11-27T01:23:54.071Z', 'ada', 'person-ada', NULL, 'macro.start_session', '{"inbox_limit":10,"name":"Ash","new":false,"paths":["src/**","docs/"],"program":"p","reason":"","ttl_s":3600}', '{"answer":{"locks":["01a21a9a-1024-7ba3-b548-8fb7f74c1dce","01a21a9a-1024-7fd4-9ec7-d495ba017e72"],"session":["http-851edf6a-2d40-4870-b503-60bea23dbd2c"],"success":true},"status":"ok"}', '9a84469fcedce30b6573a76a9c7529676c418a43e166b464514cbf36b0889d67', 'b3e58e71539826de45105fcb9db660b8dc5c99be035ba556497fdd4e1ae175d6');
INSERT INTO audit_lines VALUES (34, '2026-11-27T01:23:54.107Z', 'GreenLake', 's-1', NULL, 'macro.prepare_thread', '{"examples":3,"inbox_limit":10,"new":false,"program":"p","session_id":"s-1","thread_id":"batch-7"}', '{"answer":{"inbox":["01a21a9a-0ec2-7810-afc6-96c4b2a3e7ba"],"session":["s-1"],"success":true,"thread":["batch-7"]},"status":"ok"}', 'b3e58e71539826de45105fcb9db660b8dc5c99be035ba556497fdd4e1ae175d6', 'dfa27f9442dd7cd3b741f8872dd12bbbad5f85982458dc4133d2d44d55aad878');
INSERT INTO audit_lines VALUES (35, '2026-11-27T01:23:54.020Z', 'Ash', 'http-851edf6a-2d40-4870-b503-60bea23dbd2c', NULL, 'session.started', '{"agent_name":"Ash"}', '{"status":"ok"}', 'dfa27f9442dd7cd3b741f8872dd12bbbad5f85982458dc4133d2d44d55aad878', '70000d3e889c944acc75195fa879a7ca59a52bb420a153edb6982e4e3dde6c1d');
INSERT INTO audit_lines VALUES (36, '2026-11-27T01:23:54.020Z', 'Ash', 'http-851edf6a-2d40-4870-b503-60bea23dbd2c', NULL, 'agent.registered', '{"agent_name":"Ash"}', '{"status":"ok"}', '70000d3e889c944acc75195fa879a7ca59a52bb420a153edb6982e4e3dde6c1d', 'd5dd94a111bddfb15ef5e57a99ae3af2c9cd5c94e0d1e5e0108cf23e653f1139');
INSERT INTO audit_lines VALUES (37, '2026-11-27T01:23:54.081Z', 'GreenLake', 's-1', NULL, 'agent.registered', '{"agent_name":"GreenLake"}', '{"status":"ok"}', 'd5dd94a111bddfb15ef5e57a99ae3af2c9cd5c94e0d1e5e0108cf23e653f1139', '65dd493f3a3eea460340dbd9bb1b333520628a061b36dc821a22ffa6417a8c35');
INSERT INTO audit_lines VALUES (38, '2026-11-27T01:23:54.154Z', 'GreenLake', 's-1', NULL, 'macro.reservation_cycle', '{"auto_release":true,"exclusive":true,"paths":["src/api/**"],"reason":"","session_id":"s-1","ttl_s":3600}', '{"answer":{"conflicts":["http-851edf6a-2d40-4870-b503-60bea23dbd2c"],"success":true},"status":"ok"}', '65dd493f3a3eea460340dbd9bb1b333520628a061b36dc821a22ffa6417a8c35', '56d155ce98bb6f5f8959931631da9bae9da3b7d1a02fa94d18737f6e6f24f2b0');
INSERT INTO audit_lines VALUES (39, '2026-11-27T01:23:54.236Z', 'ada', 'person-ada', NULL, 'alert.test', '{"wait_s":15.0}', '{"status":"ok"}', '56d155ce98bb6f5f8959931631da9bae9da3b7d1a02fa94d18737f6e6f24f2b0', '05035b6bbed6f36c3fea39576f45e5ea7b1ce5664ee057243a142dc8a0066307');
INSERT INTO audit_lines VALUES (40, '2026-11-27T01:23:54.784Z', 'ada', 'person-ada', NULL, 'gc.collect', '{"dry_run":true,"forget":[]}', '{"answer":{"dry_run":true},"status":"ok"}', '05035b6bbed6f36c3fea39576f45e5ea7b1ce5664ee057243a142dc8a0066307', '1caf6cf4457d6401b9e0542ff22b803d81f5b7ffd0c60a1c5cbd5594ae9fb660');
INSERT INTO audit_lines VALUES (41, '2026-11-27T01:23:54.840Z', 'ada', 'person-ada', NULL, 'supervisor.once', '{}', '{"answer":{"file":"/home/ada/api/repo/.corral/state/roadmap.yaml","room":2},"status":"ok"}', '1caf6cf4457d6401b9e0542ff22b803d81f5b7ffd0c60a1c5cbd5594ae9fb660', '843f45a5ca522629386631a8165800d74b0e9e52f84afeac946ae4b26c6b0b5f');
INSERT INTO audit_lines VALUES (42, '2026-11-27T01:23:54.938Z', 'ada', 'person-ada', NULL, 'supervisor.start', '{}', '{"answer":{"file":"/home/ada/api/repo/.corral/state/roadmap.yaml","room":2,"since_at":"2026-11-27T01:23:54.852Z","supervised":true},"status":"ok"}', '843f45a5ca522629386631a8165800d74b0e9e52f84afeac946ae4b26c6b0b5f', 'c5f80391711f891d6daad964b281a12c1b6e2e84a3df0577f70afa696cb23ee9');
INSERT INTO audit_lines VALUES (43, '2026-11-27T01:23:55.042Z', 'ada', 'person-ada', NULL, 'supervisor.stop', '{}', '{"answer":{"file":"/home/ada/api/repo/.corral/state/roadmap.yaml","room":2,"was_supervised":true},"status":"ok"}', 'c5f80391711f891d6daad964b281a12c1b6e2e84a3df0577f70afa696cb23ee9', 'e09426308faa6a514f3dbb45e06d52e370008ce8ef5ff77c57ba0411fc406ed8');
INSERT INTO audit_lines VALUES (44, '2026-11-27T01:23:55.059Z', 'ada', 'person-ada', NULL, 'daemon.pause', '{"reason":"The release is cut."}', '{"answer":{"paused":true,"reason":"The release is cut.","since_at":"2026-11-27T01:23:55.047Z"},"status":"ok"}', 'e09426308faa6a514f3dbb45e06d52e370008ce8ef5ff77c57ba0411fc406ed8', 'f100f8fd1f1d86c7af098ac20096ed2d38af926cf4a8be44dc9e4107acfa54f0');
INSERT INTO audit_lines VALUES (45, '2026-11-27T01:23:55.086Z', 'ada', 'person-ada', NULL, 'daemon.resume', '{}', '{"answer":{"was_paused":true},"status":"ok"}', 'f100f8fd1f1d86c7af098ac20096ed2d38af926cf4a8be44dc9e4107acfa54f0', 'e150cff3f747d89c58e8162d364fe614a800e08df1cf6b9521fd0af60f9e5b3c');
INSERT INTO audit_lines VALUES (46, '2026-11-27T01:23:55.126Z', 'ada', 'person-ada', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'task.submit', '{"command":"echo hi > hello.txt","priority":5,"title":"Add a greeting"}', '{"answer":{"status":"pending","task_id":"0379fde8-ef92-4f17-963e-12160b5b00b6","title":"Add a greeting"},"status":"ok"}', 'e150cff3f747d89c58e8162d364fe614a800e08df1cf6b9521fd0af60f9e5b3c', '9efdc14b968cf165250d189c294b4e248da45676f6b98f8dd62bef9aaf0b56b7');
INSERT INTO audit_lines VALUES (47, '2026-11-27T01:23:55.047Z', 'corral', NULL, NULL, 'work.paused', '{"reason":"The release is cut."}', '{"status":"ok"}', '9efdc14b968cf165250d189c294b4e248da45676f6b98f8dd62bef9aaf0b56b7', '1471f9dd3f10d1be0104b7ceec89f54c1ab655422af5257831c4fa5300e859e1');
INSERT INTO audit_lines VALUES (48, '2026-11-27T01:23:55.064Z', 'corral', NULL, NULL, 'work.resumed', '{}', '{"status":"ok"}', '1471f9dd3f10d1be0104b7ceec89f54c1ab655422af5257831c4fa5300e859e1', 'c11def9dac6e97b3dbb01bcc198335f6a684c68c462bf3f0167ebfc9c6fc4fab');
INSERT INTO audit_lines VALUES (49, '2026-11-27T01:23:55.100Z', 'corral', NULL, '0379fde8-ef92-4f17-963e-12160b5b00b6', 'task.submitted', '{}', '{"status":"ok"}', 'c11def9dac6e97b3dbb01bcc198335f6a684c68c462bf3f0167ebfc9c6fc4fab', 'c887bed34fa2fc11dfe74b374e5aa335ed48579f08ef516edd2d30c54d180365');
INSERT INTO audit_lines VALUES (50, '2026-11-27T01:23:55.128Z', 'JadeMountain', 'aec7e094-59c1-40d1-967f-15c13310a007', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'task.claimed', '{"agent_name":"JadeMountain","attempt":1,"expires_at":"2026-11-27T05:23:55.128Z","token":1}', '{"status":"ok"}', 'c887bed34fa2fc11dfe74b374e5aa335ed48579f08ef516edd2d30c54d180365', '6f1b99e074281d8c95bcf9acd90f7604476b5a7cf7aa4318fa60d521ba0425f0');
INSERT INTO audit_lines VALUES (51, '2026-11-27T01:23:55.458Z', 'JadeMountain', 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, 'session.started', '{"agent_name":"JadeMountain"}', '{"status":"ok"}', '6f1b99e074281d8c95bcf9acd90f7604476b5a7cf7aa4318fa60d521ba0425f0', '2c4228dc360d8ee16c8a66a67515b4892b86027c6775968ca98ff4afb4eb3d24');
INSERT INTO audit_lines VALUES (52, '2026-11-27T01:23:55.458Z', 'JadeMountain', 'aec7e094-59c1-40d1-967f-15c13310a007', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'task.assigned', '{"agent":null,"model":null,"runner":"command"}', '{"status":"ok"}', '2c4228dc360d8ee16c8a66a67515b4892b86027c6775968ca98ff4afb4eb3d24', 'ab37b9c47e40a81300316f4d71f3645d071059384e39c712e65361485ea2ff8e');
INSERT INTO audit_lines VALUES (53, '2026-11-27T01:23:55.537Z', 'JadeMountain', 'aec7e094-59c1-40d1-967f-15c13310a007', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'task.started', '{"pid":2994}', '{"status":"ok"}', 'ab37b9c47e40a81300316f4d71f3645d071059384e39c712e65361485ea2ff8e', '4477cc6e81d191ee6192cc6753d11054874b4e2d53f4d962db39d36f0e78e16f');
INSERT INTO audit_lines VALUES (54, '2026-11-27T01:23:55.707Z', 'JadeMountain', 'aec7e094-59c1-40d1-967f-15c13310a007', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'task.completed', '{"attempt":1,"head_sha":"814a6f90ef9cbf0389d5b43e054cfdff285ccf78"}', '{"status":"ok"}', '4477cc6e81d191ee6192cc6753d11054874b4e2d53f4d962db39d36f0e78e16f', '8d6a79ec8e3deb28339e20d6312ee41ad0160fcdf4e11ecd502decbc0453d433');
INSERT INTO audit_lines VALUES (55, '2026-11-27T01:23:55.707Z', 'JadeMountain', 'aec7e094-59c1-40d1-967f-15c13310a007', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'merge.queued', '{"merge_id":"991b17bd-5fc7-4848-a01c-f04954b64ce3"}', '{"status":"ok"}', '8d6a79ec8e3deb28339e20d6312ee41ad0160fcdf4e11ecd502decbc0453d433', '716863f023b219e830057fbd9c4d57e50c9c99c0c9205952a7020f2802cb70be');
INSERT INTO audit_lines VALUES (56, '2026-11-27T01:23:55.707Z', 'JadeMountain', 'aec7e094-59c1-40d1-967f-15c13310a007', NULL, 'session.ended', '{"reason":"completed","released":[]}', '{"status":"ok"}', '716863f023b219e830057fbd9c4d57e50c9c99c0c9205952a7020f2802cb70be', '0c16dcdc37f7e3a972d69d0319e806f55b4567250f4d104bb5ecdedba032c947');
INSERT INTO audit_lines VALUES (57, '2026-11-27T01:23:56.672Z', 'JadeMountain', 'aec7e094-59c1-40d1-967f-15c13310a007', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'merge.landed', '{"landed_sha":"814a6f90ef9cbf0389d5b43e054cfdff285ccf78","merge_id":"991b17bd-5fc7-4848-a01c-f04954b64ce3","reason":null}', '{"status":"ok"}', '0c16dcdc37f7e3a972d69d0319e806f55b4567250f4d104bb5ecdedba032c947', 'b360dad475a1f0f57c8bc6f6aa63ecc04348985656e569a1e1993698ef08d395');
INSERT INTO audit_lines VALUES (58, '2026-11-27T01:23:57.171Z', 'ada', 'person-ada', '0379fde8-ef92-4f17-963e-12160b5b00b6', 'task.feedback', '{"comment":"Good tests.","rating":4,"task_id":"0379fde8-ef92-4f17-963e-12160b5b00b6"}', '{"answer":{"comment":"Good tests.","rating":4,"task_id":"0379fde8-ef92-4f17-963e-12160b5b00b6"},"status":"ok"}', 'b360dad475a1f0f57c8bc6f6aa63ecc04348985656e569a1e1993698ef08d395', '17bb56268ed6191fcede81128df8c9a64590df928450c500ab41cb0b169d6a7a');
INSERT INTO audit_lines VALUES (59, '2026-11-27T01:23:57.453Z', 'ada', 'person-ada', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'task.submit', '{"task_type":"review","title":"Review it"}', '{"answer":{"status":"pending","task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a","title":"Review it"},"status":"ok"}', '17bb56268ed6191fcede81128df8c9a64590df928450c500ab41cb0b169d6a7a', 'e519d050511e3eed14b88f54e3e1b86d99e14df80b5b3a8f5d9a66626db79505');
INSERT INTO audit_lines VALUES (60, '2026-11-27T01:23:57.492Z', 'ada', 'person-ada', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'task.reprioritize', '{"priority":9,"task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a"}', '{"answer":{"priority":9,"task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a"},"status":"ok"}', 'e519d050511e3eed14b88f54e3e1b86d99e14df80b5b3a8f5d9a66626db79505', '8557f89def2def3313d6674fc421d8b00c4bc88383b92fed3295cec8fe98557a');
INSERT INTO audit_lines VALUES (61, '2026-11-27T01:23:57.439Z', 'corral', NULL, '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'task.submitted', '{}', '{"status":"ok"}', '8557f89def2def3313d6674fc421d8b00c4bc88383b92fed3295cec8fe98557a', '043690b0cb7986185efdf81826587bdb49919fea83d5bdd16d7eaf4bcbe6dfd5');
INSERT INTO audit_lines VALUES (62, '2026-11-27T01:23:57.470Z', 'corral', NULL, '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'task.reprioritized', '{"from":5,"to":9}', '{"status":"ok"}', '043690b0cb7986185efdf81826587bdb49919fea83d5bdd16d7eaf4bcbe6dfd5', 'b68a7b3567ffdf6cd58d6a7fc6e49ee1c8ca9fe6643043f5396ef7ae7a479c93');
INSERT INTO audit_lines VALUES (63, '2026-11-27T01:23:57.536Z', 'ada', 'person-ada', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'state.write', '{"key":"schema","task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a","value":{"tables":3}}', '{"answer":{"key":"schema","updated_at":"2026-11-27T01:23:57.511Z","version":1},"status":"ok"}', 'b68a7b3567ffdf6cd58d6a7fc6e49ee1c8ca9fe6643043f5396ef7ae7a479c93', '5ea780047f3a76ebb656d90def6aee7bc95fee4a42a50672dfe3ccb01c2c07e2');
INSERT INTO audit_lines VALUES (64, '2026-11-27T01:23:57.547Z', 'ada', 'person-ada', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'state.write', '{"key":"schema","task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a","value":{"tables":3}}', '{"answer":{"key":"schema","updated_at":"2026-11-27T01:23:57.540Z","version":2},"status":"ok"}', '5ea780047f3a76ebb656d90def6aee7bc95fee4a42a50672dfe3ccb01c2c07e2', 'fc97a2278ffc7eb5b7b6b1c590a21ac63cd18c65ffe8cf6b2da7d7adbc0610f8');
INSERT INTO audit_lines VALUES (65, '2026-11-27T01:23:57.596Z', 'ada', 'person-ada', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'state.remove', '{"if_version":2,"key":"schema","task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a"}', '{"answer":{"deleted":true,"key":"schema"},"status":"ok"}', 'fc97a2278ffc7eb5b7b6b1c590a21ac63cd18c65ffe8cf6b2da7d7adbc0610f8', 'c9a0c18ce53e152dc89bd9c895ea0e5c9dcd5444fc7a07de209305f9d557da3f');
INSERT INTO audit_lines VALUES (66, '2026-11-27T01:23:57.622Z', 'GreenLake', 's-1', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'task.claim', '{"session_id":"s-1","task_types":["review"]}', '{"answer":{"attempts":1,"description":"Review it","fencing_token":1,"lease_expires_at":"2026-11-27T05:23:57.599Z","priority":9,"success":true,"task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a","task_type":"review","title":"Review it"},"status":"ok"}', 'c9a0c18ce53e152dc89bd9c895ea0e5c9dcd5444fc7a07de209305f9d557da3f', '1825c53cda3c07e9e8f0b3f50ec87ea29a98be3a912a69c0cedbd7111de8dd6b');
INSERT INTO audit_lines VALUES (67, '2026-11-27T01:23:57.644Z', 'GreenLake', 's-1', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'task.complete', '{"result":{"findings":0},"session_id":"s-1","success":true,"task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a"}', '{"answer":{"status":"completed","success":true,"task_id":"83c2cf0a-16cc-4938-9bf7-0ad3030a176a"},"status":"ok"}', '1825c53cda3c07e9e8f0b3f50ec87ea29a98be3a912a69c0cedbd7111de8dd6b', 'd7c21db6ae15d47ab8cf9db7ac335cd1fe832135565bef047339f4cb52bb97ed');
INSERT INTO audit_lines VALUES (68, '2026-11-27T01:23:57.655Z', 'ada', 'person-ada', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.submit', '{"command":"echo no; exit 3","title":"Add a greeting"}', '{"answer":{"status":"pending","task_id":"5b1341ac-04f6-45e8-9601-6cae7153ed24","title":"Add a greeting"},"status":"ok"}', 'd7c21db6ae15d47ab8cf9db7ac335cd1fe832135565bef047339f4cb52bb97ed', 'd2ad5cc5cb49eab2dad6f16aacc38eb6da14b677a688a528f22e6ce139add742');
INSERT INTO audit_lines VALUES (69, '2026-11-27T01:23:57.599Z', 'GreenLake', 's-1', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'task.claimed', '{"attempt":1,"expires_at":"2026-11-27T05:23:57.599Z","token":1}', '{"status":"ok"}', 'd2ad5cc5cb49eab2dad6f16aacc38eb6da14b677a688a528f22e6ce139add742', '766a436a64c523d4f1797d1e4f7b6f28db98842b55661e1c6afca28e56808379');
INSERT INTO audit_lines VALUES (70, '2026-11-27T01:23:57.626Z', 'GreenLake', 's-1', '83c2cf0a-16cc-4938-9bf7-0ad3030a176a', 'task.completed', '{"attempt":1,"head_sha":null}', '{"status":"ok"}', '766a436a64c523d4f1797d1e4f7b6f28db98842b55661e1c6afca28e56808379', '5e7d7288f212dd019937b1a38f038daeef5a72f1053d784c8eaec84a94383d53');
INSERT INTO audit_lines VALUES (71, '2026-11-27T01:23:57.647Z', 'corral', NULL, '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.submitted', '{}', '{"status":"ok"}', '5e7d7288f212dd019937b1a38f038daeef5a72f1053d784c8eaec84a94383d53', '8128a3ff5949240b3bf5ea1f4a466f4dcea11df96a01213f7100d50a8e46d0fa');
INSERT INTO audit_lines VALUES (72, '2026-11-27T01:23:57.657Z', 'PurpleRobin', '23cf52aa-943d-4d5b-9134-7006c1709d6b', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.claimed', '{"agent_name":"PurpleRobin","attempt":1,"expires_at":"2026-11-27T05:23:57.657Z","token":1}', '{"status":"ok"}', '8128a3ff5949240b3bf5ea1f4a466f4dcea11df96a01213f7100d50a8e46d0fa', 'bd7eb65f7ce918b726e6961d8ff4307d00992968771e4ef5e7f2f273fb85284e');
INSERT INTO audit_lines VALUES (73, '2026-11-27T01:23:57.818Z', 'PurpleRobin', '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, 'session.started', '{"agent_name":"PurpleRobin"}', '{"status":"ok"}', 'bd7eb65f7ce918b726e6961d8ff4307d00992968771e4ef5e7f2f273fb85284e', '5b73773a67aff19d2d73fe85091d0e85a71dd58dd9bfab40dda1f1d27c797f9e');
INSERT INTO audit_lines VALUES (74, '2026-11-27T01:23:57.818Z', 'PurpleRobin', '23cf52aa-943d-4d5b-9134-7006c1709d6b', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.assigned', '{"agent":null,"model":null,"runner":"command"}', '{"status":"ok"}', '5b73773a67aff19d2d73fe85091d0e85a71dd58dd9bfab40dda1f1d27c797f9e', 'e02754f9c98438b916848eff853d30d3b2389cfd80344dc822c06f6917d06f66');
INSERT INTO audit_lines VALUES (75, '2026-11-27T01:23:57.855Z', 'PurpleRobin', '23cf52aa-943d-4d5b-9134-7006c1709d6b', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.started', '{"pid":3130}', '{"status":"ok"}', 'e02754f9c98438b916848eff853d30d3b2389cfd80344dc822c06f6917d06f66', '5acb95509aa4652ba210a77c6c3a4202e90dbebf35448775fa9860d2c2567759');
INSERT INTO audit_lines VALUES (76, '2026-11-27T01:23:57.898Z', 'PurpleRobin', '23cf52aa-943d-4d5b-9134-7006c1709d6b', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.dead', '{"attempt":1,"delay_s":0.0,"error_code":"command_failed","error_message":"The command exited with 3: no"}', '{"status":"failed"}', '5acb95509aa4652ba210a77c6c3a4202e90dbebf35448775fa9860d2c2567759', '83728f41ddbd24b55432f331fb9747e4b0e88b4a02b289fa5c5587110b0dfca6');
INSERT INTO audit_lines VALUES (77, '2026-11-27T01:23:57.898Z', 'PurpleRobin', '23cf52aa-943d-4d5b-9134-7006c1709d6b', NULL, 'session.ended', '{"reason":"dead","released":[]}', '{"status":"ok"}', '83728f41ddbd24b55432f331fb9747e4b0e88b4a02b289fa5c5587110b0dfca6', 'ea49b7eb481db5c59d605b097b480482d595435d2f31d742c34444f5ba2bc3fe');
INSERT INTO audit_lines VALUES (78, '2026-11-27T01:23:58.130Z', 'ada', 'person-ada', NULL, 'task.retry', '{"all":false,"task_ids":["5b1341ac-04f6-45e8-9601-6cae7153ed24"]}', '{"answer":{"task_ids":["5b1341ac-04f6-45e8-9601-6cae7153ed24"]},"status":"ok"}', 'ea49b7eb481db5c59d605b097b480482d595435d2f31d742c34444f5ba2bc3fe', 'c804ded8199d2eb0646a3873dc7b8513754bd14b6ec4b46b376a4a3765fda002');
INSERT INTO audit_lines VALUES (79, '2026-11-27T01:23:58.089Z', 'corral', NULL, '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.retry_requested', '{"was":"dead"}', '{"status":"ok"}', 'c804ded8199d2eb0646a3873dc7b8513754bd14b6ec4b46b376a4a3765fda002', '9f422bb4b73bd462b9ddf808f616d208fe7fc9513cb7bdf1fbff91a08e4fa6a0');
INSERT INTO audit_lines VALUES (80, '2026-11-27T01:23:58.089Z', 'corral', NULL, '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.unblocked', '{}', '{"status":"ok"}', '9f422bb4b73bd462b9ddf808f616d208fe7fc9513cb7bdf1fbff91a08e4fa6a0', '07d522caec638a30e6bced70020068821762901f9d7c6e5b2a9aa83e4c26d48d');
INSERT INTO audit_lines VALUES (81, '2026-11-27T01:23:58.126Z', 'CopperFjord', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.claimed', '{"agent_name":"CopperFjord","attempt":1,"expires_at":"2026-11-27T05:23:58.126Z","token":2}', '{"status":"ok"}', '07d522caec638a30e6bced70020068821762901f9d7c6e5b2a9aa83e4c26d48d', '21549bb97ef313fb5a5d088cce78dd617f1e684fac4839fa2b6d60e75c4b115e');
INSERT INTO audit_lines VALUES (82, '2026-11-27T01:23:58.230Z', 'CopperFjord', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, 'session.started', '{"agent_name":"CopperFjord"}', '{"status":"ok"}', '21549bb97ef313fb5a5d088cce78dd617f1e684fac4839fa2b6d60e75c4b115e', 'a9944ffe76b03bd1732ea09cf0cfc0794f93ce087408729adf0af99b1de5ddb7');
INSERT INTO audit_lines VALUES (83, '2026-11-27T01:23:58.230Z', 'CopperFjord', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.assigned', '{"agent":null,"model":null,"runner":"command"}', '{"status":"ok"}', 'a9944ffe76b03bd1732ea09cf0cfc0794f93ce087408729adf0af99b1de5ddb7', '6ca483b010b8615dbc98b9c92543a31109aa4c3402cc7aa9b8929b2ac9c37200');
INSERT INTO audit_lines VALUES (84, '2026-11-27T01:23:58.254Z', 'CopperFjord', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.started', '{"pid":3161}', '{"status":"ok"}', '6ca483b010b8615dbc98b9c92543a31109aa4c3402cc7aa9b8929b2ac9c37200', '923477fa933f3700433bc208b074fa6326ba0f77c622aaaa4b2061b47a2f88cb');
INSERT INTO audit_lines VALUES (85, '2026-11-27T01:23:58.278Z', 'CopperFjord', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.dead', '{"attempt":1,"delay_s":0.0,"error_code":"command_failed","error_message":"The command exited with 3: no"}', '{"status":"failed"}', '923477fa933f3700433bc208b074fa6326ba0f77c622aaaa4b2061b47a2f88cb', 'f89f7402ff6c4acbdfd214b2351af25561c72e1fadfce261c3e38b108d463e02');
INSERT INTO audit_lines VALUES (86, '2026-11-27T01:23:58.278Z', 'CopperFjord', '15aaa266-73cc-4c48-91b3-3de2eb8e8f97', NULL, 'session.ended', '{"reason":"dead","released":[]}', '{"status":"ok"}', 'f89f7402ff6c4acbdfd214b2351af25561c72e1fadfce261c3e38b108d463e02', '0d05e71002254638b5c3a93dd4c7f28395cd7bbed61f089bc89b30fb86ef3b64');
INSERT INTO audit_lines VALUES (87, '2026-11-27T01:23:58.370Z', 'ada', 'person-ada', NULL, 'task.clear', '{"all":true,"task_ids":[]}', '{"answer":{"task_ids":["5b1341ac-04f6-45e8-9601-6cae7153ed24"]},"status":"ok"}', '0d05e71002254638b5c3a93dd4c7f28395cd7bbed61f089bc89b30fb86ef3b64', 'e69885aef5588577c1503ca729e94d82e1dd201310ea0f0572a67f2f708b29bd');
INSERT INTO audit_lines VALUES (88, '2026-11-27T01:23:58.383Z', 'ada', 'person-ada', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'task.submit', '{"command":"echo x > looped.txt","loop":{"until":[{"command":"echo 3 failed, 12 passed","kind":"tests"}]},"title":"Repeat"}', '{"answer":{"status":"pending","task_id":"14d48994-f72d-4315-a0b1-fbfc3bfcf154","title":"Repeat"},"status":"ok"}', 'e69885aef5588577c1503ca729e94d82e1dd201310ea0f0572a67f2f708b29bd', 'aa9c2bdb47e3978318f90c811fcf08dbf636a0975b7c33523732d1e8e6f6c542');
INSERT INTO audit_lines VALUES (89, '2026-11-27T01:23:58.354Z', 'corral', NULL, '5b1341ac-04f6-45e8-9601-6cae7153ed24', 'task.dismissed', '{}', '{"status":"ok"}', 'aa9c2bdb47e3978318f90c811fcf08dbf636a0975b7c33523732d1e8e6f6c542', 'cbd5cbf5a2b2ccb84c058d1f96426a36b9b767c61a09080b8bbf4b04fd510e91');
INSERT INTO audit_lines VALUES (90, '2026-11-27T01:23:58.374Z', 'corral', NULL, '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'task.submitted', '{}', '{"status":"ok"}', 'cbd5cbf5a2b2ccb84c058d1f96426a36b9b767c61a09080b8bbf4b04fd510e91', '799cbfcefede64cb909a3c64bd5f2022b1ce8b3807ca4f8aff9daabf92d9dd7a');
INSERT INTO audit_lines VALUES (91, '2026-11-27T01:23:58.383Z', 'FondGlacier', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'task.claimed', '{"agent_name":"FondGlacier","attempt":1,"expires_at":"2026-11-27T05:23:58.383Z","token":1}', '{"status":"ok"}', '799cbfcefede64cb909a3c64bd5f2022b1ce8b3807ca4f8aff9daabf92d9dd7a', 'aa1f3594821d20f1ec9517b966c49081131fe7ddd0f3416e040556cc1cee85e4');
INSERT INTO audit_lines VALUES (92, '2026-11-27T01:23:58.563Z', 'FondGlacier', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, 'session.started', '{"agent_name":"FondGlacier"}', '{"status":"ok"}', 'aa1f3594821d20f1ec9517b966c49081131fe7ddd0f3416e040556cc1cee85e4', '245e2ae5be70552398f0aa0358b790932727fc52af1fd87943cec83e18d2b146');
INSERT INTO audit_lines VALUES (93, '2026-11-27T01:23:58.563Z', 'FondGlacier', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'task.assigned', '{"agent":null,"model":null,"runner":"command"}', '{"status":"ok"}', '245e2ae5be70552398f0aa0358b790932727fc52af1fd87943cec83e18d2b146', '88d70aa6badba4f8a32bfa7bcbeae0f514d064f952356a68b28b42fac5da5baa');
INSERT INTO audit_lines VALUES (94, '2026-11-27T01:23:58.596Z', 'FondGlacier', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'task.started', '{"pid":3179}', '{"status":"ok"}', '88d70aa6badba4f8a32bfa7bcbeae0f514d064f952356a68b28b42fac5da5baa', '3045e40b96e4068ffe4991fa0d279a08af840c442e660dbc036ef645bbb5f1a8');
INSERT INTO audit_lines VALUES (95, '2026-11-27T01:23:59.010Z', 'FondGlacier', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'task.completed', '{"attempt":1,"head_sha":"273a6b65ac1de2a3afe55397285a12451c6fc004"}', '{"status":"ok"}', '3045e40b96e4068ffe4991fa0d279a08af840c442e660dbc036ef645bbb5f1a8', '5829a90eba12fb5531e21817440dde43f6d2e1cdb9a85ebeba0e67e949bf48fb');
INSERT INTO audit_lines VALUES (96, '2026-11-27T01:23:59.010Z', 'FondGlacier', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'merge.queued', '{"merge_id":"71d86641-ea52-4df1-9ceb-894a328c7bb1"}', '{"status":"ok"}', '5829a90eba12fb5531e21817440dde43f6d2e1cdb9a85ebeba0e67e949bf48fb', '4cdd9ba42ae78d4a552af73c85419531b8d3d765f78849314e8e1fe8fa5148f4');
INSERT INTO audit_lines VALUES (97, '2026-11-27T01:23:59.010Z', 'FondGlacier', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', NULL, 'session.ended', '{"reason":"completed","released":[]}', '{"status":"ok"}', '4cdd9ba42ae78d4a552af73c85419531b8d3d765f78849314e8e1fe8fa5148f4', '36649642843b2e3cbf815fd2922e80d092643021478bd56d63e577a0b41539f7');
INSERT INTO audit_lines VALUES (98, '2026-11-27T01:23:59.488Z', 'FondGlacier', 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'merge.landed', '{"landed_sha":"273a6b65ac1de2a3afe55397285a12451c6fc004","merge_id":"71d86641-ea52-4df1-9ceb-894a328c7bb1","reason":null}', '{"status":"ok"}', '36649642843b2e3cbf815fd2922e80d092643021478bd56d63e577a0b41539f7', 'c7f9bceb17a6ec8409c639bb2adf1187009b4dd9085481c49e938f3cec03f192');
INSERT INTO audit_lines VALUES (99, '2026-11-27T01:23:59.934Z', 'ada', 'person-ada', '070c0ad2-9664-41f9-863a-a8c59df8576f', 'task.submit', '{"task_type":"review","title":"Review it"}', '{"answer":{"status":"pending","task_id":"070c0ad2-9664-41f9-863a-a8c59df8576f","title":"Review it"},"status":"ok"}', 'c7f9bceb17a6ec8409c639bb2adf1187009b4dd9085481c49e938f3cec03f192', 'cffe80dde58e8fe868a0072c032820774e91f3d305233473af47e0bb12f9da49');
INSERT INTO audit_lines VALUES (100, '2026-11-27T01:23:59.962Z', 'ada', 'person-ada', '070c0ad2-9664-41f9-863a-a8c59df8576f', 'task.cancel', '{"convention":false,"reason":"It is not needed any more.","task_id":"070c0ad2-9664-41f9-863a-a8c59df8576f"}', '{"answer":{"status":"cancelled","task_id":"070c0ad2-9664-41f9-863a-a8c59df8576f"},"status":"ok"}', 'cffe80dde58e8fe868a0072c032820774e91f3d305233473af47e0bb12f9da49', '61097f290e26d8613220d9f42019c863c42ee92c06e18692cec3ab5cf6cd4c90');
INSERT INTO audit_lines VALUES (101, '2026-11-27T01:23:59.930Z', 'corral', NULL, '070c0ad2-9664-41f9-863a-a8c59df8576f', 'task.submitted', '{}', '{"status":"ok"}', '61097f290e26d8613220d9f42019c863c42ee92c06e18692cec3ab5cf6cd4c90', 'aa13fc550fe046dabd0987cb447295b7accd2772fdd25ca52c03c1f48e0f70e2');
INSERT INTO audit_lines VALUES (102, '2026-11-27T01:23:59.943Z', 'corral', NULL, '070c0ad2-9664-41f9-863a-a8c59df8576f', 'task.cancelled', '{"error_code":null,"reason":"It is not needed any more."}', '{"status":"ok"}', 'aa13fc550fe046dabd0987cb447295b7accd2772fdd25ca52c03c1f48e0f70e2', 'f644d14da4e8a8fd273b1f19fb9590afe07a87762adc8993bbd307cf83c97f3f');
INSERT INTO audit_lines VALUES (103, '2026-11-27T01:24:00.118Z', 'GreenLake', 's-1', NULL, 'worktree.create', '{"name":"login","session_id":"s-1"}', '{"answer":{"base_sha":"273a6b65ac1de2a3afe55397285a12451c6fc004","branch":"corral/login","created_at":"2026-11-27T01:23:59.996Z","name":"login","path":"/home/ada/api/repo.worktrees/login","port_base":20000,"purpose":"session","session_id":"s-1","state":"ready","worktree_id":"59deea15-ab72-44b5-a609-665a819180ce"},"status":"ok"}', 'f644d14da4e8a8fd273b1f19fb9590afe07a87762adc8993bbd307cf83c97f3f', '9149842fc315474f96d96c0ce1f638414d52fa2bb8b46e517f56875706477dc8');
INSERT INTO audit_lines VALUES (104, '2026-11-27T01:24:00.415Z', 'ada', 'person-ada', NULL, 'worktree.remove', '{"name":"login"}', '{"answer":{"base_sha":"273a6b65ac1de2a3afe55397285a12451c6fc004","branch":"corral/login","created_at":"2026-11-27T01:23:59.996Z","name":"login","path":"/home/ada/api/repo.worktrees/login","port_base":20000,"purpose":"session","removed":true,"salvage_ref":"refs/corral/salvage/login/20261127T012400207738Z","session_id":"s-1","state":"removed","worktree_id":"59deea15-ab72-44b5-a609-665a819180ce"},"status":"ok"}', '9149842fc315474f96d96c0ce1f638414d52fa2bb8b46e517f56875706477dc8', '317687793b0619522903521c2a891e7025b96b6d67dda4ed9d34aa665f02ab96');
INSERT INTO audit_lines VALUES (105, '2026-11-27T01:24:00.315Z', 'GreenLake', 's-1', NULL, 'worktree.salvaged', '{"files":["new.txt"],"reason":"worktree login was removed","ref":"refs/corral/salvage/login/20261127T012400207738Z","worktree":"login"}', '{"status":"ok"}', '317687793b0619522903521c2a891e7025b96b6d67dda4ed9d34aa665f02ab96', 'cd62909c24f92e2e9756a2657fe6a31aef5287ef7c6f99b57800ac9e0088a5aa');
INSERT INTO audit_lines VALUES (106, '2026-11-27T01:24:00.559Z', 'ada', 'person-ada', NULL, 'worktree.recover', '{"name":"login"}', '{"answer":{"base_sha":"8cbfea90356612fd84b8867ea5f0fa61b570a7ab","branch":"corral/login-recovered","created_at":"2026-11-27T01:24:00.483Z","name":"login-recovered","path":"/home/ada/api/repo.worktrees/login-recovered","port_base":20000,"purpose":"person","ref":"refs/corral/salvage/login/20261127T012400207738Z","state":"ready","worktree_id":"62b8d6b6-1c43-4cc9-be15-23b957375e44"},"status":"ok"}', 'cd62909c24f92e2e9756a2657fe6a31aef5287ef7c6f99b57800ac9e0088a5aa', '827b9d4c4a1797298b6361653edec75e6217d6308016c6889c2002d88b27b916');
INSERT INTO audit_lines VALUES (107, '2026-11-27T01:24:00.578Z', 'GreenLake', 's-1', NULL, 'session.end', '{"caller":"s-1","session_id":"s-1"}', '{"answer":{"ended":true,"session_id":"s-1","success":true},"status":"ok"}', '827b9d4c4a1797298b6361653edec75e6217d6308016c6889c2002d88b27b916', '68d5385bb0409bf6c13499e24719d4c9b919b1d869c9d190b6ca8c1a36593b2d');
INSERT INTO audit_lines VALUES (108, '2026-11-27T01:24:00.599Z', 'ada', 'person-ada', NULL, 'daemon.stop', '{"drain":false}', '{"answer":{"pid":2537,"stopping":true},"status":"ok"}', '68d5385bb0409bf6c13499e24719d4c9b919b1d869c9d190b6ca8c1a36593b2d', '485a53b48f30e4bf1e6b8bb2314bb1f9959207eef2cef5646150c3c2ec72f7ea');
INSERT INTO audit_chain VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', NULL, 108, '485a53b48f30e4bf1e6b8bb2314bb1f9959207eef2cef5646150c3c2ec72f7ea');
INSERT INTO loops VALUES ('14d48994-f72d-4315-a0b1-fbfc3bfcf154', 'Repeat', '{"until": [{"command": "echo 3 failed, 12 passed", "kind": "tests"}], "any": false, "land": true, "land_best": false}', 'main', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', 0, '2026-11-27T01:23:58.374Z');
INSERT INTO loop_iterations VALUES ('14d48994-f72d-4315-a0b1-fbfc3bfcf154', 1, 1, 'b0c868e8-72c0-41ba-9347-cfe670b501ef', '814a6f90ef9cbf0389d5b43e054cfdff285ccf78', '273a6b65ac1de2a3afe55397285a12451c6fc004', 'converged', 1, '{"evaluations": [{"kind": "tests", "verdict": "converged", "value": {"failed": 3, "passed": 12}, "evidence": "3 failed, 12 passed", "score": 0.0, "usage": {}}], "actions": [], "result": {"exit_code": 0, "output": ""}, "usage": {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "turns": 0}, "conversation": null, "feedback": ""}', 0.357, '2026-11-27T01:23:58.596Z', '2026-11-27T01:23:58.932Z');
INSERT INTO agent_versions VALUES ('implementer', '8ad7de4153cfb88b4ed29e40355a92d6b5671cf7b6950c79c53542a76ee70927', 1, '1.0.0', '---
name: implementer
description: Use to carry out one well-described task in a worktree of its own, while others work on the same repository. Several may be started in one response.
tools: Read, Write, Edit, NotebookEdit, Bash, Skill, mcp__plugin_corral_corral
isolation: worktree
capabilities: [implementation]
---

You carry out exactly one task, in your own isolated worktree. Follow the skill `/task-execution` (`corral:task-execution`)
from its first step to its last.

Your worktree is the folder you were started in. Everything you change is below it; every other checkout of the repository
belongs to somebody else, even if you can reach it. If an edit is denied, the text of the denial says who holds the file and
what you may do: follow it, and do not write the file with Bash instead.

Your last message is your report. It must be complete by itself: the change and its reason, the commit, the commands you ran with
their results, and open points.
', NULL, NULL, NULL, '2026-11-27T01:23:52.813Z');
INSERT INTO task_feedback VALUES ('0379fde8-ef92-4f17-963e-12160b5b00b6', 4, 'Good tests.', '2026-11-27T01:23:57.162Z');
INSERT INTO agent_choices VALUES ('efe462aa-679b-4330-b241-b2faf6be27fd', 'implementer', '8ad7de4153cfb88b4ed29e40355a92d6b5671cf7b6950c79c53542a76ee70927', NULL, NULL, 'stopped', NULL, '2026-11-27T01:23:52.842Z', '2026-11-27T01:23:52.927Z', NULL);
INSERT INTO totals VALUES ('tokens', 'command', '', 0.0);
INSERT INTO totals VALUES ('cost_usd', 'command', '', 0.0);
INSERT INTO totals VALUES ('tasks_finished', 'command', 'completed', 2.0);
INSERT INTO totals VALUES ('tokens', 'session', '', 0.0);
INSERT INTO totals VALUES ('cost_usd', 'session', '', 0.0);
INSERT INTO totals VALUES ('tasks_finished', 'session', 'completed', 1.0);
INSERT INTO totals VALUES ('tasks_finished', 'command', 'failed', 2.0);
INSERT INTO totals VALUES ('task_failures', 'command_failed', '', 2.0);
INSERT INTO totals VALUES ('tasks_finished', 'session', 'cancelled', 1.0);
INSERT INTO messages_fts(messages_fts) VALUES ('rebuild');
