"""Tasks that cannot be queued, as their submitter sees it: what is wrong is named, and nothing is queued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import InvalidInput
from corral.work.tasks.cli.commands import read_batch
from tests.support.coordinated import Coordinated
from tests.support.files import put

LEVELS = "".join(
    f"  {name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMB = f"- title: t\n  command: 'true'\n  input_data: {{}}\n  a: &a [x, x, x, x, x, x, x, x, x]\n{LEVELS}"


def refused(house: Coordinated, *args: str) -> dict[str, Any]:
    """The error of a command that is refused as wrong usage."""
    done = house.run(*args, "--json", check=False)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    error: dict[str, Any] = json.loads(done.stderr or done.stdout)["error"]
    return error


@pytest.mark.req("FR-QUEUE-007")
def test_one_bad_entry_of_a_thousand_is_named_and_none_is_queued(shared_house: Coordinated, tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [{"title": f"task {n}", "command": "true"} for n in range(1000)]
    entries[700]["priority"] = 11
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps(entries))
    error = refused(shared_house, "task", "batch-submit", "--file", str(file))
    assert "700" in str(error) and "priority" in str(error), error
    assert shared_house.ask("GET", "/tasks") == []


CANNOT_BE = {
    "aliases that explode": (BOMB, "once its aliases are written out"),
    "an alias of itself": (
        "- &one {title: t, command: 'true', input_data: {me: *one}}\n",
        "once its aliases are written out",
    ),
    "waits for nothing": ("- {title: t, command: 'true', wait_for: [nobody]}\n", "nobody"),
    "waits for itself": (
        "- {name: me, title: t, command: 'true', wait_for: [me]}\n",
        "circular dependency: me → me",
    ),
    "a circle": (
        "- {name: a, title: t, command: 'true', wait_for: [b]}\n- {name: b, title: u, command: 'true', wait_for: [a]}\n",
        "circular dependency",
    ),
}


@pytest.mark.req("FR-QUEUE-007")
def test_a_batch_that_cannot_be_is_refused_with_the_reason(shared_house: Coordinated, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    for case, (text, reason) in CANNOT_BE.items():
        file.write_text(text)
        assert reason in str(refused(shared_house, "task", "batch-submit", "--file", str(file))), case
    assert shared_house.ask("GET", "/tasks") == []


WRONG = """
- {title: fine, name: dup, command: 'true'}
- {title: bad priority, name: early, command: 'true', priority: 11}
- {title: no template, command: 'true', template: nope}
- {title: no agent, agent: nobody}
- {title: no such task, command: 'true', wait_for: [nobody]}
- {title: waits for a wrong one, command: 'true', wait_for: [early]}
- just text
- {title: no leader, command: 'true', parent_task_id: abcdef}
- {title: no claim, command: 'true', claims: [../x]}
- {title: one, name: one, command: 'true', wait_for: [two]}
- {title: two, name: two, command: 'true', wait_for: [one]}
- {title: three, name: dup, command: 'true'}
"""


@pytest.mark.req("FR-QUEUE-007")
def test_every_error_of_a_batch_is_reported_of_whatever_kind_with_its_task(
    shared_house: Coordinated, tmp_path: Path
) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text(WRONG)
    errors = refused(shared_house, "task", "batch-submit", "--file", str(file))["details"]["errors"]
    assert [(error["index"], error["field"]) for error in errors] == [
        (1, "priority"), (2, "template"), (3, "agent"), (4, "wait_for"), (6, ""), (7, "parent_task_id"), (8, "claims"),
        (9, "wait_for"), (11, "name"),
    ]  # fmt: skip
    shown = shared_house.run("task", "batch-submit", "--file", str(file), check=False).stderr
    assert "Not submitted: task 2 of 12: priority: " in shown and "(and 8 more)" in shown
    assert "\n  task 3: template: there is no template 'nope'" in shown and "\n  task 7: Input should be" in shown
    file.write_text("\n".join(f"- {{title: t{number}, priority: 11}}" for number in range(25)))
    shown = shared_house.run("task", "batch-submit", "--file", str(file), check=False).stderr
    assert "\n  task 20: priority: " in shown and "\n  and 5 more; --json shows them all\n" in shown
    assert shared_house.ask("GET", "/tasks") == []


@pytest.mark.req("FR-QUEUE-007")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("!!binary aGVsbG8=", "JSON cannot express"),
        ("!!set {a, b}", "JSON cannot express"),
        (".nan", "JSON cannot express"),
        ("[" * 3000 + "]" * 3000, "nested too deeply"),
        ("!!python/object/apply:os.getcwd []", "is not YAML or JSON"),
    ],
    ids=["bytes", "a set", "no number", "too deep", "an object"],
)
def test_a_file_that_says_more_than_json_is_refused_by_name(tmp_path: Path, value: str, reason: str) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text(f"- {{title: t, command: 'true', metadata: {{x: {value}}}}}\n")
    with pytest.raises(InvalidInput) as caught:
        read_batch(file)
    assert reason in caught.value.message and str(file) in caught.value.message and caught.value.remedy


def test_a_date_in_a_file_is_text(tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text("- {title: 2026-01-01, command: 'true', metadata: {due: 2026-02-03 10:00:00, number: 4}}\n")
    (task,) = read_batch(file)
    assert (task["title"], task["metadata"]) == ("2026-01-01", {"due": "2026-02-03 10:00:00", "number": 4})


def test_aliases_that_save_typing_are_fine(house: Coordinated, tmp_path: Path) -> None:
    file = tmp_path / "tasks.yaml"
    file.write_text("- &one {title: t, command: 'true'}\n- {<<: *one, title: u}\n")
    house.run("task", "batch-submit", "--file", str(file))
    assert {row["title"] for row in house.ask("GET", "/tasks")} == {"t", "u"}


@pytest.mark.req("FR-QUEUE-008", "D15")
def test_who_waits_for_a_dead_task_fails_at_once_and_says_for_which(house: Coordinated) -> None:
    dead = house.carry_out("no good", "exit 1", "--retries", "0", check=False)
    assert house.json("task", "detail", dead)["status"] == "dead"
    child = house.submit("after it", "true", "--wait-for", dead)
    end = house.json("task", "detail", child)
    assert (end["status"], end["error_code"]) == ("failed", "dependency_failed")
    assert dead in end["error_message"] and "no good" in end["error_message"] and "it is dead" in end["error_message"]
    house.run("task", "submit", "--title", "all the same", "--command", "true", "--wait-for", dead,
              "--ignore-dependency-failure")  # fmt: skip
    assert house.run("wait", "--all", "--timeout", "60", check=False).returncode in (0, 1)
    assert {row["title"]: row["status"] for row in house.ask("GET", "/tasks")}["all the same"] == "completed"


def test_an_agent_whose_runner_does_not_exist_is_refused_by_name(shared_house: Coordinated) -> None:
    folder = shared_house.root / ".claude" / "agents"
    put(folder / "odd.md", "---\nname: odd\ndescription: Use it.\nrunner: perl\n---\nDo it.\n")
    shared_house.trust()
    error = refused(shared_house, "task", "submit", "--title", "t", "--agent", "odd")
    assert "odd" in str(error) and "runner" in str(error) and "perl" in str(error), error
    assert shared_house.ask("GET", "/tasks") == []
