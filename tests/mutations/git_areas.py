"""Git: what a merge is made of, worktrees, salvage, moving refs."""

from __future__ import annotations

from tests.mutations.table import rows

CANDIDATES = "integration/git/test_git_candidates.py"
LANDING = "integration/git/test_git_landing.py"
WORKTREES = "integration/git/test_git_worktrees.py"

MUTATIONS = (
    *rows(
        "daemon/corral/git/land/candidates.py",
        ("a merged head is merged again", "    if base == head_sha:\n", "    if False:\n",
         f"{CANDIDATES}::test_a_fast_forward_is_the_head_itself_and_a_merged_head_is_nothing", "G25"),
        ("histories that do not meet are merged", "    if base is None:\n", "    if False:\n",
         f"{CANDIDATES}::test_unrelated_and_shallow_histories_are_refused", "G24"),
        ("the attributes of a folder do not count", 'if mode.startswith("100"):', "if False:",
         f"{CANDIDATES}::test_attributes_in_a_folder_count_and_a_driver_is_used", "G22"),
        ("every conflict is one of content", "kinds[path] = _kind_by_stages(by_stage)", 'kinds[path] = "content"',
         f"{CANDIDATES}::test_each_kind_of_conflict_is_named_for_its_path", "G21"),
    ),
    *rows(
        "daemon/corral/git/process/command.py",
        ("git runs the user's fsmonitor", '    "core.fsmonitor": "false",\n', "",
         "integration/git/test_git_hostile.py::test_a_whole_life_executes_nothing_that_was_planted", "X7 X9"),
        ("git inherits the daemon's locale", '    "LC_ALL": "C",\n', "",
         "integration/git/test_git_wrapper.py::test_git_sees_an_environment_made_for_it", "G15"),
        ("a conflict is taken for a refusal", 'if rc == 1 and verb == "merge-tree":', "if False:",
         f"{CANDIDATES}::test_each_kind_of_conflict_is_named_for_its_path", "G21"),
    ),
    *rows(
        "daemon/corral/git/refs.py",
        ("a ref moves from wherever it is", "\\0{oid(new)}\\0{before}\\0", "\\0{oid(new)}\\0\\0",
         f"{LANDING}::test_a_commit_between_the_look_and_the_move_is_kept", "G9"),
        ("a branch may look like an option", 'p.startswith((".", "-"))', 'p.startswith(".")',
         "unit/git/test_git_names.py::test_a_hostile_branch_name_is_refused", "X6"),
    ),
    *rows(
        "daemon/corral/git/land/landing.py",
        ("a lock in the user's checkout is no hindrance", "if result.outcome is Outcome.LOCK and (lock", "if False and (lock",
         f"{LANDING}::test_a_lock_in_the_users_checkout_holds_the_landing", "G5"),
        ("git that has just written is landed under", "if quiet_since is not None and landed.was_written(", "if False and landed.was_written(",
         "integration/test_landing_rest.py::test_a_checkout_that_git_has_just_written_is_given_a_second", "G8"),
        ("a rebase of the target is not seen", "            if name == target_ref:", "            if False:",
         LANDING, "G8"),
        ("what overlaps with the user's changes is no hindrance", "return InTheWay(_reason(path, result), paths, _clearing(path, paths))", "return Landed(new_sha)",
         f"{LANDING}::test_dirt_that_overlaps_holds_the_landing_and_is_not_touched", "G8"),
    ),
    *rows(
        "daemon/corral/git/checkouts/worktrees.py",
        ("git may take another folder for a new worktree", "        if top.resolve() != path.resolve():", "        if False:",
         f"{WORKTREES}::test_a_shared_core_worktree_is_refused", "G14"),
        ("a worktree that could not be made leaves its branch", "        refs.delete(repo, ref, base_sha)\n        raise", "        raise",
         f"{WORKTREES}::test_a_filter_that_fails_leaves_nothing", "G2"),
        ("a commit that no branch holds goes with its worktree", "if head and refs.holder", "if False and refs.holder",
         "integration/git/test_git_worktree_removal.py", "G12"),
    ),
    *rows(
        "daemon/corral/git/checkouts/listing.py",
        ("a checkout that git calls bare is overlooked", 'if repo.common_dir.name == ".git" and (repo.common_dir / "index").exists() and main.branch() == ref:', "if False:",
         f"{LANDING}::test_a_flipped_core_bare_does_not_hide_the_users_checkout", "G13"),
    ),
    *rows(
        "daemon/corral/git/land/halfway.py",
        ("what a killed landing began is not known", "        return parse(os.fsdecode((checkout.git_dir / _NOTE).read_bytes()))", "        return None",
         "integration/git/test_git_halfway.py::test_a_landing_that_was_killed_with_its_git_is_put_back_by_the_next", "G10"),
    ),
    *rows(
        "daemon/corral/git/land/forward.py",
        ("what git ignores is overwritten", '"--no-overwrite-ignore", ', "",
         "integration/test_landing_held.py::test_overlapping_dirt_holds_the_landing_and_is_not_touched", "G8"),
    ),
    *rows(
        "daemon/corral/git/checkouts/salvage.py",
        ("what was staged is not saved apart", "differs = staged.ok and", "differs = False and",
         "integration/git/test_git_salvage.py", "G12"),
        ("what is saved has no ref", "refs.compare_and_swap(checkout, ref, sha, \"\", why=\"corral: salvage\")", "True",
         "integration/git/test_git_salvage.py::test_salvage_survives_the_hardest_garbage_collection", "G6"),
    ),
    *rows(
        "daemon/corral/git/checkouts/submodules.py",
        ("a submodule's own commits are no work", "def unpublished_submodules(checkout: Git) -> list[str]:", "def unpublished_submodules(checkout: Git) -> list[str]:\n    return []\n\n\ndef _former(checkout: Git) -> list[str]:",
         "integration/git/test_git_worktree_removal.py::test_a_submodules_commit_that_only_this_worktree_has_is_named", "G17"),
    ),
)  # fmt: skip
