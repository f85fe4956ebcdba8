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
INSERT INTO event_cursors VALUES ('announcements', 0);
