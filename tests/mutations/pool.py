"""The warm pool: what may stay in a worktree that is used again, and when it is not used."""

from __future__ import annotations

from tests.mutations.table import rows

CLEAN = "integration/test_pool.py::test_nothing_of_the_last_task_is_in_the_worktree"
REFUSED = "integration/test_pool.py::test_a_worktree_that_may_hold_more_than_its_commit_is_not_kept"
DOUBTS = "integration/test_pool_doubts.py"
TOUCHED = f"{DOUBTS}::test_one_that_a_person_has_touched_is_not_used_and_their_work_is_saved"
KILLS = "faults/test_pool_kills.py"

MUTATIONS = (
    *rows(
        "daemon/corral/work/worktrees/pool/keeping.py",
        ("ignored files stay for the next task", "    contents.remove(path, found.leftovers)\n", "", CLEAN, ""),
        ("modes stay for the next task", "        (path / name).chmod(mode)\n", "        pass\n", CLEAN, ""),
        ("a worktree with marks in its index is kept", "    if repointing.index_of(checkout)[1]:", "    if False:", REFUSED, ""),
        ("a merge in progress is kept", "    refuse_extras(checkout)\n", "", REFUSED, ""),
        ("a hard link is kept", "    if found.doubts:", "    if False:", REFUSED, ""),
        ("a worktree that somebody is in is kept", "    refuse_if_inhabited(grounds, path,", "    (grounds, path,",
         f"{DOUBTS}::test_one_in_which_something_of_the_task_lives_on_is_not_kept", ""),
        ("a worktree of any size is kept", "    if found.size_bytes > bounds(grounds)[1] * MEBI:", "    if False:",
         f"{DOUBTS}::test_one_that_takes_more_disk_than_allowed_is_not_kept", ""),
    ),
    *rows(
        "daemon/corral/work/worktrees/pool/taking.py",
        ("a person's new file is in the next task", "    if not contents.is_sealed(path, sealed[\"look\"]) or ", "    if ", TOUCHED, ""),
        ("a person's change is in the next task", " or repointing.touched(checkout):", ":", TOUCHED, ""),
        ("what a person staged is in the next task", "    if look_of_index(checkout) != sealed[\"index\"] and (", "    if False and (",
         TOUCHED, ""),
        ("a person's HEAD is the next task's", "    if checkout.branch() is not None or checkout.head() != kept[\"base_sha\"]:",
         "    if False:", TOUCHED, ""),
        ("a worktree that somebody is in is used", "        refuse_if_inhabited(grounds, path, {})\n", "        pass\n",
         f"{DOUBTS}::test_one_that_somebody_is_in_is_passed_over_until_they_leave", ""),
        ("attributes that changed do not count", "repointing.changes_rules(grounds.repo, kept[\"base_sha\"], base_sha):", "False:",
         f"{DOUBTS}::test_one_is_passed_over_if_equal_files_are_to_be_written_differently", ""),
        ("settings that convert files do not count",
         " or repointing.conversion(repo) != kept[\"provision\"][\"conversion\"]:", ":",
         f"{DOUBTS}::test_one_is_removed_if_git_would_write_its_files_in_another_way_now", ""),
        ("a branch that another made goes with the worktree", "    except Conflict:  # somebody", "    except MemoryError:  # somebody",
         f"{DOUBTS}::test_a_branch_that_somebody_makes_at_the_last_moment_is_theirs", ""),
    ),
    *rows(
        "daemon/corral/git/checkouts/repointing.py",
        ("records of the last task stay", 'ref)\n    _drop_records(prove)\n', 'ref)\n', CLEAN, ""),
    ),
    *rows(
        "daemon/corral/work/worktrees/moving.py",
        ("a rename that was cut short stays so", "        if _is_it(place, row[\"folder_id\"]):", "        if False:",
         (f"{KILLS}::test_killed_while_a_worktree_goes_into_the_pool",
          f"{KILLS}::test_killed_while_a_worktree_comes_out_of_the_pool"), "FR-QUEUE-005"),
    ),
    *rows(
        "daemon/corral/work/workers/execution.py",
        ("the worktree of a failed attempt is kept", "keeps = ending.success and status", "keeps = status",
         f"{DOUBTS}::test_one_whose_attempt_failed_is_not_kept", ""),
    ),
)  # fmt: skip
