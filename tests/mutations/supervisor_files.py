"""The supervisor's files: lifecycle, leases, and what is left of them after a kill."""

from __future__ import annotations

from tests.mutations.table import rows

LINES = "unit/work/evidence/test_lines.py"
STATE_FILES = "unit/server/upkeep/test_state_files.py"
EXPORTS = "integration/test_exports.py"
FOUR = f"{LINES}::test_the_events_of_a_good_attempt_are_the_four_lines"
LEASE = f"{LINES}::test_a_lease_is_active_from_the_claim_to_the_end"

MUTATIONS = (
    *rows(
        "daemon/corral/work/evidence/lines.py",
        ("a claim is no selection", 'EventKind.TASK_CLAIMED: "selected"', 'EventKind.TASK_CLAIMED: "claimed"', FOUR, "SUP-FR3 SUP-AC3"),
        ("a lease never ends", 'ENDS: tuple[str, ...] = (EventKind.TASK_COMPLETED, *', "ENDS: tuple[str, ...] = (*", LEASE, "SUP-AC4 SUP-FR2"),
        ("a lost lease is given back", 'if event["data"].get("error_code") in _ABANDONED else', "if False else",
         f"{LINES}::test_a_lease_that_nobody_gave_back_has_expired_once", "SUP-AC4"),
    ),
    *rows(
        "daemon/corral/work/workers/execution.py",
        ("a plain command is assigned to nobody", "    events.record(conn, now, assigned, task_id", "    (lambda *_, **__: None)(conn, now, assigned, task_id",
         f"{EXPORTS}::test_a_task_that_succeeds_has_four_events_each_once_and_in_order", "SUP-AC2"),
    ),
    *rows(
        "daemon/corral/server/upkeep/exports.py",
        ("a line is written twice after a kill", "one.lifecycle for one in found if one.event_id > places[0]", "one.lifecycle for one in found",
         f"{EXPORTS}::test_after_a_kill_no_line_is_missing_and_none_is_there_twice", "SUP-NFR1"),
        ("a deleted file stays away", "if places != tuple(known):", "if False:",
         f"{EXPORTS}::test_a_deleted_or_torn_file_is_made_whole_again", "SUP-NFR4"),
    ),
    *rows(
        "daemon/corral/server/upkeep/state_files.py",
        ("the whole file is read for its last line", "    part = TAIL\n", "    part = size\n", f"{STATE_FILES}::test_a_line_costs_the_same_however_long_the_file_is", "SUP-NFR2"),
        ("a rotated file is written again", "(self.path, *map(self._older, range(1, KEPT + 1)))", "(self.path,)",
         f"{STATE_FILES}::test_a_kill_in_the_middle_of_a_rotation_loses_and_doubles_nothing", "SUP-NFR1"),
        ("the newest lines are rotated over the others", "range(free, 0, -1)", "range(1, free + 1)",
         f"{STATE_FILES}::test_a_kill_in_the_middle_of_a_rotation_loses_and_doubles_nothing", "SUP-NFR1"),
    ),
    *rows(
        "daemon/corral/server/upkeep/evidence.py",
        ("evidence that was deleted stays away", "self._due = dict.fromkeys(missing)", "self._due = {}",
         f"{EXPORTS}::test_evidence_is_written_again_after_a_retry_and_where_it_was_deleted", "SUP-AC6"),
        ("evidence has nothing that the agent wrote", "            found[name] = content if", "            _ = content if",
         f"{EXPORTS}::test_the_evidence_of_a_task_says_how_it_went_and_what_it_made", "SUP-AC6 SUP-FR4"),
    ),
    *rows(
        "daemon/corral/work/evidence/bundle.py",
        ("a task's folder has any name", "    return safe if safe == name else", "    return name if True else",
         "unit/work/evidence/test_bundle.py::test_a_folder_never_leaves_its_place", "SUP-AC6"),
    ),
)  # fmt: skip
