"""Locks, keys, mail, handoffs, features, discovery."""

from __future__ import annotations

from tests.mutations.table import rows

LOCKS = "unit/coordination/locks/test_sessions_and_locks.py"
RESERVATIONS = "integration/mcp/test_reservations.py"
KEYS = "unit/coordination/locks/test_keys.py"
LOGICAL = "unit/coordination/locks/test_keys_logical.py"
OPAQUE = (
    "integration/mcp/test_logical_keys.py::test_a_key_of_every_namespace_is_locked_as_a_file_is_and_covers_nothing_else"
)
NO_DATABASE = (
    "integration/mcp/test_sessions.py::test_a_database_that_cannot_be_opened_is_said_at_once_and_the_session_goes_on"
)
BRIEFED = "integration/mcp/test_handoffs.py::test_what_a_session_leaves_is_in_the_next_ones_briefing"
HANDOFFS = "unit/coordination/sessions/test_handoffs.py"
FEATURES = "integration/mcp/test_features.py"
COMPLETED = (
    "integration/mcp/test_batches.py"
    "::test_the_chief_reads_task_commit_files_and_duration_of_each_piece_in_the_thread_of_its_batch"
)
FOUND = "integration/mcp/test_sessions.py::test_agents_find_each_other_by_what_they_can_do"

