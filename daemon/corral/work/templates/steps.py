"""The steps of a task template: tasks that wait for each other, one for each item of a list where they say ``for_each``.

```yaml
parameters:
  PARTS: {type: list}
steps:
- {name: specification, for_each: PARTS, prompt: "Specify {{ ITEM }} in docs/{{ ITEM }}.md."}
- {name: tests, for_each: PARTS, wait_for: [specification], prompt: "Write the tests of {{ ITEM }}."}
- {name: summary, wait_for: [tests], prompt: "Sum up what was done for {{ PARTS }}."}
```

A step for each item of the list that an earlier step has too waits for that step's task for the same item; any other step
waits for all tasks of the step that it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from corral.config.agents import AgentLimits
from corral.core.states import Combine, RunnerName
from corral.core.tree import blocking_cycle
from corral.work.tasks.api import TITLE_LIMIT
from corral.work.templates import substitution
from corral.work.templates.parameters import Parameter, items_of
from corral.work.templates.substitution import Value

# -- The fields by which a task template, and each step of one, says what is done; and the task that they make

TEXTS = ("title", "prompt", "claims")
COMMANDS = ("command", "loop")
_PLAIN = {"agent", "agent_version", "runner", "agents", "combine", "priority", "task_type", "target", "max_retries"}

Body = Annotated[str, StringConstraints(min_length=1, max_length=1_000_000, pattern=r"^[^\x00]*$")]
Path = tuple[str | int, ...]


class WorkFields(BaseModel):
    """The work, who does it, and its limits; the fields of a task are checked once its parameters have values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Annotated[str, StringConstraints(min_length=1)] | None = None
    command: Body | None = None
    prompt: Body | None = None
    agent: str | None = None
    agent_version: str | None = None
    runner: RunnerName | None = None
    capabilities: list[str] = []
    agents: int | None = None
    combine: Combine | None = None
    claims: list[str] = []
    limits: AgentLimits = AgentLimits()
    priority: int | None = None
    task_type: str | None = None
    target: str | None = None
    max_retries: int | None = None
    loop: dict[str, Any] | None = None

    @property
    def has_work(self) -> bool:
        """Whether it says itself what is done."""
        return True

    @model_validator(mode="after")
    def _does_something(self) -> WorkFields:
        if self.has_work and (self.command is None) == (self.prompt is None):
            raise ValueError("needs a `command` or a `prompt`, and not both")
        return self

    def leaves(self) -> Iterator[tuple[Path, str]]:
        """The texts in which placeholders count, with their places."""

        def within(path: Path, value: Any) -> Iterator[tuple[Path, str]]:
            if isinstance(value, str):
                yield path, value
            elif isinstance(value, (dict, list)):
                for key, part in value.items() if isinstance(value, dict) else enumerate(value):
                    yield from within((*path, key), part)

        for field in (*TEXTS, *COMMANDS):
            yield from within((field,), getattr(self, field))


def rendered_work(fields: WorkFields, values: Mapping[str, Value]) -> dict[str, Any]:
    """The task that these fields make, as a client submits it.

    Args:
        values: One for each placeholder.
    """

    def written(field: str, value: Any) -> Any:
        if isinstance(value, str):
            write = substitution.as_word if field in COMMANDS else substitution.as_text
            return substitution.substituted(value, values, write)
        if isinstance(value, dict):
            return {key: written(field, part) for key, part in value.items()}
        return [written(field, part) for part in value] if isinstance(value, list) else value

    task = fields.model_dump(mode="json", include=_PLAIN, exclude_none=True)
    for field in (*TEXTS, *COMMANDS):
        if (value := getattr(fields, field)) not in (None, []):
            task[field] = written(field, value)
    limits = fields.limits.model_dump(exclude_none=True)
    if (timeout := limits.pop("timeout_s", None)) is not None:
        task["timeout_s"] = timeout
    if limits:
        task["limits"] = limits
    if fields.capabilities:
        task["agent_requirements"] = {"capabilities": fields.capabilities}
    return task


ITEM = "ITEM"
"""The placeholder of the item that a step's task is for."""
MOST_STEPS = 100
MOST_TASKS = 1000
"""Tasks of one submission."""
MOST_WAITS = 20_000
"""Pairs of tasks of one submission of which one waits for the other."""
LONGEST_NAME = 128

StepName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
_DEFAULTS = ("claims", "priority", "task_type", "target", "max_retries")
_OF_PROMPTS = ("agent", "runner", "capabilities")


class Step(WorkFields):
    """One step; fields that it does not give itself are those of its template."""

    name: StepName
    wait_for: list[StepName] = Field(default_factory=list)
    for_each: Any = None
    ignore_dependency_failure: bool = False

    def items(self, values: Mapping[str, Value]) -> list[str] | None:
        """The items that it has a task for each of; None: it is one task.

        Raises:
            ValueError: There are none, too many, or one is there twice; the message begins with a verb.
        """
        if self.for_each is None:
            return None
        source = values.get(self.for_each) if isinstance(self.for_each, str) else self.for_each
        items = items_of(source)
        if not items:
            raise ValueError("has no item: there would be nothing to do")
        item, times = Counter(items).most_common(1)[0]
        if times > 1:
            raise ValueError(f"must have each item once ({item[:80]!r} is there {times} times)")
        return items


Steps = Annotated[list[Step], Field(min_length=1, max_length=MOST_STEPS)]


class Misplaced(NamedTuple):
    """An error of a step: the place within ``steps``, and the reason."""

    path: Path
    reason: str


