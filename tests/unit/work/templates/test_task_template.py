"""A task template's file: every error with its line, and the task that a submission of it makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import ConfigInvalid
from corral.work.tasks.wire import TaskSubmission
from corral.work.templates.task_template import check, expand_all, read_template

GOOD = """\
name: add-page
description: |
  Add a page.
  With a test.
parameters:
  PAGE: {description: Its name.}
  WORDS: {type: integer, default: 300}
  SCALE: {type: number, default: 1}
  DRAFT: {type: boolean, default: false}
  TONE: {choices: [plain, formal], default: plain}
title: Add {{ PAGE }}
command: |
  page={{ PAGE }}
  make "$page" "{{ TONE }}" $(( {{ WORDS }} + 1 )) {{ DRAFT }} {{ SCALE }}
claims: ["src/{{ PAGE }}/**"]
capabilities: [html]
agents: 2
combine: first
priority: 8
limits: {timeout_s: 60, memory_mb: 100}
"""


def errors_of(text: str, name: str = "t") -> list[tuple[int | None, str, str]]:
    return [(error.line, error.field, error.reason) for error in check(text.encode(), name)[1]]


def expand(tmp_path: Path, item: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    (tmp_path / "add-page.yaml").write_text(GOOD)
    (task,), errors = expand_all(tmp_path, [{"template": "add-page", **item}])
    return task, {error["field"]: error["message"] for error in errors}


@pytest.mark.req("FR-QUEUE-001")
def test_a_submission_gets_what_the_template_says_and_its_own_fields_count_before(tmp_path: Path) -> None:
    fields = {
        "input_data": {"PAGE": "it's; rm -rf /", "WORDS": "5", "DRAFT": "true"},
        "limits": {"memory_mb": 50, "max_turns": None},
    }
    task, errors = expand(tmp_path, {**fields, "priority": 2, "claims": ["docs/**"], "title": None, "wait_for": []})
    assert errors == {}
    quoted = "'it'\"'\"'s; rm -rf /'"
    assert task["command"] == f'page={quoted}\nmake "$page" "plain" $(( 5 + 1 )) true 1\n'
    assert task["input_data"] == {"PAGE": "it's; rm -rf /", "WORDS": 5, "SCALE": 1, "DRAFT": True, "TONE": "plain"}
    assert task["limits"] == {"memory_mb": 50} and task["timeout_s"] == 60 and task["priority"] == 2
    assert task["claims"] == ["src/it's; rm -rf //**", "docs/**"] and task["title"] == "Add it's; rm -rf /"
    assert task["agent_requirements"] == {"capabilities": ["html"]} and task["template"] == "add-page"
    submitted = TaskSubmission.model_validate(task)
    assert (submitted.agents, submitted.combine, submitted.runner) == (2, "first", "command")


@pytest.mark.req("FR-QUEUE-001")
def test_values_that_are_unknown_missing_or_of_another_type_are_all_named(tmp_path: Path) -> None:
    _, errors = expand(
        tmp_path, {"input_data": {"WORDS": "many", "SCALE": "nan", "DRAFT": 1, "TONE": "loud", "NAME": "x"}}
    )
    assert errors.keys() == {f"input_data.{name}" for name in ("PAGE", "WORDS", "SCALE", "DRAFT", "TONE", "NAME")}
    assert "needs a value" in errors["input_data.PAGE"] and "it has: PAGE, WORDS" in errors["input_data.NAME"]
    assert errors["input_data.WORDS"] == "must be of type integer (it is 'many')"
    assert errors["input_data.TONE"] == "must be one of plain, formal (it is 'loud')"
    for bad in (5, None, ["x"], "a\0b", "\ud800"):
        assert "input_data.PAGE" in expand(tmp_path, {"input_data": {"PAGE": bad}})[1], bad
    assert expand(tmp_path, {"input_data": ["x"]})[1] == {
        "input_data": "must be an object with the values of the parameters"
    }
    loop = {"until": [{"kind": "tests", "command": "true"}], "max_iterations": 3}
    task, errors = expand(tmp_path, {"input_data": {"PAGE": "x"}, "loop": loop})
    assert errors == {} and task["loop"] == loop, "criteria may come with the submission"
    _, errors = expand(tmp_path, {"input_data": {"PAGE": "x"}, "command": "true", "prompt": "Do."})
    assert errors.keys() == {"command", "prompt"}


def test_a_template_that_is_not_there_or_not_valid_is_refused_and_the_others_of_a_batch_are_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / "broken.yaml").write_text("name: broken\nprompt: 5\n")
    items = [
        {"template": "nope", "title": "a", "name": "n"},
        {"title": "plain"},
        {"template": "broken"},
        {"template": "../x"},
        "text",
    ]
    expanded, errors = expand_all(tmp_path, items)
    assert expanded == [{"title": "a", "name": "n"}, {"title": "plain"}, {"title": "broken"}, {"title": "../x"}, "text"]
    assert [error["index"] for error in errors] == [0, 2, 3] and {error["field"] for error in errors} == {"template"}
    assert "there are: broken" in errors[0]["message"] and "line 2: prompt: " in errors[1]["message"]


@pytest.mark.req("FR-TMPL-004")
def test_every_error_is_reported_with_its_line() -> None:
    text = """\
