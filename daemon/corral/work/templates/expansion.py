"""Make the task of a submission that names a template: the template's fields, and over them those of the submission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corral.core.errors import ConfigInvalid
from corral.work.templates.parameters import typed
from corral.work.templates.substitution import Value
from corral.work.templates.task_template import FILE_NAME, SUFFIX, TaskTemplate, read_template, rendered, template_names

_MERGED = ("limits", "agent_requirements", "loop")
_BY_THE_TEMPLATE = ("command", "prompt")
_BY_ITS_STEPS = ("loop", "agent", "runner", "agents", "combine", "claims", "agent_requirements")
_OF_EACH_STEP = ("timeout_s", "limits", "max_retries", "feedback")
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
        own = {key: value for key, value in own.items() if key not in _OF_EACH_STEP}
    return {**task, **own}


def _step_over(step: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A step's task with what the submission says of each."""
    overrides = {key: own[key] for key in (*_OF_EACH_STEP, *_OF_ALL) if key in own}
    if isinstance(overrides.get("limits"), dict):
        overrides["limits"] = {**step.get("limits", {}), **overrides["limits"]}
    first = {key: own[key] for key in ("ignore_dependency_failure",) if key in own and not step["wait_for"]}
    return {**step, **overrides, **first}


def _no_template(folder: Path, name: Any) -> str:
    names = template_names(folder)
    there_are = f"there are: {', '.join(names)}" if names else "there are none"
    return f"there is no template {name!r}, which would be a file NAME.yaml in .corral/templates; {there_are}"
