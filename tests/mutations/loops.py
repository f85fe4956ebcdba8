"""Loops: who says that the work is good, where a killed one goes on, and what is kept at a limit."""

from __future__ import annotations

from tests.mutations.table import rows

LOOPS = "integration/test_loops.py"
UNIT = "unit/work/test_loops.py"
JUDGES = "integration/test_loop_judges.py"
TALKS = "e2e/test_loop_conversations.py"
RETURNS = "integration/test_loop_returns.py"

MUTATIONS = (
    *rows(
        "daemon/corral/work/loops/closing.py",
        ("a failed work has converged", "    if not finished.success:\n        found.append", "    if False:\n        found.append",
         f"{LOOPS}::test_a_failed_work_has_not_converged_whatever_its_criteria_say", "FR-LOOP-002"),
    ),
    *rows(
        "daemon/corral/work/loops/checkpoints.py",
        ("a damaged checkpoint is gone on from", '    return not read_record(row).get("is_damaged")', "    return True",
         f"{LOOPS}::test_a_damaged_checkpoint_is_passed_over", "FR-LOOP-006"),
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
        "daemon/corral/store/tasks/loops.py",
        ("the refs of a loop go while it is open", "        has_landed\n", "        True\n",
         "integration/test_retention.py::test_the_refs_of_a_loop_go_once_it_landed_or_its_task_is_gone_and_its_history_stays",
         "FR-LOOP-005"),
    ),
    *rows(
        "daemon/corral/work/loops/history.py",
        ("no verdict for ever", "        if len(last) == MOST_INCONCLUSIVE and", "        if False and",
         f"{UNIT}::test_a_plateau_ends_it_and_so_do_evaluations_without_a_verdict", "FR-LOOP-002"),
        ("a loop has no most iterations", "len(counted) >= bounds.max_iterations:", "False:",
         f"{UNIT}::test_limits_count_since_it_was_resumed", "FR-LOOP-003"),
        ("a loop has no time limit", "        if spent >= bounds.timeout_s:", "        if False:",
         f"{UNIT}::test_limits_count_since_it_was_resumed", "FR-LOOP-007"),
    ),
    *rows(
        "daemon/corral/work/loops/criteria/custom.py",
        ("an exception of a condition is its verdict", " or (ran.exit_code == 1 and _TRACEBACK in ran.output)", "",
         f"{LOOPS}::test_a_criterion_that_cannot_be_evaluated_is_inconclusive_and_says_why", "FR-LOOP-004"),
    ),
    *rows(
        "daemon/corral/runners/messages/judge.py",
        ("a refusal is a vote", '    if answer.stop_reason == "refusal":', "    if False:",
         f"{UNIT}::test_only_a_structured_answer_is_a_vote", "FR-LOOP-002"),
    ),
)  # fmt: skip
