"""``corral config``: every error at once with its place, what is committed on the target, and no daemon needed to check."""

from __future__ import annotations

import json

import pytest

from tests.conftest import commit
from tests.support.coordinated import Coordinated, eventually


def test_a_file_that_is_not_yaml_is_told_with_its_line_by_the_doctor_too(house: Coordinated) -> None:
    house.run("daemon", "start")
    with (house.root / ".corral" / "config.yaml").open("a") as config:
        config.write("nonsense: [\n")
    lines = house.run("config", "validate", check=False).stderr.splitlines()
    assert lines[1].startswith("  line ") and "is not YAML" in lines[1]
    eventually(lambda: "is not YAML" in house.run("doctor", check=False).stdout)


@pytest.mark.req("FR-CONFIG-003")
def test_validate_names_every_error_with_its_field_and_source_and_starts_no_daemon(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("locks: {ttl_s: -1}\nsupervisor: {max_agents: many}\nlogz: {}\n")
    done = house.run("config", "validate", check=False)
    assert done.returncode == 2
    assert "locks.ttl_s" in done.stderr
    assert "supervisor.max_agents" in done.stderr
    assert ".corral/local.yaml" in done.stderr
    validation = house.run("config", "validate", "--json", check=False)
    assert validation.returncode == 2
    assert {error["field"] for error in json.loads(validation.stdout)["errors"]} == {
        "locks.ttl_s",
        "supervisor.max_agents",
    }
    assert (
        any("logz" in warning for warning in json.loads(validation.stdout)["warnings"])
        and "`logz" in done.stderr + done.stdout
    )
    assert house.run("daemon", "status", check=False).returncode == 5


@pytest.mark.req("FR-CONFIG-003")
def test_files_and_recipes_that_settings_name_must_be_there(house: Coordinated) -> None:
    local = house.root / ".corral" / "local.yaml"
    local.write_text(
        "templates: {allowed_signers: signers}\nworktrees: {recipes: [python, cobol], setup: [./prepare --all, make]}\nlogz: {}\n"
    )
    answer = json.loads(house.run("config", "validate", "--json", check=False).stdout)
    assert not answer["valid"] and any("logz" in warning for warning in answer["warnings"])
    assert {(error["field"], error["source"]) for error in answer["errors"]} == {
        (key, ".corral/local.yaml") for key in ("templates.allowed_signers", "worktrees.recipes", "worktrees.setup")
    }
    assert "there is no recipe 'cobol'; there are: " in str(answer["errors"]) and "no file ./prepare" in str(
        answer["errors"]
    )
    # Wrong values, in whatever file and profile, hide none of them.
    team = house.root / ".corral" / "config.yaml"
    valid = team.read_text()
    team.write_text("locks: {ttl_s: -1}\nqueue: 5\nprofiles: {far: {sessions: {stale_after_s: never}}}")
    everything = json.loads(house.run("config", "validate", "--json", check=False).stdout)["errors"]
    assert [error for error in answer["errors"] if error not in everything] == []
    assert {error["field"] for error in everything if error not in answer["errors"]} == {
        "locks.ttl_s", "queue", "sessions.stale_after_s",
    }  # fmt: skip
    team.write_text(valid)
    for name in ("signers", "prepare"):
        (house.root / name).touch()
    local.write_text(local.read_text().replace(", cobol", ""))
    assert house.json("config", "validate")["valid"]


@pytest.mark.req("FR-CONFIG-003")
def test_an_unknown_key_is_a_warning(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("locks: {ttl: 5}\n")
    answer = house.json("config", "validate")
    assert answer["valid"]
    assert any("locks.ttl" in warning for warning in answer["warnings"])
    assert "The configuration is valid." in house.run("config", "validate").stdout


@pytest.mark.req("FR-CONFIG-003")
def test_what_the_target_has_committed_is_checked_too(house: Coordinated) -> None:
    file = house.root / ".corral" / "config.yaml"
    good = file.read_text()
    commit(house.root, {".corral/config.yaml": "landing: {timeout_s: -1}\n"})
    file.write_text(good)
    validation = house.run("config", "validate", "--json", check=False)
    assert validation.returncode == 2
    (error,) = json.loads(validation.stdout)["errors"]
    assert (error["field"], error["source"]) == ("landing.timeout_s", ".corral/config.yaml on the target branch")


@pytest.mark.req("FR-CONFIG-001")
def test_show_tells_what_is_in_force_and_where_it_came_from(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("locks: {ttl_s: 60}\n")
    rows = {row["key"]: row for row in house.json("config", "show")["settings"]}
    assert (rows["locks.ttl_s"]["value"], rows["locks.ttl_s"]["source"]) == (60, ".corral/local.yaml")
    assert rows["tasks.max_retries"]["source"] == "default"
    assert rows["landing.verify"]["value"] == ["true"]
    section = house.json("config", "show", "locks")["settings"]
    assert {row["key"] for row in section} == {
        f"locks.{name}" for name in ("ttl_s", "enforcement", "on_daemon_down", "blind_writes")
    }
    done = house.run("config", "show", "lock", check=False)
    assert (done.returncode, "There is no setting 'lock'" in done.stderr) == (3, True)
