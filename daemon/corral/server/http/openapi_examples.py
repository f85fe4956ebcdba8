"""Examples of each operation's request and answer: ``METHOD /path`` below ``/api/v1`` → body (None: it has none), answer.

Real answers, shortened; a test plays them against a daemon, so that an example has the fields which the answer has.
"""

from __future__ import annotations

from typing import Any

_AT, _LATER = "2026-11-21T22:10:00.000Z", "2026-11-21T23:10:00.000Z"
_ID, _OTHER = "2618ec66-8460-4ab7-a7d5-be211917ca79", "385cedd3-40e4-4cb3-a4e3-e94de43717f5"
_SHA, _TREE = "97bc574f091bbff740d9acf629369800bd065d9c", "3fa08107863d1f0841586ef87ff056000a9f28bf"
_DONE = {"success": True}

_SESSION = {
    "session_id": "s-1", "agent_id": "GreenLake", "agent_name": "GreenLake", "agent_type": "claude", "status": "active",
    "current_task": "Fix the login", "task_id": None, "worktree": None, "branch": None, "capabilities": ["python"],
    "waiting_for": None, "unguarded": False, "parent_session_id": None, "started_at": _AT, "last_heartbeat": _AT,
    "ended_at": None, "end_reason": None,
}  # fmt: skip
_CALLED = {**_SESSION, "names": ["Boulder"]}
_REGISTERED = {"program": "opencode-coder", "model": "claude-sonnet-4-5", "task_description": "Fix the login"}
_REGISTRATION = {**_REGISTERED, "name": "Boulder", "registered_at": _AT}
_LOCK = {
    "lock_id": _ID, "file_path": "src/a.py", "locked_by": "GreenLake", "session_id": "s-1", "task_id": None,
    "exclusive": True, "automatic": False, "checkout": None, "reason": "Fix the login", "acquired_at": _AT,
    "expires_at": _LATER,
}  # fmt: skip
_CONFLICT = {
    "requested": "src/**", "file_path": "src/a.py", "holder": "GreenLake", "session_id": "s-1", "task": "Fix the login",
    "task_id": None, "reason": None, "exclusive": True, "automatic": False, "waiting": False, "checkout": None,
    "expires_at": _LATER, "expires_in_s": 3600,
}  # fmt: skip
_FORMER = {
    **_LOCK, "last_agent_activity_at": _AT, "last_mail_activity_at": None, "last_filesystem_activity_at": None,
    "last_git_activity_at": None, "stale_reasons": ["its session is disconnected"],
}  # fmt: skip
_FEATURE = {
    "feature_id": "FEAT-123", "title": "Search", "status": "active", "registered_by": "GreenLake",
    "resource_claims": ["src/search/**"], "branch_name": "search", "merge_priority": 5, "metadata": {},
    "registered_at": _AT, "updated_at": _AT, "completed_at": None,
}  # fmt: skip
_HANDOFF = {
    "handoff_id": _ID, "agent_name": "GreenLake", "session_id": "s-1", "automatic": False,
    "summary": "The login works; the password reset is half done.", "completed_work": ["Login"], "in_progress": ["Reset"],
    "decisions": [], "next_steps": ["Mail the token"], "relevant_files": ["src/a.py"], "worktree": None, "branch": None,
    "created_at": _AT,
}  # fmt: skip
_MEMORY = {
    "memory_id": _ID, "agent_name": "GreenLake", "session_id": "s-1", "event_type": "discovery",
    "summary": "The tests need a running database.", "details": None, "outcome": None, "lessons": ["make db"],
    "tags": ["tests"], "times": 1, "relevance": 0.98, "created_at": _AT, "seen_at": _AT,
}  # fmt: skip
_LETTER = {
    "id": 17, "message_id": _ID, "thread_id": "batch-7", "reply_to": None, "kind": "message", "subject": "May I have src/a.py?",
    "body": "I need it for ten minutes.", "importance": "normal", "from": "Boulder", "ack_required": False,
    "attachments": [], "data": {}, "created_at": _AT,
}  # fmt: skip
_RECEIPT = {
    "name": "GreenLake", "session_id": "s-1", "role": "to", "state": "queued", "injected_at": None, "read_at": None,
    "acknowledged_at": None, "bounced_at": None,
}  # fmt: skip
_SENT = {**_DONE, **_LETTER, "recipients": [_RECEIPT], "bounced": [], "replayed": False}
_SENDING = {
    "to": ["GreenLake"],
    "subject": "May I have src/a.py?",
    "body": "I need it for ten minutes.",
    "session_id": "s-2",
}
_PROJECT = {"id": 1, "slug": "repo", "human_key": "/repo", "created_at": _AT}
_BETWEEN = {"from": "Boulder", "to": "GreenLake", "expires_at": _LATER}
_RESERVED = {"locks": [_LOCK], "conflicts": [_CONFLICT]}
_BEGUN = {
    **_DONE, "project": _PROJECT, "session": {**_CALLED, "registered": [_REGISTRATION]},
    "inbox": [{**_LETTER, "to": "Boulder", "role": "to", "state": "queued"}], "inbox_left_out": False,
}  # fmt: skip
_ATTEMPT = {
    "number": 1, "outcome": "completed", "session_id": "s-1", "agent": "builder", "runner": "claude", "model": "sonnet",
    "host": "laptop", "branch": "corral/task-0199", "claimed_at": _AT, "started_at": _AT, "ended_at": _LATER,
    "error_code": None, "error_message": None,
    "usage": {"input_tokens": 1200, "output_tokens": 80, "cost_usd": 0.01, "turns": 2},
}  # fmt: skip
_SUMMARY = {"task_id": _ID, "title": "Add a greeting", "status": "completed", "outcome": "landed", "priority": 5,
            "created_at": _AT}  # fmt: skip
