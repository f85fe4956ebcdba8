"""Steps of a task template: every error with its line, and the tasks that they become."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.work.tasks.wire import TaskSubmission
from corral.work.templates import steps
from corral.work.templates.task_template import check, expand_all

GOOD = """\
name: t
description: All of it.
parameters:
  PARTS: {type: list}
  DEPTH: {type: integer, default: 2}
agent: writer
agent_version: 1.0.0
claims: ["docs/**"]
limits: {timeout_s: 60, max_turns: 9}
priority: 7
steps:
- {name: last, wait_for: [check], prompt: "Sum up {{ PARTS }}."}
- name: write
  for_each: PARTS
  title: Write {{ ITEM }}
  prompt: Write {{ ITEM }}.
  limits: {max_turns: 3}
- {name: check, for_each: PARTS, wait_for: [write], command: "check {{ ITEM }} {{ DEPTH }} -- {{ PARTS }}", claims: []}
- {name: other, for_each: [1, two], wait_for: [write], command: "true", ignore_dependency_failure: true}
"""


def errors_of(text: str) -> list[tuple[int | None, str, str]]:
    return [(error.line, error.field, error.reason) for error in check(text.encode(), "t")[1]]


def submit(folder: Path, text: str = GOOD, **item: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    (folder / "t.yaml").write_text(text)
    (task,), errors = expand_all(folder, [{"template": "t", **item}])
    assert errors or TaskSubmission.model_validate(task)
    return task, [(error["field"], error["message"]) for error in errors]


def test_steps_become_tasks_that_wait_for_those_of_their_own_item_or_for_all(tmp_path: Path) -> None:
    assert errors_of(GOOD) == []
    task, errors = submit(tmp_path, input_data={"PARTS": ["a b", "c"]}, wait_for=["first"], title="Mine")
    assert errors == []
    assert {"title": "Mine", "template": "t", "wait_for": ["first"], "priority": 7}.items() <= task.items()
    assert not {"command", "prompt", "agent", "claims", "limits", "timeout_s"} & set(task), "it does nothing itself"
    made = {step["name"]: step for step in task["steps"]}
    assert list(made) == ["write[a b]", "write[c]", "check[a b]", "check[c]", "other[1]", "other[two]", "last"]
    assert made["check[a b]"]["wait_for"] == ["write[a b]"]
    assert made["other[1]"]["wait_for"] == ["write[a b]", "write[c]"], "of another list: it waits for each"
    assert made["last"]["wait_for"] == ["check[a b]", "check[c]"]
    assert made["check[a b]"]["command"] == "check 'a b' 2 -- 'a b' c"
    assert made["last"]["prompt"] == "Sum up a b, c." and made["last"]["title"] == "last: Mine"
    assert made["write[c]"]["title"] == "Write c" and made["write[c]"]["input_data"]["ITEM"] == "c"
    assert made["write[c]"]["agent"] == "writer" and "agent" not in made["check[c]"], "an agent is for prompts"
    assert made["write[c]"]["agent_version"] == made["last"]["agent_version"] == "1.0.0"
    assert made["write[c]"]["limits"] == {"max_turns": 3} and made["write[c]"]["timeout_s"] == 60
    assert made["write[c]"]["claims"] == ["docs/**"] and "claims" not in made["check[c]"]
    assert made["other[1]"]["ignore_dependency_failure"] and "ignore_dependency_failure" not in made["last"]


def test_what_a_submission_says_counts_for_each_step_before_the_template(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "priority": 2,
        "thread_id": "th",
        "limits": {"max_turns": 1, "max_tokens": None},
        "timeout_s": 5,
        "feedback": "Good.",
    }
    task, errors = submit(tmp_path, input_data={"PARTS": "a, c"}, **fields, submitted_by="me")
    assert errors == [] and len(task["steps"]) == 7, "a list may be written with commas"
    for step in task["steps"]:
        assert (step["priority"], step["thread_id"], step["timeout_s"], step["submitted_by"]) == (2, "th", 5, "me")
        assert step["limits"]["max_turns"] == 1 and step["feedback"] == "Good."
    assert task["priority"] == 2 and not {"timeout_s", "feedback"} & set(task)


@pytest.mark.req("FR-TMPL-004")
def test_every_error_of_steps_is_reported_with_its_line() -> None:
    text = """\
name: t
parameters:
  PARTS: {type: list}
  PAGE: {}
