"""Loops: who says that the work is good, where a killed one goes on, and what is kept at a limit."""

from __future__ import annotations

from tests.mutations.table import rows

LOOPS = "integration/test_loops.py"
UNIT = "unit/work/test_loops.py"
JUDGES = "integration/test_loop_judges.py"
TALKS = "e2e/test_loop_conversations.py"
RETURNS = "integration/test_loop_returns.py"
INPUTS = "integration/test_loop_inputs.py"
SURFACE = "integration/test_loop_surface.py"
JUDGING = "integration/test_loop_judging.py"
LIMIT = f"{SURFACE}::test_at_its_limit_it_fails_with_its_best_result_which_lands_if_the_user_says_so"

MUTATIONS = (
    *rows(
        "daemon/corral/work/loops/closing.py",
        ("a failed work has converged", "    if not finished.success:\n        found.append", "    if False:\n        found.append",
         f"{LOOPS}::test_a_failed_work_has_not_converged_whatever_its_criteria_say", "FR-LOOP-002"),
        ("an iteration is not pinned", "    pin(grounds, past, row)\n", "",
         f"{LOOPS}::test_it_is_repeated_in_one_worktree_until_the_tests_pass_and_only_then_goes_to_landing", "FR-LOOP-005"),
        ("a loop lands at its limit unasked", "is_wanted = past.spec.land_best and ", "is_wanted = ", LIMIT, "FR-LOOP-003"),
        ("any iteration completes its loop", '    if row["verdict"] == Verdict.CONVERGED.value:', "    if True:", LIMIT,
         "FR-LOOP-003"),
        ("what a condition calls failed lands", " and over[0] != CONDITION_FAILED", "",
         f"{LOOPS}::test_a_condition_gets_the_iteration_and_decides", "FR-LOOP-004"),
        ("an iteration that the time limit cut short is evaluated", "    if left_s() <= 0:", "    if False:",
         f"{SURFACE}::test_a_loop_ends_at_its_time_limit_also_in_the_middle_of_an_iteration", "FR-LOOP-007"),
        ("the history forgets what its agent did", '"actions": actions,', '"actions": [],',
         f"{TALKS}::test_it_goes_on_in_its_conversation_and_counts_each_iteration_once", "FR-LOOP-005"),
        ("only the model that was asked for is known", "models(past, finished.result, asked)", "frozenset({asked or str()})",
         f"{TALKS}::test_the_model_that_the_client_chose_itself_does_not_judge_its_work", "FR-LOOP-002"),
    ),
    *rows(
        "daemon/corral/work/tasks/tasks.py",
        ("a retried loop has its old limits", '    loops.count_anew(conn, row["task_id"])\n', "", LIMIT, "FR-LOOP-003"),
    ),
    *rows(
        "daemon/corral/work/loops/checkpoints.py",
        ("a damaged checkpoint is gone on from", '    return not read_record(row).get("is_damaged")', "    return True",
         f"{LOOPS}::test_a_damaged_checkpoint_is_passed_over", "FR-LOOP-006"),
        ("a checkpoint without its commit is gone on from", 'refs.exists(grounds.repo, row["head_sha"]) and ', "",
         f"{LOOPS}::test_a_damaged_checkpoint_is_passed_over", "FR-LOOP-006"),
        ("the last iteration is pinned as the best", '"best": (best or row)["head_sha"]', '"best": row["head_sha"]', LIMIT,
         "FR-LOOP-003"),
    ),
    *rows(
        "daemon/corral/work/loops/conversations.py",
        ("a new conversation for each iteration", "    return Thread(conversation, continues=", "    return Thread(None, continues=",
         f"{TALKS}::test_it_goes_on_in_its_conversation_and_counts_each_iteration_once", "FR-LOOP-006"),
        ("a lost conversation is resumed again", " and one[\"error_code\"] == CONVERSATION_LOST:", " and False:",
         f"{TALKS}::test_a_lost_conversation_begins_anew_with_the_feedback_and_says_so", "FR-LOOP-006"),
    ),
    *rows(
        "daemon/corral/runners/stream.py",
        ("a resumed conversation counts what it used before", "before = self._before if", "before = Usage() if",
         f"{TALKS}::test_it_goes_on_in_its_conversation_and_counts_each_iteration_once", "FR-LOOP-005"),
    ),
    *rows(
        "daemon/corral/work/loops/checkpoints.py",
        ("a loop that conflicts converges again", "    if not isinstance(built, candidates.Conflicted):", "    if True:",
         f"{RETURNS}::test_it_goes_on_from_what_it_has_achieved_and_converges_only_once_it_merges", "FR-LOOP-001"),
        ("a loop that came back starts without its target", "past is None or past.returned is None else", "True else",
         f"{RETURNS}::test_a_target_that_merges_again_is_merged_in_before_it_is_evaluated_again", "FR-LOOP-006"),
    ),
    *rows(
        "daemon/corral/work/workers/claiming.py",
        ("judges of a command's loop are not held", '                if row["task_id"] in judged:', "                if False:",
         "integration/test_swarm_limits.py::test_a_loop_of_a_command_that_a_model_judges_is_held_too_and_says_why", "FR-LOOP-002"),
    ),
    *rows(
        "daemon/corral/config/templates/expansion.py",
        ("limits over the loop of a template are forgotten", '"agent_requirements", "loop")', '"agent_requirements")',
         f"{INPUTS}::test_a_template_gives_its_loop_with_the_values_of_its_parameters", "FR-LOOP-001"),
    ),
    *rows(
        "daemon/corral/store/tasks/loops.py",
        ("the refs of a loop go while it is open", "        has_landed\n", "        True\n",
         "integration/test_retention.py::test_the_refs_of_a_loop_go_once_it_landed_or_its_task_is_gone_and_its_history_stays",
         "FR-LOOP-005"),
    ),
    *rows(
        "daemon/corral/work/loops/history.py",
        ("no verdict for ever", "        if len(last) == MOST_INCONCLUSIVE and", "        if False and",
         f"{UNIT}::test_a_plateau_ends_it_and_so_do_evaluations_without_a_verdict", "FR-LOOP-002"),
        ("a plateau is not seen", "            if allowed is not None and ", "            if False and ",
         f"{UNIT}::test_a_plateau_ends_it_and_so_do_evaluations_without_a_verdict", "FR-LOOP-002"),
        ("numbers do not make an iteration better", "        *known,\n", "",
         f"{UNIT}::test_the_best_is_the_one_with_the_best_number_and_of_equal_ones_the_last", "FR-LOOP-003"),
        ("a record of a wrong shape is a checkpoint", "        isinstance(evaluations, list)\n", "        True\n",
         f"{UNIT}::test_a_damaged_record_is_read_around", "FR-LOOP-006"),
        ("the models of earlier iterations judge", '*(read_record(row)["result"] for row in past.sound)', "",
         f"{UNIT}::test_the_models_of_all_iterations_did_the_work", "FR-LOOP-002"),
        ("a loop has no most iterations", "len(counted) >= bounds.max_iterations:", "False:",
         f"{UNIT}::test_limits_count_since_it_was_resumed", "FR-LOOP-003"),
        ("a loop has no time limit", "        if spent >= bounds.timeout_s:", "        if False:",
         f"{UNIT}::test_limits_count_since_it_was_resumed", "FR-LOOP-007"),
    ),
    *rows(
        "daemon/corral/work/loops/judging.py",
        ("a criterion judges what the one before made of the work", "and self._is_unchanged(self._ready[1]):", "and True:",
         f"{JUDGING}::test_what_a_formatter_makes_of_the_work_neither_lands_nor_is_what_the_next_criterion_judges", "FR-LOOP-002"),
        ("each criterion begins anew", "and self._is_unchanged(self._ready[1]):", "and False:",
         f"{JUDGING}::test_what_one_criterion_builds_is_there_for_the_next_one_of_the_same_iteration", "FR-LOOP-002"),
        ("a checkout for judging stays", 'give_up(self._grounds, self._row, reason="its iteration was judged")', "pass",
         f"{JUDGING}::test_nothing_that_a_criterion_writes_lands_or_meets_a_later_iteration", "FR-LOOP-002"),
        ("what a dead daemon judged in is not known by its task", "WorktreePurpose.VERIFY, task_id=self._task[\"task_id\"])",
         "WorktreePurpose.VERIFY)",
         f"{JUDGING}::test_the_daemon_is_killed_while_it_judges_and_the_next_one_leaves_nothing_of_that", "FR-LOOP-006"),
    ),
    *rows(
        "daemon/corral/work/loops/continuing.py",
        ("what was written into the worktree meanwhile is work", " and not staging.wanted(status.changes(checkout), provided.exclude)",
         "", f"{JUDGING}::test_a_criterion_that_writes_into_the_workers_worktree_changes_nothing_that_lands", "FR-LOOP-002"),
    ),
    *rows(
        "daemon/corral/work/loops/evaluating.py",
        ("one criterion is enough for all", "enough = any if any_ else all", "enough = any",
         f"{UNIT}::test_verdicts_together", "FR-LOOP-002"),
        ("an error of a criterion is not caught", "except (CorralError, OSError, ValueError) as error:",
         "except OSError as error:", f"{LOOPS}::test_a_criterion_that_cannot_be_evaluated_is_inconclusive_and_says_why",
         "FR-LOOP-002"),
    ),
    *rows(
        "daemon/corral/work/loops/criteria/place.py",
        ("a criterion prints for ever", "            if log.stat().st_size > MOST_OUTPUT:", "            if False:",
         f"{LOOPS}::test_a_criterion_that_cannot_be_evaluated_is_inconclusive_and_says_why", "FR-LOOP-002"),
        ("a criterion has longer than it may", "min(timeout_s or self.timeout_s, self.timeout_s)", "3 * self.timeout_s",
         f"{LOOPS}::test_a_criterion_that_cannot_be_evaluated_is_inconclusive_and_says_why", "FR-LOOP-002"),
    ),
    *rows(
        "daemon/corral/work/loops/criteria/threshold.py",
        ("a smaller number is never better", 'value if sign.startswith(">") else -value', "value",
         f"{INPUTS}::test_the_best_iteration_lands_by_itself_where_the_user_has_said_so", "FR-LOOP-007"),
    ),
    *rows(
        "daemon/corral/work/loops/criteria/judge.py",
        ("a model judges its own work", "if criterion.same_model or plain_name(model) not in workers", "if True",
         f"{JUDGES}::test_a_model_that_did_the_work_does_not_judge_it_unless_told_so", "FR-LOOP-002"),
        ("a tie of votes is a verdict", " > criterion.votes / 2:", " >= 0:",
         f"{JUDGES}::test_nonsense_is_no_vote", "FR-LOOP-002"),
    ),
    *rows(
        "daemon/corral/runners/messages/usage.py",
        ("a dated name is another model", '_DATED.sub("", LATEST.get(model, model))', "LATEST.get(model, model)",
         f"{JUDGES}::test_a_model_that_did_the_work_does_not_judge_it_unless_told_so", "FR-LOOP-002"),
    ),
    *rows(
        "daemon/corral/work/loops/criteria/custom.py",
        ("a condition does not get the iteration", "criterion.timeout_s, said=said)\n    file", "criterion.timeout_s)\n    file",
         f"{LOOPS}::test_a_condition_gets_the_iteration_and_decides", "FR-LOOP-004"),
        ("an exception of a condition is its verdict", " or (ran.exit_code == 1 and _TRACEBACK in ran.output)", "",
         f"{LOOPS}::test_a_criterion_that_cannot_be_evaluated_is_inconclusive_and_says_why", "FR-LOOP-004"),
    ),
    *rows(
        "daemon/corral/runners/messages/judge.py",
        ("a refusal is a vote", '    if answer.stop_reason == "refusal":', "    if False:",
         f"{UNIT}::test_only_a_structured_answer_is_a_vote", "FR-LOOP-002"),
    ),
)  # fmt: skip