def wrong_steps(steps: Sequence[Step], parameters: Mapping[str, Parameter]) -> Iterator[Misplaced]:
    """The errors of the steps together."""
    names = [step.name for step in steps]
    for index, step in enumerate(steps):
        if step.name in names[:index]:
            yield Misplaced((index, "name"), f"there is a step {step.name!r} already")
        for position, name in enumerate(step.wait_for):
            if name not in names:
                yield Misplaced((index, "wait_for", position), f"there is no step {name!r}")
        if (reason := _wrong_list(step, parameters)) is not None:
            yield Misplaced((index, "for_each"), reason)
    if (cycle := blocking_cycle({step.name: step.wait_for for step in steps})) is not None:
        yield Misplaced((names.index(cycle[0]), "wait_for"), f"circular dependency: {' → '.join(cycle)}")


def _wrong_list(step: Step, parameters: Mapping[str, Parameter]) -> str | None:
    if isinstance(step.for_each, str):
        parameter = parameters.get(step.for_each)
        if parameter is None:
            return f"there is no parameter {step.for_each!r}"
        if parameter.type != "list":
            return f"must name a parameter of type list ({step.for_each!r} is of type {parameter.type})"
        return None
    try:
        step.items({})
    except ValueError as error:
        return str(error)
    return None


def with_defaults(step: Step, template: WorkFields) -> Step:
    """The step with the template's fields where it gives none itself; who does it only where that is for an agent."""
    fields = [*_DEFAULTS, *(_OF_PROMPTS if step.prompt is not None else ())]
    if step.prompt is not None and "agent" not in step.model_fields_set:
        fields.append("agent_version")  # of the template's agent, not of the step's own
    defaults = {name: getattr(template, name) for name in fields if name not in step.model_fields_set}
    limits = {**template.limits.model_dump(exclude_none=True), **step.limits.model_dump(exclude_none=True)}
    return step.model_copy(update={**defaults, "limits": AgentLimits(**limits)})


def expand(
    steps: Sequence[Step], values: Mapping[str, Value], title: str
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The tasks of the steps, as a client submits them, in an order in which none waits for a later one.

    Args:
        steps: Valid ones, with their defaults.
        values: One for each parameter.
        title: That of the whole.

    Returns:
        The tasks, each with a ``name`` that the others wait for; and the errors, ``(field, message)``: then there are none.
    """
    items: dict[str, list[str] | None] = {}
    errors: list[tuple[str, str]] = []
    for step in steps:
        try:
            items[step.name] = step.items(values)
        except ValueError as error:
            source = f"input_data.{step.for_each}" if isinstance(step.for_each, str) else f"steps.{step.name}.for_each"
            errors.append((source, f"{error}; the step {step.name!r} has a task for each"))
    if errors:
        return [], errors
    names = {step.name: _names(step.name, items[step.name]) for step in steps}
    alike = {step.name: 1 + (step.agents or 0) for step in steps}  # each agent of a step has a task of its own
    total = sum(len(names[step.name]) * alike[step.name] for step in steps)
    if total > MOST_TASKS:
        return [], [("steps", f"they would be {total} tasks; {MOST_TASKS} are allowed at once")]
    by_name = {step.name: step for step in steps}
    waits = sum(
        len(names[step.name]) * alike[step.name] * (1 if _goes_with(step, by_name[before]) else len(names[before]))
        for step in steps
        for before in step.wait_for
    )
    if waits > MOST_WAITS:
        reason = f"their tasks would wait for each other {waits} times; {MOST_WAITS} are allowed"
        return [], [("steps", f"{reason}: put a step without `for_each` between those that wait for all items")]
    tasks = [
        _task(step, position, items[step.name], names, by_name, values, title)
        for step in _ordered(steps)
        for position in range(len(names[step.name]))
    ]
    return tasks, []


def _task(
    step: Step,
    position: int,
    items: Sequence[str] | None,
    names: Mapping[str, Sequence[str]],
    by_name: Mapping[str, Step],
    values: Mapping[str, Value],
    title: str,
) -> dict[str, Any]:
    name = names[step.name][position]
    own = values if items is None else {**values, ITEM: items[position]}
    waits = [
        other
        for before in step.wait_for
        for other in ([names[before][position]] if _goes_with(step, by_name[before]) else names[before])
    ]
    flag = {"ignore_dependency_failure": True} if step.ignore_dependency_failure else {}
    work = rendered_work(step, own)
    work.setdefault("title", f"{name}: {title}"[:TITLE_LIMIT])
    return {**work, **flag, "name": name, "wait_for": list(dict.fromkeys(waits)), "input_data": dict(own)}


def _names(step: str, items: Sequence[str] | None) -> list[str]:
    """The name of each task of a step: ``tests``, or ``tests[login]``; by its number where an item is no short word."""
    if items is None:
        return [step]
    rest = LONGEST_NAME - len(step) - 2
    return [
        f"{step}[{item if len(item) <= rest and item.isprintable() else f'#{number}'}]"
        for number, item in enumerate(items, 1)
    ]


def _goes_with(step: Step, earlier: Step) -> bool:
    """Whether each of its tasks waits for that of the same item alone."""
    return step.for_each is not None and step.for_each == earlier.for_each


def _ordered(steps: Sequence[Step]) -> list[Step]:
    """The steps, each behind those that it waits for; else as they are written."""
    ordered: dict[str, Step] = {}
    while len(ordered) < len(steps):
        ordered |= {
            step.name: step
            for step in steps
            if step.name not in ordered and all(name in ordered for name in step.wait_for)
        }
    return list(ordered.values())


def sample_items(step: Step) -> dict[str, Value]:
    """A value of the item, where the step has items, to check a step with."""
    return {} if step.for_each is None else {ITEM: "x"}


def parameters_of(step: Step, parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """The parameters whose placeholders may stand in a step."""
    item = {ITEM: Parameter(type="string")} if step.for_each is not None else {}
    return {**parameters, **item}
