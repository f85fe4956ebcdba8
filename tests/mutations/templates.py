"""Project templates: fetched, proven, merged, completed after a kill."""

from __future__ import annotations

from tests.mutations.table import rows

HERE = "integration/templates"
INSTALL, UPDATE, HOSTILE, OVER_GIT = (f"{HERE}/test_{name}.py" for name in ("install", "update", "hostile", "over_git"))

MUTATIONS = (
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
            "a cache is not proven",
            "        if not done.ok:\n            raise NotTrusted(",
            "        if False:\n            raise NotTrusted(",
            f"{HOSTILE}::test_a_cache_that_was_changed_is_refused",
            "NFR-SEC-004 FR-TMPL-003",
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
            f"{HERE}/test_removal.py::test_files_that_nobody_changed_go_and_the_others_are_named",
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
