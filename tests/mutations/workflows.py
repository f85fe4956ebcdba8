"""Workflows: the steps of a template, what becomes of the whole, and what a step is told of those before it."""

from __future__ import annotations

from tests.mutations.table import rows

STEPS, BOARD = "unit/config/templates/test_steps.py", "unit/work/test_workflows.py"
LANDS = (
    "integration/workflows/test_lands.py::test_five_steps_over_three_items_land_as_one_tree_while_the_daemon_is_killed"
)
SURFACES = "integration/workflows/test_surfaces.py"
TREE = f"{SURFACES}::test_every_surface_makes_the_same_tree"
EXPANDED = f"{STEPS}::test_steps_become_tasks_that_wait_for_those_of_their_own_item_or_for_all"
RETRIED = f"{BOARD}::test_a_retry_of_the_step_or_of_the_whole_runs_what_did_not_succeed"
ATOMIC = f"{BOARD}::test_the_queue_takes_all_of_it_or_nothing"
FAILED = f"{BOARD}::test_a_failed_step_ends_those_behind_it_alone_and_is_named_once_all_have_ended"

MUTATIONS = (
    *rows(
        "daemon/corral/config/templates/steps.py",
        ("steps stand as they are written", "for step in _ordered(steps)\n", "for step in steps\n", EXPANDED, ""),
        (
            "a step has one task for all items",
            "for position in range(len(names[step.name]))",
            "for position in range(1)",
            EXPANDED,
            "",
        ),
        (
            "an item waits for all others",
            "return step.for_each is not None and step.for_each",
            "return False and step.for_each",
            EXPANDED,
            "",
        ),
        ("a step waits for nothing", '"wait_for": list(dict.fromkeys(waits))', '"wait_for": []', EXPANDED, ""),
        (
            "an item may be there twice",
            "        if times > 1:",
            "        if False:",
            f"{STEPS}::test_lists_that_cannot_be_fanned_out_over_are_refused_at_the_submission",
            "",
        ),
        (
            "a list makes any number of tasks",
            "    if total > MOST_TASKS:",
            "    if False:",
            f"{STEPS}::test_more_tasks_or_more_waits_than_are_allowed_are_refused",
            "",
        ),
        (
            "steps may wait in a circle",
            "if (cycle := blocking_cycle({step.name: step.wait_for for step in steps})) is not None:",
            "if (cycle := blocking_cycle({})) is not None:",
            f"{STEPS}::test_steps_that_wait_in_a_circle_are_named",
            "",
        ),
    ),
    *rows(
        "daemon/corral/config/templates/expansion.py",
        (
            "a submission's limits do not reach the steps",
            "return {**step, **given, **first}",
            "return {**step, **first}",
            f"{STEPS}::test_what_a_submission_says_counts_for_each_step_before_the_template",
            "",
        ),
    ),
    *rows(
        "daemon/corral/models/tasks.py",
        ("a whole takes one place in the queue", " + sum(step.number_of_tasks for step in self.steps)", "", ATOMIC, ""),
    ),
    *rows(
        "daemon/corral/work/tasks/tasks.py",
        (
            "a whole is queued in two transactions",
            "    names = [step.name for step in item.steps]\n",
            '    names = [step.name for step in item.steps]\n    conn.exec_driver_sql("COMMIT")\n    conn.exec_driver_sql("BEGIN")\n',
            f"{BOARD}::test_what_the_database_refuses_of_it_refuses_all_of_it",
            "",
        ),
        (
            "a step's claims are not looked at",
            "        for step in item.steps:\n",
            "        for step in item.steps[:0]:\n",
            ATOMIC,
            "",
        ),
        (
            "steps start before what the whole waits for",
            '"wait_for": step.wait_for or parents}',
            '"wait_for": step.wait_for}',
            f"{BOARD}::test_its_first_steps_wait_for_what_it_waits_for_and_others_wait_for_it",
            "",
        ),
        (
            "a retry of the whole leaves its steps",
            'family.children(conn, row["task_id"]) if row["steps_wanted"] is not None else ()',
            "()",
            RETRIED,
            "",
        ),
        (
            "the agents of a step are told nothing",
            "names = list(step_names[index : index + 1]) * agents",
            "names: list[str] = []",
            f"{BOARD}::test_a_step_that_several_agents_do_gives_them_its_name",
            "",
        ),
        (
            "the agents of a step start before what it waits for",
            "members = _members(submissions[index], ids[index], parents[index])",
            "members = _members(submissions[index], ids[index], [])",
            f"{BOARD}::test_a_step_that_several_agents_do_gives_them_its_name",
            "",
        ),
    ),
    *rows(
        "daemon/corral/work/tasks/dependencies.py",
        ("a step that fails ends nobody", "if worth is Outlook.LOST and not ignore_failure:", "if False:", FAILED, ""),
        ("a whole does its own work", 'if child["steps_wanted"] is not None:', "if False:", FAILED, ""),
    ),
    *rows(
        "daemon/corral/work/workflows/standing.py",
        (
            "a whole is completed before its steps land",
            'step["merge_state"], "landed")',
            'step["merge_state"], "completed")',
            f"{BOARD}::test_it_is_not_done_before_its_steps_have_landed",
            "",
        ),
        ("a whole has ended with its first failed step", "return TaskStatus.WAITING, None", "continue", FAILED, ""),
        ("a whole is completed though a step failed", "    if not lost:", "    if True:", FAILED, ""),
        (
            "a whole names a step that failed for another",
            'next((step for step in lost if step["error_code"] != dependencies.DEPENDENCY_FAILED), lost[0])',
            "lost[-1]",
            FAILED,
            "",
        ),
    ),
    *rows(
        "daemon/corral/store/tasks/dependencies.py",
        (
            "a whole gives the results of all steps",
            ", tasks.c.task_id.not_in(_AWAITED_AMONG)",
            "",
            f"{BOARD}::test_it_waits_for_its_steps_and_is_completed_with_what_the_last_of_them_came_to",
            "",
        ),
    ),
    *rows(
        "daemon/corral/work/workflows/results.py",
        (
            "a report may have any length",
            "text if len(text) <= _MOST_OF_ONE else",
            "text if True else",
            f"{BOARD}::test_a_step_is_told_a_bounded_part_of_each_report_and_has_all_in_a_file",
            "",
        ),
        ("a command gets no results of earlier steps", ", {VARIABLE: str(file)}", ", {}", LANDS, "FR-QUEUE-008"),
    ),
    *rows(
        "daemon/corral/work/workers/assigning.py",
        (
            "a prompt has no reports of earlier steps",
            "for text in (said, others, earlier, feedback) if text",
            "for text in (said, others, feedback) if text",
            LANDS,
            "FR-QUEUE-008",
        ),
    ),
    *rows(
        "daemon/corral/work/tasks/combining.py",
        (
            "work of an agent that came back counts as done",
            "TaskStatus.COMPLETED and not came_back(conn, one)]\n    ended",
            "TaskStatus.COMPLETED]\n    ended",
            f"{BOARD}::test_a_step_whose_agents_land_each_their_own_is_over_once_all_of_them_have",
            "",
        ),
        (
            "each agent of a step lands its own",
            'return parent is not None and is_member and parent["combine"] in CHOOSES_ONE',
            "return False",
            LANDS,
            "FR-SWARM-003",
        ),
    ),
    *rows(
        "daemon/corral/store/tasks/family.py",
        (
            "a step is over before its agents' work has landed",
            "or_(_member.c.completed_at.is_(None), _TO_LAND)",
            "_member.c.completed_at.is_(None)",
            f"{BOARD}::test_a_step_whose_agents_land_each_their_own_is_over_once_all_of_them_have",
            "",
        ),
    ),
    *rows(
        "daemon/corral/work/workers/supervisor.py",
        (
            "steps that a killed daemon ran stay interrupted",
            "            self._resume(running)\n",
            "",
            LANDS,
            "FR-QUEUE-008",
        ),
        (
            "a cancelled whole leaves its steps to themselves",
            "if leaderless := self._db.read(followers.leaderless):",
            "if leaderless := self._db.read(followers.leaderless)[:0]:",
            f"{SURFACES}::test_a_cancelled_whole_ends_its_steps_also_when_the_daemon_dies_meanwhile",
            "",
        ),
    ),
    *rows(
        "daemon/corral/app/tasks.py",
        (
            "the steps of a whole count for no level",
            "levels = 2 if item.steps else 1",
            "levels = 1",
            f"{SURFACES}::test_one_that_is_too_large_or_too_deep_is_refused_as_a_whole",
            "",
        ),
        (
            "an error of a step has no place",
            'steps.placed(batch, error.details["errors"])',
            'error.details["errors"]',
            f"{SURFACES}::test_a_bad_one_is_refused_as_a_whole_with_the_place",
            "FR-QUEUE-007",
        ),
    ),
    *rows(
        "daemon/corral/models/dependencies/tree.py",
        ("the tree of a whole is flat", "(depth + 1, one)", "(depth, one)", TREE, ""),
    ),
    *rows(
        "daemon/corral/cli/interactive/details.py",
        ("the screen shows no steps", '        parts += self._steps(task["steps"])\n', "", TREE, ""),
    ),
)
