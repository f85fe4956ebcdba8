"""What a tool does can be done over HTTP and on the command line: this table says by what, and that nothing was forgotten."""

from __future__ import annotations

from corral.daemon import nouns
from corral.faces.cli.help import pages
from corral.faces.http.openapi import document
from corral.faces.http.router import operations
from corral.faces.mcp.profiles import TOOLS

SURFACES = {
    "acquire_lock": ("POST /locks/acquire", "lock acquire"),
    "release_lock": ("POST /locks/release", "lock release"),
    "check_locks": ("POST /locks/check", "lock check"),
    "get_work": ("POST /tasks/claim", "task claim"),
    "complete_work": ("POST /tasks/{task_id}/complete", "task complete"),
    "submit_work": ("POST /tasks", "task submit"),
    "get_task": ("GET /tasks/{task_id}", "task detail"),
    "cancel_task_convention": ("POST /tasks/{task_id}/cancel", "task cancel"),
    "write_handoff": ("POST /handoffs", "handoff write"),
    "read_handoff": ("GET /handoffs", "handoff list"),
    "discover_agents": ("GET /sessions", "session list"),
    "register_session": ("POST /sessions", "session register"),
    "heartbeat": ("POST /sessions/{session_id}/heartbeat", "session heartbeat"),
    "cleanup_dead_agents": ("POST /sessions/cleanup", "session cleanup"),
    "remember": ("POST /memory", "memory add"),
    "recall": ("GET /memory", "memory search"),
    "register_feature": ("POST /features", "feature register"),
    "deregister_feature": ("POST /features/deregister", "feature deregister"),
    "get_feature": ("GET /features/{feature_id}", "feature show"),
    "list_active_features": ("GET /features", "feature list"),
    "analyze_feature_conflicts": ("POST /features/analyze", "feature analyze"),
    "request_merge": ("POST /merges", "merge submit"),
    "merge_status": ("GET /merges/{merge_id}", "merge detail"),
    "list_flakes": ("GET /merges/flakes", "merge flakes"),
    "revert_merge": ("POST /merges/{merge_id}/revert", "merge revert"),
    "get_state": ("GET /tasks/{task_id}/state", "state get"),
    "list_state": ("GET /tasks/{task_id}/state", "state list"),
    "set_state": ("POST /tasks/{task_id}/state", "state set"),
    "delete_state": ("POST /tasks/{task_id}/state/delete", "state delete"),
    "health_check": ("GET /health", "daemon status"),
    "ensure_project": ("GET /project", "status"),
    "register_agent": ("POST /sessions/{session_id}/names", "session name"),
    "create_agent_identity": ("POST /sessions/{session_id}/names", "session name"),
    "whois": ("GET /sessions/{session_id}", "session show"),
    "file_reservation_paths": ("POST /locks/acquire", "lock acquire"),
    "release_file_reservations": ("POST /locks/release", "lock release"),
    "renew_file_reservations": ("POST /locks/renew", "lock renew"),
    "force_release_file_reservation": ("POST /locks/force-release", "lock force-release"),
    "check_file_reservation_conflicts": ("POST /locks/check", "lock check"),
    "send_message": ("POST /messages", "message send"),
    "reply_message": ("POST /messages/{message_id}/reply", "message reply"),
    "fetch_inbox": ("GET /messages", "message inbox"),
    "acknowledge_message": ("POST /messages/{message_id}/acknowledge", "message ack"),
    "mark_message_read": ("POST /messages/{message_id}/read", "message read"),
    "search_messages": ("GET /messages/search", "message search"),
    "list_contacts": ("GET /contacts", "message contacts"),
}
TOOLS_ALONE = {
    "help",
    *("request_contact", "respond_contact", "set_contact_policy", "macro_contact_handshake"),
    *("macro_start_session", "macro_prepare_thread", "macro_file_reservation_cycle"),
}
"""Commands and ``/openapi.json`` explain themselves; in a repository there is nobody to ask for a contact; several steps in
one call spare a model what a program writes in a row. Agent Mail's clients call these."""


def test_every_tool_has_its_operation_and_its_command() -> None:
    described = document(operations(nouns.every()))["paths"]
    known = {f"{verb.upper()} {path.removeprefix('/api/v1')}" for path, verbs in described.items() for verb in verbs}
    assert set(SURFACES) == set(TOOLS) - TOOLS_ALONE
    for tool, (operation, command) in SURFACES.items():
        assert operation in known, tool
        assert command in pages(), tool
