"""Tasks: the order, dependencies, retries, cancelling, claims, what the lists show, the log."""

from __future__ import annotations

from tests.mutations.table import rows

FOLLOWED = "integration/test_task_detail.py::test_a_waiting_task_is_followed_through_its_retry_until_it_has_landed"
OF_TEMPLATES = "unit/config/templates/test_task_template.py"
TEMPLATES = (
    "integration/test_queue_surface.py::test_a_template_that_does_not_exist_is_refused_and_those_that_do_are_named"
)
UNKNOWN = f"{OF_TEMPLATES}::test_values_that_are_unknown_missing_or_of_another_type_are_all_named"
OVER = f"{OF_TEMPLATES}::test_a_submission_gets_what_the_template_says_and_its_own_fields_count_before"
LINES = f"{OF_TEMPLATES}::test_every_error_is_reported_with_its_line"
FAILING = "unit/work/test_performance.py::test_a_kind_that_keeps_failing_is_told_of_once_until_it_succeeds"
LINEAR = "unit/work/roadmap/test_planning.py::test_four_times_as_many_tasks_are_four_times_the_work"
RETRY = "unit/work/tasks/test_retry.py"
TASKS = "unit/work/tasks/test_tasks.py"
DEPENDENCIES = "unit/work/tasks/test_dependencies.py"
SORTED = (
    "integration/test_cli_contract.py::test_the_list_sorts_by_priority_then_age_and_filters_the_same_in_every_format"
)
LIMITS = "integration/test_limits.py::test_each_limit_that_is_configured_is_enforced"
SCHEDULING = "unit/work/tasks/test_scheduling.py"
ATTEMPTS = "unit/work/tasks/test_attempts.py"
STARVATION = "unit/work/tasks/test_starvation.py"
LEASES = "unit/work/tasks/test_leases.py"
LOGGED = "integration/test_event_log.py::test_what_happened_is_in_the_log"

