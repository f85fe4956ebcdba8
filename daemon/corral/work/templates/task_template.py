"""Task templates: the files ``.corral/templates/NAME.yaml``.

```yaml
name: add-page                    # that of the file
description: Add a page with a test.
parameters:
  PAGE: {type: string, description: Its name in the address.}
  WORDS: {type: integer, default: 300}
title: Add the page {{ PAGE }}    # default: the first line of the description
prompt: Write the page {{ PAGE }} with {{ WORDS }} words.        # or command:
claims: ["src/pages/{{ PAGE }}/**"]
capabilities: [html]
limits: {timeout_s: 900, max_cost_usd: 2}
```

Also ``agent``, ``runner``, ``agents``, ``combine``, ``priority``, ``task_type``, ``target``, ``max_retries`` and ``loop``, as a
submitted task has them. ``steps`` in place of a prompt or command: :mod:`corral.work.templates.steps`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from corral.config.document import DocumentError, Located, message_of, read_located, reason_of, shown, unknown_key
from corral.config.load import read_settings
from corral.config.teams import field_path
from corral.core.errors import ConfigInvalid
from corral.work.tasks.api import TITLE_LIMIT
from corral.work.tasks.wire import TaskSubmission
from corral.work.templates import substitution
from corral.work.templates.parameters import Parameter, typed
from corral.work.templates.steps import (
    COMMANDS,
    ITEM,
    Steps,
    WorkFields,
    expand,
    parameters_of,
    rendered_work,
    sample_items,
    with_defaults,
    wrong_steps,
)
from corral.work.templates.substitution import Value

FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A template's name: that of its file, so that it names no other folder."""
SUFFIX = ".yaml"
MOST_FILES = 1000
_PARAMETER = re.compile(substitution.NAME)
_OF_STEPS = ("command", "prompt", "agents", "combine", "loop")
_OF_EACH_STEP = (
    "agent",
    "agent_version",
    "runner",
    "agent_requirements",
    "claims",
    "limits",
    "timeout_s",
    "max_retries",
)
"""Fields of a task that a template with steps has for its steps alone."""
_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """An error in a file.

    Attributes:
        line: From 1; None if it belongs to no line.
        field: The place within the document, such as ``parameters.PAGE.type``; empty: the whole.
    """

    line: int | None
    field: str
    reason: str

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class TaskTemplate(WorkFields):
    """A template's file. With ``steps`` its other fields are what its steps do not say themselves."""

    name: str
    description: str = ""
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    steps: Steps | None = None

    @property
    def has_work(self) -> bool:
        """Whether it says itself what is done: else its steps do."""
        return self.steps is None

    @field_validator("parameters", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        """``NAME:`` without anything is a required text."""
        if not isinstance(value, dict):
            return value
        for name in value:
            if not _PARAMETER.fullmatch(str(name)):
                raise ValueError(f"{shown(name)} cannot be the name of a parameter: use letters, digits and `_`")
        return {name: {} if parameter is None else parameter for name, parameter in value.items()}

    @model_validator(mode="after")
    def _work_is_in_one_place(self) -> TaskTemplate:
        if self.steps is not None:
            for name in _OF_STEPS:
                if getattr(self, name) is not None:
                    raise ValueError(f"`{name}` belongs to one of the `steps`, not beside them")
            if ITEM in self.parameters:
                raise ValueError(
                    f"{ITEM!r} cannot be the name of a parameter beside `steps`: it is the item of `for_each`"
                )
        return self

    def sample(self) -> dict[str, Value]:
        """A value for each parameter, to check the rest with."""
        sample: dict[str, Value] = {"string": "x", "integer": 1, "number": 1.0, "boolean": True, "list": ["x"]}

        def value(parameter: Parameter) -> Value:
            if not parameter.required:
                return typed(parameter, parameter.default)
            first = parameter.choices[0] if parameter.choices else sample[parameter.type]
            return [str(first)] if parameter.type == "list" and not isinstance(first, list) else first

        return {name: value(parameter) for name, parameter in self.parameters.items()}


def check(data: bytes, name: str) -> tuple[TaskTemplate | None, list[Problem]]:
    """Read a template; with every error that is found. It is None if it cannot be used at all.

    Args:
        data: The content of the file.
        name: The file's name without ``.yaml``.
    """
    try:
        located = read_located(data)
    except DocumentError as error:
        line, reason = line_of(str(error))
        return None, [Problem(line, "", reason)]
    if not isinstance(located.value, dict):
        return None, [Problem(1, "", "must be a mapping: `name: value` lines")]
    try:
        template = TaskTemplate.model_validate(located.value)
    except ValidationError as error:
        problems = [
            Problem(nearest_line(located, item["loc"]), field_path(item["loc"]), _reason(item))
            for item in error.errors(include_url=False)
        ]
        return None, problems
    return template, [
        *_wrong_name(template, name, located),
        *_wrong_places(template, located),
        *_wrong_steps(template, located),
        *_wrong_task(template, located),
    ]


def line_of(message: str) -> tuple[int | None, str]:
    """The line that a :class:`~corral.config.document.DocumentError` names, and the rest of its message."""
    named = re.match(r"line (\d+): ", message)
    return (int(named[1]), message[named.end() :]) if named else (None, message)


def nearest_line(located: Located, path: tuple[str | int, ...]) -> int:
    """The line of a part of a document, or of the part that it is missing from."""
    while path not in located.lines and path:
        path = path[:-1]
    return located.lines.get(path, 1)


def _reason(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return unknown_key(item, TaskTemplate)
    return reason_of(item) if item["loc"] and item["type"] != "value_error" else message_of(item)


def _wrong_name(template: TaskTemplate, name: str, located: Located) -> Iterator[Problem]:
    if template.name != name:
        reason = f"must be the name of its file, {name!r} (it is {shown(template.name)})"
        yield Problem(nearest_line(located, ("name",)), "name", reason)


def _scopes(template: TaskTemplate) -> Iterator[tuple[_Path, WorkFields, Mapping[str, Parameter]]]:
    """The fields of the template and of its steps, each with its place and the parameters that count there."""
    yield (), template, template.parameters
    for index, step in enumerate(template.steps or ()):
        yield ("steps", index), step, parameters_of(step, template.parameters)


def _wrong_places(template: TaskTemplate, located: Located) -> Iterator[Problem]:
    for place, fields, parameters in _scopes(template):
        for path, text in fields.leaves():
            yield from _wrong_text((*place, *path), text, parameters, located, in_command=path[0] in COMMANDS)


def _wrong_text(
    path: _Path, text: str, parameters: Mapping[str, Parameter], located: Located, *, in_command: bool
) -> Iterator[Problem]:
    first = nearest_line(located, path)

    def at(line: int) -> int:
        return first + line + (1 if text.count("\n") else 0)  # a text of several lines begins below its key

    for broken in substitution.broken_in(text):
        reason = "`{{` must be followed by a parameter's name and `}}`; write two braces as `{{{{`"
        yield Problem(at(broken.line), field_path(path), f"{reason} (it is {shown(broken.text)})")
    for name in sorted(substitution.names_in(text) - set(parameters)):
        line = next(n for n, row in enumerate(text.split("\n")) if name in row)
        hint = "; a step has it with `for_each`" if name == ITEM else ""
        yield Problem(at(line), field_path(path), f"there is no parameter {name!r}{hint}")
    for unsafe in substitution.unsafe_places(text) if in_command else ():
        parameter = parameters.get(unsafe.name)
        if parameter is not None and not parameter.is_plain:
            reason = f"{{{{ {unsafe.name} }}}} stands {unsafe.where}, where its quotes would not protect it"
            remedy = f'assign it to a variable in the first line (`x={{{{ {unsafe.name} }}}}`) and use `"$x"`'
            yield Problem(at(unsafe.line), field_path(path), f"{reason}: {remedy}")


def _wrong_steps(template: TaskTemplate, located: Located) -> Iterator[Problem]:
    for wrong in wrong_steps(template.steps or (), template.parameters):
        path: _Path = ("steps", *wrong.path)
        yield Problem(nearest_line(located, path), field_path(path), wrong.reason)


def _wrong_task(template: TaskTemplate, located: Located) -> Iterator[Problem]:
    """The errors of the task itself and of those of its steps, with sample values for the parameters."""
    values = template.sample()
    works: list[tuple[_Path, WorkFields, dict[str, Value]]] = [((), template, values)]
    works += [
        (("steps", index), with_defaults(step, template), {**values, **sample_items(step)})
        for index, step in enumerate(template.steps or ())
    ]
    for place, fields, own in works:
        try:
            task = {"title": "x", **rendered_work(fields, own)}
        except (KeyError, ValueError):
            continue  # reported with its place
        try:
            TaskSubmission.model_validate(task)
        except ValidationError as error:
            for item in error.errors(include_url=False):
                path = item["loc"]
                path = ("capabilities", *path[2:]) if path[:1] == ("agent_requirements",) else path
                path = ("limits", *path) if path == ("timeout_s",) else path
                yield Problem(nearest_line(located, (*place, *path)), field_path((*place, *path)), _reason(item))


def rendered(
    template: TaskTemplate, values: Mapping[str, Value], *, title: Any = None
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The task that a template makes, as a client submits it, and the errors: ``(field, message)``.

    Args:
        values: One for each parameter.
        title: That of the submission, if it has one.

    Returns:
        A task; that of a template with steps has ``steps``, the tasks that it is made of.
    """
    task = rendered_work(template, values)
    task.setdefault("title", (template.description.strip().splitlines() or [template.name])[0][:TITLE_LIMIT])
    task |= {"template": template.name, "input_data": dict(values)}
    if template.steps is None:
        return task, []
    steps = [with_defaults(step, template) for step in template.steps]
    tasks, errors = expand(steps, values, title if isinstance(title, str) and title else task["title"])
    own = {name: value for name, value in task.items() if name not in _OF_EACH_STEP}
    return {**own, "steps": tasks}, errors


def read_template(file: Path) -> TaskTemplate | None:
    """Read a template's file; None if there is none.

    Raises:
        ConfigInvalid: ``details["errors"]`` lists every error: ``line``, ``field`` and ``reason``.
    """
    try:
        data = read_settings(file)
    except OSError as error:
        raise invalid(file, [Problem(None, "", f"cannot be read: {error.strerror or error}")]) from error
    if data is None:
        return None
    template, problems = check(data, file.name.removesuffix(SUFFIX))
    if problems or template is None:
        raise invalid(file, problems)
    return template


def template_names(folder: Path) -> list[str]:
    """The names of the templates in a folder, valid or not."""
    names = (file.name.removesuffix(SUFFIX) for file in folder.glob(f"*{SUFFIX}"))
    return sorted(name for name in names if FILE_NAME.fullmatch(name))[:MOST_FILES]


def invalid(file: Path, problems: list[Problem]) -> ConfigInvalid:
    """The error that lists the errors of a template's file."""
    count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
    errors = [{"line": problem.line, "field": problem.field, "reason": problem.reason} for problem in problems]
    lines = (f"line {problem.line}: {problem}" if problem.line else str(problem) for problem in problems)
    return ConfigInvalid(
        f"The task template {file.name} has {count}.",
        cause="\n".join(lines),
        remedy=f"Correct {file}; `corral template validate` checks it again.",
        details={"file": str(file), "errors": errors},
    )


# -- Make the task of a submission that names a template: the template's fields, and over them those of the submission

_MERGED = ("limits", "agent_requirements", "loop")
_BY_THE_TEMPLATE = ("command", "prompt")
_BY_ITS_STEPS = ("loop", "agent", "runner", "agents", "combine", "claims", "agent_requirements")
_PER_STEP = ("timeout_s", "limits", "max_retries", "feedback")
"""Fields of a submission that are for the steps of its template, each."""
_OF_ALL = ("priority", "target", "thread_id", "submitted_by", "author_name", "author_email")
"""Fields of a submission that are for the whole, and for each step."""


def expand_all(folder: Path, items: Sequence[Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """Expand each submission that names a template.

    Args:
        folder: The project's ``templates/``.
        items: As the wire has them, not validated.

    Returns:
        The submissions, where a template cannot be used with the title and the name alone; and ``[{index, field, message}]``.
    """
    expanded: list[Any] = []
    errors: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        if isinstance(item, dict) and "steps" in item:
            message = "a task has steps only by its template: write them there, and name it with `template`"
            errors.append({"index": index, "field": "steps", "message": message})
            item = {key: value for key, value in item.items() if key != "steps"}
        if not isinstance(item, dict) or item.get("template") is None:
            expanded.append(item)
            continue
        task, problems = _expand(folder, item)
        expanded.append(task)
        errors += [{"index": index, "field": field, "message": message} for field, message in problems]
    return expanded, errors


def _expand(folder: Path, item: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    name = item["template"]
    stand_in = {"title": name if isinstance(name, str) and name else "template"}
    stand_in |= {key: item[key] for key in ("title", "name") if isinstance(item.get(key), str)}
    template: TaskTemplate | None = None
    if isinstance(name, str) and FILE_NAME.fullmatch(name):
        try:
            template = read_template(folder / f"{name}{SUFFIX}")
        except ConfigInvalid as error:
            return stand_in, [("template", f"{error.message} {error.cause}")]
    if template is None:
        return stand_in, [("template", _no_template(folder, name))]
    fixed = [field for field in _BY_THE_TEMPLATE if item.get(field) is not None]
    problems = [(field, f"the template {name!r} says what is done; leave this out") for field in fixed]
    if template.steps is not None:
        fixed = [field for field in _BY_ITS_STEPS if item.get(field) not in (None, [])]
        problems += [(field, f"the steps of the template {name!r} say that; leave this out") for field in fixed]
    values, wrong = values_of(template, item.get("input_data"))
    problems += wrong
    if problems:
        return stand_in, problems
    task, problems = rendered(template, values, title=item.get("title"))
    return (stand_in, problems) if problems else (_over(task, item), [])


def values_of(template: TaskTemplate, by_name: Any) -> tuple[dict[str, Value], list[tuple[str, str]]]:
    """The value of each parameter, and the errors: ``(field, message)``.

    Args:
        by_name: The values; None: none.
    """
    if by_name is not None and not isinstance(by_name, dict):
        return {}, [("input_data", "must be an object with the values of the parameters")]
    by_name = by_name or {}
    known = ", ".join(template.parameters) or "none"
    problems = [
        (f"input_data.{name}", f"the template {template.name!r} has no such parameter; it has: {known}")
        for name in by_name
        if name not in template.parameters
    ]
    values: dict[str, Value] = {}
    for name, parameter in template.parameters.items():
        if name not in by_name and parameter.required:
            problems.append((f"input_data.{name}", f"the template {template.name!r} needs a value for this parameter"))
            continue
        try:
            values[name] = typed(parameter, by_name.get(name, parameter.default))
        except ValueError as error:
            problems.append((f"input_data.{name}", str(error)))
    return values, problems


def _over(task: dict[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """The task with the fields that the submission gives itself."""
    own = {key: value for key, value in item.items() if value is not None and value != [] and key != "input_data"}
    for key in _MERGED:
        if isinstance(own.get(key), dict):
            own[key] = {**task.get(key, {}), **{name: limit for name, limit in own[key].items() if limit is not None}}
    if isinstance(own.get("claims"), list):
        own["claims"] = [*task.get("claims", []), *own["claims"]]
    if own.get("task_type") == "task":
        del own["task_type"]  # the default of the wire
    if "steps" in task:
        task["steps"] = [_step_over(step, own) for step in task["steps"]]
        own = {key: value for key, value in own.items() if key not in _PER_STEP}
    return {**task, **own}


def _step_over(step: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A step's task with what the submission says of each."""
    overrides = {key: own[key] for key in (*_PER_STEP, *_OF_ALL) if key in own}
    if isinstance(overrides.get("limits"), dict):
        overrides["limits"] = {**step.get("limits", {}), **overrides["limits"]}
    first = {key: own[key] for key in ("ignore_dependency_failure",) if key in own and not step["wait_for"]}
    return {**step, **overrides, **first}


def _no_template(folder: Path, name: Any) -> str:
    names = template_names(folder)
    there_are = f"there are: {', '.join(names)}" if names else "there are none"
    return f"there is no template {name!r}, which would be a file NAME.yaml in .corral/templates; {there_are}"
