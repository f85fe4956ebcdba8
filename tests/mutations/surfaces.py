"""The command line and the settings."""

from __future__ import annotations

from tests.mutations.table import rows

LOAD = "unit/config/test_load.py"
CONTRACT = "integration/test_cli_contract.py"
SORTED = f"{CONTRACT}::test_the_list_sorts_by_priority_then_age_and_filters_the_same_in_every_format"
FOR_PEOPLE = f"{CONTRACT}::test_errors_for_people_have_a_code_a_cause_and_a_remedy"
INIT = "integration/test_init.py::test_init_shows_what_it_will_write_and_does_nothing_unless_agreed"
WAITS = "integration/test_cli_at_hand.py::test_on_a_terminal_waiting_shows_what_it_waits_for_and_quiet_does_not"
COMPLETED = "integration/test_completion.py::test_ids_branches_agents_and_names_are_completed_and_a_hostile_name_is_not_executed"
HELP = "bundle/test_docs.py::test_a_help_page_shows_it_all"

MUTATIONS = (
    *rows(
        "daemon/corral/config/load.py",
        ("this machine's file does not win", "return {**files, LOCAL_FILE: project.home / \"local.yaml\"}", "return {LOCAL_FILE: project.home / \"local.yaml\", **files}",
         f"{LOAD}::test_each_layer_wins_over_the_one_before", "FR-CONFIG-001"),
        ("an error has no field", "            found.refuse(key, reason, found.sources[_setting_of(key)])", "            found.refuse(\"\", reason, found.sources[_setting_of(key)])",
         f"{LOAD}::TestValidation::test_every_error_is_reported_with_field_reason_and_source", "FR-CONFIG-003"),
        ("an unknown key is silent", "        elif key not in _SECTIONS:\n            found.warnings.append(", "        elif key not in _SECTIONS:\n            str(",
         f"{LOAD}::TestValidation::test_an_unknown_key_warns_and_suggests", "FR-CONFIG-003"),
        ("an empty variable counts", "if name.startswith(PREFIX) and environ[name]", "if name.startswith(PREFIX)",
         LOAD, "FR-CONFIG-002"),
    ),
    *rows(
        "daemon/corral/cli/commands/pause.py",
        ("an answer has a field that nobody described", "    report(answer, \"resumed\"", "    report({**answer, \"more\": 1}, \"resumed\"",
         "integration/test_schemas.py", "FR-CLI-004 NFR-USE-004"),
    ),
    *rows(
        "daemon/corral/config/custom/aliases.py",
        ("an alias may call itself", "        if words[0] in path:\n", "        if len(path) > 5:\n            return []\n        if False:\n",
         "unit/config/custom/test_aliases.py", "FR-CLI-009"),
        ("an alias loses further arguments", "else filled + others", "else filled", "unit/config/custom/test_aliases.py", "FR-CLI-009"),
    ),
    *rows(
        "daemon/corral/cli/terminal/expansion.py",
        ("what a repository brings needs no approval", "        if claims := unapproved(", "        if claims := bool and not unapproved(",
         "integration/test_cli_aliases.py", "FR-CLI-009"),
    ),
    *rows(
        "daemon/corral/client/connection.py",
        ("another profile than the daemon's is ignored", "if self._profile is not None and running", "if False and running",
         "integration/test_cli_profiles.py", "FR-CONFIG-005"),
    ),
    *rows(
        "daemon/corral/config/custom/profiles.py",
        ("a profile inherits nothing", "        for parent in known[name].inherits:\n            _add", "        for parent in ():\n            _add",
         "unit/config/custom/test_profiles.py", "FR-CONFIG-005"),
    ),
    *rows(
        "daemon/corral/cli/program/settings_file.py",
        ("an invalid value is written", "    validate(where, place, after)\n", "", "integration/test_config_values.py", "FR-CONFIG-003"),
    ),
    *rows(
        "daemon/corral/cli/terminal/progress.py",
        ("whoever wants quiet sees progress", " and not Common.quiet", "", WAITS, "FR-CLI-005"),
        ("nobody sees what a command waits for", "return sys.stderr.isatty() and", "return False and", WAITS, "FR-CLI-005"),
    ),
    *rows(
        "daemon/corral/cli/terminal/candidates.py",
        ("a hostile name reaches the shell", " and _VALUE.fullmatch(value)", "", COMPLETED, "NFR-USE-002"),
        ("a title reaches the shell as it came", '_STRANGE.sub(" ", about)', "about", COMPLETED, "NFR-USE-002"),
    ),
    *rows(
        "daemon/corral/cli/terminal/suggestions.py",
        ("no similar name is told", 'error.remedy = f"{meant(names)} {error.remedy}"', "pass",
         "integration/test_suggestions.py::test_similar_names_of_each_kind_are_suggested", "FR-CLI-006"),
    ),
    *rows(
        "daemon/corral/cli/project/init_config.py",
        ("a second init begins the configuration anew", "if not project.config_file.exists():", "if True:", INIT, "FR-CLI-001"),
        ("init writes a configuration that is none", "default_config(answers.branch, answers.verify)", '"landing: 1"', INIT, "FR-CLI-001"),
        ("a second init drops other settings", "content = with_value(content, key", 'content = with_value(b"", key',
         "integration/test_init.py::test_init_again_with_other_answers_asks_and_keeps_the_comments", "FR-CLI-001"),
    ),
    *rows(
        "daemon/corral/cli/terminal/tables.py",
        ("a field's name reaches the terminal as it came", '{one_line(str(name))}"\n', '{name}"\n',
         "integration/test_hostile_output.py::test_no_command_obeys_a_text_or_lets_it_forge_a_line", "NFR-SEC-003"),
        ("an empty list says nothing", "        echo(empty)\n        return\n    headings", "        return\n    headings",
         f"{CONTRACT}::test_every_list_is_an_array_even_when_it_is_empty", "FR-CLI-004"),
        ("a table leaves out its last row", "    for line in cells:\n        echo(_line", "    for line in cells[:-1]:\n        echo(_line", SORTED, "FR-CLI-004"),
        ("a table of fields leaves fields out", "    names = list(dict.fromkeys(name for one in values for name in one))",
         "    names = list(dict.fromkeys(name for one in values for name in one))[:-1]",
         "integration/test_output_formats.py", "FR-CLI-004 NFR-USE-005"),
        ("a terminal's width does not count", "    while sum(widths) > room:", "    while False:", "integration/test_output_formats.py", "FR-CLI-004"),
    ),
    *rows(
        "daemon/corral/cli/terminal/trace.py",
        ("nobody who asks sees the requests", "        _write(f\"{done.method}", "        str(f\"{done.method}", "integration/test_traces.py", "FR-CLI-007"),
        ("a secret is written", "    text = redact(json.dumps(_without_secrets(content)", "    text = str(json.dumps(_without_secrets(content)",
         "integration/test_traces.py", "FR-CLI-007"),
    ),
    *rows(
        "daemon/corral/cli/terminal/output.py",
        ("an error has no code", " [{error.code}]\", file=sys.stderr)", "\", file=sys.stderr)", FOR_PEOPLE, "FR-CLI-006"),
        ("an error has no cause", "    if error.cause and error.cause.rstrip(\".\") not in lines:\n", "    if False:\n", FOR_PEOPLE, "FR-CLI-006"),
        ("an error shows its stack to everybody", "    if debug:\n", "    if True:\n", FOR_PEOPLE, "FR-CLI-006"),
        ("whoever asks sees no stack", "    if debug:\n", "    if False:\n", FOR_PEOPLE, "FR-CLI-006"),
        ("a remedy goes to standard output", 'remedy: {_indented(error.remedy, 10)}", file=sys.stderr)', 'remedy: {_indented(error.remedy, 10)}")',
         FOR_PEOPLE, "FR-CLI-006"),
        ("what is for programs has no end", "    print(_json(value, sys.stdout, indent))", "    print(_json(value, sys.stdout, indent)[:-1])", SORTED, "FR-CLI-004"),
        ("an error has no remedy", "    if error.remedy:\n", "    if False:\n",
         f"{CONTRACT}::test_errors_for_people_have_a_code_a_cause_and_a_remedy", "FR-CLI-006"),
    ),
    *rows(
        "daemon/corral/errors.py",
        ("what is not found exits with another code", "    status = 404\n    exit_code = 3", "    status = 404\n    exit_code = 1",
         f"{CONTRACT}::test_unknown_ids_of_every_noun_exit_with_3", "FR-CLI-006"),
    ),
    *rows(
        "daemon/corral/cli/project/initialise.py",
        ("init writes without consent", "if not yes and is_change and not confirm(", "if False and not confirm(",
         "integration/test_init.py::test_init_shows_what_it_will_write_and_does_nothing_unless_agreed", "FR-CLI-001"),
    ),
    *rows(
        "daemon/corral/cli/project/initialise.py",
        ("init does not say how to go on", 'echo("  Submit a task:', 'str("  Submit a task:', INIT, "FR-CLI-001"),
    ),
    *rows(
        "daemon/corral/cli/commands/tasks.py",
        ("an option does not say what it is for", 'typer.Option("--limit", min=1, help="Maximum number of tasks.")', 'typer.Option("--limit", min=1)',
         "bundle/test_docs.py::test_every_option_and_argument_says_what_it_is", "FR-CLI-002"),
    ),
    *rows(
        "daemon/corral/cli/help.py",
        ("help has no examples", "corral {line}\" for line in lines)", "corral {line}\" for line in ())", HELP, "FR-CLI-002"),
        ("help names no other commands", 'for name in page["related"])', "for name in ())", HELP, "FR-CLI-002"),
        ("commands are in no order", 'sections = {"Commands": tuple(shown)} if _names(ctx) else CATEGORIES', 'sections = {"Commands": tuple(shown)}',
         HELP, "FR-CLI-002"),
        ("a command is in no list", "formatter.write_dl([(name, shown[name]) for name in names])", "formatter.write_dl([(name, shown[name]) for name in names[1:]])",
         HELP, "FR-CLI-002"),
    ),
    *rows(
        "daemon/corral/cli/help.json",
        ("a command has no help page", '  "task submit": ', '  "task send": ',
         "bundle/test_docs.py::test_every_command_has_a_help_page_with_examples_and_related_commands_that_exist", "FR-CLI-002"),
    ),
)  # fmt: skip
