"""Who may speak, what may be written where, and what a terminal or a model is shown."""

from __future__ import annotations

from tests.mutations.table import rows

ACCESS = "integration/test_access.py"

MUTATIONS = (
    *rows(
        "daemon/corral/server/http/access.py",
        ("web pages may speak", 'if b"origin" in headers:', "if False:", f"{ACCESS}::test_everything_else_is_refused_without_effect", "X1"),
        ("any token will do", "or not hmac.compare_digest(given.strip(), self._token):", "or False:",
         f"{ACCESS}::test_everything_else_is_refused_without_effect", "X1"),
        ("any host will do", "if host not in {", "if False and host not in {", f"{ACCESS}::test_everything_else_is_refused_without_effect", "X1"),
        ("a form may submit", 'if media != b"application/json":', "if False:", f"{ACCESS}::test_a_form_cannot_submit", "X1"),
        ("others can read the token", "partial.touch(mode=0o600, exist_ok=False)", "partial.touch(mode=0o644, exist_ok=False)",
         "integration/test_daemon_life.py::test_run_files_are_private", "X2"),
    ),
    *rows(
        "daemon/corral/server/http/connections.py",
        ("a body of any size is read", "int(length) > MOST_BODY_BYTES", "False",
         "integration/test_connections.py::test_a_body_of_150_mb_is_refused_and_not_kept", "X17"),
    ),
    *rows(
        "daemon/corral/models/visible.py",
        ("a terminal obeys what a task printed", "if unicodedata.category(character) in _HIDDEN and", "if False and",
         "integration/test_smuggling.py::test_a_terminal_obeys_nothing_that_a_task_printed", "X11"),
        ("a tag in foreign text is one", '.replace("<", "&lt;")', "",
         "integration/test_bad_input.py::test_a_forged_end_of_a_mark_is_data_wherever_a_model_reads_it", "X11"),
    ),
    *rows(
        "daemon/corral/observe/redaction.py",
        ("a secret in colour is shown", "        if _spans(plain):", "        if False:",
         "unit/observe/test_redaction.py::test_a_secret_with_escape_sequences_in_it_is_one_too", "X15"),
        ("the environment's secrets are not known", "    _of_environment = _spellings(values)", "    _of_environment = frozenset()",
         "unit/observe/test_redaction.py::test_what_the_environment_calls_a_secret_is_taken_out_wherever_it_occurs", "X15 NFR-SEC-002"),
    ),
    *rows(
        "daemon/corral/observe/sealing.py",
        ("a secret on the border of two windows stays", "            if last == len(text) and not is_last and offset:", "            if False:",
         "unit/observe/test_sealing.py::test_a_secret_on_any_border_of_two_windows_is_found", "NFR-SEC-002"),
        ("a note leads out of the logs", 'if not name.is_absolute() and ".." not in name.parts]', "]",
         "unit/observe/test_sealing.py::test_a_log_is_noted_until_it_is_sealed_and_a_note_leads_nowhere_else", "NFR-SEC-002"),
        ("a log whose sealing failed is forgotten", "            put_off(logs, file)\n", "",
         "unit/observe/test_sealing.py::test_a_log_is_noted_until_it_is_sealed_and_a_note_leads_nowhere_else", "NFR-SEC-002"),
    ),
    *rows(
        "daemon/corral/server/upkeep/log_sealing.py",
        ("a log that fails keeps the others waiting", "self._waiting.pop(0)", "self._waiting[0]",
         "unit/server/upkeep/test_log_sealing.py::test_one_that_fails_is_shown_tried_again_and_keeps_no_other_waiting", "NFR-SEC-002"),
        ("a log is sealed in one step", "            if next(windows, None) is not None:", "            if list(windows) is None:",
         "unit/server/upkeep/test_log_sealing.py::test_a_large_log_is_sealed_in_steps_and_by_the_next_daemon_after_a_kill", "NFR-SEC-002"),
    ),
    *rows(
        "daemon/corral/work/agents/versions.py",
        ("the reason of an agent's version keeps a commit's secrets", "redact(written.subject) if", "written.subject if",
         "integration/test_planted_wide.py", "NFR-SEC-002"),
    ),
    *rows(
        "daemon/corral/landing/verify/verification_run.py",
        ("the log of a verification is never sealed", "        self.unsealed()\n", "",
         "integration/test_planted_keys.py", "NFR-SEC-002"),
    ),
    *rows(
        "daemon/corral/work/workers/supervisor.py",
        ("the log of a killed daemon's worker keeps its secrets", "                seal(self._site.grounds, row)\n", "",
         "faults/test_unsealed_logs.py::test_the_logs_of_a_killed_daemon_are_sealed_by_the_next", "NFR-SEC-002"),
    ),
    *rows(
        "daemon/corral/landing/queue.py",
        ("the log of a killed daemon's verification keeps its secrets", "        self._slot.seal_left()\n", "",
         "faults/test_unsealed_logs.py::test_the_logs_of_a_killed_daemon_are_sealed_by_the_next", "NFR-SEC-002"),
    ),
    *rows(
        "daemon/corral/config/keys/lookup.py",
        ("a tracked .env is used", "        if tracked:", "        if False:", "unit/config/keys/test_lookup.py::test_a_tracked_dotenv_is_not_used_and_an_unignored_one_is_named", "FR-CONFIG-004"),
        ("a locked keychain gives way to another key", "not self.file.is_in_keychain():", "True:", "unit/config/keys/test_lookup.py::test_a_keychain_that_fails_is_passed_over_only_where_it_was_given_no_key", "FR-CONFIG-004"),
        ("the whole key is shown", "self.value[-_SHOWN:]", "self.value", "integration/test_api_keys.py::test_a_key_is_kept_in_the_keychain_shown_by_its_end_and_removed", "FR-CONFIG-004"),
    ),
    *rows(
        "daemon/corral/config/keys/keychain_process.py",
        ("a keychain that does not encrypt is used", "if not recommended(keyring.get_keyring()):", "if False:", "integration/test_api_keys.py::test_without_a_keychain_that_encrypts_the_key_is_in_an_encrypted_file", "NFR-SEC-001"),
    ),
    *rows(
        "daemon/corral/config/keys/key_file.py",
        ("a key file that others read is used", "or status.st_mode & 0o077:", "or False:", "unit/config/keys/test_key_file.py", "NFR-SEC-001"),
        ("the key's folder is open", "            self._folder.chmod(0o700)", "            pass", "unit/config/keys/test_key_file.py::test_a_folder_that_was_open_is_closed_and_one_that_cannot_be_made_is_named", "NFR-SEC-001"),
    ),
    *rows(
        "daemon/corral/cli/program/api_key.py",
        ("a key is an argument", "    if context.args:", "    if False:", "integration/test_api_keys.py::test_a_key_as_an_argument_is_refused_and_not_repeated", "FR-CONFIG-004"),
    ),
    *rows(
        "daemon/corral/runners/process.py",
        ("a worker's log is written through a link", "flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC", "flags | os.O_CREAT | os.O_CLOEXEC",
         "integration/test_runner_process.py::test_a_log_is_never_written_through_a_link", "X18"),
    ),
    *rows(
        "daemon/corral/config/document.py",
        ("a configuration may be of any size", "    if len(data) > MAX_BYTES:", "    if False:", "unit/config/test_document.py::test_what_is_refused_says_why", "X14"),
    ),
    *rows(
        "daemon/corral/config/links.py",
        ("Corral writes through links", "        if here.is_symlink():", "        if False:",
         "integration/test_worktree_ownership.py::test_nothing_is_written_through_a_link", "X18"),
    ),
    *rows(
        "daemon/corral/git/process/known_holes.py",
        ("a git with a known hole is none", "return closed is not None and (", "return False and (", "unit/git/process/test_known_holes.py", "X19"),
    ),
    *rows(
        "daemon/corral/store/engine/database.py",
        ("the log of the database grows for ever", 'raw.cursor().execute(f"PRAGMA wal_checkpoint({mode})").close()', "pass",
         "faults/test_disk_and_database.py::test_a_reader_that_does_not_end_stops_nobody_and_its_log_goes_with_it", "D7"),
        ("a damaged database answers on", "        self._check_damage()\n        self._put_back()", "        self._put_back()",
         "unit/store/engine/test_database.py::test_once_damage_is_found_nothing_is_answered_any_more_even_where_it_could_be", "D8"),
    ),
    *rows(
        "daemon/corral/store/engine/log.py",
        ("a log is cut only where nobody lives", " or (is_quiet and self._cut_at is not None and now >= self._cut_at)", "",
         "integration/test_log_of_the_database.py", "D7"),
        ("a log that is long is not cut", "size > self._cut_above or ", "", "unit/store/test_growth.py::test_a_log_that_is_long_at_once_is_cut", "D7"),
        ("a log is not used again", "elif self._commits >= CHECKPOINT_EVERY:", "elif False:", "unit/store/test_growth.py::test_the_log_stays_small_while_a_writer_never_rests", "D7"),
    ),
    *rows(
        "daemon/corral/runners/messages/paths.py",
        ("a conversation's tools leave the worktree", "if resolved != self.root and self.root not in resolved.parents:", "if False:",
         "unit/runners/messages/test_tools.py::test_a_file_tool_never_leaves_the_worktree", ""),
        ("a conversation's tools write Git's files", 'if any(part.casefold() == ".git" for part in parts):', "if False:",
         "unit/runners/messages/test_tools.py::test_git_s_own_files_are_not_written", ""),
    ),
    *rows(
        "daemon/corral/runners/anthropic.py",
        ("a conversation's commands see the key", "env = environment_for(assignment, self._environ)", "env = environment_for(assignment, self._environ, is_claude=True)",
         "integration/test_runner_anthropic.py::test_neither_its_environment_nor_its_commands_have_the_key", ""),
    ),
)  # fmt: skip
