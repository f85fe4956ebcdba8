"""``--profile``: the profile of the daemon, which every command respects and none silently ignores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.coordinated import Coordinated, eventually

CONFIG = "profiles: {small: {supervisor: {max_agents: 2}}, tiny: {inherits: small, locks: {ttl_s: 60}}}"


@pytest.fixture
def profiled(coordinate: Callable[..., Coordinated]) -> Coordinated:
    return coordinate(config=CONFIG)


def agents(house: Coordinated, *args: str, **env: str) -> int:
    value = house.json("config", "get", "supervisor.max_agents", *args, **env)["value"]
    assert isinstance(value, int)
    return value


@pytest.mark.req("FR-CONFIG-005")
def test_a_daemon_keeps_the_profile_that_it_was_started_with(profiled: Coordinated) -> None:
    rows = profiled.json("config", "profiles")
    assert [(row["name"], row["active"], row["inherits"]) for row in rows] == [
        ("default", True, []), ("small", False, []), ("tiny", False, ["small"]),
    ]  # fmt: skip
    profiled.run("daemon", "start", "--profile", "tiny")
    assert agents(profiled) == 2 and agents(profiled, "--profile", "tiny") == 2
    assert agents(profiled, CORRAL_PROFILE="tiny") == 2
    assert [row["name"] for row in profiled.json("config", "profiles") if row["active"]] == ["tiny"]
    shown = profiled.json("config", "show", "locks")
    assert shown["profile"] == "tiny"
    assert {row["key"]: row["profile"] for row in shown["settings"]}["locks.ttl_s"] == "tiny"
    assert "tiny" in profiled.run("config", "show", "locks").stdout
    profiled.kill_daemon()
    profiled.hook("SessionStart", "somebody-else")
    assert profiled.ask("GET", "/health")["profile"] == "tiny", "whoever starts it again"
    profiled.run("daemon", "restart")
    assert agents(profiled) == 2
    profiled.run("daemon", "restart", "--profile", "default")
    assert agents(profiled) == 10


@pytest.mark.req("FR-CONFIG-005")
def test_another_profile_than_the_daemons_is_refused_by_every_command(profiled: Coordinated) -> None:
    profiled.run("daemon", "start", "--profile", "small")
    for command in (("task", "list"), ("status",), ("daemon", "start"), ("-v", "wait", "--all")):
        ways: tuple[tuple[tuple[str, ...], dict[str, Any]], ...]
        ways = ((("--profile", "tiny", *command), {}), (command, {"CORRAL_PROFILE": "tiny"}))
        for args, env in ways:
            done = profiled.run(*args, check=False, **env)
            assert (done.returncode, done.stdout) == (4, ""), args
            assert "runs with the profile 'small', not 'tiny'" in done.stderr
            assert "corral daemon restart --profile tiny" in done.stderr
    assert profiled.run("task", "list", "--profile", "small").returncode == 0


@pytest.mark.req("FR-CONFIG-005")
def test_an_unknown_profile_is_refused_with_those_that_exist(profiled: Coordinated) -> None:
    for running in (False, True):
        if running:
            profiled.run("daemon", "start")
        done = profiled.run("task", "list", "--profile", "huge", check=False)
        assert done.returncode == 3 and "There is no profile 'huge'" in done.stderr
        assert "default, small, tiny" in done.stderr
    assert profiled.run("config", "validate", "--profile", "huge", check=False).returncode == 2


def test_a_profile_that_is_gone_stops_no_daemon_and_the_next_one_has_what_it_was_and_says_so(
    profiled: Coordinated,
) -> None:
    profiled.run("daemon", "start", "--profile", "tiny")
    config = profiled.root / ".corral" / "config.yaml"
    before = config.read_text()
    config.write_text(before.partition("profiles")[0])
    eventually(lambda: profiled.json("status")["config_error"])
    assert agents(profiled) == 2
    profiled.run("daemon", "stop")
    profiled.run("daemon", "start")
    assert "there is no profile 'tiny'" in str(profiled.json("status")["config_error"])
    assert agents(profiled) == 2
    profiled.run("daemon", "restart", "--profile", "default")
    assert agents(profiled) == 10


@pytest.mark.req("FR-CONFIG-003")
def test_validate_checks_profiles_that_are_not_in_use(profiled: Coordinated) -> None:
    profiled.configure("profiles: {small: {supervisor: {max_agents: many}}}\n")
    done = profiled.run("config", "validate", check=False)
    assert done.returncode == 2 and "supervisor.max_agents" in done.stderr