name: other
descripton: typo
parameters:
  A: {type: text}
  B: {type: integer, default: x}
  C: {choices: []}
prompt: x
command: y
"""
    errors = errors_of(text)
    assert [(line, field) for line, field, _ in errors] == [
        (4, "parameters.A.type"), (5, "parameters.B"), (6, "parameters.C.choices"), (2, "descripton"),
    ]  # fmt: skip
    assert errors[3][2] == "is not a known field; did you mean `description`?"
    text = """\
name: other
parameters: {A: , N: {type: integer}}
command: |
  x={{ A }} {{ N }}
  echo "{{ A }} {{ N }}"
  echo {{ B }} {{ }}
claims: [ok, "../{{ A }}"]
combine: all
limits: {timeout_s: -1}
"""
    assert errors_of(text.replace("limits: {timeout_s: -1}\n", "")) == [
        (1, "name", "must be the name of its file, 't' (it is 'other')"),
        (6, "command", "`{{` must be followed by a parameter's name and `}}`; write two braces as `{{{{` (it is '{{ }}')"),
        (6, "command", "there is no parameter 'B'"),
        (5, "command", "{{ A }} stands within double quotes, where its quotes would not protect it: assign it to a variable in "
         "the first line (`x={{ A }}`) and use `\"$x\"`"),
    ]  # fmt: skip
    assert errors_of(text)[0][:2] == (9, "limits.timeout_s")
    wrong = "name: t\nprompt: x\ncombine: all\n"
    assert errors_of(wrong) == [(1, "", "`combine` needs `agents`, the number of agents whose results are combined")]
    assert errors_of("name: t\nprompt: x\nagents: 90\n")[0][:2] == (3, "agents")
    assert errors_of("name: t\n") == [(1, "", "needs a `command` or a `prompt`, and not both")]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name: t\nprompt: &a x\ntitle: *a\n", 2, "anchors and aliases"),
        ("name: t\nprompt: !!python/object/apply:os.system [x]\n", 2, "tags"),
        ("name: t\nprompt: x\nprompt: y\n", 3, "given twice"),
        ("name: t\nprompt: [\n", 3, "is not YAML"),
        ("- a\n", 1, "must be a mapping"),
        ("a: " + "[" * 40 + "]" * 40, 1, "nested deeper"),
        ("", 1, "must be a mapping"),
        ("x: " + "y" * 1_000_001, None, "larger than 1 MB"),
    ],
    ids=["aliases", "tags", "twice", "no YAML", "a list", "deep", "empty", "large"],
)
def test_hostile_yaml_is_refused(text: str, line: int | None, message: str) -> None:
    ((at, field, reason),) = errors_of(text)
    assert (at, field) == (line, "") and message in reason


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    assert read_template(tmp_path / "none.yaml") is None
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(ConfigInvalid, match=r"folder\.yaml has 1 error"):
        read_template(tmp_path / "folder.yaml")