MUTATIONS = (
    *rows(
        "daemon/corral/coordination/edits/verdicts.py",
        ("an edit of a held file goes on", 'if blocking and policy.enforcement == "enforce":', "if False:",
         f"{LOCKS}::test_the_first_edit_takes_the_lock_and_the_second_session_is_refused_with_everything_it_must_know", "RESERVE-2"),
    ),
    *rows(
        "daemon/corral/coordination/locks/table.py",
        ("a reserved path is free", "        if told:\n            found[key] = told", "        if False:\n            found[key] = told",
         f"{RESERVATIONS}::test_reservations_in_the_shapes_of_agent_mail", "RESERVE-1 RESERVE-2"),
        ("a logical key that is held is free", "        if told:\n            found[key] = told", "        if told and not key.is_logical:\n            found[key] = told",
         OPAQUE, "LOCKKEY-1"),
        ("who releases one lock releases all", "rows.release(conn, holder.session_id, [one for key in keys for one in spellings(key)]) if keys else []",
         "rows.release_all(conn, [holder.session_id])", f"{RESERVATIONS}::test_logical_keys_and_files_are_locked_side_by_side", "LOCKKEY-4"),
        ("nobody sees why a key is locked", '        "reason": row["reason"],\n        "acquired_at"', '        "reason": None,\n        "acquired_at"',
         f"{RESERVATIONS}::test_logical_keys_and_files_are_locked_side_by_side", "LOCKKEY-2"),
        ("a lock lasts ten times as long", '"expires_at": after(now, ttl_s),', '"expires_at": after(now, 10 * ttl_s),',
         f"{LOCKS}::test_a_lock_holds_until_it_expires_and_is_then_cleaned_up", "RESERVE-3 LOCKKEY-3"),
        ("of several paths those that are free are taken", "free = [] if whole and refused else", "free = [] if False else",
         "unit/coordination/locks/test_waits.py::test_who_waits_is_given_all_of_it_at_once_when_the_last_of_it_is_free", "RESERVE-2"),
    ),
    *rows(
        "daemon/corral/coordination/locks/keys.py",
        ("a namespace in capitals is another key", "logical[1].lower()", "logical[1]",
         f"{LOGICAL}::test_two_spellings_of_a_logical_key_are_one_key_and_its_canonical_one_stays_as_it_is", "LOCKKEY-5"),
        ("a contract cannot be locked", '"env", "contract", "feature")', '"env", "feature")', OPAQUE, "LOCKKEY-1"),
        ("a logical key is a path", "return _PREFIXED.match(match_key) is not None", "return False", OPAQUE, "LOCKKEY-1"),
        ("every namespace is permitted", "if prefixed and not there:", "if False:",
         f"{LOGICAL}::test_other_namespaces_are_not_permitted", "LOCKKEY-6"),
        ("an absolute path is a key", 'if text.startswith("/") or _DRIVE.match(text):', "if False:",
         f"{KEYS}::test_hostile_paths_are_refused_with_a_reason", "X5"),
        ("a link is not followed to the file that is written", "Path(os.path.realpath(place)) for place in", "Path(place) for place in",
         f"{KEYS}::test_the_target_is_where_the_write_goes", "X5"),
    ),
    *rows(
        "daemon/corral/coordination/locks/globs.py",
        ("a pattern may have any number of stars", "(stars, MAX_STARS, ", "(0, MAX_STARS, ",
         "unit/coordination/locks/test_globs.py::test_a_pattern_with_more_than_can_be_compared_in_time_is_refused", "X13"),
    ),
    *rows(
        "daemon/corral/coordination/mail/messages.py",
        ("a blind copy is shown to all", "(RecipientRole.BCC, letter.bcc)", "(RecipientRole.CC, letter.bcc)",
         "integration/test_messages.py::test_a_blind_copy_is_in_no_list_but_its_recipients", ""),
    ),
    *rows(
        "daemon/corral/server/notify/notification_templates.py",
        ("a message about a task has a thread of its own", 'thread = (task["thread_id"] or f"task-', 'thread = (None or f"task-',
         COMPLETED, "MESSAGE-1"),
    ),
    *rows(
        "daemon/corral/server/notify/announcements.py",
        ("a completion goes to nobody", "_about_task(conn, event, task, found), [task[\"submitted_by\"]]", "_about_task(conn, event, task, found), []",
         COMPLETED, "MESSAGE-1"),
        ("a completion does not name the commit that was handed in", 'found.get("head_sha") or result', "result", COMPLETED, "MESSAGE-1"),
        ("a completion does not name the changed files", 'changed = found.get("files") or', "changed =", COMPLETED, "MESSAGE-1"),
        ("a completion does not say how long it took", '"duration_s": _duration(event, task)}', '"duration_s": None}', COMPLETED, "MESSAGE-1"),
        ("a completion is as urgent as a failure", "Importance.HIGH if done is None else Importance.NORMAL", "Importance.HIGH", COMPLETED, "MESSAGE-1"),
        ("a failure does not tell what was tried", '"attempted_actions": tried', '"attempted_actions": []',
         "integration/test_announced_letters.py::test_a_failure_tells_all_that_was_tried_and_all_that_is_left_of_it", "MESSAGE-2"),
        ("whoever worked on a batch is not told of its end", "[*submitted, *present]", "[*submitted]",
         "integration/test_announced_letters.py::test_whoever_worked_on_a_batch_is_sent_its_summary_too", "MESSAGE-3"),
    ),
    *rows(
        "daemon/corral/coordination/sessions/handoffs.py",
        ("a handoff is shown to no name's heir", 'rows.of_name(conn, me["agent_name"], besides=who)', "None",
         f"{HANDOFFS}::test_the_same_name_comes_first", "HANDOFF-5"),
        ("handoffs of one agent are those of all", "rows.listing(conn, agent_name or None, limit)", "rows.listing(conn, None, limit)",
         f"{HANDOFFS}::test_a_handoff_is_kept_whole_and_read_newest_first", "HANDOFF-1 HANDOFF-2"),
        ("a handoff's lists are lost", "said = {name: lines(lists.get(name)) for name in LISTS}", "said = {name: lines(None) for name in LISTS}",
         f"{HANDOFFS}::test_a_handoff_is_kept_whole_and_read_newest_first", "HANDOFF-1"),
    ),
    *rows(
        "daemon/corral/coordination/sessions/registry.py",
        ("a session that ends leaves nothing", "    automatic_handoffs.leave(conn, row, family, locks, now)", "    pass",
         f"{HANDOFFS}::test_a_session_that_ends_leaves_what_is_known_of_it", "HOOK-2"),
        ("what a session held stays held", "locks = lock_rows.release_all(conn, family)", "locks = lock_rows.release_all(conn, [])",
         ("faults/test_disk_and_database.py::test_what_a_session_holds_comes_free_with_its_process_and_not_before",), "D18"),
        ("what a session is at is not shown", '"current_task": row["current_task"],', '"current_task": None,',
         FOUND, "SESSION-1 SESSION-2"),
        ("a name's unread mail does not go with it", "    addresses.succeed(conn, name, before, session_id)", "    pass",
         "integration/mcp/test_shared_connection.py::test_a_name_is_taken_up_again_when_its_session_is_over", ""),
        ("a hook is no sign of life", "return session_rows.beat(conn, arrival.session_id, iso(now)) or", "return session_rows.get(conn, arrival.session_id) or",
         "unit/coordination/sessions/test_cleanup.py::test_who_was_silent_past_the_threshold_is_ended_and_nobody_else", "HEARTBEAT-3"),
    ),
    *rows(
        "daemon/corral/coordination/sessions/liveness.py",
        ("a session that stalls is never ended", "if silent_s > end_after_s or not _has_client(row, seen):", "if not _has_client(row, seen):",
         f"{LOCKS}::test_a_session_without_a_sign_in_its_turn_stalls_whatever_is_connected_and_is_over_after_as_long_again", "HEARTBEAT-2"),
        ("a session is ended before its time", "if silent_s <= stall_after_s or", "if silent_s * 2 <= stall_after_s or",
         "unit/coordination/sessions/test_cleanup.py::test_whoever_asks_and_names_no_threshold_means_fifteen_minutes", "HEARTBEAT-3"),
        ("a session at rest is ended", 'return row["status"] == SessionStatus.IDLE or _family(row) in asking', "return _family(row) in asking",
         f"{LOCKS}::test_at_rest_a_session_with_a_process_that_lives_may_be_silent_for_ever", "HEARTBEAT-3"),
        ("a silent session is never ended", "over[session_id] = SILENT", "pass",
         "unit/coordination/sessions/test_cleanup.py::test_who_was_silent_past_the_threshold_is_ended_and_nobody_else", "HEARTBEAT-2"),
    ),
    *rows(
        "daemon/corral/client/gate.py",
        ("a database that cannot be opened is waited for", "            if self._no_database is not None:\n                raise self._no_database\n", "",
         NO_DATABASE, "HANDOFF-4 HEARTBEAT-4"),
    ),
    *rows(
        "daemon/corral/client/bridge.py",
        ("that there is no database is a success", 'told = {"success": False, "error": wire["name"]', 'told = {"success": True, "error": wire["name"]',
         NO_DATABASE, "HANDOFF-4 HEARTBEAT-4"),
    ),
    *rows(
        "daemon/corral/coordination/sessions/discovery.py",
        ("everybody can do everything", "for row in able(conn, found, of_team) if not capability or _can(row, capability)]", "for row in able(conn, found, of_team)]",
         FOUND, "DISCOVER-1"),
        ("an unknown status finds everybody", "if status is not None and status not in ", "if False and status not in ",
         "integration/mcp/test_sessions.py", "DISCOVER-2"),
        ("what the team says that a member can do is not heard", '[*row["capabilities"], *of_names]', '[*row["capabilities"]]',
         "integration/test_teams.py::test_a_role_is_a_recipient_and_the_teams_capabilities_are_found", "TEAM-1"),
    ),
    *rows(
        "daemon/corral/coordination/features/registry.py",
        ("a feature never ends", "ended = feature_rows.end(conn, feature_id, status, iso(now))", "ended = None",
         f"{FEATURES}::test_a_feature_is_registered_judged_and_deregistered", "FEATURE-3"),
        ("a feature has no claims", "rows.replace_claims(conn, feature.feature_id, claims)", "rows.replace_claims(conn, feature.feature_id, [])",
         f"{FEATURES}::test_a_feature_is_registered_judged_and_deregistered", "FEATURE-1"),
    ),
    *rows(
        "daemon/corral/coordination/features/feasibility.py",
        ("what overlaps wholly goes side by side", "if grave else Feasibility.PARTIAL", "if False else Feasibility.PARTIAL",
         f"{FEATURES}::test_a_feature_is_registered_judged_and_deregistered", "FEATURE-2"),
    ),
    *rows(
        "daemon/corral/server/mcp/acting.py",
        ("anybody speaks for a connected session", 'if row["agent_type"] != session_registry.BY_HTTP:', "if False:",
         "integration/mcp/test_agent_mail.py::test_a_stored_conversation_of_an_agent_mail_client_plays_over_plain_http", "X4"),
    ),
    *rows(
        "daemon/corral/store/sessions/sessions.py",
        ("a sign of life is not recorded", '_TOUCH.first(conn, {"which": session_id, "last_heartbeat": at})',
         '_TOUCH.first(conn, {"which": session_id, "last_heartbeat": "2020-01-01T00:00:00.000Z"})', FOUND, "HEARTBEAT-1"),
    ),
    *rows(
        "daemon/corral/server/mcp/profiles.py",
        ("a session is not shown the tool for its sign of life", '"register_session", "heartbeat", "remember"', '"register_session", "remember"',
         "integration/mcp/test_definitions.py::test_the_core_profile_costs_little", "MCP-1"),
    ),
    *rows(
        "daemon/corral/server/mcp/tools/sessions.py",
        ("that nobody is found is no list", 'return {"agents": agents.rows, **more}', 'return {"agents": agents.rows or None, **more}', FOUND, "DISCOVER-3"),
    ),
    *rows(
        "daemon/corral/server/mcp/tools/handoffs.py",
        ("that nothing was left is no list", 'return {"handoffs": found.rows, **', 'return {"handoffs": found.rows or None, **',
         "integration/mcp/test_handoffs.py::test_agents_leave_and_read_handoffs", "HANDOFF-3"),
    ),
    *rows(
        "daemon/corral/server/hooks/events.py",
        ("a session begins without the last handoff", "handoff=for_newcomer(conn, me))", "handoff=None)", BRIEFED, "HOOK-1 HANDOFF-5"),
        ("the start of a session is not heard", '    "SessionStart": _session_start,\n', "", BRIEFED, "HOOK-1"),
    ),
    *rows(
        "daemon/corral/server/mcp/resources.py",
        ("the locks cannot be read without a tool", '    "locks://current": locks_current,\n', "",
         "integration/mcp/test_definitions.py::test_what_goes_on_can_be_read_without_a_tool", "MCP-2"),
    ),
)  # fmt: skip
