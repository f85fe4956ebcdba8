"""Tasks as agents see them, workers, the team, delegation, hooks."""

from __future__ import annotations

from tests.mutations.table import rows

AT_ONCE = "e2e/test_batches.py::test_all_delegations_of_one_response_run_at_once_each_in_a_worktree_of_its_own"
SISYPHUS = "e2e/test_batches.py::test_sisyphus_registers_as_coordinator_and_is_told_of_every_piece_of_its_batch"
BUILDER = "integration/test_agents.py::test_the_opencode_builder_has_opencode_do_the_task_in_a_worktree_of_its_own"
HANDED_ON = "integration/mcp/test_work.py::test_work_goes_from_hand_to_hand"
LIMITS = "integration/test_limits.py::test_each_limit_that_is_configured_is_enforced"

RECORD = "integration/test_agent_record.py"
IMPROVED = "integration/test_agent_improvements.py"
CHOICES = "integration/test_agent_choices.py"
CHOOSES = f"{CHOICES}::test_going_back_does_not_write_over_a_file_that_somebody_holds_and_no_agent_chooses_a_version"
JUDGING = "unit/work/agents/test_judging.py"
IMPROVING = "unit/work/agents/test_improving.py"
ROLLOUTS = "unit/work/agents/test_rollouts.py"
ROLLBACK = f"{RECORD}::test_going_back_is_a_change_that_git_shows_and_never_loses_text"
FIGURES = f"{RECORD}::test_the_record_tells_versions_and_types_apart_and_counts_feedback"

CAPABLE = "unit/work/tasks/test_agents.py::test_a_task_goes_to_the_kind_of_agent_that_advertises_what_it_requires"

