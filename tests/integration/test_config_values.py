"""``corral config get``, ``set``, ``unset``, ``edit`` and ``explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable


@pytest.mark.req("FR-CONFIG-001")
def test_a_setting_is_set_where_it_counts_and_comes_into_force(house: Coordinated) -> None:
    team, local = house.root / ".corral" / "config.yaml", house.root / ".corral" / "local.yaml"
    before = team.read_text()
    local.write_text("# mine\nlocks:  # short\n  ttl_s: 60\n")
    house.run("daemon", "start")
    answer = house.json("config", "set", "locks.ttl_s", "90")
    assert (answer["value"], answer["source"], answer["changed"]) == (90, ".corral/local.yaml", True)
    assert local.read_text() == "# mine\nlocks:  # short\n  ttl_s: 90\n"
    eventually(lambda: house.json("config", "get", "locks.ttl_s")["value"] == 90)
    assert house.run("config", "get", "locks.enforcement").stdout == "enforce\n"
    assert house.json("config", "set", "locks.ttl_s", "90")["changed"] is False
    house.run("config", "set", "landing.verify", "['true', \"echo 'x'\"]")
    comments = [line for line in before.splitlines() if "#" in line]
    assert [line for line in team.read_text().splitlines() if "#" in line] == comments
    eventually(lambda: house.json("config", "get", "landing.verify")["value"] == ["true", "echo 'x'"])
    assert house.json("trust", "--yes")["approved"] == [], "the person who typed it has approved it"
    house.run("config", "unset", "locks.ttl_s")
    assert local.read_text().strip() == "# mine"
    house.run("config", "set", "runners.claude.model", "null", "--file", "user")
    assert "model: null" in (Path.home() / ".corral" / "config.yaml").read_text()


@pytest.mark.req("FR-CONFIG-003")
def test_an_invalid_value_is_refused_before_anything_is_written(house: Coordinated) -> None:
    local = house.root / ".corral" / "local.yaml"
    for args, code, why in (
        (("locks.ttl_s", "-1"), 2, "greater than 0"), (("supervisor.max_agents", "many"), 2, "valid integer"),
        (("locks.tl_s", "5"), 3, "Did you mean locks.ttl_s"), (("locks", "5"), 3, "locks.ttl_s"),
        (("landing.verify", "[a"), 2, "YAML list"),
    ):  # fmt: skip
        done = house.run("config", "set", args[0], "--", args[1], check=False)
        assert (done.returncode, why in done.stderr) == (code, True), (args, done.stderr)
    assert not local.exists()
    local.write_text("locks: &a {ttl_s: 1}\n")
    done = house.run("config", "set", "locks.ttl_s", "5", check=False)
    assert done.returncode == 2 and local.read_text() == "locks: &a {ttl_s: 1}\n"
    refused = house.run("config", "unset", "tasks.max_retries", "--file", "team", check=False)
    assert refused.returncode == 3 and "mistyped" not in refused.stderr and "Another file" in refused.stderr
    assert "This version of Corral has nothing" in house.run("config", "get", "tasks.tries", check=False).stderr


@pytest.mark.req("FR-CONFIG-002")
def test_explain_names_every_source_and_why_it_does_not_count(house: Coordinated) -> None:
    house.configure("landing: {verify: [mine], timeout_s: 9}\nlocks: {ttl_s: 5}\nprofiles: {p: {locks: {ttl_s: 6}}}\n")
    good = (house.root / ".corral" / "config.yaml").read_text()
    commit(house.root, {".corral/config.yaml": good})
    explanation = house.json("config", "explain", "landing.verify")
    assert (explanation["value"], explanation["source"]) == (["true"], ".corral/config.yaml on the target branch")
    assert [(layer["source"], layer["counts"]) for layer in explanation["layers"]] == [
        (".corral/config.yaml", False), (".corral/local.yaml", False), (".corral/config.yaml on the target branch", True),
    ]  # fmt: skip
    assert "committed" in explanation["layers"][1]["why"]
    explanation = house.json("config", "explain", "locks.ttl_s", "--profile", "p", CORRAL_LOCKS_TTL_S="7")
    assert [layer["value"] for layer in explanation["layers"]] == [5, 6, 7]
    assert "CORRAL_LOCKS_TTL_S wins" in explanation["layers"][0]["why"]
    explanation = house.json("config", "explain", "locks.ttl_s", "--profile", "p")
    assert "profile p wins" in explanation["layers"][0]["why"] and explanation["profile"] == "p"
    explanation = house.json("config", "explain", "tasks.max_crashes")
    assert (explanation["value"], explanation["source"], explanation["layers"], explanation["default"]) == (
        5,
        "default",
        [],
        5,
    )
    shown = house.run("config", "explain", "locks.ttl_s").stdout
    assert "Lifetime of an unused lock" in shown and "CORRAL_LOCKS_TTL_S" in shown
    house.run("daemon", "start", CORRAL_LOCKS_TTL_S="8")
    assert house.json("config", "explain", "locks.ttl_s")["daemon"] == {
        "value": 8, "source": "CORRAL_LOCKS_TTL_S", "profile": None
    }  # fmt: skip
    assert "The daemon has 8" in house.run("config", "explain", "locks.ttl_s").stdout
    answer = house.run("config", "set", "landing.verify", "[other]", "--file", "local").stdout
    assert "does not decide this setting: what the target branch has committed wins over every file." in answer
    answer = house.run("config", "set", "landing.approve", "always").stdout
    assert 'in force: "paths"  (default)' in answer and "Commit .corral/config.yaml on the target branch" in answer
    answer = house.run("config", "set", "landing.approve", "always").stdout
    assert "Nothing to change." in answer and "Commit .corral/config.yaml on the target branch" in answer
    commit(house.root, {".corral/config.yaml": (house.root / ".corral" / "config.yaml").read_text()})
    assert house.json("config", "explain", "landing.approve")["value"] == "always"
    answer = house.run("config", "set", "locks.ttl_s", "9", CORRAL_LOCKS_TTL_S="7").stdout
    assert "does not decide this setting: the variable CORRAL_LOCKS_TTL_S wins over every file." in answer


@pytest.mark.req("FR-CONFIG-003")
def test_an_edit_replaces_the_file_only_if_it_is_valid(house: Coordinated, tmp_path: Path) -> None:
    file = house.root / ".corral" / "config.yaml"
    before = file.read_text()
    script = executable(tmp_path / "editor", '#!/bin/sh\nsed -i "s/max_agents: .*/max_agents: $AGENTS/" "$1"\n')
    editor: dict[str, Any] = {"EDITOR": str(script), "VISUAL": ""}
    done = house.run("config", "edit", check=False, AGENTS="many", **editor)
    assert done.returncode == 2 and "max_agents" in done.stderr and file.read_text() == before
    copy = Path(done.stderr.partition("Your text is in ")[2].partition("\n")[0].rstrip("."))
    assert "max_agents: many" in copy.read_text()
    copy.unlink()
    assert house.json("config", "edit", AGENTS="4", **editor)["changed"] is True
    assert file.read_text() == before.replace("max_agents: 10", "max_agents: 4")
    assert house.json("config", "edit", AGENTS="4", **editor)["changed"] is False
    editors: tuple[dict[str, Any], ...] = (
        {"EDITOR": "", "VISUAL": ""},
        {"EDITOR": "no-such-editor", "VISUAL": ""},
        {"EDITOR": "false", "VISUAL": ""},
    )
    for wrong in editors:
        assert house.run("config", "edit", check=False, TMPDIR=str(tmp_path), **wrong).returncode == 2
    assert list(tmp_path.glob("corral-*.yaml")) == [], "what nobody changed is not kept"
    script.write_text(f'#!/bin/sh\necho "# mine" >> "$1"; echo "# theirs" >> {file}\n')
    done = house.run("config", "edit", check=False, **editor)
    copy = Path(done.stderr.partition("Your text is in ")[2].partition("\n")[0].rstrip("."))
    assert done.returncode == 4 and copy.read_text().endswith("# mine\n")
    assert file.read_text().endswith("# theirs\n") and "# mine" not in file.read_text()
    copy.unlink()
    script.write_text('#!/bin/sh\necho "# mine" >> "$1"; exit 1\n')
    done = house.run("config", "edit", check=False, **editor)
    copy = Path(done.stderr.partition("Your text is in ")[2].partition("\n")[0].rstrip("."))
    assert done.returncode == 2 and copy.read_text().endswith("# mine\n")
    copy.unlink()


@pytest.mark.req("FR-CONFIG-002")
def test_a_variable_that_a_running_daemon_does_not_have_is_told(house: Coordinated) -> None:
    def told(*args: str, **env: Any) -> str:
        return str(house.run(*args, **env).stderr)

    house.run("daemon", "start", CORRAL_LOCKS_TTL_S="8")
    line = "CORRAL_LOCKS_TTL_S does not count for this command: the running daemon has locks.ttl_s from CORRAL_LOCKS_TTL_S."
    assert line in told("task", "list", CORRAL_LOCKS_TTL_S="9")
    assert "corral daemon restart" in told("status", "--json", CORRAL_LOCKS_TTL_S="9")
    assert told("task", "list", CORRAL_LOCKS_TTL_S="8") == "", "it is the one in force"
    assert told("task", "list", CORRAL_TASK_ID="x", CORRAL_SWARM="y") == "", "they are no settings"
    assert "CORRAL_LOCKS_TTL_S does not count: locks.ttl_s " in told("task", "list", CORRAL_LOCKS_TTL_S="soon")
    assert told("daemon", "restart", CORRAL_LOCKS_TTL_S="9") == ""
    assert house.json("config", "get", "locks.ttl_s")["value"] == 9