MUTATIONS = (
    *rows(
        "daemon/corral/store/tasks/lists.py",
        ("a list by state holds every task", "    if statuses:\n", "    if False:\n", SORTED, "FR-QUEUE-002"),
        ("a list by priority holds every task", "    if min_priority:\n", "    if False:\n", SORTED, "FR-QUEUE-002"),
        ("tasks are listed by age alone", '"priority": (tasks.c.priority.desc(), tasks.c.seq),', '"priority": (tasks.c.seq,),',
         SORTED, "FR-QUEUE-002"),
        ("of one priority the newest is listed first", '"priority": (tasks.c.priority.desc(), tasks.c.seq),',
         '"priority": (tasks.c.priority.desc(), tasks.c.seq.desc()),', SORTED, "FR-QUEUE-002"),
    ),
    *rows(
        "daemon/corral/server/http/following.py",
        ("a task that is followed shows its end before the last of its output", 'if event["kind"] not in _STARTING and (part', 'if False and (part', FOLLOWED, "FR-QUEUE-004"),
        ("a task that is followed is over with its first attempt", 'settled=row["status"] in TERMINAL_TASKS and', 'settled=row["status"] != "running" and', FOLLOWED, "FR-QUEUE-004"),
        ("a follower gets every event again", "after_id=place.event_id)", "after_id=0)", FOLLOWED, "FR-QUEUE-004"),
    ),
    *rows(
        "daemon/corral/work/performance.py",
        ("a kind that keeps failing is told of at each failure", "KEEPS_FAILING + 1) != KEEPS_FAILING:", "KEEPS_FAILING + 1) < KEEPS_FAILING:", FAILING, "SUP-NFR4"),
        ("attempts that a person ended lower the success rate", "completed / (completed + failed), 4)", "completed / len(rows), 4)", "unit/work/test_performance.py::test_a_kind_is_judged_by_what_it_completed_and_failed", "SUP-NFR4"),
    ),
    *rows(
        "daemon/corral/store/tasks/swarm.py",
        ("a success does not end a row of failures", "if outcome != AttemptOutcome.FAILED:", "if False:", FAILING, "SUP-NFR4"),
    ),
    *rows(
        "daemon/corral/app/view/needs_of_work.py",
        ("every limit that holds tasks back needs a person", "if hold.limit in OF_A_DAY:", "if True:", "integration/test_swarm_status.py::test_memory_that_holds_tasks_back_is_told_to_those_who_ask_and_needs_no_person", "FR-SWARM-008"),
        ("a model that is parked for a moment needs a person", "elif isinstance(hold, Parked) and hold.until - now >= LONG_PARK:", "elif isinstance(hold, Parked):", "unit/app/view/test_needs_you.py::test_only_limits_that_last_are_a_persons_business", "FR-SWARM-008"),
    ),
    *rows(
        "daemon/corral/config/templates/expansion.py",
        ("a template is looked for in any folder", "if isinstance(name, str) and FILE_NAME.fullmatch(name):", "if isinstance(name, str):", TEMPLATES, "FR-QUEUE-001"),
        ("a parameter that a template does not have is taken", "        if name not in template.parameters\n", "        if False\n", UNKNOWN, "FR-QUEUE-001"),
        ("a parameter may be missing", "if name not in named and parameter.required:", "if False:", UNKNOWN, "FR-QUEUE-001"),
    ),
    *rows(
        "daemon/corral/config/templates/work_fields.py",
        ("a value is not quoted for the shell", "write = substitution.as_word if field in COMMANDS else substitution.as_text", "write = substitution.as_text", OVER, "FR-QUEUE-001"),
    ),
    *rows(
        "daemon/corral/config/templates/task_template.py",
        ("a placeholder may stand within quotes", "if parameter is not None and not parameter.is_plain:", "if False:", LINES, "FR-TMPL-004"),
    ),
    *rows(
        "daemon/corral/work/tasks/views.py",
        ("the detail has no history", '"history": [{', '"history": [] and [{',
         f"{TASKS}::test_the_detail_has_every_field_of_the_contract_and_reading_changes_nothing", "FR-QUEUE-004"),
        ("an unknown state lists everything", "if status not in TaskStatus.values():", "if False:",
         f"{TASKS}::test_filters_of_the_list", "FR-QUEUE-002"),
    ),
    *rows(
        "daemon/corral/work/tasks/retry.py",
        ("a task has one retry more", "if attempts > max_retries:", "if attempts > max_retries + 1:",
         f"{RETRY}::test_three_retries_then_dead", "FR-QUEUE-009 FR-QUEUE-010"),
        ("a final error is tried again", "if not retryable:", "if False:",
         f"{RETRY}::test_what_no_retry_can_mend_fails_at_once", "FR-QUEUE-009"),
        ("the pause does not double", "initial_s * 2 ** min(attempts - 1, 64)", "initial_s",
         f"{RETRY}::test_the_pause_starts_at_ten_seconds_doubles_and_ends_at_five_minutes", "FR-QUEUE-009"),
    ),
    *rows(
        "daemon/corral/work/tasks/scheduling.py",
        ("ageing lifts nobody", 'int(row["priority"]) + int(waited_s // ageing_s)', 'int(row["priority"])',
         f"{SCHEDULING}::test_with_ageing_nobody_waits_for_ever", "FR-QUEUE-006"),
        ("what overlaps in part starts at once", "in_part.append(candidate)", "yield candidate",
         f"{SCHEDULING}::test_what_overlaps_in_part_starts_only_when_nothing_else_could", "FEATURE-2"),
        ("a stream of small tasks starves a large one", "if reservation.waits_for is not None and reservation.waits_for not in kin and is_too_much:", "if False:",
         f"{STARVATION}::test_an_urgent_task_is_not_passed_over_for_ever_by_a_stream_of_tasks_that_claim_less", "FR-QUEUE-006 FEATURE-2"),
        ("small tasks that overlap in part starve a large one together", "2 * len(contended) > reservation.size", "False",
         f"{STARVATION}::test_an_urgent_task_is_not_passed_over_for_ever_by_a_stream_of_tasks_that_claim_less", "FR-QUEUE-006 FEATURE-2"),
        ("what overlaps in part is passed over for ever", "        if beside.feasibility is Feasibility.PARTIAL:\n", "        if False:\n",
         f"{STARVATION}::test_an_urgent_task_is_not_passed_over_for_ever_by_a_stream_of_tasks_that_claim_less", "FR-QUEUE-006 FEATURE-2"),
        ("a claim has no event", "            events.record(conn, now, EventKind.TASK_CLAIMED", "            (lambda *_, **__: None)(conn, now, EventKind.TASK_CLAIMED",
         LOGGED, "FR-MONITOR-001"),
    ),
    *rows(
        "daemon/corral/models/dependencies/outlook.py",
        ("a dependent starts while its parent's merge is open", "return Outlook.OPEN if merge_state in OPEN_MERGES",
         "return Outlook.MET if merge_state in OPEN_MERGES",
         f"{DEPENDENCIES}::test_a_dependent_waits_until_what_its_parent_changed_has_landed", "FR-QUEUE-008"),
        ("nothing to merge is waited for", "if merge_state in (None, MergeState.LANDED)", "if merge_state in (MergeState.LANDED,)",
         f"{DEPENDENCIES}::test_nothing_to_merge_counts_as_landed", "FR-QUEUE-008"),
    ),
    *rows(
        "daemon/corral/models/dependencies/cycles.py",
        ("a circle is not seen", "return [*names[names.index(node) :], node]", "return None",
         f"{DEPENDENCIES}::test_a_circle_is_refused_and_shown", "FR-QUEUE-008"),
    ),
    *rows(
        "daemon/corral/work/tasks/dependencies.py",
        ("the failure of a parent that may fail counts", "worth is Outlook.LOST and not ignore_failure", "worth is Outlook.LOST",
         f"{DEPENDENCIES}::test_ignoring_a_dependencys_failure", "FR-QUEUE-008"),
    ),
    *rows(
        "daemon/corral/landing/requests.py",
        ("dependents stay failed while a merge is tried again", "        on_reopened(conn, row, now)\n", "",
         "integration/test_what_to_type.py::test_what_failed_with_a_merge_waits_again_as_soon_as_that_is_tried_again", "FR-QUEUE-008"),
    ),
    *rows(
        "daemon/corral/work/tasks/tasks.py",
        ("a retried task shows its former attempt", '"result", "current_attempt",', '"result",',
         f"{ATTEMPTS}::test_a_task_that_is_retried_shows_nothing_of_its_former_attempt", "FR-QUEUE-010"),
        ("a retry keeps the attempts", '"attempts": 0, "faults": 0', '"attempts": row["attempts"], "faults": 0',
         f"{TASKS}::test_a_retry_gives_all_attempts_back_and_forgets_the_error", "FR-QUEUE-010"),
        ("the key of a submission is not looked up", "if item.idempotency_key else None", "if False else None",
         "integration/test_tasks_end_to_end.py::test_the_same_key_again_is_the_same_task", "D13"),
        ("a cancellation is not said to the worker's task", '{"cancel_reason": reason}', '{"cancel_reason": None}',
         f"{TASKS}::test_cancelling_what_runs_asks_once_and_counts_whatever_the_worker_says", "FR-QUEUE-003"),
        ("what was cancelled by convention cannot be again", "if convention and row[\"error_code\"] ==", "if False and row[\"error_code\"] ==",
         f"{LEASES}::test_the_convention_ends_a_task_as_failed_with_code_and_reason", "CANCEL-1 CANCEL-2"),
        ("a queue takes any number of tasks", "    if queued + number > max_size:", "    if False:", LIMITS, "FR-CONFIG-006"),
    ),
    *rows(
        "daemon/corral/cli/commands/tasks.py",
        ("the command does not say which priority is wanted", '"min_priority": priority, **only}', '"min_priority": 0, **only}', SORTED, "FR-QUEUE-002"),
        ("the table does not show priorities", '        ("PRIO", "priority", 4),\n', "", SORTED, "FR-QUEUE-002 FR-CLI-004"),
    ),
    *rows(
        "daemon/corral/store/tasks/attempts.py",
        ("an attempt that ended takes news", "query = query.where(attempts.c.ended_at.is_(None))", "pass",
         f"{ATTEMPTS}::test_an_attempt_that_ended_takes_no_more_news", "D12"),
    ),
    *rows(
        "daemon/corral/work/tasks/attempts.py",
        ("a fault is taken for a failure", "AttemptOutcome.FAULTED if ending.is_fault else AttemptOutcome.FAILED",
         "AttemptOutcome.FAILED",
         f"{ATTEMPTS}::test_every_end_of_an_attempt_is_kept_with_its_number_and_its_reason", "FR-QUEUE-004"),
        ("an attempt that lost its lease goes on writing", "(TaskStatus.RUNNING,), values, token=token, attempt=attempt)",
         "(TaskStatus.RUNNING,), values, attempt=attempt)",
         "faults/test_clients.py::test_an_attempt_that_lost_its_lease_is_refused_whatever_it_wants_and_told_who_has_it", "D12"),
        ("an accepted cancellation yields to success", 'if before["cancel_reason"] is not None:\n        convention',
         'if before["cancel_reason"] is not None and not ending.success:\n        convention',
         f"{TASKS}::test_cancelling_what_runs_asks_once_and_counts_whatever_the_worker_says", "FR-QUEUE-003"),
        ("an interruption costs an attempt", '{"status": TaskStatus.INTERRUPTED, "attempts": max(0, number - 1), **why}',
         '{"status": TaskStatus.INTERRUPTED, **why}',
         (f"{TASKS}::test_an_interruption_is_no_attempt_and_no_pause",), "FR-QUEUE-005"),
        ("a convention's end has no code", 'told = {**(result or {}), "error_code": CANCELLED_BY_ORCHESTRATOR', 'told = {**(result or {}), "error_code": None',
         f"{LEASES}::test_the_convention_ends_a_task_as_failed_with_code_and_reason", "CANCEL-1"),
    ),
    *rows(
        "daemon/corral/models/events.py",
        ("a retry is not in the log", "TaskStatus.PENDING: EventKind.TASK_RETRIED", "TaskStatus.PENDING: EventKind.TASK_REQUEUED",
         LOGGED, "FR-MONITOR-001"),
    ),
    *rows(
        "daemon/corral/work/tasks/leases.py",
        ("anybody completes a task", 'row["runner"] is None and row["session_id"] in holders', 'row["runner"] is None',
         "unit/work/tasks/test_leases.py::test_only_the_holder_completes_and_only_once", "D12"),
    ),
    *rows(
        "daemon/corral/models/blame.py",
        ("a killed worker is its task's fault", '"killed": Blame.MACHINE', '"killed": Blame.TASK',
         "integration/test_supervisor_flow.py::test_a_worker_killed_from_outside_keeps_its_retries", "FR-QUEUE-010"),
    ),
    *rows(
        "daemon/corral/models/tasks.py",
        ("several agents wait for what no worker executes", "if self.agents is not None and self.runner is None:", "if False:",
         "integration/test_queue_surface.py::test_several_agents_cannot_do_a_task_that_sessions_claim", "FR-SWARM-003"),
        ("a priority of 11 is taken", "priority: int = Field(default=5, ge=0, le=10, strict=True)", "priority: int = Field(default=5, ge=0, le=11, strict=True)",
         f"{TASKS}::test_a_priority_out_of_range_is_refused", "FR-QUEUE-006"),
        ("what is wrong is dropped without a word", "    if errors:\n        refuse(", "    if False:\n        refuse(",
         f"{TASKS}::test_what_is_wrong_is_named_by_its_field_and_nothing_is_queued", "FR-QUEUE-001"),
        ("of a batch what is right is queued", "    if errors:\n        refuse(", "    if errors and len(items) == 1:\n        refuse(",
         f"{TASKS}::test_every_error_of_a_batch_is_reported_at_once", "FR-QUEUE-007"),
    ),
    *rows(
        "daemon/corral/models/awake.py",
        ("a jump of the clock counts whole", "min(max(now - self._seen, timedelta(0)), MOST_A_LOOK)", "max(now - self._seen, timedelta(0))",
         "unit/models/test_awake.py::test_a_jump_counts_for_no_more_than_a_look", "D11"),
    ),
    *rows(
        "daemon/corral/observe/event_lines.py",
        ("a line of the log does not say what it is about", '**ids, **data}', '**data}', LOGGED, "FR-MONITOR-001"),
        ("a line of the log does not say what happened", '"message": sentence(event, names)', '"message": ""', LOGGED, "FR-MONITOR-001"),
        ("a failure is no error in the log", 'EventKind.TASK_DEAD: logging.ERROR', 'EventKind.TASK_DEAD: logging.INFO',
         LOGGED, "FR-MONITOR-001"),
        ("every line of the log is of one component", "    return COMPONENTS.get(noun, noun)", '    return "corral"', LOGGED, "FR-MONITOR-001"),
    ),
    *rows(
        "daemon/corral/server/upkeep/event_log.py",
        ("no event is written to the log", "if writer.isEnabledFor(level):", "if False:", LOGGED, "FR-MONITOR-001"),
        ("the daemon stops with lines to write", "for _page in range(pages):", "for _page in range(0):",
         "integration/test_event_log.py::test_no_event_is_missing_after_the_daemon_was_killed_or_stopped", "FR-MONITOR-001"),
    ),
    *rows(
        "daemon/corral/observe/logs.py",
        ("the log's level is not heeded", "    _CORRAL.setLevel(level)", "    _CORRAL.setLevel(10)",
         "integration/test_event_log.py::test_the_level_decides_and_no_secret_is_written", "FR-MONITOR-001"),
        ("logs are kept for ever", "if old.name < f", "if old.name < '' and f",
         "integration/test_event_log.py::test_the_daemon_begins_a_file_a_day_and_keeps_thirty", "FR-MONITOR-001"),
        ("lost lines are not told", "if self._lost else [line]", "if False else [line]",
         "unit/observe/test_logs.py::TestFaults::test_lost_lines_are_counted_and_told", "NFR-REL-002"),
        ("secrets stand in the log", "return REDACTED if is_secret_name(name) else redact(value)", "return value",
         "unit/observe/test_logs.py::TestSecrets::test_no_secret_is_found_in_the_file", "NFR-SEC-002"),
    ),
    *rows(
        "daemon/corral/work/roadmap/planning.py",
        ("the roadmap's dependencies are not heeded", "task.status == PENDING and task.task_id in unblocked]", "task.status == PENDING]",
         "unit/work/roadmap/test_planning.py::test_the_next_task_is_pending_unblocked_most_urgent_and_first", "SUP-FR1 SUP-AC1"),
        ("the roadmap's order alone counts", "key=lambda task: -task.priority", "key=lambda task: 0",
         "unit/work/roadmap/test_planning.py::test_the_plan_is_that_of_a_simple_model", "SUP-FR1"),
        ("each task of a roadmap is looked for in all others", "task.task_id in unblocked]", "task.task_id in list(unblocked)]", LINEAR, "SUP-NFR2"),
        ("the tasks of a roadmap are gone through for each of them", "    unblocked = with_done_dependencies(known)", "    unblocked = [with_done_dependencies(known) for _ in known][0]", LINEAR, "SUP-NFR2"),
    ),
    *rows(
        "daemon/corral/work/roadmap/document.py",
        ("the quotes of a status are lost", "StatusPlace(start, end, quote or", "StatusPlace(start, end, '' or",
         "unit/work/roadmap/test_document.py::test_nothing_but_the_statuses_changes", "SUP-AC5"),
    ),
    *rows(
        "daemon/corral/work/roadmap/supervision.py",
        ("a part of the roadmap counts as all of it", "if not (at_rest or self._is_at_rest(now)):", "if False:",
         "unit/work/roadmap/test_supervision.py::test_a_part_of_the_file_withdraws_nothing_and_is_not_written_over", "SUP-FR1"),
        ("a roadmap executes what nobody approved", "if roadmap.claims[task.task_id].key in unapproved:", "if False:",
         "integration/test_roadmap_edits.py::test_what_the_roadmap_executes_is_approved_by_a_start_and_later_changes_by_trust", "SUP-FR1"),
    ),
    *rows(
        "daemon/corral/work/roadmap/sync.py",
        ("a changed task of the roadmap runs as it was", "return None if is_same_work(row, work) else", "return None if True else",
         "integration/test_roadmap_edits.py::test_a_change_between_two_attempts_counts_and_one_of_a_task_that_runs_is_named", "SUP-FR1"),
        ("the roadmap is not told that its task is done", "        return DONE if merge in (None, MergeState.LANDED) else BLOCKED", "        return IN_PROGRESS",
         "integration/test_roadmap.py::test_a_roadmap_is_worked_off_in_the_order_of_its_dependencies", "SUP-AC5"),
        ("a blocked task of the roadmap never runs again", "    return told(row) in (BLOCKED, DONE) and status_of(row) == told(row)", "    return False",
         "integration/test_roadmap.py::test_a_task_that_failed_is_blocked_and_runs_again_when_it_is_pending_again", "SUP-FR1"),
    ),
)  # fmt: skip