steps:
- {name: a, prompt: "of {{ ITEM }}", wait_for: [nobody]}
- {name: a, command: "x {{ PAGE }} '{{ ITEM }}'", for_each: PARTS}
- {name: b, command: "true", for_each: PAGE}
- {name: c, command: "true", for_each: NOBODY}
- {name: d, command: "true", for_each: []}
- {name: e, command: "true", for_each: [x, y, x]}
- {name: f, command: "true", for_each: [[x]]}
- {name: g, command: "true", for_each: {x: y}}
- {name: h, command: "true", priority: 11}
"""
    errors = errors_of(text)
    assert [(line, field) for line, field, _ in errors] == [
        (6, "steps[0].prompt"), (7, "steps[1].command"),
        (6, "steps[0].wait_for[0]"), (7, "steps[1].name"), (8, "steps[2].for_each"), (9, "steps[3].for_each"),
        (10, "steps[4].for_each"), (11, "steps[5].for_each"), (12, "steps[6].for_each"), (13, "steps[7].for_each"),
        (14, "steps[8].priority"),
    ]  # fmt: skip
    wanted = (
        "no parameter 'ITEM'; a step has it with `for_each`", "within single quotes", "no step 'nobody'", "a step 'a' already",
        "of type list ('PAGE' is of type string)", "no parameter 'NOBODY'", "has no item", "'x' is there 2 times",
        "must be a list of texts", "must be a list of texts", "less than or equal to 10",
    )  # fmt: skip
    for (_, _, reason), part in zip(errors, wanted, strict=True):
        assert part in reason


def test_steps_that_wait_in_a_circle_are_named() -> None:
    loop = "- {name: a, command: x, wait_for: [b]}\n- {name: b, command: x, wait_for: [a]}\n"
    assert errors_of(f"name: t\nsteps:\n{loop}") == [(3, "steps[0].wait_for", "circular dependency: a → b → a")]


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("steps: []", 2, "at least 1 item"),
        ("steps:\n- {name: a, command: x, prompt: y}", 3, "not both"),
        ("steps:\n- {name: a, wait_for: [a], command: x}", 3, "circular dependency: a → a"),
        ("steps:\n- {name: a b, command: x}", 3, "pattern"),
        ("steps:\n- {name: a, command: x, waitfor: []}", 3, "did you mean `wait_for`"),
        ("steps:\n- {name: a, command: x, steps: []}", 3, "is not a known field"),
        ("prompt: y\nsteps:\n- {name: a, command: x}", 1, "`prompt` belongs to one of the `steps`"),
        ("parameters: {ITEM: {}}\nsteps:\n- {name: a, command: x}", 1, "'ITEM' cannot be the name"),
    ],
)
def test_steps_that_make_no_sense_are_refused(text: str, line: int, part: str) -> None:
    ((line_number, _, reason),) = errors_of(f"name: t\n{text}\n")
    assert line_number == line and part in reason


def test_lists_that_cannot_be_fanned_out_over_are_refused_at_the_submission(tmp_path: Path) -> None:
    for value, part in (
        ([], "has no item"), ("", "has no item"), (["x", "x"], "each item once"), ({"x": 1}, "must be a list"),
        ([None], "must be a list"), (7, "must be a list"), ("[1, {}]", "must be a list"), ("[1", "must be a list"),
        ([str(n) for n in range(1001)], "at most 1000 items"), (["a\0"], "a character that no command can have"),
    ):  # fmt: skip
        _, errors = submit(tmp_path, input_data={"PARTS": value})
        assert errors and all(field == "input_data.PARTS" and part in message for field, message in errors), value
    _, errors = submit(tmp_path)
    assert errors == [("input_data.PARTS", "the template 't' needs a value for this parameter")]


def test_more_tasks_or_more_waits_than_are_allowed_are_refused(tmp_path: Path) -> None:
    many = [str(n) for n in range(334)]
    text = GOOD.replace("- {name: other, for_each: [1, two], wait_for: [write]", "- {name: other, for_each: PARTS")
    ((field, message),) = submit(tmp_path, text, input_data={"PARTS": many})[1]
    assert field == "steps" and f"{3 * 334 + 1} tasks; {steps.MOST_TASKS} are allowed" in message
    text = "name: t\nparameters: {PARTS: {type: list}}\nsteps:\n- {name: a, command: x, agents: 50, for_each: PARTS}\n"
    ((_, message),) = submit(tmp_path, text, input_data={"PARTS": many[:20]})[1]
    assert "1020 tasks; 1000 are allowed" in message, "each agent has one"
    across = ", ".join(map(str, range(100)))
    text = GOOD.replace("for_each: [1, two]", f"for_each: [{across}]")
    ((field, message),) = submit(tmp_path, text, input_data={"PARTS": many[:200]})[1]
    assert field == "steps" and f"{100 * 200 + 400} times; {steps.MOST_WAITS} are allowed" in message


def test_a_submission_cannot_bring_steps_or_say_who_does_them(tmp_path: Path) -> None:
    _, errors = submit(tmp_path, input_data={"PARTS": ["x"]}, steps=[{"title": "t", "command": "x"}])
    assert errors == [("steps", "a task has steps only by its template: write them there, and name it with `template`")]
    _, refusals = expand_all(tmp_path, [{"title": "t", "steps": []}])
    assert refusals[0]["field"] == "steps"
    fields: dict[str, Any] = {
        "agent": "a",
        "runner": "claude",
        "agents": 2,
        "combine": "all",
        "claims": ["x"],
        "loop": {},
        "command": "x",
    }
    _, errors = submit(tmp_path, input_data={"PARTS": ["x"]}, **fields, agent_requirements={"capabilities": ["x"]})
    assert {field for field, _ in errors} == {*fields, "agent_requirements"}
