"""Where settings come from, which of them wins, and what is said about those that cannot be taken."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.config.load import Loaded, load
from corral.config.model import Settings, all_settings
from corral.config.paths import Project
from corral.core.errors import ConfigInvalid

Loading = Callable[..., Loaded]


def errors_of(caught: pytest.ExceptionInfo[ConfigInvalid]) -> dict[str, tuple[str, str]]:
    """``{field: (reason, source)}`` of every error that was reported."""
    return {error["field"]: (error["reason"], error["source"]) for error in caught.value.details["errors"]}


@pytest.mark.req("FR-CONFIG-001")
def test_each_layer_wins_over_the_one_before(loading: Loading) -> None:
    layers = {
        "team": "supervisor: {max_agents: 2}\ntasks: {max_retries: 2}\nqueue: {max_size: 2}\nlocks: {ttl_s: 2}\n",
        "user": "tasks: {max_retries: 3}\nqueue: {max_size: 3}\nlocks: {ttl_s: 3}\n",
        "local": "queue: {max_size: 4}\nlocks: {ttl_s: 4}\n",
        "environ": {"CORRAL_LOCKS_TTL_S": "5"},
    }
    loaded = loading(**layers)
    assert loaded.settings.supervisor.max_agents == 2
    assert loaded.settings.tasks.max_retries == 3
    assert loaded.settings.queue.max_size == 4
    assert loaded.settings.locks.ttl_s == 5
    assert loaded.settings.sessions == Settings().sessions
    assert loaded.sources["supervisor.max_agents"] == ".corral/config.yaml"
    assert loaded.sources["tasks.max_retries"] == "~/.corral/config.yaml"
    assert loaded.sources["queue.max_size"] == ".corral/local.yaml"
    assert loaded.sources["locks.ttl_s"] == "CORRAL_LOCKS_TTL_S"
    assert loaded.sources["sessions.lease_s"] == "default"
    assert loaded.warnings == []


@pytest.mark.parametrize(
    ("command", "passed_over"),
    [
        ("pytest 2>&1 | tee log", "tee"),
        ("cd a && pytest |& tail -5; echo on", "tail"),
        ("set -e\npytest | cat || exit 1\ntrue", "cat"),
        ("bash -o pipefail -c 'pytest | tee log'", None),
        ("git diff | tee log | grep -q '^+'", None),
        ("pytest || cat log", None),
        ("pytest -k 'a|b' > tail", None),
    ],
)
def test_a_pipe_that_hides_a_failing_command_is_told(loading: Loading, command: str, passed_over: str | None) -> None:
    warnings = loading(team=json.dumps({"landing": {"verify": ["true", command]}})).warnings
    assert [warning.partition(" Leave")[0] for warning in warnings] == [
        f".corral/config.yaml: `landing.verify` passes over what fails before `| {name}`."
        for name in [passed_over]
        if name is not None
    ]


@pytest.mark.req("FR-CONFIG-001")
def test_a_setting_that_was_renamed_is_still_read_and_its_new_name_told(loading: Loading) -> None:
    loaded = loading(
        team="tasks: {max_queue: 7, backoff_max_s: 20}\nqueue: {max_size: 9}\n",
        environ={"CORRAL_SESSIONS_STALL_AFTER_S": "3"},
    )
    assert (loaded.settings.queue.max_size, loaded.settings.tasks.retry_max_s) == (9, 20)
    assert loaded.settings.agents.stalled_after_s == 3
    assert loaded.sources["tasks.retry_max_s"] == ".corral/config.yaml"
    assert loaded.overrides == {"agents.stalled_after_s": "CORRAL_SESSIONS_STALL_AFTER_S"}
    assert loaded.warnings == [
        ".corral/config.yaml: `tasks.max_queue` is now called `queue.max_size`.",
        ".corral/config.yaml: `tasks.backoff_max_s` is now called `tasks.retry_max_s`.",
        "CORRAL_SESSIONS_STALL_AFTER_S is now called CORRAL_AGENTS_STALLED_AFTER_S.",
    ]
    with pytest.raises(ConfigInvalid) as caught:
        loading(user="tasks: {max_queue: none}\n")
    assert errors_of(caught)["queue.max_size"][1] == "~/.corral/config.yaml"


def test_without_any_file_the_defaults_are_in_force(loading: Loading) -> None:
    loaded = loading()
    assert loaded.settings == Settings()
    assert set(loaded.sources) == {setting.key for setting in all_settings()}
    assert set(loaded.sources.values()) == {"default"}


def test_an_empty_file_and_an_empty_section_say_nothing(loading: Loading) -> None:
    assert loading(team="", local="landing:\nlocks: ~\n").settings == Settings()


def test_a_list_replaces_a_list(loading: Loading) -> None:
    assert loading(team="landing: {verify: [a, b]}", local="landing: {verify: [c]}").settings.landing.verify == ["c"]


def test_one_command_needs_no_list_and_a_commented_list_is_empty(loading: Loading) -> None:
    assert loading(team="landing: {verify: pytest -q}").settings.landing.verify == ["pytest -q"]
    assert loading(team="landing:\n  verify:\n  # - pytest\n").settings.landing.verify == []


def test_words_mean_what_they_say(loading: Loading) -> None:
    loaded = loading(team="locks: {enforcement: off}\nlanding: {target: no}\nlogs: {level: debug}\n")
    assert loaded.settings.locks.enforcement == "off"
    assert loaded.settings.landing.target == "no"
    assert loaded.settings.logs.level == "DEBUG"


def test_a_home_that_is_the_project_is_read_once(project: Project, loading: Loading, sealed: Path) -> None:
    loading(team="landing: {target: mine}")
    loaded = load(project, environ={}, home=project.root, committed=b"landing: {target: ours}")
    assert loaded.settings.landing.target == "ours"


class TestLanding:
    """The file that is committed on the target branch decides how work lands."""

    @pytest.mark.req("X10")
    def test_the_committed_section_replaces_the_working_copys(self, loading: Loading) -> None:
        loaded = loading(
            team="landing: {verify: ['true'], reruns: 5}\nsupervisor: {max_agents: 3}\n",
            committed="landing: {verify: [make test]}\nsupervisor: {max_agents: 9}\n",
        )
        assert loaded.settings.landing.verify == ["make test"]
        assert loaded.settings.landing.reruns == 1, "the working copy's section is gone, not mixed in"
        assert loaded.settings.supervisor.max_agents == 3, "only landing is special"
        assert loaded.sources["landing.verify"] == ".corral/config.yaml on the target branch"

    def test_without_a_committed_file_the_working_copy_counts(self, loading: Loading) -> None:
        assert loading(team="landing: {verify: [a]}", committed=None).settings.landing.verify == ["a"]

    def test_a_committed_file_without_the_section_leaves_the_defaults(self, loading: Loading) -> None:
        assert loading(team="landing: {verify: [a]}", committed="").settings.landing.verify == []

    @pytest.mark.parametrize("layer", ["user", "local"])
    def test_no_file_wins_over_it_and_what_it_leaves_open_comes_from_there(self, loading: Loading, layer: str) -> None:
        loaded = loading(
            **{layer: "landing: {verify: ['true'], reruns: 4}\nlocks: {ttl_s: 60}\n"},
            committed="landing: {verify: [a], timeout_s: 7}",
        )
        assert loaded.settings.landing.verify == ["a"]
        assert loaded.sources["landing.verify"] == ".corral/config.yaml on the target branch"
        assert (loaded.settings.landing.timeout_s, loaded.settings.landing.reruns) == (7, 4)
        assert loaded.settings.locks.ttl_s == 60

    def test_only_a_variable_of_the_daemon_wins_over_it(self, loading: Loading) -> None:
        loaded = loading(committed="landing: {verify: [a]}", environ={"CORRAL_LANDING_VERIFY": "quick"})
        assert loaded.settings.landing.verify == ["quick"]

    def test_its_errors_name_it(self, loading: Loading) -> None:
        with pytest.raises(ConfigInvalid) as caught:
            loading(committed="landing: {reruns: -1}")
        assert errors_of(caught)["landing.reruns"][1] == ".corral/config.yaml on the target branch"
        with pytest.raises(ConfigInvalid) as caught:
            loading(committed="landing: *x")
        assert errors_of(caught)[""][1] == ".corral/config.yaml on the target branch"


class TestEnvironment:
    """Variables win over every file."""

    @pytest.mark.req("FR-CONFIG-002")
    @pytest.mark.parametrize(
        "variable",
        ["CORRAL_LANDING_TARGET", "CORRAL_LANDING__TARGET", "CORRAL_LANDING.TARGET", "CORRAL_landing.target"],
    )
    def test_every_spelling_reaches_the_key_and_is_told(self, loading: Loading, variable: str) -> None:
        loaded = loading(team="landing: {target: a}", local="landing: {target: b}", environ={variable: "release/1.0"})
        assert loaded.settings.landing.target == "release/1.0"
        assert loaded.overrides == {"landing.target": variable}
        assert loaded.sources["landing.target"] == variable

    def test_deep_keys_are_found_by_the_schema(self, loading: Loading) -> None:
        environ = {
            "CORRAL_RUNNERS_CLAUDE_MAX_COST_USD": "1.5",
            "CORRAL_RUNNERS__COMMAND__MEMORY_MB": "64",
            "CORRAL_SESSIONS_STALE_AFTER_S": "30",
        }
        settings = loading(environ=environ).settings
        assert settings.runners.claude.max_cost_usd == 1.5
        assert settings.runners.command.memory_mb == 64
        assert settings.sessions.stale_after_s == 30

    @pytest.mark.parametrize(("value", "slots"), [("2", 2), ("auto", "auto")])
    def test_a_number_or_a_word_is_either(self, loading: Loading, value: str, slots: int | str) -> None:
        assert loading(environ={"CORRAL_LANDING_SLOTS": value}).settings.landing.slots == slots

    @pytest.mark.parametrize("value", ["1.0", "true", "null", "[x"])
    def test_a_text_is_taken_as_it_stands(self, loading: Loading, value: str) -> None:
        assert loading(environ={"CORRAL_RUNNERS_CLAUDE_MODEL": value}).settings.runners.claude.model == value

    @pytest.mark.parametrize(
        ("value", "commands"),
        [
            ("pytest -q", ["pytest -q"]),
            ('["a b", c]', ["a b", "c"]),
            ("- a\n- b", ["a", "b"]),
            ("[]", []),
            ("echo a: b", ["echo a: b"]),
        ],
    )
    def test_a_list_is_yaml_or_one_entry(self, loading: Loading, value: str, commands: list[str]) -> None:
        assert loading(environ={"CORRAL_LANDING_VERIFY": value}).settings.landing.verify == commands

    def test_an_empty_variable_is_not_set(self, loading: Loading) -> None:
        loaded = loading(team="landing: {target: a}", environ={"CORRAL_LANDING_TARGET": ""})
        assert loaded.settings.landing.target == "a"
        assert loaded.overrides == {}

    @pytest.mark.req("FR-CONFIG-002")
    def test_values_are_validated_under_the_variables_name(self, loading: Loading) -> None:
        environ = {"CORRAL_SUPERVISOR_MAX_AGENTS": "many", "CORRAL_LANDING_VERIFY": "[a", "CORRAL_LOCKS_TTL_S": "-1"}
        with pytest.raises(ConfigInvalid) as caught:
            loading(environ=environ)
        assert errors_of(caught) == {
            "supervisor.max_agents": ("should be a valid integer (it is 'many')", "CORRAL_SUPERVISOR_MAX_AGENTS"),
            "locks.ttl_s": ("should be greater than 0 (it is -1)", "CORRAL_LOCKS_TTL_S"),
            "landing.verify": (errors_of(caught)["landing.verify"][0], "CORRAL_LANDING_VERIFY"),
        }

    def test_our_other_variables_are_none_of_its_business(self, loading: Loading) -> None:
        ours = ["CORRAL_TASK_ID", "CORRAL_SESSION_ID", "CORRAL_PORTS", "CORRAL_PORT_BASE", "CORRAL_CRASH_AT"]
        assert loading(environ=dict.fromkeys(ours, "x")).warnings == []

    def test_a_misspelt_variable_is_mentioned(self, loading: Loading) -> None:
        environ = {"CORRAL_LANDNG_TARGET": "x", "CORRAL_LOCKS_COLOUR": "x"}
        assert loading(environ=environ).warnings == [
            "CORRAL_LANDNG_TARGET is not a setting. Did you mean `CORRAL_LANDING_TARGET`?",
            "CORRAL_LOCKS_COLOUR is not a setting.",
        ]


class TestValidation:
    """What is wrong is said completely and once."""

    @pytest.mark.req("FR-CONFIG-003")
    def test_every_error_is_reported_with_field_reason_and_source(self, loading: Loading) -> None:
        with pytest.raises(ConfigInvalid) as caught:
            loading(
                team="tasks: {max_retries: lots, unblock_on: never}\nlanding: {verify: [ok, 3, '', \"# pytest\\n\"]}\n",
                user="supervisor: {max_agents: 1001}\n",
                local="runners: {claude: {command: bin/absent}}\nlocks: 3\n",
                environ={"CORRAL_DAEMON_TCP_PORT": "70000"},
            )
        assert errors_of(caught) == {
            "tasks.max_retries": ("should be a valid integer (it is 'lots')", ".corral/config.yaml"),
            "tasks.unblock_on": ("should be 'landed' or 'completed' (it is 'never')", ".corral/config.yaml"),
            "landing.verify.1": ("should be a valid string (it is 3)", ".corral/config.yaml"),
            "landing.verify.2": ("a command must not be empty (it is '')", ".corral/config.yaml"),
            "landing.verify.3": ("a command must not be empty (it is '# pytest\\n')", ".corral/config.yaml"),
            "supervisor.max_agents": ("should be less than or equal to 1000 (it is 1001)", "~/.corral/config.yaml"),
            "runners.claude.command": ("there is no such program (it is 'bin/absent')", ".corral/local.yaml"),
            "locks": ("must be a section with settings, not 3", ".corral/local.yaml"),
            "daemon.tcp_port": ("should be less than or equal to 65535 (it is 70000)", "CORRAL_DAEMON_TCP_PORT"),
        }
        assert caught.value.message == "The configuration has 9 errors."
        assert ".corral/config.yaml: tasks.max_retries: should be a valid integer (it is 'lots')" in caught.value.cause

    @pytest.mark.req("FR-CONFIG-006")
    def test_a_limit_of_one_worker_above_that_of_all_is_refused(self, loading: Loading) -> None:
        assert loading(team="limits: {memory_mb: 500}", local="limits: {memory_mb_per_agent: 500}").settings
        assert loading(local="limits: {memory_mb: null, memory_mb_per_agent: 9000}").settings
        with pytest.raises(ConfigInvalid) as caught:
            loading(team="limits: {memory_mb: 500}", local="limits: {memory_mb_per_agent: 501}")
        reason, source = errors_of(caught)["limits.memory_mb_per_agent"]
        assert "at most `limits.memory_mb` (500)" in reason and source == ".corral/local.yaml"

    @pytest.mark.req("FR-CONFIG-003")
    def test_an_unknown_key_warns_and_suggests(self, loading: Loading) -> None:
        loaded = loading(
            team="lock: {ttl_s: 1}\nlocks: {ttl: 5}\nrunners: {claude: {colour: red}}\nwhatever: 1\nmax_agents: 3\naliases: {}\n"
        )
        assert loaded.settings == Settings()
        assert loaded.warnings == [
            ".corral/config.yaml: `lock` is not a setting. Did you mean `locks`?",
            ".corral/config.yaml: `locks.ttl` is not a setting. Did you mean `locks.ttl_s`?",
            ".corral/config.yaml: `runners.claude.colour` is not a setting.",
            ".corral/config.yaml: `whatever` is not a setting.",
            ".corral/config.yaml: `max_agents` is not a setting. Did you mean `supervisor.max_agents`?",
            ".corral/config.yaml: `aliases` is not a setting. Did you mean `alias`?",
        ]

    @pytest.mark.parametrize("value", ["true", "1.5", "'3'", "[1]", "null"])
    def test_a_whole_number_is_nothing_else(self, loading: Loading, value: str) -> None:
        with pytest.raises(ConfigInvalid):
            loading(team=f"supervisor: {{max_agents: {value}}}")

    @pytest.mark.parametrize("branch", ["--output=x", "a b", "a\\nb", "x^{tree}", "a:b", "", "HEAD~1", "a" * 201])
    def test_a_hostile_branch_is_refused(self, loading: Loading, branch: str) -> None:
        with pytest.raises(ConfigInvalid) as caught:
            loading(team=f'landing: {{target: "{branch}"}}')
        assert errors_of(caught)["landing.target"][0].startswith("this cannot be the name of a branch")

    def test_a_value_that_is_overridden_is_not_looked_at(self, loading: Loading) -> None:
        loaded = loading(team="locks: {ttl_s: never}", local="locks: {ttl_s: 5}")
        assert loaded.settings.locks.ttl_s == 5

    def test_a_long_value_is_cut(self, loading: Loading) -> None:
        with pytest.raises(ConfigInvalid) as caught:
            loading(team=f"locks: {{ttl_s: {'x' * 5000}}}")
        assert len(caught.value.cause) < 200


class TestFiles:
    """A file that cannot be taken is one error among the others."""

    def test_errors_of_files_and_of_fields_come_together(self, loading: Loading) -> None:
        with pytest.raises(ConfigInvalid) as caught:
            loading(team="a: &x 1\n", user="- 1\n", local="locks: {ttl_s: 0}\n")
        errors = caught.value.details["errors"]
        assert [(error["field"], error["source"]) for error in errors] == [
            ("", ".corral/config.yaml"),
            ("", "~/.corral/config.yaml"),
            ("locks.ttl_s", ".corral/local.yaml"),
        ]
        assert errors[0]["reason"].startswith("line 1: anchors and aliases")

    def test_a_folder_or_a_pipe_in_place_of_a_file_does_not_hang(
        self, loading: Loading, project: Project, sealed: Path
    ) -> None:
        project.config_file.mkdir()
        os.mkfifo(project.home / "local.yaml")
        with pytest.raises(ConfigInvalid) as caught:
            load(project, environ={}, home=sealed)
        assert [error["source"] for error in caught.value.details["errors"]] == [
            ".corral/config.yaml",
            ".corral/local.yaml",
        ]

    def test_a_home_that_is_a_file_has_no_configuration(self, project: Project, tmp_path: Path) -> None:
        (tmp_path / "nobody").write_text("")
        assert load(project, environ={}, home=tmp_path / "nobody").settings == Settings()

    @pytest.mark.req("FR-CONFIG-003")
    def test_a_program_given_by_path_must_be_there_and_executable(
        self, loading: Loading, project: Project, sealed: Path
    ) -> None:
        program = project.root / "bin" / "claude"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        with pytest.raises(ConfigInvalid) as caught:
            loading(team="runners: {claude: {command: bin/claude}}")
        assert errors_of(caught)["runners.claude.command"][0].startswith("the file is not executable")
        program.chmod(0o755)
        assert loading(team="runners: {claude: {command: bin/claude}}").settings.runners.claude.command == str(program)
        assert loading(team="runners: {claude: {command: claude-7}}").settings.runners.claude.command == "claude-7"

    def test_the_users_home_is_meant_by_a_tilde(self, loading: Loading, sealed: Path) -> None:
        assert loading(user="worktrees: {root: ~/trees}").settings.worktrees.root == f"{sealed}/trees"
        assert loading(team="worktrees: {root: trees}").settings.worktrees.root == "trees"