_SUBMISSION = {"title": "Add a greeting", "command": "echo hi > hello.txt", "priority": 5}
_READ = {
    "task_id": _ID, "task_type": "task", "status": "completed", "input_data": None, "result": {"exit_code": 0, "output": ""},
    "error_message": None, "priority": 5, "created_at": _AT, "completed_at": _LATER,
}  # fmt: skip
_STANDING = {"task_id": _ID, "status": "pending"}
_MERGE = {
    "merge_id": _OTHER, "task_id": _ID, "branch": "corral/task-2618ec66-8460-1", "target": "main", "state": "landed",
    "reason": None,
}  # fmt: skip
_PROOF = {
    "status": "passed", "tree": _TREE, "commands": ["pytest -q"], "exit_code": 0, "tests": 128, "duration_s": 41.2,
    "log": f".corral/logs/merges/{_OTHER}/1.log", "reason": None,
}  # fmt: skip
_LANDING = {
    **_MERGE, "title": "Add a greeting", "session_id": None, "priority": 5, "head_sha": _SHA, "base_sha": _SHA,
    "approved_sha": None, "needs_approval": False, "conflicts": None, "landed_sha": _SHA, "tries": 0, "receipt": _PROOF,
    "created_at": _AT, "updated_at": _LATER, "finished_at": _LATER,
}  # fmt: skip
_UNTRUSTED = {"key": "landing.verify", "value": ["pytest -q"], "source": ".corral/config.yaml"}
_LOG = {"text": "128 passed in 41.20s\n", "next_offset": 21, "complete": True}
_WORKTREE = {
    "worktree_id": _ID, "name": "login", "path": "/repo/.corral/worktrees/login", "branch": "corral/login", "base_sha": _SHA,
    "purpose": "person", "state": "ready", "task_id": None, "session_id": "s-1", "port_base": 20000, "note": None,
    "salvage_ref": None, "created_at": _AT, "env": {"PORT": "20000"},
}  # fmt: skip
_SAVED = "refs/corral/salvage/login/20261121T221000000000Z"
_EVENT = {
    "event_id": 14, "at": _AT, "kind": "task.completed", "task_id": _ID, "session_id": "s-1", "merge_id": None, "data": {},
}  # fmt: skip
_AGENT: dict[str, Any] = {
    "name": "builder", "description": "Carries out one task.", "source": "plugin", "file": ".claude/agents/builder.md",
    "runner": "claude", "model": None, "capabilities": [], "command": [], "problem": None,
}  # fmt: skip
_PAYLOAD = {"session_id": "s-1", "cwd": "/repo", "hook_event_name": "PreToolUse", "tool_name": "Edit",
            "tool_input": {"file_path": "/repo/src/a.py"}, "tool_use_id": "toolu_01"}  # fmt: skip
_DENIED = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                                  "permissionDecisionReason": "src/a.py is held by Boulder."}}  # fmt: skip

