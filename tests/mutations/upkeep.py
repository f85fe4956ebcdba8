"""Deleting what is old, the figures, the terminal screen, the guard, diffs and conversations that are resumed."""
# fmt: off

from __future__ import annotations

from tests.mutations.table import rows

RETENTION = "integration/test_retention.py::test_"
FULL = "faults/test_retention_faults.py"
GC = "integration/test_gc.py"
JUMP = RETENTION + "a_clock_that_jumps_deletes_nothing_for_an_hour_and_one_set_back_delays_no_round"
GUARD = "integration/test_guard.py::test_a_commit_takes_along_no_file_that_another_session_holds_in_the_same_checkout"
GUARD_OF_ONE = "integration/test_guard.py::test_a_hook_of_the_checkout_alone_is_changed_only_by_who_was_told_so"
DIFFS = "integration/test_diffs.py::test_a_change_is_shown_while_it_is_made_as_it_would_land_and_as_it_landed"
LOST = "integration/test_diffs.py::test_of_a_conflict_a_failed_task_and_a_lost_commit_what_there_is_is_shown"
ATTACH = "integration/test_attach.py::test_a_conversation_is_resumed_in_its_place_but_not_beside_its_worker"
SCREEN = "integration/test_interactive.py::test_"
NEEDS = "integration/test_needs_you.py"
VIEW = "integration/test_view.py::test_"
COUNTERS = "integration/test_metrics.py::test_counters_outlast_a_retry_and_a_restart_and_count_each_end_once"
FEED = SCREEN + "every_panel_is_live_filtered_and_sorted_and_a_lost_daemon_is_found_again"
CLOCK = "unit/observe/alerts/test_lifecycle.py::test_alerts_from_before_the_clock_was_set_back_hold_nothing_back"

