"""Profiles win over every base setting, inherit from each other, and name what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.config.custom.profiles import chosen_profile, remember_profile
from corral.config.load import COMMITTED_FILE, LOCAL_FILE, TEAM_FILE, USER_FILE, Layer, Loaded, load, parse_file
from corral.config.paths import Project, find_project
from corral.core.errors import ConfigInvalid

TEAM = """
tasks: {max_retries: 1, ageing_s: 1}
locks: {ttl_s: 1}
landing: {verify: [base]}
profiles:
  small: {tasks: {max_retries: 2}, supervisor: {max_agents: 2}}
  production: {inherits: small, tasks: {ageing_s: 9}, landing: {verify: [production]}}
  both: {inherits: [production, loud]}
  loud: {logs: {level: DEBUG}, supervisor: {max_agents: 3}}
"""


@pytest.fixture
def project(repo: Path) -> Project:
    (repo / ".corral" / "run").mkdir(parents=True)
    (repo / ".corral" / "config.yaml").write_text(TEAM)
    return find_project(repo)


@pytest.fixture
def read(project: Project, sealed: Path) -> Any:
    def loaded(profile: str | None = None, committed: str | None = None, **env: str) -> Loaded:
        data = committed.encode() if committed is not None else None
        return load(project, environ=env, home=sealed, committed=data, profile=profile)

    return loaded


@pytest.mark.req("FR-CONFIG-005")
def test_a_profile_wins_over_the_base_settings_and_inherits_the_rest(read: Any) -> None:
    plain = read()
    assert (plain.profile, plain.settings.tasks.max_retries, plain.settings.supervisor.max_agents) == ("default", 1, 10)
    assert plain.of_profiles == {} and plain.warnings == []
    production = read("production")
    assert (production.settings.tasks.max_retries, production.settings.tasks.ageing_s) == (2, 9)
    assert (production.settings.supervisor.max_agents, production.settings.locks.ttl_s) == (2, 1)
    assert production.of_profiles["tasks.ageing_s"] == "production" and "locks.ttl_s" not in production.of_profiles
    assert production.of_profiles["tasks.max_retries"] == "small"
    assert production.sources["tasks.ageing_s"] == TEAM_FILE
    both = read("both")
    assert (both.settings.supervisor.max_agents, both.settings.logs.level, both.settings.tasks.ageing_s) == (
        3,
        "DEBUG",
        9,
    )


@pytest.mark.req("FR-CONFIG-005")
def test_a_profile_of_one_file_wins_over_the_base_settings_of_another_and_a_variable_over_all(
    read: Any, project: Project, sealed: Path
) -> None:
    (project.home / "local.yaml").write_text(
        "tasks: {max_retries: 5}\nprofiles: {small: {supervisor: {max_agents: 7}}}\n"
    )
    (sealed / ".corral").mkdir()
    (sealed / ".corral" / "config.yaml").write_text("profiles: {production: {tasks: {ageing_s: 4}}, mine: {}}\n")
    profile = read("production", CORRAL_SUPERVISOR_MAX_AGENTS="1")
    assert (profile.settings.tasks.max_retries, profile.settings.tasks.ageing_s) == (2, 4)
    assert profile.settings.supervisor.max_agents == 1
    assert profile.sources["tasks.ageing_s"] == USER_FILE
    assert profile.layers["supervisor.max_agents"] == [
        Layer(TEAM_FILE, 2, "small"), Layer(LOCAL_FILE, 7, "small"), Layer("CORRAL_SUPERVISOR_MAX_AGENTS", 1),
    ]  # fmt: skip
    assert read(None, CORRAL_PROFILE="mine").settings.tasks.max_retries == 5


@pytest.mark.req("FR-CONFIG-005")
def test_for_landing_only_profiles_count_that_the_target_has_committed(read: Any, project: Project) -> None:
    (project.home / "local.yaml").write_text("profiles: {production: {landing: {verify: ['true'], timeout_s: 5}}}\n")
    committed = "landing: {verify: [checked]}\nprofiles: {small: {landing: {verify: [small]}}}\n"
    profile = read("production", committed)
    assert (profile.settings.landing.verify, profile.settings.landing.timeout_s) == (["small"], 5)
    assert profile.sources["landing.verify"] == COMMITTED_FILE and profile.of_profiles["landing.verify"] == "small"
    assert read("default", committed).settings.landing.verify == ["checked"]
    assert read("production", "profiles: {production: {}}").settings.landing.verify == ["true"]


@pytest.mark.req("FR-CONFIG-005")
@pytest.mark.parametrize(
    ("profiles", "chosen", "field", "reason"),
    [
        ("{a: {}}", "b", "profiles", "there is no profile 'b': the profiles are a, default"),
        ("{a: {inherits: b}, b: {inherits: [c]}, c: {inherits: a}}", "a", "profiles.a.inherits", "a -> b -> c -> a"),
        ("{a: {inherits: a}}", "a", "profiles.a.inherits", "a -> a"),
        ("{a: {inherits: z}}", "a", "profiles.a.inherits", "there is no profile 'z'"),
        ("{a: {inherits: {b: c}}}", "a", "profiles.a.inherits", "must be the name of a profile"),
        ("5", "default", "profiles", "must be a section"),
        ("{a: 5}", "default", "profiles.a", "must be a section"),
        ("{a: {tasks: {max_retries: -1}}}", "a", "tasks.max_retries", "greater than or equal to 0"),
    ],
)
def test_a_profile_that_is_not_usable_is_named(
    read: Any, project: Project, profiles: str, chosen: str, field: str, reason: str
) -> None:
    (project.home / "config.yaml").write_text(f"profiles: {profiles}\n")
    with pytest.raises(ConfigInvalid) as refused:
        read(chosen)
    (error,) = refused.value.details["errors"]
    assert error["field"] == field and reason in error["reason"]


def test_an_unknown_key_in_a_profile_is_a_warning(read: Any, project: Project) -> None:
    (project.home / "config.yaml").write_text("profiles: {a: {locks: {ttl: 1}}}\n")
    assert "locks.ttl" in read("a").warnings[0]


@pytest.mark.req("FR-CONFIG-005")
def test_a_project_keeps_its_profile_until_another_is_chosen(project: Project, sealed: Path) -> None:
    assert chosen_profile(project, {}) == "default"
    remember_profile(project, "production")
    assert chosen_profile(project, {}) == "production"
    assert parse_file(project, TEAM.encode(), sealed).settings.landing.verify == ["production"]
    assert parse_file(project, b"landing: {verify: [x]}", sealed).settings.landing.verify == ["x"]
    assert chosen_profile(project, {"CORRAL_PROFILE": "small"}) == "small"
    remember_profile(project, "default")
    assert chosen_profile(project, {}) == "default"
