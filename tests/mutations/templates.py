"""Project templates: fetched, proven, merged, completed after a kill."""

from __future__ import annotations

from tests.mutations.table import rows

HERE = "integration/templates"
INSTALL, UPDATE, HOSTILE, OVER_GIT, REMOVAL = (
    f"{HERE}/test_{name}.py" for name in ("install", "update", "hostile", "over_git", "removal")
)

FLOODED = f"{HERE}/test_flooded.py"

MUTATIONS = (
    *rows(
        "daemon/corral/git/remote/reading.py",
        (
            "reading an archive takes all memory",
            ", bounds=bounds)",
            ")",
            f"{FLOODED}::test_a_small_archive_with_a_huge_header_takes_no_more_than_its_bound",
            "NFR-SEC-004",
        ),
    ),
    *rows(
        "daemon/corral/git/process/bounds.py",
        (
            "a fetch takes any time",
            "if now >= self._until:",
            "if False:",
            f"{FLOODED}::test_a_slow_answer_ends_with_the_time_for_all_of_it",
            "NFR-SEC-004",
        ),
    ),
    *rows(
        "daemon/corral/git/remote/address.py",
        (
            "an address may name a program",
            "if _HELPER.match(text):",
            "if False:",
            f"{HOSTILE}::test_addresses",
            "NFR-SEC-004",
        ),
    ),
    *rows(
        "daemon/corral/git/remote/store.py",
        (
            "a template's server is asked once",
            "TRIES = 3",
            "TRIES = 1",
            f"{OVER_GIT}::test_an_unreachable_server_is_tried_three_times",
            "FR-TMPL-001",
        ),
        (
            "a template's server is asked again at once",
            "self._pause(float(2 ** (attempt - 1)))",
            "self._pause(0.0)",
            f"{OVER_GIT}::test_an_unreachable_server_is_tried_three_times",
            "FR-TMPL-001",
        ),
        (
            "a fetch takes all memory",
            ", bounds=self._bounds",
            "",
            f"{FLOODED}::test_an_answer_without_an_end_takes_no_more_than_its_bound",
            "NFR-SEC-004",
        ),
        (
            "a cache is not proven",
            "        if not done.ok:\n            raise NotTrusted(",
            "        if False:\n            raise NotTrusted(",
            f"{HOSTILE}::test_a_cache_that_was_changed_is_refused",
            "NFR-SEC-004 FR-TMPL-003",
        ),
    ),
    *rows(
        "daemon/corral/git/remote/cache.py",
        (
            "a moved tag is fetched",
            'if before is not None and before.kind == found.kind == "tag" and before.commit != found.commit:',
            "if False:",
            f"{UPDATE}::test_a_tag_that_moved_is_refused",
            "NFR-SEC-004 FR-TMPL-002",
        ),
        (
            "a cached template never grows old",
            'return kept.kind == "commit" or timedelta(0) <= age < timedelta(seconds=self._policy.lifetime_s)',
            "return age >= timedelta(0)",
            f"{OVER_GIT}::test_the_age_of_the_cache_is_a_setting",
            "FR-TMPL-003",
        ),
        (
            "a cached template is fetched again",
            "is_young = kept is not None and self._is_young(kept, now)",
            "is_young = False",
            f"{OVER_GIT}::test_the_cache_serves_until_somebody_asks_for_an_update",
            "FR-TMPL-003",
        ),
    ),
    *rows(
        "daemon/corral/cli/templates/updating.py",
        (
            "an update takes a moved tag",
            'if lock.kind == now.kind == "tag" and lock.version == now.name and lock.commit != now.commit:',
            "if False:",
            f"{UPDATE}::test_a_tag_that_moved_is_refused",
            "NFR-SEC-004 FR-TMPL-002",
        ),
        (
            "an agent may agree to the commands of an update",
            "    if runs:\n        refuse_agents(",
            "    if False:\n        refuse_agents(",
            f"{UPDATE}::test_both_sides_changes_are_merged_and_undone",
            "FR-TMPL-006",
        ),
        (
            "a conflict is settled without a question",
            "    if choice is None:",
            "    if False:",
            f"{UPDATE}::test_a_conflict_changes_nothing_until_somebody_decides",
            "FR-TMPL-006",
        ),
    ),
    *rows(
        "daemon/corral/cli/templates/installing.py",
        (
            "an agent may agree to a template's commands",
            "    if runs:\n        refuse_agents(",
            "    if False:\n        refuse_agents(",
            f"{INSTALL}::test_hooks_and_servers_are_shown_and_an_agent_may_not_agree_to_them",
            "NFR-SEC-004",
        ),
        (
            "hooks and servers are installed without a yes",
            'if not yes and not confirm("Install this template?", default=not runs):',
            "if False:",
            f"{INSTALL}::test_hooks_and_servers_are_shown_and_an_agent_may_not_agree_to_them",
            "NFR-SEC-004",
        ),
        (
            "an update leaves the record of the version as it was",
            'said |= {"template_version": lock.version, "template_pin": lock.pin()}',
            "said |= {}",
            (
                f"{UPDATE}::test_both_sides_changes_are_merged_and_undone",
                f"{INSTALL}::test_a_tag_is_installed_and_its_commit_is_pinned",
            ),
            "FR-TMPL-002 FR-TMPL-006",
        ),
    ),
    *rows(
        "daemon/corral/cli/templates/obtaining.py",
        (
            "the checksums of the lock are not compared",
            "if checksums(parts) != lock.files:",
            "if False:",
            f"{HOSTILE}::test_a_lock_with_other_checksums_is_refused",
            "NFR-SEC-004",
        ),
    ),
    *rows(
        "daemon/corral/config/templates/project/journal.py",
        (
            "an update has no backup",
            'if file.exists():\n        _write(partial / "old"',
            'if False:\n        _write(partial / "old"',
            f"{UPDATE}::test_both_sides_changes_are_merged_and_undone",
            "FR-TMPL-006",
        ),
    ),
    *rows(
        "daemon/corral/cli/project/own_files.py",
        (
            "uninstalling deletes task templates that the project changed",
            'return change_of(file, lock.files[path]) == "unchanged"',
            "return True",
            f"{REMOVAL}::test_files_that_nobody_changed_go_and_the_others_are_named",
            "FR-TMPL-005",
        ),
        (
            "uninstalling keeps what a commit has",
            "return done.ok and done.stdout == file.read_bytes()",
            "return False",
            f"{REMOVAL}::test_nothing_is_left_of_a_template_that_was_only_used",
            "FR-TMPL-005",
        ),
    ),
    *rows(
        "daemon/corral/cli/project/initialise.py",
        (
            "the shipped template is not recorded",
            "lock, unrecorded = _shipped_lock(project, answers, files, copies)",
            "lock, unrecorded = None, []",
            f"{UPDATE}::test_the_shipped_template_is_compared_and_updated_like_another",
            "FR-TMPL-005 FR-TMPL-006",
        ),
    ),
    *rows(
        "daemon/corral/git/remote/versions.py",
        (
            "versions are ordered as text",
            "tuple(int(part or 0) for part in found.groups()) if found else None",
            "tuple(part or '' for part in found.groups()) if found else None",
            f"{INSTALL}::test_the_version_may_be_latest_a_branch_or_a_commit",
            "FR-TMPL-002",
        ),
    ),
    *rows(
        "daemon/corral/git/remote/signatures.py",
        (
            "a signature counts under another name",
            'if f"tag {name}" not in header or target',
            "if target",
            f"{HERE}/test_signatures.py::test_an_old_signature_does_not_pass_for_a_new_version",
            "NFR-SEC-004",
        ),
    ),
    *rows(
        "daemon/corral/config/templates/project/removal.py",
        (
            "uninstalling removes what the project changed",
            'elif change_of(file, checksum) == "unchanged":',
            "elif True:",
            f"{REMOVAL}::test_files_that_nobody_changed_go_and_the_others_are_named",
            "FR-TMPL-005",
        ),
    ),
    *rows(
        "daemon/corral/config/templates/project/validation.py",
        (
            "a template with errors is installed",
            "    if not errors:\n        return",
            "    if True:\n        return",
            f"{INSTALL}::test_every_error_of_a_template_is_reported_with_its_line",
            "FR-TMPL-004",
        ),
    ),
    *rows(
        "daemon/corral/config/templates/project/brought.py",
        (
            "a skill's script is not shown",
            'return part.executable or part.data.startswith(b"#!") or path.lower().endswith(_SCRIPTS)',
            "return part.executable",
            f"{INSTALL}::test_hooks_and_servers_are_shown_and_an_agent_may_not_agree_to_them",
            "NFR-SEC-004",
        ),
    ),
    *rows(
        "daemon/corral/config/templates/project/plan.py",
        (
            "an update overwrites what the project changed",
            '    if before == after:\n        return Step(path, "keep", reason="you changed it")',
            '    if before == after:\n        return Step(path, "replace", after)',
            f"{UPDATE}::test_both_sides_changes_are_merged_and_undone",
            "FR-TMPL-005 FR-TMPL-006",
        ),
    ),
    *rows(
        "daemon/corral/server/process/assembly.py",
        (
            "a killed update stays half done",
            "template_change = journal.recover(project)",
            "template_change = None",
            f"{UPDATE}::test_an_update_that_was_killed_is_completed",
            "FR-TMPL-006",
        ),
    ),
)