MUTATIONS = (
    *rows(
        "daemon/corral/cli/agents/choices.py",
        ("an agent may pin a version", '    refuse_agents("Choosing', '    ("Choosing', CHOOSES, "X4"),
        ("an agent may roll out a version", '    refuse_agents("Rolling', '    ("Rolling', CHOOSES, "X4"),
        ("an agent may deploy a version", "    if deploy or deploy_if_better:", "    if False:", CHOOSES, "X4"),
    ),
    *rows(
        "daemon/corral/cli/agents/versions.py",
        ("an agent may roll a definition back", '    refuse_agents("Deploying', '    ("Deploying', CHOOSES, "X4"),
    ),
    *rows(
        "daemon/corral/work/tasks/shared_state.py",
        ("a follower shares nothing with its leader", "return [mine, *family.ancestors(conn, mine)][-1]", "return mine", "integration/mcp/test_state.py::test_a_leader_and_its_follower_share_values_without_naming_a_task", "FR-SWARM-007"),
    ),
    *rows(
        "daemon/corral/app/tasks.py",
        ("a follower by MCP has no leader", "if as_follower else {}", "if False else {}", "integration/mcp/test_state.py::test_a_leader_and_its_follower_share_values_without_naming_a_task", "FR-SWARM-006"),
    ),
    *rows(
        "daemon/corral/config/roster.py",
        ("definitions that advertise a capability are not matched", "name not in seen and definition is not None and", "False and", CAPABLE, "SUP-FR5"),
        ("a definition that a member of the team hides is matched", "seen = {member.name.casefold() for member in self._team}", "seen: set[str] = set()", "unit/config/test_agents.py::test_capable_are_members_with_a_runner_then_definitions_that_advertise_it", "SUP-FR5"),
    ),
    *rows(
        "daemon/corral/work/workers/assigning.py",
        ("the limits of a definition hold nobody", "{**post.limits, **task[\"limits\"]}", "task[\"limits\"]", "integration/test_tasks_by_the_api.py::test_what_a_task_requires_finds_its_agent_whose_tools_and_limits_hold", "SUP-FR5"),
        ("the time limit of a definition holds nobody", 'task["timeout_s"] or limits.get("timeout_s")', 'task["timeout_s"]', "integration/test_agents.py::test_a_programs_attempt_has_the_limits_of_its_definition_and_a_tasks_own_win", "SUP-FR5"),
    ),
    *rows(
        "daemon/corral/cli/project/doctor.py",
        ("the doctor does not look for the key", '        if runner["problem"]:', "        if False:", "integration/test_tasks_by_the_api.py::test_the_doctor_looks_for_the_key_where_the_runner_is_used_and_never_prints_it", "FR-CONFIG-004"),
    ),
    *rows(
        "daemon/corral/models/tasks.py",
        ("what is read of a task lacks a field", "{field: row[field] for field in TaskRead.model_fields}", '{field: row[field] for field in TaskRead.model_fields if field != "priority"}',
         "unit/work/tasks/test_leases.py::test_what_is_read_is_exactly_what_the_document_names_and_reading_changes_nothing", "GETTASK-1"),
        ("what a task has yielded is not read", "{field: row[field] for field in TaskRead.model_fields}",
         '{field: row[field] if field != "result" else None for field in TaskRead.model_fields}', HANDED_ON, "GETTASK-1 GETTASK-3"),
    ),
    *rows(
        "daemon/corral/work/tasks/tasks.py",
        ("an unknown task is told as a wrong value", "    if not found:\n        raise NotFound(", "    if not found:\n        raise InvalidInput(", HANDED_ON, "GETTASK-2"),
    ),
    *rows(
        "daemon/corral/work/tasks/leases.py",
        ("work goes to whoever asks, able or not", "return (row for row in offered if who.can_do(row))", "return offered",
         "unit/work/tasks/test_leases.py::test_only_the_types_asked_for_and_only_what_one_is_able_to", ""),
    ),
    *rows(
        "daemon/corral/runners/worker.py",
        ("a worker may use any amount of memory", "load.memory_mb > limits.memory_mb", "False",
         "integration/test_runner_command.py::test_memory_is_counted_over_the_whole_tree", "FR-CONFIG-006"),
    ),
    *rows(
        "daemon/corral/work/workers/claiming.py",
        ("more workers than the settings allow", "room = settings.supervisor.max_agents - at_work", "room = 20 - at_work",
         "integration/test_supervisor_flow.py::test_ten_agents_work_at_once_and_no_more", "FR-SWARM-001"),
    ),
    *rows(
        "daemon/corral/work/workers/claiming.py",
        ("the configured number of workers is not heeded", "room = settings.supervisor.max_agents - at_work", "room = 10 - at_work", LIMITS, "FR-CONFIG-006"),
    ),
    *rows(
        "daemon/corral/work/workers/assigning.py",
        ("the configured memory of a command is not heeded", "else settings.runners.command.memory_mb", "else 100_000", LIMITS, "FR-CONFIG-006"),
    ),
    *rows(
        "daemon/corral/config/teams.py",
        ("two members have one name", "            if before != at:", "            if False:",
         "unit/config/test_teams.py::test_every_error_is_told_with_its_field_and_the_reason", "TEAM-2"),
        ("a member's instructions are lost", "team = Team.model_validate(said)", 'team = Team.model_validate({**said, "agents": [{k: v for k, v in one.items() if k != "instructions"} for one in said["agents"]]})',
         "unit/config/test_teams.py::test_a_team_is_read_with_all_that_is_said_of_its_agents", "TEAM-1"),
    ),
    *rows(
        "hooks/hook.py",
        ("an event that is no object is sent", "raise ValueError(\"the event is not a JSON object\")", "pass",
         "integration/test_hook_script.py::test_an_event_that_is_no_object_is_not_sent", "HOOK"),
        ("a hook writes its log through a link", "os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW", "os.O_WRONLY | os.O_APPEND | os.O_CREAT",
         "integration/test_hook_script.py::test_a_log_that_is_a_link_is_not_written_through", "X18 HOOK"),
        ("a session waits for a daemon that does not come", "if not starts or time.monotonic() > patience:", "if not starts or time.monotonic() > patience + 20:",
         "integration/test_hook_script.py::test_a_daemon_that_does_not_come_up_delays_a_session_by_five_seconds_at_most", "HOOK-3"),
    ),
    *rows(
        "skills/delegating-a-batch/SKILL.md",
        ("a batch is handed over piece by piece", "Hand all of them over in one response", "Hand them over", AT_ONCE, "DELEGATE-1"),
    ),
    *rows(
        ".claude/agents/OpenCode-Builder.md",
        ("the builder works in its caller's checkout", "isolation: worktree\n", "", AT_ONCE, "DELEGATE-1"),
        ("the builder has another model", "runner_model: google/gemini-3-flash", "runner_model: google/gemini-3", BUILDER, "DELEGATE-1"),
        ("the builder's prompt names no skill", "Follow the skill `/task-execution` (`corral:task-execution`) from its\nfirst step to its last.", "Do it well.",
         BUILDER, "DELEGATE-1"),
        ("the builder's prompt does not say where to work", "in your own isolated worktree. Follow", "here. Follow", AT_ONCE, "DELEGATE-1"),
    ),
    *rows(
        "daemon/corral/server/mcp/registration.py",
        ("what a chief has registered for is not shown", "        if task_description:\n", "        if False:\n", SISYPHUS, "REGISTER-1"),
        ("who registers under a name does not get it", 'addresses.bind(conn, who, wanted or own["agent_name"]', 'addresses.bind(conn, who, own["agent_name"]',
         SISYPHUS, "REGISTER-1"),
        ("what program an agent is, is not kept", '"program": program[:200]', '"program": "?"',
         "integration/mcp/test_mail.py::test_agents_register_write_and_answer", "REGISTER-2"),
    ),
    *rows(
        "daemon/corral/work/tasks/scheduling.py",
        ("a follower waits for its leader, which waits for it", 'return family.kin(conn, candidate["task_id"]) if is_led else ()', "return ()",
         "unit/work/tasks/test_scheduling.py::test_a_follower_starts_beside_its_leader_whatever_both_claim", "FR-SWARM-006"),
        ("a follower waits for a stranger that waits for its leader", "reservation.waits_for not in kin and", "True and",
         "unit/work/tasks/test_scheduling.py::test_a_follower_starts_beside_its_leader_whatever_both_claim", "FR-SWARM-006"),
    ),
    *rows(
        "daemon/corral/store/tasks/tasks.py",
        ("a suspected follower waits for its leader", "or_(tasks.c.crashes == 0, _OF_RUNNING_LEADER)", "tasks.c.crashes == 0",
         "unit/work/tasks/test_faults.py::test_a_suspected_follower_runs_beside_its_leader_that_waits_for_it", "FR-SWARM-006"),
    ),
    *rows(
        "daemon/corral/work/tasks/dependencies.py",
        ("a task for several agents starts itself", 'if status == TaskStatus.PENDING and child["combine"] is not None:', "if False:",
         "unit/work/tasks/test_combining.py::test_a_task_of_several_agents_fails_with_what_it_waits_for_names_it_and_lives_again_with_it",
         "FR-SWARM-003"),
    ),
    *rows(
        "daemon/corral/work/roadmap/notes.py",
        ("what keeps others of the roadmap waiting is not named", "    found += _keeping_others(roadmap)\n", "",
         "unit/work/roadmap/test_supervision.py::test_what_keeps_others_from_ever_being_next_is_named", "SUP-FR1"),
    ),
    *rows(
        "daemon/corral/app/tasks.py",
        ("a client's task is taken for the roadmap's own", "errors = _key_errors(submissions)", "errors: list[dict[str, Any]] = []",
         "integration/test_roadmap.py::test_a_roadmap_is_worked_off_in_the_order_of_its_dependencies", "SUP-FR1"),
    ),
    *rows(
        "daemon/corral/runners/worker.py",
        ("a worker is reaped while its group is still being ended", "exit_code = exit_code_of(self._process)", "exit_code = self._process.poll()",
         "integration/test_runner_command.py::test_a_stubborn_one_is_killed_after_the_grace", ""),
    ),
    *rows(
        "daemon/corral/app/agents/definitions.py",
        ("a rollback writes over text that is nowhere else", "if not is_committed and (", "if False and (", ROLLBACK, "FR-META-004"),
    ),
    *rows(
        "daemon/corral/work/agents/choosing.py",
        ("a rollout takes all tasks", "< share * _ARMS", "< _ARMS", f"{CHOICES}::test_an_improved_version_is_rolled_out_to_a_fifth_found_worse_and_rolled_back_by_itself", "FR-META-005"),
        ("a stored version is trusted", 'return list(of_definition(stored.definition, f"', 'return list(of_definition(stored.definition, f"")) and [] and list(of_definition(stored.definition, f"', f"{CHOICES}::test_a_stored_version_is_trusted_only_while_its_own_commands_are", "NFR-SEC-004"),
    ),
    *rows(
        "daemon/corral/work/loops/closing.py",
        ("the work of a test case lands", " or not past.spec.land", "", f"{IMPROVED}::test_an_agent_is_improved_compared_and_not_deployed_unasked", "FR-META-003"),
    ),
    *rows(
        "daemon/corral/app/agents/cases.py",
        ("a worse version is deployed", ' and report["recommendation"] == "deploy":', ":", f"{IMPROVED}::test_only_a_version_that_does_better_is_deployed_where_that_was_asked_for", "FR-META-005"),
    ),
    *rows(
        "daemon/corral/work/agents/rollouts.py",
        ("a worse version stays", "if found.finding is not Finding.WORSE:", "if True:", f"{CHOICES}::test_an_improved_version_is_rolled_out_to_a_fifth_found_worse_and_rolled_back_by_itself", "FR-META-005"),
    ),
    *rows(
        "daemon/corral/app/agents/definitions.py",
        ("a rollback writes over a held file", "    _refuse_locked(services, path)\n", "", CHOOSES, "FR-META-004"),
    ),
    *rows(
        "daemon/corral/work/agents/record.py",
        ("an interval is too narrow", "_Z = 1.959964", "_Z = 1.0", FIGURES, "FR-META-001"),
    ),
    *rows(
        "daemon/corral/work/agents/judging.py",
        ("a judge always sees the old work first", "if order == OLD_FIRST else (new, old)", "if True else (new, old)", f"{JUDGING}::test_a_judge_sees_both_works_in_either_order_and_no_version", "FR-META-005"),
        ("one order is enough to be preferred", 'return "new" if (one, other) == (_SECOND, _FIRST) else "tie"', 'return "new" if one == _SECOND else "tie"', f"{JUDGING}::test_a_work_is_preferred_only_if_it_is_in_both_orders", "FR-META-005"),
        ("a model compares its own works", "if model not in busy), None)", "), None)", f"{JUDGING}::test_no_model_judges_its_own_work", ""),
        ("the meta-agent may do anything", 'return {"prompt": _SYSTEM[role], "tools": _TOOLS[role]}', 'return {"prompt": _SYSTEM[role]}', f"{IMPROVED}::test_an_agent_is_improved_compared_and_not_deployed_unasked", "FR-META-003"),
    ),
    *rows(
        "daemon/corral/work/agents/improving.py",
        ("an improvement gives an agent more tools", "base.tools if base.tools is not None else proposal.tools", "proposal.tools", f"{IMPROVING}::test_an_agent_gets_no_tool_that_it_has_not_and_a_program_no_model", "FR-META-003 NFR-SEC-004"),
        ("an improvement may change anything", "if was[name] != now[name]):", "if False):", f"{IMPROVING}::test_an_agent_gets_no_tool_that_it_has_not_and_a_program_no_model", "FR-META-003 NFR-SEC-004"),
        ("the judge does not decide between equals", "better, chance = judged.new > judged.old,", "better, chance = False,", f"{IMPROVING}::test_passed_cases_decide_then_the_judge_and_doubt_is_said", "FR-META-005"),
    ),
    *rows(
        "daemon/corral/app/agents/cases.py",
        ("a run that the API failed counts against its version", 'return bool(iterations[-1][\"is_success\"]) or not improving.was_cut_off(read_record(iterations[-1])[\"result\"])', "return True", f"{IMPROVED}::test_while_the_api_is_away_an_improvement_ends_after_few_requests_and_goes_on_later", "FR-META-003"),
        ("failed test cases need a person", "    _settle(services, [one.task for one in runs.values()], now)\n", "", "faults/test_improvement_kills.py::test_killed_at_every_step_of_an_improvement", "FR-META-003"),
    ),
    *rows(
        "daemon/corral/cli/agents/choices.py",
        ("an improvement begins without a yes", "if asks and not confirm(", "if False and not confirm(", f"{IMPROVED}::test_an_agent_is_improved_compared_and_not_deployed_unasked", "FR-META-003"),
        ("a version is deployed without a yes", "if not yes and not confirm(f\"Write version", "if False and not confirm(f\"Write version", f"{IMPROVED}::test_an_agent_is_improved_compared_and_not_deployed_unasked", "FR-META-005"),
    ),
    *rows(
        "daemon/corral/work/agents/record.py",
        ("test cases count as real work", 'real = [row for row in of_agent if row["task_type"] != IMPROVEMENT]', "real = of_agent", f"{IMPROVED}::test_an_agent_is_improved_compared_and_not_deployed_unasked", "FR-META-001"),
        ("feedback says nothing", "if rating is None and text is None:", "if False:", f"{RECORD}::test_feedback_on_nothing_is_refused", "FR-META-002"),
        ("feedback on what nobody did is kept", 'if task["fencing_token"] == 0:', "if False:", f"{RECORD}::test_feedback_on_nothing_is_refused", "FR-META-002"),
        ("feedback counts for every version", 'if last[row["task_id"]] == row["number"]}', "}", f"{RECORD}::test_feedback_counts_for_the_version_of_the_last_attempt", "FR-META-002"),
    ),
    *rows(
        "daemon/corral/store/agents/runs.py",
        ("feedback is kept beside what was said before", "values = {\"rating\": row[\"rating\"], \"comment\": row[\"comment\"], \"given_at\": row[\"given_at\"]}", "values = {\"given_at\": row[\"given_at\"]}", FIGURES, "FR-META-002"),
        ("retention forgets how attempts ended", 'for name in ("outcome", "tokens", "cost_usd")}', 'for name in ("tokens", "cost_usd")}', "integration/test_retention.py::test_old_attempts_go_but_the_newest_of_a_task_and_those_of_open_dead_landing_or_waited_for_ones", "FR-META-001"),
    ),
    *rows(
        "daemon/corral/store/tasks/swarm.py",
        ("test cases make an agent keep failing", "select(tasks.c.task_id).where(tasks.c.task_type != IMPROVEMENT)", "select(tasks.c.task_id)", "unit/work/test_performance.py::test_test_cases_of_an_improvement_say_nothing_of_a_kind", "FR-META-001"),
    ),
    *rows(
        "daemon/corral/work/agents/choosing.py",
        ("a task's own pin does not win", 'if task["agent_version"] is not None and task["agent"] is not None:', "if False:", f"{CHOICES}::test_a_task_and_an_agent_work_by_the_version_that_they_are_pinned_to", "FR-META-004"),
        ("a pin of an agent holds nobody", "        return bool(self._running)", "        return False", f"{CHOICES}::test_a_task_and_an_agent_work_by_the_version_that_they_are_pinned_to", "FR-META-004"),
    ),
    *rows(
        "daemon/corral/work/agents/rollouts.py",
        ("Fisher's test leaves out what happened", "few.good + 1)", "few.good)", f"{ROLLOUTS}::test_the_chance_is_that_of_fishers_exact_test", "FR-META-005"),
        ("every test may be wrong in 5 %", "needed = (1 - rules.confidence) / (stage * (stage + 1))", "needed = 1 - rules.confidence", f"{ROLLOUTS}::test_it_is_tested_at_ten_twenty_and_forty_tasks_and_asks_for_more_each_time", "FR-META-005"),
        ("it is tested after every task", "old, new = _arms(judged[:length])", "old, new = whole", f"{ROLLOUTS}::test_it_is_tested_at_ten_twenty_and_forty_tasks_and_asks_for_more_each_time", "FR-META-005"),
        ("work that came back is good", 'and row["merge_state"] not in CAME_BACK', "", f"{ROLLOUTS}::test_a_task_is_good_if_it_completed_and_did_not_come_back", "FR-META-005"),
        ("a rollout goes on with an edited file", "    if current_hash != row[\"from_hash\"]:", "    if False:", f"{CHOICES}::test_a_rollout_stops_if_the_definition_is_edited_and_says_so", "FR-META-005"),
    ),
    *rows(
        "daemon/corral/app/agents/improvements.py",
        ("the meta-agent sees secrets", 'return redact("\\n\\n".join(', 'return str("\\n\\n".join(', f"{IMPROVED}::test_an_improvement_begins_with_the_record_the_feedback_and_failed_logs_without_secrets", "FR-META-003"),
        ("the meta-agent sees no feedback", '"The figures": repr(figures),', '"The figures": "",', f"{IMPROVED}::test_an_improvement_begins_with_the_record_the_feedback_and_failed_logs_without_secrets", "FR-META-002"),
    ),
)  # fmt: skip
