"""The merge queue: blame, order, approval, verification."""

from __future__ import annotations

from tests.mutations.table import rows

BLAME = "unit/landing/verify/test_blame.py"
LANDS = "integration/test_landing_lands.py"
RETURNS = "integration/test_landing_comes_back.py"
CONTROL = "integration/test_landing_blame.py"
TOGETHER = f"{RETURNS}::test_a_pair_that_only_breaks_together_is_caught_on_the_merged_tree"
FLAKE = f"{RETURNS}::test_red_then_green_on_one_tree_is_a_flake_and_lands"
KILLED = "faults/test_landing_kills.py::test_killed_at"

INPUTS = "integration/test_verification_inputs.py"

MUTATIONS = (
    *rows(
        "daemon/corral/work/worktrees/trial/mirror.py",
        ("what a run wrote into a dependency stays", " and _looks(place) == list(known[1]):", ":",
         f"{INPUTS}::test_dependencies_are_copies_and_a_runs_own_writes_reach_neither_the_checkout_nor_the_next_run", "X10"),
    ),
    *rows(
        "daemon/corral/work/worktrees/trial/leading.py",
        ("a link leads back into the checkout", "        if real.is_relative_to(main) and not real.is_relative_to(worktree):", "        if False:",
         f"{INPUTS}::test_links_lead_into_the_worktree_or_are_left_out", "X10"),
    ),
    *rows(
        "daemon/corral/work/worktrees/trial/preparation.py",
        ("the candidate names what is copied for it", 'self._grounds.repo.run("cat-file", "blob", f"{self._tip}:',
         'self._checkout.run("cat-file", "blob", f"HEAD:',
         f"{INPUTS}::test_included_files_are_those_that_the_targets_tip_names_and_have_their_digest", "X10"),
        ("any failed install is excused", "            if not self._met_no_network(begun_at):\n                raise\n", "",
         f"{INPUTS}::test_an_install_that_fails_by_itself_is_not_replaced_by_the_checkouts_dependencies", "X10"),
        ("a link in the way is followed", "                    if self._is_way_open(path):", "                    if True:",
         f"{INPUTS}::test_a_link_that_a_candidate_puts_in_the_way_is_not_followed", "X10"),
    ),
    *rows(
        "daemon/corral/runners/environment.py",
        ("the daemon's programs in the checkout pass", "if (left := _without(value, checkout)) or not value", "if (left := value) or not value",
         f"{INPUTS}::test_what_the_daemons_environment_names_in_the_checkout_does_not_pass", "X10"),
    ),
    *rows(
        "daemon/corral/landing/verify/blame.py",
        ("a red run is blamed without a green target", "        if target_green is not None:\n", "        if True:\n",
         f"{BLAME}::test_a_red_run_needs_a_green_target_and_a_run_without_a_verdict_needs_one_between_two_of_its_kind", "I5"),
        ("one time-out is enough", "return Step.RETURN if again else Step.RUN_AGAIN", "return Step.RETURN",
         f"{BLAME}::test_a_red_run_needs_a_green_target_and_a_run_without_a_verdict_needs_one_between_two_of_its_kind", "I5"),
        ("a red target is not seen", "if target_red is not None and target_red.at >= first.at:", "if False:", BLAME, "I5"),
        ("a green run of long ago is a control", "return green.at >= first.at or is_young", "return True",
         f"{CONTROL}::test_the_tip_is_verified_again_before_anybody_is_blamed", "I5"),
        ("a killed command is the change's fault", "and code not in KILLED and", "and", BLAME, "I5"),
    ),
    *rows(
        "daemon/corral/store/merges/merges.py",
        ("merges land by age alone", "query.order_by(_m.priority.desc(), _m.seq)", "query.order_by(_m.seq)",
         "integration/test_landing_lands.py::test_priority_comes_first_then_age", "I11"),
    ),
    *rows(
        "daemon/corral/landing/queue.py",
        ("a branch is verified instead of the merged tree", "            return self._verify(repo, _candidate(merge, basis), landing, now)\n        return self._blame",
         '            return self._verify(repo, replace(_candidate(merge, basis), sha=merge["head_sha"]), landing, now)\n        return self._blame',
         TOGETHER, "G26"),
        ("what is red lands", "        if green is not None:\n            return self._land", "        if green is not None or own is not None:\n            return self._land",
         TOGETHER, "G26"),
        ("a branch lands as it is now, not as it was submitted", 'built = candidates.build(repo, tip, merge["head_sha"], land',
         'built = candidates.build(repo, tip, refs.read(repo, f"refs/heads/{merge[\'branch\']}") or merge["head_sha"], land',
         f"{LANDS}::test_the_head_that_was_submitted_is_merged_and_a_new_one_is_a_new_request", "I3"),
        ("a red target is the change's fault", "        if step is blame.Step.TARGET_RED and seen is not None:", "        if False and seen is not None:",
         f"{RETURNS}::test_a_red_target_sends_nobody_back_and_goes_on_when_it_is_mended", "I6"),
        ("nothing is verified", "        if not landing.verify:\n            said", "        if True:\n            said", KILLED, "I1"),
        ("a candidate is referenced by nothing", "        candidates.hold(repo, merge_id, built.sha)\n", "        pass\n",
         "integration/test_landing_held.py::test_a_garbage_collection_takes_no_candidate_that_waits", "I8"),
    ),
    *rows(
        "daemon/corral/landing/verify/verification.py",
        ("what a run has started stays", "        if not alive:\n            return\n        signal_each(alive, signal.SIGKILL)", "        return",
         "faults/test_clients.py::test_the_daemon_dies_while_a_verification_runs_and_no_orphan_stays", "D19"),
    ),
    *rows(
        "daemon/corral/landing/land.py",
        ("a landing has no intent", "        intents.intend(conn, **intent, now=now)\n", "        pass\n", KILLED, "I7"),
    ),
    *rows(
        "daemon/corral/git/land/landing.py",
        ("what a killed landing has landed lands anew", "    if current is not None and (new_sha == current or not is_forward) and refs.is_ancestor(repo, new_sha, current):",
         "    if False:", KILLED, "I4 I7"),
    ),
    *rows(
        "daemon/corral/landing/verify/verification_run.py",
        ("a red run is the last", "            if len(self._red) <= self._landing.reruns:", "            if False:", FLAKE, "G28"),
        ("nobody is told that a run was flaky", "        if verdict.status is ReceiptStatus.PASSED and self._red:", "        if False:", FLAKE, "G28"),
    ),
    *rows(
        "daemon/corral/landing/verify/verification_receipts.py",
        ("another version of a program is the same verification", "said = [[one.name, one.path, one.version, one.mark] for one in found]", "said: list[str] = []",
         f"{CONTROL}::test_what_broke_since_the_tip_was_verified_blames_nobody", "I1 I5"),
        ("a green receipt that stood on a file of the checkout is used again",
         'green["receipt_id"] == merge["receipt_id"] or not takes_from_checkout(green["inputs"])', "True",
         f"{INPUTS}::test_a_green_receipt_that_took_from_the_checkout_counts_for_its_own_request_alone", "X10"),
        ("what was not verified is called green", "fingerprint=fingerprint, status=ReceiptStatus.UNVERIFIED, reason=reason",
         "fingerprint=fingerprint, status=ReceiptStatus.PASSED, reason=reason", f"{LANDS}::test_without_a_command_it_lands_and_says_unverified", "G29"),
    ),
    *rows(
        "daemon/corral/landing/requests.py",
        ("a commit lands under the word for it", "        branch = head = refs.resolve(repo, branch)", "        head = refs.resolve(repo, branch)",
         f"{LANDS}::test_a_detached_commit_lands_under_its_own_name", "G11"),
    ),
    *rows(
        "daemon/corral/landing/approval.py",
        ("an approval covers every later head", 'merge["approved_sha"] == merge["head_sha"]', 'merge["approved_sha"] is not None',
         "integration/test_landing_approval.py::test_a_request_that_goes_on_with_a_newer_head_waits_again", "X12"),
        ("what verifies may be changed without a person", "name in named or any(", "any(",
         "integration/test_landing_approval.py::test_a_task_that_replaces_hooks_and_weakens_its_verification_waits_for_a_person", "X12"),
        ("a link hides a protected file", "any(needs_person(tree.names_of(path)) for tree in trees)", "False",
         "integration/test_landing_approval.py::test_a_protected_file_is_protected_by_every_name_that_a_link_gives_it", "X12"),
    ),
    *rows(
        "daemon/corral/config/load.py",
        ("a branch chooses what verifies it", "whose = set() if committed is None else {TEAM_FILE}", "whose: set[str] = set()",
         "unit/config/test_load.py::TestLanding::test_the_committed_section_replaces_the_working_copys", "X10"),
    ),
    *rows(
        "daemon/corral/runners/environment.py",
        ("a command gets the credentials of the model", "(is_claude and _is_claudes(name))", "_is_claudes(name)",
         "integration/test_runner_command.py::test_what_a_worker_finds_in_its_environment", "X10"),
        ("a verification gets credentials", "if _is_plain(name) and not _holds_password(name, value)}", "if _is_plain(name) or _is_claudes(name)}",
         "integration/test_landing_verification.py::test_the_commands_get_no_credential", "X10"),
    ),
)  # fmt: skip