EXAMPLES: dict[str, tuple[Any, Any]] = {
    "GET /health": (None, {"version": "0.1.0", "protocol": 1, "pid": 4711, "project": "/repo", "started_at": _AT,
                           "stopping": False}),
    "GET /status": (None, {"needs_you": [{"kind": "held_merge", "what": "'Login' waits to land on main: uncommitted changes",
                                          "remedy": "corral merge detail 5ba13a75", "since": _AT,
                                          "ids": {"merge_id": _ID}}],
                           "tasks": {"completed": 2}, "delayed": [], "merges": {"landed": 1},
                           "open": {}, "paused": None,
                           "sessions": [{"agent_name": "GreenLake", "status": "active", "current_task": "Fix the login",
                                         "waiting_for": None, "unguarded": False}],
                           "sessions_left_out": 0,
                           "locks": 3, "recent": [_EVENT], "project": "/repo", "target": "main",
                           "daemon": {"pid": 4711, "version": "0.1.0", "started_at": _AT}, "verified": True,
                           "config_error": None, "config_warnings": []}),
    "GET /project": (None, _PROJECT),
    "GET /config": (None, {"settings": {"landing": {"verify": ["pytest -q"]}},
                           "sources": {"landing.verify": ".corral/config.yaml"}, "warnings": []}),
    "POST /pause": ({"reason": "The release is cut."},
                    {"paused": True, "reason": "The release is cut.", "since_at": _AT}),
    "POST /resume": (None, {"paused": False, "was_paused": True}),
    "POST /daemon/stop": ({"drain": False}, {"stopping": True, "pid": 4711}),
    "GET /database": (None, {"integrity": "ok", "schema": "0005", "library": {"version": "3.51.3", "wal_fault": False}}),
    "GET /events": (None, f'id: 14\nevent: task.completed\ndata: {{"event_id": 14, "task_id": "{_ID}"}}\n\n'),
    "GET /teams": (None, {"agents": [{"name": "Boulder", "role": "builder", "capabilities": ["python"],
                                      "description": "Writes code.", "model": None, "runner": None,
                                      "instructions": None}], "error": None}),
    "GET /teams/validation": (None, {"valid": False, "errors": [{"field": "agents.0.role", "reason": "It is missing."}]}),
    "GET /agents": (None, [_AGENT]),
    "GET /agents/{name}": (None, _AGENT),
    "GET /sessions": (None, [_CALLED]),
    "POST /sessions": ({"session_id": "s-1", "agent_name": "GreenLake", "capabilities": ["python"],
                        "current_task": "Fix the login"}, {**_DONE, **_SESSION}),
    "GET /sessions/{session_id}": (None, {**_CALLED, "registered": [_REGISTRATION],
                                          "changesets": {"commits": [{"sha": _SHA, "subject": "Login", "branch": "login"}],
                                                         "merges": [_MERGE]}}),
    "POST /sessions/cleanup": ({"stale_threshold_minutes": 15}, {**_DONE, "agents_cleaned": 1, "locks_released": 4}),
    "POST /sessions/{session_id}/names": ({**_REGISTERED, "name": "Boulder"}, {**_DONE, "session_id": "s-1", **_REGISTRATION}),
    "POST /sessions/{session_id}/heartbeat": (None, {**_DONE, "session_id": "s-1"}),
    "POST /sessions/{session_id}/end": ({"caller": "s-1"}, {**_DONE, "session_id": "s-1", "ended": True}),
    "GET /locks": (None, [_LOCK]),
    "POST /locks/acquire": ({"paths": ["src/a.py"], "session_id": "s-1", "reason": "Fix the login", "ttl_s": 3600},
                            {**_DONE, "locks": [_LOCK]}),
    "POST /locks/renew": ({"paths": ["src/a.py"], "extend_s": 1800, "session_id": "s-1"},
                          {**_DONE, "locks": [{**_LOCK, "old_expires_at": _LATER}]}),
    "POST /locks/force-release": ({"paths": ["src/a.py"], "note": "It was given up."}, {**_DONE, "released": [_FORMER]}),
    "POST /locks/check": ({"paths": ["src/**"], "session_id": "s-2"},
                          [{"file_path": "src/**", "locked": True, "conflicts": [_CONFLICT]}]),
    "POST /locks/release": ({"paths": ["src/a.py"], "session_id": "s-1"}, {**_DONE, "released": ["src/a.py"]}),
    "GET /features": (None, [_FEATURE]),
    "POST /features": ({"feature_id": "FEAT-123", "resource_claims": ["src/search/**"], "title": "Search"},
                       {**_DONE, "action": "registered", **_FEATURE}),
    "POST /features/deregister": ({"feature_id": "FEAT-123", "status": "completed"},
                                  {**_DONE, **_FEATURE, "status": "completed", "completed_at": _LATER}),
    "POST /features/analyze": ({"claims": ["src/search/index.py"]},
                               {"candidate_feature_id": None, "feasibility": "SEQUENTIAL", "total_candidate_claims": 1,
                                "total_conflicting_claims": 1,
                                "conflicts": [{"feature_id": "FEAT-123", "feasibility": "SEQUENTIAL",
                                               "claims": [["src/search/index.py", "src/search/**"]],
                                               "overlapping_keys": ["src/search/index.py"]}]}),
    "GET /features/{feature_id}": (None, _FEATURE),
    "GET /handoffs": (None, {"handoffs": [_HANDOFF]}),
    "POST /handoffs": ({"summary": "The login works; the password reset is half done.", "next_steps": ["Mail the token"]},
                       {**_DONE, "handoff_id": _ID}),
    "GET /handoffs/{handoff_id}": (None, _HANDOFF),
    "POST /hooks/{event}": (_PAYLOAD, _DENIED),
    "POST /hooks/Stop/wait": ({"session_id": "s-1", "pid": 4711}, {}),
    "GET /bridge": (None, ""),
    "POST /messages": (_SENDING, _SENT),
    "GET /messages": (None, [{**_LETTER, "to": "GreenLake", "role": "to", "state": "queued"}]),
    "GET /messages/search": (None, [_LETTER]),
    "GET /messages/threads/{thread_id}": (None, [{**_LETTER, "recipients": [_RECEIPT]}]),
    "GET /messages/{message_id}": (None, {**_LETTER, "recipients": [_RECEIPT]}),
    "POST /messages/{message_id}/reply": ({"body": "Yes, it is yours in a minute.", "session_id": "s-1"}, _SENT),
    "POST /messages/{message_id}/read": ({"session_id": "s-1"}, {**_DONE, "id": 17, "state": "read", "read_at": _AT}),
    "POST /messages/{message_id}/acknowledge": ({"session_id": "s-1"},
                                                {**_DONE, "id": 17, "state": "acknowledged", "read_at": _AT,
                                                 "acknowledged_at": _AT}),
    "GET /contacts": (None, [{"to": "GreenLake", "status": "approved", "active": True, "updated_at": _AT}]),
    "POST /contacts/request": ({"session_id": "s-2", "to": "GreenLake"},
                               {**_DONE, **_BETWEEN, "status": "approved"}),
    "POST /contacts/respond": ({"session_id": "s-1", "to": "Boulder"}, {**_DONE, **_BETWEEN, "approved": True}),
    "POST /contacts/policy": ({"session_id": "s-1", "policy": "contacts_only"},
                              {**_DONE, "agent": "GreenLake", "policy": "open"}),
    "POST /macros/start-session": ({**_REGISTERED, "name": "Boulder", "paths": ["src/api/**"], "reason": "Fix the login"},
                                   {**_BEGUN, **_RESERVED}),
    "POST /macros/prepare-thread": ({**_REGISTERED, "name": "Boulder", "thread_id": "batch-7"},
                                    {**_BEGUN, "thread": {"thread_id": "batch-7", "total_messages": 1, "examples": [_LETTER],
                                                          "summary": {"participants": ["GreenLake"], "action_items": [],
                                                                      "key_points": ["May I have src/a.py?"]}}}),
    "POST /macros/reservation-cycle": ({"session_id": "s-1", "paths": ["src/api/**"], "auto_release": True},
                                       {**_DONE, **_RESERVED, "released": ["src/api/**"]}),
    "POST /tasks": (_SUBMISSION, {**_STANDING, "title": "Add a greeting"}),
    "GET /tasks": (None, [_SUMMARY]),
    "POST /tasks/batch": ({"tasks": [{**_SUBMISSION, "name": "greeting"}]}, {"task_ids": [_ID], "queued": 1}),
    "GET /tasks/{task_id}": (None, _READ),
    "GET /tasks/{task_id}/detail": (None, {**_SUMMARY, **_READ, "attempts": 1, "branch": _MERGE["branch"], "wait_for": [],
                                           "attempt_history": [_ATTEMPT], "claims": [], "delay": None, "faults": 0, "crashes": 0,
                                           "merge": {"merge_id": _OTHER, "state": "landed", "reason": None,
                                                                   "landed_sha": _SHA, "receipt": _PROOF},
                                           "history": [{"at": _AT, "kind": "task.submitted", "data": {}}]}),
    "POST /tasks/claim": ({"task_types": ["review"], "session_id": "s-1"},
                          {**_DONE, "task_id": _ID, "task_type": "review", "title": "Review it", "input_data": None,
                           "priority": 5, "thread_id": None, "agent_requirements": None, "lease_expires_at": _LATER,
                           "fencing_token": 1, "attempts": 1, "description": "Review it", "deadline": None}),
    "POST /tasks/{task_id}/complete": ({"success": True, "result": {"findings": 0}, "session_id": "s-1"},
                                       {**_DONE, "status": "completed", "task_id": _ID}),
    "POST /tasks/{task_id}/cancel": ({"reason": "It is not needed any more."}, {**_STANDING, "status": "cancelled"}),
    "POST /tasks/{task_id}/retry": (None, _STANDING),
    "GET /tasks/{task_id}/log": (None, _LOG),
    "POST /tasks/{task_id}/reprioritize": ({"priority": 9}, {"task_id": _ID, "priority": 9}),
    "GET /merges": (None, [_MERGE]),
    "POST /merges": ({"branch": "login", "target": "main", "title": "Login"}, {**_MERGE, "state": "queued"}),
    "GET /merges/{merge_id}": (None, _LANDING),
    "POST /merges/{merge_id}/retry": ({"follow_branch": True}, {**_MERGE, "state": "queued"}),
    "GET /merges/{merge_id}/approval": (None, {
        "merge_id": _OTHER, "head_sha": _SHA, "paths": ["CLAUDE.md"], "truncated": False,
        "diff": "diff --git a/CLAUDE.md b/CLAUDE.md\n@@ -1 +1 @@\n-Run the tests.\n+Run the tests twice.\n"}),
    "POST /merges/{merge_id}/approve": ({"head_sha": _SHA}, {**_MERGE, "state": "queued"}),
    "POST /merges/{merge_id}/cancel": (None, {**_MERGE, "state": "cancelled", "reason": "Cancelled."}),
    "POST /merges/{merge_id}/dismiss": (None, {"merge_id": _OTHER, "task_id": _ID, "outcome": "dismissed"}),
    "GET /merges/{merge_id}/log": (None, _LOG),
    "POST /verification/dry-run": (
        {"timeout_s": 900},
        {
            "status": "passed",
            "reason": "`pytest -q` failed with exit code 2:\nNo module named 'app._version'",
            "log": "/home/me/shop/.corral/logs/verification-dry-run.log",
            "needed": [{"path": "src/app/_version.py", "ignored": True}],
            "suspected": [],
        },
    ),
    "GET /trust": (None, {"untrusted": [_UNTRUSTED]}),
    "POST /trust/reload": (None, {"untrusted": []}),
    "GET /worktrees": (None, [_WORKTREE]),
    "POST /worktrees": ({"name": "login", "session_id": "s-1"}, _WORKTREE),
    "GET /worktrees/at-risk": (None, [{"what": f"task {_ID}", "why": "it is pending"}]),
    "POST /worktrees/retire": (None, {"at_risk": []}),
    "DELETE /worktrees/{name}": (None, {**_WORKTREE, "state": "removed", "salvage_ref": _SAVED, "removed": True}),
    "GET /salvage": (None, [{"name": "login", "ref": _SAVED, "sha": _SHA, "at": _AT, "reason": "worktree login was removed",
                             "files": ["new.txt"]}]),
    "POST /worktrees/{name}/recover": (None, {**_WORKTREE, "name": "login-recovered", "ref": _SAVED}),
    "GET /wait": (None, {"tasks": [{"task_id": _ID, "status": "completed", "merge_state": "landed", "merge_id": _ID}],
                         "merges": [], "settled": True, "done": True, "paused": [], "needs_you": []}),
    "POST /memory": ({"summary": "The tests need a running database.", "lessons": ["make db"], "tags": ["tests"]},
                     {**_DONE, "memory_id": _ID, "action": "created"}),
    "GET /memory": (None, {"memories": [_MEMORY]}),
}  # fmt: skip