MUTATIONS = (
    *rows(
        "daemon/corral/server/upkeep/retention.py",
        ("a clock that jumps deletes at once", "now - self._stepped > JUMP:", "False:", JUMP, ""),
        ("a clock that was set back stops deleting", "if not timedelta(0) < self._due - now <= EVERY:", "if now >= self._due:", JUMP, ""),
        ("a log that stays keeps the others", "            failure = error\n            continue", "            raise", RETENTION + "a_log_that_cannot_be_deleted_keeps_no_other", ""),
        ("what cannot be deleted is tried again at once", "done.more |= is_more and removed > 0", "done.more |= is_more", FULL, "NFR-COMP-003"),
        ("saved work goes though nothing else has it", "if not forgetting.is_held_elsewhere(self.git, ref, trees):", "if False:",
         RETENTION + "saved_work_goes_only_where_a_branch_holds_all_of_it", ""),
        ("any commit under a loop's name goes", "if ref.sha in commits.get(one, ())", "if one in commits",
         RETENTION + "the_refs_of_a_loop_go_once_it_landed_or_its_task_is_gone_and_its_history_stays", "FR-LOOP-005"),
    ),
    *rows(
        "daemon/corral/observe/retention.py",
        ("a person's copy of the database goes", "if stat.S_ISREG(status.st_mode) and _REVISION", "if True or _REVISION",
         RETENTION + "logs_go_by_age_then_by_size_but_not_those_of_open_work_or_through_links", ""),
    ),
    *rows(
        "daemon/corral/store/audit.py",
        ("removed lines are not noticed", "    if ends(conn) is not None:\n", "    if True:\n", "unit/app/audit/test_trail.py", "FR-MONITOR-004"),
    ),
    *rows(
        "daemon/corral/client/gate.py",
        ("a daemon that was killed is waited for", "            self._next_summons = time.monotonic() + AGAIN_S\n", "",
         "integration/mcp/test_connection.py::test_a_daemon_that_is_killed_soon_after_its_start_is_started_again_at_once", ""),
    ),
    *rows(
        "daemon/corral/work/workers/execution.py",
        ("a worker without a worktree failed by itself", "    if code in BY_ITSELF:\n", "    if False:\n",
         "faults/test_bad_runners.py::test_each_has_a_clear_end_and_nothing_of_it_stays", "D14"),
    ),
    *rows(
        "daemon/corral/store/retention.py",
        ("unread mail goes by age", "open_recipient = select(theirs.seq).where(theirs.seq == its.seq, ~done)", "open_recipient = select(theirs.seq).where(theirs.seq < 0, ~done)",
         RETENTION + "mail_goes_when_everybody_has_it_and_never_unread_by_age_alone", ""),
        ("the last attempt of a task goes", "tasks.c.fencing_token > its.number,", "",
         RETENTION + "old_attempts_go_but_the_newest_of_a_task_and_those_of_open_dead_landing_or_waited_for_ones", ""),
    ),
    *rows(
        "daemon/corral/server/upkeep/collection.py",
        ("a dry run deletes", "            if dry_run:\n", "            if False:\n", GC, "NFR-COMP-003"),
    ),
    *rows(
        "daemon/corral/store/tasks/tasks.py",
        ("a task's end is not counted", "        if status not in from_states:", "        if False:", COUNTERS, "FR-MONITOR-003"),
    ),
    *rows(
        "daemon/corral/store/tasks/attempts.py",
        ("an attempt's use is not counted", 'if changed is not None and values.get("ended_at") is not None:', "if False:",
         "unit/work/tasks/test_totals.py", "FR-MONITOR-003"),
    ),
    *rows(
        "daemon/corral/store/totals.py",
        ("each total is its newest part", ".values(number=_own.number + bindparam", ".values(number=bindparam", COUNTERS, "FR-MONITOR-003"),
    ),
    *rows(
        "daemon/corral/observe/alerts/lifecycle.py",
        ("alerts of the future use up the hour", "if timedelta(0) <= now - parse(one", "if now - parse(one", CLOCK, "FR-MONITOR-005"),
        ("alerts of the future hold back", "and 0 <= (now", "and (now", CLOCK, "FR-MONITOR-005"),
    ),
    *rows(
        "daemon/corral/cli/guard/commits.py",
        ("the guard only warns", 'if answer["held"] and answer["enforcement"] == "enforce":', "if False:", GUARD, "FR-CLI-003"),
        ("the guard looks at the whole index", "index_file=index).names", "index_file=None).names", GUARD, "FR-CLI-003"),
        ("the guard starts a daemon", "autostart=False", "autostart=True", GUARD, "FR-CLI-003"),
        ("a tracked hook is changed without a word", "if is_tracked else", "if False else", GUARD_OF_ONE, "FR-CLI-003"),
    ),
    *rows(
        "daemon/corral/app/view/diffs.py",
        ("a running task shows only its commits", "if place[\"state\"] == WorktreeState.READY and services.worktrees.is_own(place[\"name\"]):", "if False:", DIFFS, "FR-CLI-003"),
        ("saved work is not shown", "if place[\"salvage_ref\"] is not None and", "if False and", LOST, ""),
    ),
    *rows(
        "daemon/corral/cli/interactive/feed.py",
        ("the screen gives up when the daemon goes", "                    self._over.wait(AGAIN_S)", "                    return", FEED, ""),
        ("a list ends with its first page", "if self._over.is_set() or (most is not None and len(found) >= most):", "if True:", SCREEN + "more_tasks_than_a_page_has_are_all_there", ""),
    ),
    *rows(
        "daemon/corral/cli/interactive/acting.py",
        ("the screen ends work unasked", "elif not action.ends_work or await self._agreed(action, subject):", "elif True:", SCREEN + "more_tasks_than_a_page_has_are_all_there", ""),
    ),
    *rows(
        "daemon/corral/app/view/needs_you.py",
        ("a held landing needs nobody", "    landing.held_merges,\n", "", NEEDS, ""),
        ("a checkout that is stuck needs nobody", "    landing.stuck_checkouts,\n", "", NEEDS, ""),
        ("a session that asks needs nobody", "    sessions.waiting_sessions,\n", "", VIEW + "a_session_that_asks_its_person_is_named_with_its_work_its_file_and_since_when", "FR-MONITOR-002"),
        ("what failed needs nobody", "    landing.failures,\n", "", SCREEN + "three_things_that_need_a_person_are_seen_at_once_and_settled_with_a_key_each", "FR-CLI-008"),
        ("a red target needs nobody", "    landing.red_targets,\n", "", "integration/test_what_to_type.py::test_a_red_target_leads_to_the_ignored_file_that_its_verification_lacks", ""),
    ),
    *rows(
        "daemon/corral/app/view/composing.py",
        ("an ended session has no name", "    titles |= sessions.names_of(conn, [row[\"session_id\"] for row in rows if row[\"session_id\"]])\n", "",
         VIEW + "the_view_begins_with_what_needs_a_person_and_says_of_which_moment_it_is", "FR-MONITOR-002"),
    ),
    *rows(
        "daemon/corral/server/upkeep/evidence.py",
        ("what an agent wrote goes into the evidence as it is", "return redact(content.decode(\"utf-8\", \"surrogateescape\")).encode(\"utf-8\", \"surrogateescape\")", "return content",
         "integration/test_planted_wide.py", "FR-CONFIG-004"),
    ),
    *rows(
        "daemon/corral/cli/project/claude_settings.py",
        ("a status line of somebody else goes", 'if "statusLine" in found:', "if False:", "integration/test_status_line.py::test_a_status_line_of_ones_own_stays", ""),
    ),
    *rows(
        "daemon/corral/work/worktrees/reopening.py",
        ("a conversation is resumed beside its worker", '    if task["status"] == TaskStatus.RUNNING:', "    if False:", ATTACH, "FR-CLI-003"),
    ),
    *rows(
        "daemon/corral/cli/work/attach.py",
        ("a new conversation is begun", 'argv = [found["command"], "--resume", found["session_id"]]', 'argv = [found["command"], found["session_id"]]', ATTACH, "FR-CLI-003"),
    ),
)
