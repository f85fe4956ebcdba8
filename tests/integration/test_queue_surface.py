"""The queue at its surface: dead letters, shared state, batches by title, what becomes of interrupted tasks."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.errors import ConfigInvalid, NotFound
from tests.integration.running import keeper_of
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put

NEVER_AGAIN = "tasks: {max_retries: 0}\n"


@pytest.mark.req("FR-QUEUE-010")
def test_dead_tasks_are_shown_with_their_output_and_retried_one_by_one_or_all(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config=NEVER_AGAIN)
    works = "test -e $CORRAL_PROJECT/mended || { echo the table is missing; exit 3; }"
    dead = [house.submit(f"dead {number}", works) for number in range(3)]
    house.run("wait", "--all", "--timeout", "60", check=False)
    assert [row["task_id"] for row in house.json("task", "dlq", "list")] == dead
    listed = house.run("task", "dlq", "list").stdout
    assert "command_failed: The command exited with 3: the table is missing" in listed
    shown = house.run("task", "dlq", "show", dead[0][:8]).stdout
    assert shown.startswith("dead 0  ") and shown.rstrip().endswith("the table is missing")
    asked = house.run("task", "dlq", "clear", check=False)
    assert asked.returncode == 2 and "Use --yes" in asked.stderr and len(house.json("task", "dlq", "list")) == 3
    assert house.json("task", "dlq", "clear", dead[2])["task_ids"] == [dead[2]]
    (house.root / "mended").touch()
    assert house.json("task", "dlq", "retry", dead[0])["task_ids"] == [dead[0]]
    assert house.json("task", "dlq", "retry", "--all")["task_ids"] == [dead[1]]
    done = house.json("wait", *dead[:2], "--timeout", "60")
    assert [row["status"] for row in done["tasks"]] == ["completed", "completed"]
    assert house.json("task", "dlq", "list") == [] == house.json("task", "dlq", "clear", "--yes")["task_ids"]
    assert house.json("task", "detail", dead[2])["status"] == "dead", "cleared, and still known"
    refused = house.run("task", "dlq", "retry", dead[0], check=False)
    assert refused.returncode == 4 and "not in the dead-letter queue" in refused.stderr
    assert house.run("task", "dlq", "retry", check=False).returncode == 2, "neither a task nor --all"


@pytest.mark.req("FR-SWARM-007")
def test_workers_share_what_they_set_and_none_overwrites_the_other(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}")
    task = house.submit("lead", "true")
    assert house.json("state", "set", task, "plan", '{"steps": 2}')["version"] == 1
    assert house.run("state", "get", task, "plan").stdout.strip() == json.dumps({"steps": 2}, indent=2)
    assert house.json("state", "set", task[:8], "who", "GreenLake")["value"] == "GreenLake"
    late = house.run("state", "set", task, "plan", "3", "--if-version", "7", check=False)
    assert late.returncode == 4 and "at version 1, not at version 7" in late.stderr
    assert house.json("state", "set", task, "plan", "3", "--if-version", "1")["version"] == 2
    assert [(row["key"], row["value"]) for row in house.json("state", "list", task)] == [
        ("plan", 3),
        ("who", "GreenLake"),
    ]
    house.run("state", "delete", task, "who")
    assert house.run("state", "get", task, "who", check=False).returncode == 3
    house.run("task", "cancel", task)
    assert house.json("state", "list", task) == [], "what a task shares ends with it"


@pytest.mark.req("FR-QUEUE-007")
def test_a_batch_waits_by_title_and_is_numbered_in_a_row(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}")
    file = tmp_path / "batch.yaml"
    file.write_text(
        "tasks:\n- {title: base, command: 'true', metadata: {ticket: 7}}\n"
        "- {title: on top, command: 'true', wait_for: [base], priority: 9, claims: [src/]}\n"
    )
    made = house.json("task", "batch-submit", "--file", str(file))
    first, second = made["numbers"]
    assert second == first + 1 and made["queued"] == 2
    top = house.json("task", "detail", f"#{second}")
    assert top["wait_for"] == [made["task_ids"][0]] and top["status"] == "waiting"
    assert house.json("task", "detail", str(first))["metadata"] == {"ticket": 7}
    file.write_text("- {title: fine, command: 'true'}\n- {title: bad, priority: 11}\n- {command: 'true'}\n")
    refused = house.run("task", "batch-submit", "--file", str(file), "--json", check=False)
    errors = json.loads(refused.stderr)["error"]["details"]["errors"]
    assert {(error["index"], error["field"]) for error in errors} == {(1, "priority"), (2, "title")}
    assert len(house.json("task", "list")) == 2, "all or nothing"


@pytest.mark.req("FR-QUEUE-005")
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_what_was_interrupted_fails_where_that_is_wanted(coordinate: Callable[..., Coordinated], how: str) -> None:
    house = coordinate(config="tasks: {on_interrupted: fail}\nsupervisor: {stop_grace_s: 0.5}\n")
    task = house.submit("long", "sleep 600")
    waits = house.submit("waits", "true", "--wait-for", task)
    eventually(lambda: house.json("task", "detail", task)["started_at"])
    if how == "killed":
        house.kill_daemon()
        (attempt,) = (house.root / ".corral" / "run" / "attempts").glob(f"{task}.*")
        os.kill(keeper_of(attempt), signal.SIGKILL)  # else its worker goes on
    else:
        house.run("daemon", "stop")
    house.run("daemon", "start")
    ended = eventually(lambda: (detail := house.json("task", "detail", task))["status"] == "failed" and detail)
    assert ended["error_code"] == ("daemon_died" if how == "killed" else "interrupted")
    assert ended["attempt_history"][0]["outcome"] == "interrupted"
    assert house.json("task", "detail", waits)["error_code"] == "dependency_failed"
    assert "which cannot succeed: it is failed." in house.run("wait", waits, check=False).stdout
    refused = house.run("task", "retry", waits, check=False)
    assert refused.returncode == 4 and f"corral task retry {task[:8]}" in refused.stderr
    assert house.json("task", "retry", task)["status"] == "pending"


@pytest.mark.req("FR-QUEUE-001")
def test_input_comes_from_a_file_and_a_file_without_an_object_is_refused(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}")
    file = tmp_path / "input.json"
    file.write_text('{"branch": "feat/login"}')
    made = house.json("task", "submit", "--title", "review", "--description", "Look.", "--input", str(file))
    assert house.json("task", "detail", made["task_id"])["input_data"] == {"branch": "feat/login"}
    for content in ("[1]", "nonsense", "\udce4"):
        file.write_bytes(content.encode(errors="surrogateescape"))
        refused = house.run("task", "submit", "--title", "x", "--description", "y", "--input", str(file), check=False)
        assert refused.returncode == 2 and str(file) in refused.stderr, content
    file.unlink()
    submit = ("task", "submit", "--title", "x", "--description", "y", "--input")
    refused = house.run(*submit, str(file), check=False)
    assert refused.returncode == 2 and f"Cannot read the file '{file}' of --input" in refused.stderr
    long = {"branch": "x" * 5000}
    made = house.json(*submit, json.dumps(long))
    assert house.json("task", "detail", made["task_id"])["input_data"] == long


@pytest.mark.req("FR-QUEUE-001")
def test_a_template_that_does_not_exist_is_refused_and_those_that_do_are_named(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}")
    submit = ("task", "submit", "--title", "x", "--template")
    refused = house.run(*submit, "fix", check=False)
    assert refused.returncode == 2 and "there is no template 'fix'" in refused.stderr and "are none" in refused.stderr
    folder = house.root / ".corral" / "templates"
    put(folder / "fix.yaml", "name: fix\ncommand: 'true'\n")
    (folder / "add-page.yaml").write_text("name: add-page\nprompt: 5\n")
    (house.root / ".corral" / "secret.yaml").write_text("name: secret\ncommand: 'true'\n")
    assert house.json("task", "detail", house.json(*submit, "fix")["task_id"])["template"] == "fix"
    for bad in ("../secret", "./fix", "fix.yaml", "Fix/..", ".", "..", "fix\n", str(folder / "fix")):
        refused = house.run(*submit, bad, "--json", check=False)
        error = json.loads(refused.stderr)["error"]
        assert refused.returncode == 2 and "there are: add-page, fix" in error["message"], bad
        assert error["remedy"] and error["details"]["errors"][0]["field"] == "template"
    refused = house.run(*submit, "fix", "--set", "x=1", check=False)
    assert refused.stderr.count("the template 'fix' has no such parameter") == 1, "said once"
    assert "Did you mean" not in refused.stderr, "the template exists: its name was not mistyped"
    file = tmp_path / "batch.yaml"
    file.write_text("- {title: one, template: fix}\n- {title: two, template: nix}\n- {template: add-page}\n")
    refused = house.run("task", "batch-submit", "--file", str(file), check=False)
    assert refused.returncode == 2 and "task 2 of 3: template: there is no template 'nix'" in refused.stderr
    assert "task 3: template: The task template add-page.yaml has 1 error. line 2: prompt" in refused.stderr
    assert len(house.json("task", "list")) == 1, "all or nothing"
    assert [row["title"] for row in house.json("task", "list", "--template", "fix")] == ["x"]


PAGE = """\
name: page
description: Write a page.
parameters: {NAME: {description: Its name.}, LINES: {type: integer, default: 1}}
title: Page {{ NAME }}
command: |
  name={{ NAME }}
  for _ in $(seq {{ LINES }}); do printf '%s\\n' "$name" >> page.txt; done
claims: [page.txt]
priority: 9
"""


@pytest.mark.req("FR-QUEUE-001", "FR-TMPL-004")
def test_a_task_of_a_template_does_what_it_says_with_the_values_that_were_given(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate()
    folder = house.root / ".corral" / "templates"
    put(folder / "page.yaml", PAGE)
    hostile = 'it\'s "$(touch pwned)"; `touch pwned`'
    made = house.json("task", "submit", "--template", "page", "--set", f"NAME={hostile}", "--set", "LINES=2")
    house.run("wait", made["task_id"])
    detail = house.json("task", "detail", made["task_id"])
    assert (detail["template"], detail["priority"], detail["claims"]) == ("page", 9, ["page.txt"])
    assert detail["input_data"] == {"NAME": hostile, "LINES": 2} and made["title"] == f"Page {hostile}"
    assert (house.root / "page.txt").read_text() == f"{hostile}\n" * 2 and not (house.root / "pwned").exists()
    refusals = {
        (): "input_data.NAME: the template 'page' needs a value",
        ("--set", "NAME=x", "--set", "LINES=some"): "input_data.LINES: must be of type integer (it is 'some')",
        ("--set", "NAME=x", "--set", "COLOUR=red"): "has no such parameter; it has: NAME, LINES",
        ("--set", "NAME=x", "--command", "true"): "command: the template 'page' says what is done",
        ("--set", "NAME"): "does not set a parameter",
        ("--set", "NAME=x", "--set", "NAME=y"): "is set twice",
    }
    for arguments, reason in refusals.items():
        refused = house.run("task", "submit", "--template", "page", *arguments, check=False)
        assert refused.returncode == 2 and reason in refused.stderr, (arguments, refused.stderr)
    assert (
        "--set needs --template"
        in house.run("task", "submit", "--title", "x", "--command", "y", "--set", "A=1", check=False).stderr
    )
    file = tmp_path / "input.json"
    file.write_text('{"NAME": "from a file"}')
    made = house.json(
        "task", "submit", "--template", "page", "--input", str(file), "--title", "Mine", "--priority", "5"
    )
    assert made["title"] == "Mine" and house.json("task", "detail", made["task_id"])["priority"] == 5
    assert len(house.json("task", "list")) == 2


@pytest.mark.req("FR-TMPL-004")
def test_task_templates_are_listed_shown_and_checked_without_a_daemon(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    assert "No task templates" in house.run("template", "list").stdout
    assert house.json("template", "validate") == {"valid": True, "checked": 0, "errors": []}
    folder = house.root / ".corral" / "templates"
    put(folder / "page.yaml", PAGE)
    assert house.run("template", "validate").stdout == "1 file is valid.\n"
    (folder / "bad.yaml").write_text('name: bad\nparameters: {A: }\ncommand: echo "{{ A }}"\n')
    (folder / "bad.yml").write_text("")
    rows = {row["name"]: row for row in house.json("template", "list")}
    assert rows["page"]["parameters"] == ["NAME", "LINES"] and rows["page"]["kind"] == "command"
    assert "within double quotes" in rows["bad"]["problem"] and rows["bad"]["kind"] is None
    shown = house.json("template", "show", "page")
    assert shown["parameters"]["NAME"] == {
        "required": True,
        "type": "string",
        "description": "Its name.",
        "choices": None,
    }
    assert shown["parameters"]["LINES"]["default"] == 1 and shown["command"].startswith("name={{ NAME }}\n")
    refused = house.run("template", "validate", check=False)
    assert refused.returncode == 2 and ".corral/templates/bad.yaml:3: command: {{ A }} stands within" in refused.stdout
    assert ".corral/templates/bad.yml: the file must be called NAME.yaml" in refused.stdout
    assert house.run("template", "validate", ".corral/templates/page.yaml").returncode == 0
    for command in (("show", "nope"), ("show", "../x"), ("validate", "nowhere")):
        assert house.run("template", *command, check=False).returncode == 3
    assert house.daemon_pid() is None
    assert house.ask("GET", "/templates") == list(rows.values()) and house.ask("GET", "/templates/page") == shown
    for name, error in (("nope", NotFound), ("..%2Fx", NotFound), ("bad", ConfigInvalid)):
        with pytest.raises(error):
            house.ask("GET", f"/templates/{name}")


@pytest.mark.req("FR-SWARM-003")
def test_several_agents_cannot_do_a_task_that_sessions_claim(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}")
    for rule in ((), ("--combine", "first")):
        options = ("--title", "look", "--description", "Look at it.", "--agents", "2", *rule)
        refused = house.run("task", "submit", *options, check=False)
        assert refused.returncode == 2 and "`agents` needs a command, a prompt or an agent" in refused.stderr
    assert house.json("task", "list") == [] and house.json("task", "claim")["success"] is False
    assert house.json("task", "submit", "--title", "look", "--command", "true", "--agents", "2")["status"] == "waiting"
